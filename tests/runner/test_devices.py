"""Names of devices, on a machine with GPUs or without."""

import pytest

torch = pytest.importorskip("torch", reason="the runner needs: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.core.errors import InputError  # noqa: E402
from hpobench_nmt.runner.devices import find_devices  # noqa: E402


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
        ("cpu,cpu", 0, "name cpu alone"),
        ("cuda:0,cpu", 1, "name cpu alone"),
    ],
)
def test_what_is_no_device_here(text, gpus, message, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    with pytest.raises(InputError, match=message):
        find_devices(text)
