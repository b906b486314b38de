import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="needs torch: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.runner.lm import single_stream_lstm  # noqa: E402


@settings(max_examples=25, deadline=None)
@given(
    inputs=st.integers(1, 9),
    units=st.integers(1, 17),
    steps=st.integers(1, 7),
    seed=st.integers(0, 1000),
)
def test_values_and_gradients_are_those_of_torch(inputs, units, steps, seed):
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return 1.5 * torch.randn(shape, generator=generator)

    shapes = [(4 * units, inputs), (4 * units, units), (4 * units,), (4 * units,)]
    given_ = [draw(steps, inputs), draw(units), draw(units), *(draw(*shape) for shape in shapes)]
    factors = [draw(steps, units), draw(units), draw(units)]

    own = [v.clone().requires_grad_() for v in given_]
    results = single_stream_lstm.lstm(*own[:3], own[3:])
    sum((r * f).sum() for r, f in zip(results, factors, strict=True)).backward()

    reference = [v.double().requires_grad_() for v in given_]
    layer = torch.nn.LSTM(inputs, units).double()
    names = [name for name, _ in layer.named_parameters()]
    x, h, c, *weights = reference
    outputs, (h, c) = torch.func.functional_call(
        layer, dict(zip(names, weights, strict=True)), (x[:, None], (h[None, None], c[None, None]))
    )
    expected = [outputs[:, 0], h[0, 0], c[0, 0]]
    sum((r * f.double()).sum() for r, f in zip(expected, factors, strict=True)).backward()

    for found, value in zip(results, expected, strict=True):
        assert torch.allclose(found.double(), value, atol=1e-5)
    for found, value in zip(own, reference, strict=True):
        assert torch.allclose(found.grad.double(), value.grad, atol=1e-4)
