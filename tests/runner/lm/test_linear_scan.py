import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.runner.lm.linear_scan import linear_scan, mixed_scan  # noqa: E402

B, H = 2, 3


def drawn(steps, seed=0):
    generator = torch.Generator().manual_seed(seed)
    new, share = (torch.randn(steps, B, H, generator=generator, dtype=torch.float64) for _ in range(2))
    return new, share.sigmoid(), torch.randn(B, H, generator=generator, dtype=torch.float64)


def naive(new, share, first):
    memories, c = [], first
    for z, f in zip(new, share, strict=True):
        c = f * z + (1 - f) * c
        memories.append(c)
    return torch.stack(memories)


# One block; whole blocks; a last one that is not full; a single number in it.
@pytest.mark.parametrize("steps", [1, 2, 15, 16, 17, 25, 36, 37, 70])
def test_all_steps_and_their_gradients_are_those_of_a_loop(steps):
    results = []
    for scan in (mixed_scan, naive):
        leaves = [each.requires_grad_() for each in drawn(steps)]
        memories = scan(*leaves)
        weights = torch.linspace(-1, 2, memories.numel(), dtype=torch.float64).view_as(memories)
        results.append((memories.detach(), torch.autograd.grad((memories * weights).sum(), leaves)))
    torch.testing.assert_close(*results, rtol=1e-11, atol=1e-13)


def test_what_is_kept_may_be_nothing_or_all():
    """Long products underflow, or stay 1: neither spoils a step."""
    kept = torch.cat((torch.full((40, 1, 1), 1e-30), torch.ones(40, 1, 1), torch.zeros(20, 1, 1)))
    found = linear_scan(kept, torch.ones(100, 1, 1), torch.full((1, 1), 5.0))
    expected = [1.0] * 40 + [2.0 + step for step in range(40)] + [1.0] * 20
    torch.testing.assert_close(found.flatten(), torch.tensor(expected))
