"""The cells for GPUs, on a CPU: outputs and gradients are those of the cells that torch differentiates."""

import itertools

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.runner.lm import cells, mlstm_model, scanned_cells  # noqa: E402
from hpobench_nmt.runner.torch_training.precision import products_in  # noqa: E402

T, B, H = 6, 3, 5
CPU = torch.device("cpu")
SHAPES = {
    **dict.fromkeys(("capped", "untied"), ((T, B, 4 * H), (4 * H, H), (B, H), (B, H))),
    "tied": ((T, B, 3 * H), (3 * H, H), (B, H), (B, H)),
    "rhn": ((T, B, 2 * H), (3, 2 * H, H), (2, 2 * H), (B, H)),
    "mlstm": ((T, B, 4 * H), (T, B, H), (H, H), (4 * H, H), (B, H), (B, H)),
}


def cell(name, module, *given):
    """The cell of that name in a module that differentiates it in its own way."""
    *arrays, state_mask, update_mask = given
    if name == "rhn":
        return module.rhn(*arrays, state_mask, update_mask)
    if name == "mlstm":
        owner = mlstm_model if module is cells else module
        return owner.mlstm(*arrays, state_mask)
    return module.lstm(*arrays, name, state_mask, update_mask)


def found_by(name, module, arrays, masks):
    """Outputs, last state and gradients of all arrays; states count, and each number differently."""
    leaves = [each.clone().requires_grad_() for each in arrays]
    outputs = cell(name, module, *leaves, *masks)
    weights = torch.Generator().manual_seed(1)
    total = sum(
        (out * torch.randn(out.shape, generator=weights, dtype=out.dtype)).sum() + (out**2).sum()
        for out in outputs
    )
    return [each.detach() for each in outputs], torch.autograd.grad(total, leaves)


def drawn(name, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator, dtype=dtype) for shape in SHAPES[name]]


def drawn_masks(state, update, dtype=torch.float64):
    generator = torch.Generator().manual_seed(2)
    masks = [torch.rand(B, H, generator=generator).lt(0.6).to(dtype) / 0.6 for _ in range(2)]
    return [mask if wanted else None for mask, wanted in zip(masks, (state, update), strict=True)]


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("masked", list(itertools.product((False, True), repeat=2)))
def test_outputs_and_gradients_are_those_of_the_cell(name, masked):
    masks = drawn_masks(masked[0], masked[1] and name != "mlstm")
    mine, theirs = (found_by(name, module, drawn(name), masks) for module in (scanned_cells, cells))
    torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", SHAPES)
def test_in_16_bits_gradients_are_near_those_in_32(name):
    arrays, masks = drawn(name, torch.float32), drawn_masks(True, False, torch.float32)
    exact_outputs, exact = found_by(name, scanned_cells, arrays, masks)
    with products_in("bf16", CPU):
        outputs, found = found_by(name, scanned_cells, arrays, masks)
    assert {each.dtype for each in (*outputs, *found)} == {torch.float32}
    errors = [float((mine - true).norm() / true.norm()) for mine, true in zip(found, exact, strict=True)]
    assert 1e-4 < max(errors) < 0.1
    assert not torch.equal(outputs[0], exact_outputs[0])


def test_a_cpu_computes_cells_as_it_did_unless_their_steps_are_compiled():
    several, one = torch.zeros(2, 1, 1), torch.zeros(1, 1, 1)
    assert not scanned_cells.scans(several)
    with scanned_cells.compiled_steps(True):
        assert scanned_cells.scans(several)
        assert not scanned_cells.scans(one)
        with scanned_cells.compiled_steps(False):
            assert not scanned_cells.scans(several)
    assert not scanned_cells.scans(several)


@pytest.mark.hosts
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, about torch
@pytest.mark.parametrize(("name", "kernels"), [("capped", 3), ("rhn", 4)])
def test_a_compiled_step_is_few_kernels_in_both_directions_and_the_results_are_equal(name, kernels):
    """Compiling takes a minute. On a GPU the kernel is Triton's; the graph that it is made of is the same."""
    from torch._inductor import metrics

    arrays, masks = drawn(name, torch.float32), drawn_masks(True, False, torch.float32)
    plain = found_by(name, scanned_cells, arrays, masks)
    metrics.reset()
    with scanned_cells.compiled_steps(True):
        compiled = found_by(name, cells, arrays, masks)
    # Sums of 32 bits in another order, in each compilation of torch 2.6 in a different one.
    torch.testing.assert_close(compiled, plain, rtol=1e-4, atol=5e-5)
    assert metrics.generated_kernel_count == kernels
