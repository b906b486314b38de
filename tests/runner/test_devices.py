"""Names of devices, on a machine with GPUs or without."""

import pytest

torch = pytest.importorskip("torch", reason="the runner needs: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.core.system.errors import InputError  # noqa: E402
from hpobench_nmt.runner.devices import find_devices, first_devices  # noqa: E402


@pytest.mark.parametrize(
    ("text", "gpus", "found"),
    [
        ("auto", 0, ["cpu"]),
        ("auto", 2, ["cuda:0", "cuda:1"]),
        (" cpu", 2, ["cpu"]),
        ("cuda", 2, ["cuda:0", "cuda:1"]),
        ("cuda:1, cuda:0", 2, ["cuda:1", "cuda:0"]),
    ],
)
def test_devices_by_name(text, gpus, found, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert find_devices(text) == found


@pytest.mark.parametrize(
    ("text", "gpus", "message"),
    [
        ("cuda", 0, "finds no CUDA device here"),
        ("cuda:1", 0, "finds no CUDA device here"),
        ("cuda:2", 2, "unknown device 'cuda:2'. Did you mean 'cuda:"),
        ("gpu", 2, "unknown device 'gpu'"),
        ("cpu,cpu", 0, "give only cpu"),
        ("cuda:0,cpu", 1, "give only cpu"),
    ],
)
def test_what_is_no_device_here(text, gpus, message, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    with pytest.raises(InputError, match=message):
        find_devices(text)


@pytest.mark.parametrize(
    ("named", "gpus", "workers", "found"),
    [
        ("cpu", 0, 2, "cpu"),
        ("cuda:1,cuda:0", 2, 1, "cuda:1,cuda:0"),
        ("cuda:0,cuda:1,cuda:2,cuda:3", 4, 2, "cuda:0,cuda:2"),
        ("cuda:0,cuda:1", 4, 2, "cuda:0"),  # the second would share GPU 1 with the first
        ("cuda:2,cuda:0", 4, 2, "cuda:2,cuda:0"),
        ("cuda:0,cuda:1,cuda:2", 3, 2, "cuda:0"),
        ("cuda:0,cuda:1,cuda:2,cuda:3", 4, 4, "cuda:0"),
        ("cuda", 2, 2, "cuda"),
    ],
)
def test_trainings_on_several_gpus_share_none(named, gpus, workers, found, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert first_devices(named.split(","), workers) == found.split(",")


def test_too_few_gpus_for_one_training(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(
        InputError, match="workers = 2 needs as many CUDA devices from cuda:1 on, but there are only 2"
    ):
        first_devices(["cuda:1"], 2)
