import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="needs torch: pip install 'hpobench-nmt[train]'")

from torch.nn.functional import cross_entropy  # noqa: E402

from hpobench_nmt.runner.lm.softmax import (  # noqa: E402
    linear_cross_entropy,
    linear_nll,
    nll_with_gradients,
)


def draw(n, v, d, seed, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    hidden = scale * torch.randn(n, d, generator=generator)
    weight = torch.randn(v, d, generator=generator)
    bias = torch.randn(v, generator=generator)
    targets = torch.randint(v, (n,), generator=generator)
    return hidden, weight, bias, targets


def reference(hidden, weight, bias, targets, factor=1.0):
    """Loss and gradients of torch's own cross-entropy, in double precision."""
    parts = [x.double().requires_grad_() for x in (hidden, weight, bias)]
    logits = parts[0] @ parts[1].t() + parts[2]
    each = cross_entropy(logits, targets, reduction="none")
    (factor * each.mean()).backward()
    return each.detach(), [x.grad for x in parts]


shapes = given(
    n=st.sampled_from([1, 2, 127, 128, 129, 300]),
    v=st.integers(2, 40),
    d=st.integers(1, 20),
    seed=st.integers(0, 1000),
    factor=st.sampled_from([1.0, 0.25, -3.0]),
)


@settings(max_examples=30, deadline=None)
@shapes
def test_loss_and_gradients_are_those_of_cross_entropy(n, v, d, seed, factor):
    *inputs, targets = draw(n, v, d, seed)
    each, gradients = reference(*inputs, targets, factor)
    leaves = [x.clone().requires_grad_() for x in inputs]
    loss = linear_cross_entropy(*leaves, targets)
    (factor * loss).backward()
    assert torch.allclose(loss.double(), each.mean(), rtol=1e-5, atol=1e-6)  # one of two words costs near 0
    for leaf, gradient in zip(leaves, gradients, strict=True):
        assert torch.allclose(leaf.grad.double(), gradient, atol=1e-5)
    assert torch.allclose(linear_nll(*inputs, targets).double(), each, rtol=1e-4, atol=1e-4)


def test_gradients_are_written_over_what_was_there():
    hidden, weight, bias, targets = draw(200, 11, 4, 1)
    grad_weight, grad_bias = torch.full_like(weight, torch.nan), torch.full_like(bias, torch.nan)
    nll, grad_hidden = nll_with_gradients(hidden, weight, bias, targets, grad_weight, grad_bias)
    each, gradients = reference(hidden, weight, bias, targets)
    assert torch.allclose(nll.double(), each, atol=1e-5)
    for found, expected in zip((grad_hidden, grad_weight, grad_bias), gradients, strict=True):
        assert torch.allclose(found.double(), expected, atol=1e-6)


def test_large_logits_do_not_overflow():
    hidden, weight, bias, targets = draw(5, 30, 8, 2, scale=1000.0)
    leaves = [x.requires_grad_() for x in (hidden, weight, bias)]
    loss = linear_cross_entropy(*leaves, targets)
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(leaf.grad).all() for leaf in leaves)


def test_probabilities_sum_to_one():
    hidden, weight, bias, _ = draw(1, 13, 6, 3)
    each = [linear_nll(hidden, weight, bias, torch.tensor([word])) for word in range(13)]
    assert torch.allclose(torch.cat(each).neg().exp().sum(), torch.tensor(1.0))


def test_no_gradients_are_computed_for_what_needs_none():
    hidden, weight, bias, targets = draw(4, 5, 3, 4)
    assert not linear_cross_entropy(hidden, weight, bias, targets).requires_grad
    hidden.requires_grad_()
    linear_cross_entropy(hidden, weight, bias, targets).backward()
    assert weight.grad is None
    assert torch.allclose(hidden.grad.double(), reference(hidden.detach(), weight, bias, targets)[1][0])
