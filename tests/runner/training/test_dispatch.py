"""One training's end is its own: its neighbours finish, and it is tried again, recorded or named."""

import importlib
import sys

import pytest

pytest.importorskip("torch", reason="the runner needs: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.core.system.errors import RunError
from hpobench_nmt.runner.disk.locks import is_held
from hpobench_nmt.runner.ledgers.ledger import read_ledger
from hpobench_nmt.runner.ledgers.plan import pending
from hpobench_nmt.runner.specs.spec_file import load_spec
from hpobench_nmt.runner.training import train_row
from hpobench_nmt.runner.training.dispatch import Run, train
from hpobench_nmt.runner.training.processes import Processes
from hpobench_nmt.runner.training.workspace import claim_path, clear_workspace, open_workspace

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")

SPEC = """
name = "few"
family = "awd-lstm"
metrics = ["dev_ppl"]
[corpus]
name = "text"
train = "train.txt"
dev = "dev.txt"
test = "test.txt"
[grid]
layers = [1, 2, 3, 4]
"""

# In place of a family: what happens to the training of two layers is written by the test.
MODULE = """
import os, signal, time
from pathlib import Path
from hpobench_nmt.runner.family import Outcome
from hpobench_nmt.runner.training.training_process import TrainingResult

HERE = Path(__file__).parent

def happens(layers, tries):
    {happens}

def train_one(family, job):
    layers = job.settings.layers
    running = HERE / f"running-{{layers}}"
    running.touch()
    neighbours = len(list(HERE.glob("running-*"))) - 1
    with (HERE / f"tries-{{layers}}").open("a") as file:
        file.write(f"{{neighbours}}\\n")
    try:
        result = happens(layers, len((HERE / f"tries-{{layers}}").read_text().split()))
        time.sleep(0.3)
        return result or TrainingResult(Outcome({{"dev_ppl": 10.0 + layers}}), seconds=0.1)
    finally:
        running.unlink()
"""


@pytest.fixture
def workspace(place, tmp_path):
    (place / "few.toml").write_text(SPEC)
    return open_workspace(load_spec(place / "few.toml"), tmp_path / "out", tmp_path / "cache")[0]


@pytest.fixture
def trains(workspace, tmp_path, monkeypatch, request):
    """Trains all four configurations, two at a time. Gives (layers, status, reason) of each, and messages."""

    def run(happens):
        name = f"happens_{abs(hash(request.node.name))}"
        (tmp_path / f"{name}.py").write_text(MODULE.format(happens=happens))
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setattr(train_row, "train_one", importlib.import_module(name).train_one)
        messages = []
        todo = pending(workspace.spec, read_ledger(workspace.ledger), range(4))
        try:
            train(Run(workspace, ["cpu"], 2), todo, notify=messages.append)
        except RunError as error:
            messages.append(f"RunError: {error}")
        records = read_ledger(workspace.ledger).records
        return sorted((r.config["layers"], r.status, r.reason) for r in records), messages

    return run


def done(*layers):
    return [(n, "done", "") for n in layers]


@pytest.mark.parametrize("name", ["SIGHUP", "SIGKILL"])
def test_a_training_that_is_killed_once_is_tried_again(trains, name):
    records, messages = trains(
        f"if layers == 2 and tries == 1: os.kill(os.getpid(), signal.{name}); time.sleep(5)"
    )
    assert records == done(1, 2, 3, 4)
    (message,) = messages
    assert f"layers=2: it was killed by {name}" in message


def test_a_training_that_is_always_terminated_is_named_and_left_to_do(trains, workspace):
    records, messages = trains("if layers == 2: os.kill(os.getpid(), signal.SIGHUP); time.sleep(5)")
    assert records == done(1, 3, 4)
    assert "1 of 4 trainings ended with an error and is not recorded" in messages[-1]
    assert "layers=2: it was killed by SIGHUP, twice" in messages[-1]
    assert len(pending(workspace.spec, read_ledger(workspace.ledger), range(4))) == 1


def test_a_training_that_is_killed_twice_by_the_system_has_failed(trains, workspace):
    records, _ = trains("if layers == 2: os.kill(os.getpid(), signal.SIGKILL)")
    assert [r for r in records if r[0] != 2] == done(1, 3, 4)
    assert records[1] == (2, "failed", "killed by SIGKILL, 2 times (out of memory?)")
    clear_workspace(workspace)
    assert not workspace.work.exists()


def test_an_unexpected_error_leaves_the_neighbours_alone(trains, workspace):
    records, messages = trains("if layers == 2: raise ValueError('odd')")
    assert records == done(1, 3, 4)
    assert messages[-1].startswith("RunError: 1 of 4 trainings ended with an error")
    assert "layers=2: ValueError: odd Its output is in " in messages[-1]
    log = workspace.training_folder({"layers": 2}, 0) / "log"
    assert str(log) in messages[-1]
    assert "Traceback" in log.read_text()


def test_a_broken_installation_ends_the_run_soon(trains, tmp_path):
    records, messages = trains("raise ImportError('no such library')")
    assert records == []
    assert messages[-1].startswith("RunError: 3 of 4 trainings ended with an error")


def test_a_broken_installation_tries_nothing_again(trains, tmp_path):
    starved = "TrainingResult(failure='out of memory', starved=True)"
    records, _ = trains(f"if layers == 1: return {starved}\n    raise ImportError('no such library')")
    assert records == []
    assert len((tmp_path / "tries-1").read_text().split()) == 1


def test_what_found_no_memory_is_tried_again_alone(trains, tmp_path):
    starved = "TrainingResult(failure='out of memory', starved=True)"
    records, _ = trains(f"if layers == 2 and tries == 1: time.sleep(0.3); return {starved}")
    assert records == done(1, 2, 3, 4)
    assert (tmp_path / "tries-2").read_text().split()[1] == "0"


def test_a_training_that_ends_the_run_lets_go_of_its_claim(workspace, monkeypatch):
    def fail(*arguments):
        raise RunError("no room left on the disk")

    monkeypatch.setattr(train_row, "_train", fail)
    with pytest.raises(RunError, match="no room") as held:
        train_row.train_and_record(workspace, 1, 0, "cpu", Processes(), wait=True, last=False)
    assert held.tb  # an error that is kept keeps what its frames hold
    assert not is_held(claim_path(workspace.training_folder({"layers": 2}, 0)))
