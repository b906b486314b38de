"""What several tests of the command line share."""

import pytest

from hpobench_nmt.cli.main import main


@pytest.fixture
def call(capsys):
    """Run the command line in this process: (exit code, stdout, stderr)."""

    def call(*arguments):
        with pytest.raises(SystemExit) as exit_:
            main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return exit_.value.code or 0, out, err

    return call
