"""Trainings on a Ray cluster of this machine."""

import subprocess

import pytest

pytest.importorskip("torch", reason="the runner needs: pip install 'hpobench-nmt[train]'")
pytest.importorskip("ray", reason="needs: pip install 'hpobench-nmt[ray]'")

from hpobench_nmt.runner.ledger import read_ledger
from hpobench_nmt.runner.training import find_devices, gpu_share

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


def rows(ledger):
    """What does not depend on a clock."""
    return {
        key: (record.status, record.metrics.get("dev_ppl"), record.metrics.get("num_updates"))
        for key, record in read_ledger(ledger).finished().items()
    }


def test_the_same_rows_as_without_a_cluster(train, place):
    for name, backend in (("here", "loky"), ("on-ray", "ray")):
        code, errors = train("--out", name, "--backend", backend, "--jobs", "2", "--device", "cpu", "--quiet")
        assert code == 0, errors
        assert "Failed: learning_rate=10000: " in errors
    here, there = (rows(place / name / "ledger.jsonl") for name in ("here", "on-ray"))
    assert len(there) == 3
    assert there == here


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
