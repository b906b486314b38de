"""Trainings on a Ray or Dask cluster of this machine."""

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the runner needs: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.runner.devices import find_devices
from hpobench_nmt.runner.ledgers.ledger import read_ledger
from hpobench_nmt.runner.training.dispatch import gpu_share

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="needs: pip install 'hpobench-nmt[ray]'"
)

SPEC = """
name = "few"
family = "awd-lstm"
metrics = ["dev_ppl", "num_updates"]

[corpus]
name = "text"
train = "train.txt"
dev = "dev.txt"
test = "test.txt"

[grid]
learning_rate = [1, 5, 10000]

[fixed]
hidden_size = 4
embedding_size = 8
layers = 1
batch_size = 4
bptt = 10
max_epochs = 2
clip = 0
cache_window = 0
dynamic_rule = "none"
"""


@pytest.fixture
def train(place, start, monkeypatch):
    """Runs `train` to its end in a process of its own; gives its exit code and what it said of errors."""
    (place / "few.toml").write_text(SPEC)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")

    def run(*arguments):
        process = start(place, "train", "few.toml", *arguments, strict=False, stderr=subprocess.PIPE)
        _, errors = process.communicate(timeout=300)
        return process.returncode, errors

    return run


def ray_workers():
    """The processes of Ray's workers that train."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes().startswith(b"ray::_train_remotely"):
                yield int(path.parent.name)


def rows(ledger):
    """What does not depend on a clock."""
    return {
        key: (record.status, record.metrics.get("dev_ppl"), record.metrics.get("num_updates"))
        for key, record in ((each.key, each) for each in read_ledger(ledger).records)
    }


@pytest.mark.hosts
@pytest.mark.parametrize("backend", ["ray", "dask"])
def test_the_same_rows_as_without_a_cluster(train, place, backend):
    module = {"dask": "distributed"}.get(backend, backend)
    pytest.importorskip(module, reason=f"needs: pip install 'hpobench-nmt[{backend}]'")
    folders = {name: f"{name}-beside-{backend}" for name in ("local", backend)}
    for name, out in folders.items():
        code, errors = train("--out", out, "--backend", name, "--jobs", "2", "--device", "cpu", "--quiet")
        assert code == 0, errors
        assert "Failed: learning_rate=10000: " in errors
    here, there = (rows(place / out / "ledger.jsonl") for out in folders.values())
    assert len(there) == 3
    assert there == here


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds the worker in /proc")
@needs_ray
@pytest.mark.hosts
def test_a_worker_that_is_killed_ends_the_run_in_one_line(place, start, train, wait_for):
    (place / "long.toml").write_text(SPEC.replace("max_epochs = 2", "max_epochs = 100000\npatience = 1000"))
    arguments = ("train", "long.toml", "--out", "killed", "--backend", "ray", "--jobs", "1", "--quiet")
    process = start(place, *arguments, strict=False, stderr=subprocess.PIPE)
    wait_for(lambda: any(ray_workers()) or process.poll() is not None)
    for worker in ray_workers():
        os.kill(worker, signal.SIGKILL)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 1
    [line] = [line for line in errors.splitlines() if line.startswith("Error")]
    assert "the cluster stopped (WorkerCrashedError" in line and "Run the same command again" in line
    assert "Traceback" not in errors
    assert read_ledger(place / "killed" / "ledger.jsonl").records == ()


@needs_ray
@pytest.mark.hosts
@pytest.mark.parametrize(
    ("resources", "message"),
    [("{}", "Ray knows of no GPU"), ('{"GPU": 2}', "finds no CUDA device here")],
)
def test_a_gpu_that_is_not_there_is_told_in_one_line(train, monkeypatch, resources, message):
    if find_devices("auto") != ["cpu"]:
        pytest.skip("there is a CUDA device here")
    monkeypatch.setenv("RAY_OVERRIDE_RESOURCES", resources)
    code, errors = train("--out", "none", "--backend", "ray", "--jobs", "2", "--device", "cuda")
    assert code == 2
    [line] = [line for line in errors.splitlines() if line.startswith("Error")]
    assert message in line
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("jobs", "gpus", "share"), [(1, 1, 1), (1, 2, 1), (2, 2, 1), (3, 2, 0.5), (4, 2, 0.5), (3, 1, 0.3333)]
)
def test_trainings_fit_on_whole_gpus(jobs, gpus, share):
    assert gpu_share(jobs, gpus) == share
