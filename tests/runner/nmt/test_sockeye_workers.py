"""One training in several processes: the end of one is the end of all."""

import os
import subprocess
import sys

import pytest

from hpobench_nmt.runner.nmt import sockeye_workers

FIRST = """
import subprocess, sys, time
from hpobench_nmt.runner.nmt.sockeye_workers import end_with

other = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE)
over = end_with([other])
if sys.argv[2] == "over":
    over.set()
other.wait()
time.sleep(60 if sys.argv[2] == "waits" else 0.2)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
@pytest.mark.parametrize(
    ("other", "state", "code", "told"),
    [
        ("raise SystemExit(3)", "waits", 1, "worker 1 failed with exit code 3\n"),
        ("import os; os.kill(os.getpid(), 9)", "waits", -9, "worker 1 failed with exit code -9\n"),
        ("", "goes on", 0, ""),
        ("raise SystemExit(3)", "over", 0, ""),
    ],
)
def test_the_first_worker_does_not_wait_for_one_that_failed(other, state, code, told):
    command = [sys.executable, "-c", FIRST, other, state]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, told, "")


@pytest.mark.parametrize(("first_gpu", "device"), [(None, None), (0, "cuda:1"), (2, "cuda:3")])
def test_each_worker_exchanges_gradients_on_its_own_gpu(first_gpu, device, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch", reason="the runner needs: pip install 'hpobench-nmt[train]'")
    for name in ("WORLD_SIZE", "LOCAL_RANK", "HPOBENCH_NMT_MEETING"):
        monkeypatch.setenv(name, str(tmp_path / "meeting"))  # and put back at the end
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr(torch.distributed, "init_process_group", dict)
    monkeypatch.setattr(sockeye_workers, "_keep_own_state", lambda model, number: None)
    assert sockeye_workers.join(2, first_gpu, tmp_path / "model") == []
    found = torch.distributed.init_process_group()
    assert found["device_id"] == (device and torch.device(device))
    assert (found["rank"], found["world_size"]) == (1, 2)
    assert found["timeout"].days == 7  # torch's own is 10 minutes, and an evaluation may take longer
    assert os.environ["LOCAL_RANK"] == str((first_gpu or 0) + 1)


def test_the_random_numbers_of_a_gpu_go_on(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch", reason="the runner needs: pip install 'hpobench-nmt[train]'")
    training = pytest.importorskip("sockeye.training", reason="sockeye is not installed")
    trainer, done = training.EarlyStoppingTrainer, []
    monkeypatch.setattr(trainer, "_save_training_state", lambda self, data: done.append(("save", data)))
    monkeypatch.setattr(trainer, "_load_training_state", lambda self, data: done.append(("load", data)))
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda: torch.tensor([1, 2, 250], dtype=torch.uint8))
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state: done.append(state.tolist()))
    sockeye_workers.keep_gpu_state(tmp_path)
    trainer._load_training_state(None, "data")  # of an earlier version: there is no state of it
    trainer._save_training_state(None, "data")
    trainer._load_training_state(None, "data")
    assert done == [("load", "data"), ("save", "data"), ("load", "data"), [1, 2, 250]]
