import itertools
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.runner.lm.dynamic import UpdateRule, dynamic_nll, gradient_rms  # noqa: E402
from hpobench_nmt.runner.lm.language_model import detach  # noqa: E402
from hpobench_nmt.runner.lm.mlstm_model import MLSTM, mlstm  # noqa: E402
from hpobench_nmt.runner.lm.mlstm_settings import MlstmSettings  # noqa: E402
from hpobench_nmt.runner.lm.static import static_nll  # noqa: E402
from hpobench_nmt.runner.torch_training.memory import parameter_count  # noqa: E402

T, B, H, E, V = 6, 3, 5, 4, 11


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def drawn():
    rng = np.random.default_rng(0)
    shapes = ((T, B, 4 * H), (T, B, H), (H, H), (4 * H, H), (B, H), (B, H))
    return [rng.normal(size=shape) for shape in shapes]


def a_mask():
    return (np.random.default_rng(1).random((B, H)) < 0.6) / 0.6


def naive(x, factor, to_factor, from_product, h, c, mask):
    """One sequence and one unit at a time."""
    outputs = np.zeros((T, B, H))
    h, c = h.copy(), c.copy()
    for t, b in itertools.product(range(T), range(B)):
        m = [
            factor[t, b, k] * sum(to_factor[k, n] * h[b, n] * mask[b, n] for n in range(H)) for k in range(H)
        ]
        new = np.zeros(H)
        for k in range(H):
            o, f, i, j = (x[t, b, g * H + k] + float(from_product[g * H + k] @ m) for g in range(4))
            c[b, k] = sigmoid(f) * c[b, k] + sigmoid(i) * math.tanh(j)
            new[k] = sigmoid(o) * math.tanh(c[b, k])
        h[b] = outputs[t, b] = new
    return outputs, h, c


@pytest.mark.parametrize("mask", [None, a_mask()])
def test_a_layer_is_its_equations(mask):
    arrays = drawn()
    found = mlstm(*map(torch.from_numpy, arrays), None if mask is None else torch.from_numpy(mask))
    expected = naive(*arrays, np.ones((B, H)) if mask is None else mask)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-12)


@pytest.mark.parametrize("mask", [None, torch.from_numpy(a_mask())])
def test_gradients_are_those_of_the_outputs(mask):
    leaves = [torch.from_numpy(x).requires_grad_() for x in drawn()]
    assert torch.autograd.gradcheck(lambda *args: mlstm(*args, mask), leaves, fast_mode=True)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def tokens(steps, batch, seed=0):
    return torch.randint(V, (steps, batch), generator=seeded(seed))


def make(normalised=True, seed=0, scale=1.0, **rates):
    given = {"dropout_embedding": 0.0, "dropout_hidden": 0.0, **rates}
    settings = MlstmSettings(embedding_size=E, hidden_size=H, weight_norm=normalised, **given)
    model = MLSTM(V, settings, seeded(seed))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    return model


def output(model, words, state=None):
    return model(words, model.initial_state(words.shape[1]) if state is None else state)[0].detach()


def directions_and_lengths(model):
    parts = [linear.parametrizations.weight for linear in model.layer.maps.values()]
    return [part.original1 for part in parts], [part.original0 for part in parts]


def test_normalised_weights_have_a_length_and_a_direction():
    model = make()
    before = output(model, tokens(8, 3))
    directions, lengths = directions_and_lengths(model)
    assert len(directions) == 4
    with torch.no_grad():
        for v in directions:
            v.mul_(torch.rand(len(v), 1, generator=seeded(1)) + 0.5)  # only the length of each row changes
    torch.testing.assert_close(output(model, tokens(8, 3)), before)
    with torch.no_grad():
        for g in lengths:
            g.mul_(2)
    for linear, v, g in zip(model.layer.maps.values(), directions, lengths, strict=True):
        torch.testing.assert_close(linear.weight, g * v / v.norm(dim=1, keepdim=True))
    assert not torch.allclose(output(model, tokens(8, 3)), before)


def test_normalisation_changes_nothing_at_first():
    torch.testing.assert_close(output(make(True), tokens(8, 3)), output(make(False), tokens(8, 3)))
    extra = parameter_count(make(True)) - parameter_count(make(False))
    assert extra == 4 * H + H + H + 4 * H  # a length a row


def test_sizes_of_the_paper_have_its_46m_parameters():
    # 2,800 units and 400 for embeddings (Krause et al. 2018, section 7.3), 205 symbols: counted by hand
    # from the model's sizes, and the model at small sizes against the same count.
    def count(v, e, h):
        return v * e + 5 * h * e + 5 * h * h + 10 * h + 4 * h + v * h + v

    assert parameter_count(make()) == count(V, E, H)
    assert count(205, 400, 2800) == pytest.approx(46e6, rel=0.02)


def test_later_symbols_never_change_earlier_outputs():
    model = make(scale=2.0).eval()
    words = tokens(12, 3)
    before = output(model, words)
    for t in range(1, 12):
        changed = words.clone()
        changed[t] = (changed[t] + 1) % V
        after = output(model, changed)
        assert torch.equal(after[:t], before[:t])
        assert not torch.allclose(after[t], before[t])


def test_state_carries_the_past():
    model = make(scale=2.0).eval()
    words = tokens(9, 3)
    first, state = model(words[:4], model.initial_state(3))
    second, _ = model(words[4:], detach(state))
    torch.testing.assert_close(torch.cat((first, second)).detach(), output(model, words))


def test_hidden_units_are_dropped_for_a_whole_sequence():
    zeros = output(make(dropout_hidden=0.4), tokens(9, 200)) == 0
    assert (zeros == zeros[:1]).all()
    assert zeros[0].float().mean() == pytest.approx(0.4, abs=0.05)
    assert not (zeros[0] == zeros[0, :1]).all()


def test_dropped_units_are_not_seen_by_the_next_step_either():
    model = make(dropout_hidden=0.4, scale=2.0)
    h, c = (part.normal_(generator=seeded(2)) for part in (torch.zeros(50, H), torch.zeros(50, H)))
    x, _ = model(tokens(1, 50), (h.requires_grad_(), c))
    x.sum().backward()
    dropped = x[0] == 0
    unread = h.grad == 0
    # A sequence of which nothing is put out shows nothing of what it read.
    assert (dropped == unread)[~dropped.all(1)].all()


def test_embedded_symbols_are_dropped_for_a_whole_sequence():
    model = make(dropout_embedding=0.5, scale=2.0)
    x = output(model, torch.full((5, 300), 3)).round(decimals=5)
    # At most 2^4 masks; had each step one of its own, sequences that begin alike would go on differently.
    beginnings = {tuple(row) for row in x[0].tolist()}
    assert 8 < len(beginnings) <= 16
    assert len({tuple(row) for row in x.transpose(0, 1).flatten(1).tolist()}) == len(beginnings)


def test_adapted_hidden_states_go_on_in_time_and_upwards():
    model = make(normalised=False).eval()
    words = tokens(7, 2)
    matrix = torch.randn(3, 3, generator=seeded(3))
    found, (h, _) = model.adapted(words, model.initial_state(2), [matrix])
    whole = torch.eye(H)
    whole[:3, :3] += matrix
    with torch.no_grad():
        model.layer.maps["mh"].weight.copy_(model.layer.maps["mh"].weight @ whole)
    torch.testing.assert_close(found.detach(), output(model, words) @ whole.T)
    torch.testing.assert_close(h, found[-1])


@pytest.mark.parametrize(
    "rule", [UpdateRule("rms-rms-prior", 0.02, 20, 0.1, 1e-3), UpdateRule("sparse", 0.02, 20, 0.1, 1e-3, 4)]
)
def test_every_way_of_evaluating_reads_the_model(rule):
    model = make()
    words = np.random.default_rng(0).integers(V, size=120)
    before = [p.detach().clone() for p in model.parameters()]
    static = static_nll(model, words)
    dynamic = dynamic_nll(model, words, rule, gradient_rms(model, words, 2, 20, rule.units))
    np.testing.assert_allclose(dynamic[:20], static[:20], rtol=1e-5)
    assert np.isfinite(dynamic).all() and not np.allclose(dynamic, static)
    assert all(map(torch.equal, before, model.parameters()))
