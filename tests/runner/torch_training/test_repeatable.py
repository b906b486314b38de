"""What a training asks of torch, and gives back."""

import pytest

torch = pytest.importorskip("torch", reason="the runner needs: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.runner.torch_training.repeatable import set_up, without_denormals  # noqa: E402


def test_numbers_that_are_too_small_for_full_precision_become_0_only_in_a_training():
    set_up("cpu")
    with without_denormals():
        assert torch.tensor([1e-30]) * 1e-10 == 0
    assert torch.tensor([1e-30]) * 1e-10 > 0
