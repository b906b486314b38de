"""`hpobench-nmt methods --check` of methods that harm their process, and where none can be forked."""

import os
import subprocess
from pathlib import Path

import pytest

from hpobench_nmt.cli.main import main

METHODS = """
import os, signal

class Behaves:
    def __init__(self, problem, rng):
        self.left = list(range(len(problem.features)))
    def ask(self):
        return self.left[0]
    def tell(self, index, losses):
        if (losses != losses).any():
            self.on_failure()
        self.left.remove(index)
    def on_failure(self):
        pass

class Unmade(Behaves):
    def __init__(self, problem, rng):
        os._exit(0)

class Killed(Behaves):
    def on_failure(self):
        os.kill(os.getpid(), signal.SIGKILL)

class Closes(Behaves):
    def on_failure(self):
        os.closerange(3, 256)

class WantsTwo(Behaves):
    def tell(self, index, losses):
        first, second = losses
        super().tell(index, losses)

class Moves(Behaves):
    def __init__(self, problem, rng):
        open("odd.py").close()
        os.chdir("/")
        super().__init__(problem, rng)
"""


@pytest.fixture
def check(toy_home, capsys):
    """Check a class of the above in this process: (exit code, lines by check, stderr)."""
    Path("odd.py").write_text(METHODS)

    def check(name, *options):
        with pytest.raises(SystemExit) as exit_:
            main(["methods", "--check", f"odd.py:{name}", *options])
        out, err = capsys.readouterr()
        lines = [line.split(maxsplit=1) for line in out.splitlines()]
        return exit_.value.code or 0, [(state, said) for state, said in lines], err

    return check


def test_a_method_that_cannot_be_made_fails_every_check(check):
    code, lines, err = check("Unmade")
    assert (code, len(lines)) == (1, 8)
    assert all(state == "FAILED" for state, _ in lines)
    assert all(said.endswith(": the method ended its process (exit code 0)") for _, said in lines)
    assert "Unmade fails 8 of 8 checks" in err


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("Killed", "the method ended its process (SIGKILL -9)"),
        ("Closes", "the method closed the connection of its process"),
    ],
)
def test_an_end_fails_its_own_check_and_no_other(check, name, end):
    code, lines, _ = check(name)
    assert code == 1
    assert ("FAILED", f"survives_failed_trainings: {end}") in lines
    for other in ("looks_up_every_row_once", "survives_odd_losses"):
        assert ("ok", other) in lines


def test_a_method_of_two_objectives_is_checked_with_two(check):
    code, lines, err = check("WantsTwo", "--objectives", "2")
    assert (code, err) == (0, "")
    assert {state for state, _ in lines} == {"ok"}
    code, lines, _ = check("WantsTwo")
    assert code == 1
    assert any("unpack" in said for state, said in lines if state == "FAILED")
    code, _, err = check("WantsTwo", "--objectives", "11")
    assert code == 2
    assert "--objectives" in err


def test_a_method_that_changes_the_folder_does_so_for_one_check(check):
    code, lines, _ = check("Moves")
    assert code == 1  # a check that makes it twice fails
    for other in ("looks_up_every_row_once", "leaves_its_input_alone"):
        assert ("ok", other) in lines


def test_a_method_is_checked_where_no_process_can_be_forked(check, monkeypatch):
    monkeypatch.delattr(os, "fork")
    monkeypatch.setattr(subprocess, "Popen", None)
    code, lines, err = check("Behaves")
    assert (code, err) == (0, "")
    assert {state for state, _ in lines} == {"ok"}
