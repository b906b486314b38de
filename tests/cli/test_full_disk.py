"""Where the disk is full, a command leaves nothing behind that blocks the same command later."""

import subprocess
import sys
from pathlib import Path

import pytest

if sys.platform == "win32":
    pytest.skip("needs limits of processes", allow_module_level=True)
import resource


@pytest.mark.parametrize(
    "command",
    [
        "methods new mine.py",
        "tune --new search.toml",
        "tables publish lohelp-de-en --out hub",
        "tables publish lohelp-de-en --format croissant -o c.json",
    ],
)
def test_a_command_works_again_once_there_is_space(command, home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def full() -> None:  # a file may grow to 100 bytes
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    before = sorted(tmp_path.rglob("*"))
    run = [sys.executable, "-B", "-m", "hpobench_nmt", *command.split()]
    done = subprocess.run(run, capture_output=True, text=True, preexec_fn=full)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and "File too large" in done.stderr
    assert sorted(tmp_path.rglob("*")) == before
    done = subprocess.run(run, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert any(Path(name).stat().st_size > 100 for name in tmp_path.rglob("*.*"))
