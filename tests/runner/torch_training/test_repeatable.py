"""What `set_up` asks of torch."""

import pytest

torch = pytest.importorskip("torch", reason="the runner needs: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.runner.torch_training.repeatable import set_up  # noqa: E402


def test_numbers_that_are_too_small_for_full_precision_become_0_on_a_processor():
    torch.set_flush_denormal(False)
    assert torch.tensor([1e-30]) * 1e-10 > 0
    set_up("cpu")
    assert torch.tensor([1e-30]) * 1e-10 == 0
