import itertools
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'hpobench-nmt[train]'")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from hpobench_nmt.runner.lm.cells import NAS_BLOCKS, lstm, nas, rhn  # noqa: E402

T, B, H = 6, 3, 5
GATES = ("capped", "tied", "untied")
MASKED = list(itertools.product((False, True), repeat=2))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def drawn(*shapes, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    return [rng.normal(scale=scale, size=shape) for shape in shapes]


def drawn_masks(state, update, seed=1):
    rng = np.random.default_rng(seed)
    masks = [(rng.random((B, H)) < 0.6) / 0.6 for _ in range(2)]
    return [mask if wanted else None for mask, wanted in zip(masks, (state, update), strict=True)]


def tensors(arrays):
    return [None if a is None else torch.from_numpy(a) for a in arrays]


def ones_for_none(masks):
    return [np.ones((B, H)) if mask is None else mask for mask in masks]


def naive_lstm(x, weight, h, c, gates, masks):
    """One sequence, one unit and one gate at a time."""
    state, update = ones_for_none(masks)
    names = "ofj" if gates == "tied" else "ofij"
    outputs = np.zeros((T, B, H))
    h, c = h.copy(), c.copy()
    for t, b in itertools.product(range(T), range(B)):
        old = h[b].copy()
        for k in range(H):
            z = {}
            for g, name in enumerate(names):
                row = g * H + k
                z[name] = x[t, b, row] + sum(weight[row, m] * state[b, m] * old[m] for m in range(H))
            f, j = sigmoid(z["f"]), math.tanh(z["j"]) * update[b, k]
            if gates == "untied":
                c[b, k] = f * c[b, k] + sigmoid(z["i"]) * j
            elif gates == "tied":
                c[b, k] = f * c[b, k] + (1 - f) * j
            else:
                c[b, k] = f * c[b, k] + min(1 - f, sigmoid(z["i"])) * j
            h[b, k] = sigmoid(z["o"]) * math.tanh(c[b, k])
        outputs[t, b] = h[b]
    return outputs, h, c


@pytest.mark.parametrize("gates", GATES)
@pytest.mark.parametrize("masked", MASKED)
def test_lstm_is_its_equations(gates, masked):
    blocks = 3 if gates == "tied" else 4
    arrays = drawn((T, B, blocks * H), (blocks * H, H), (B, H), (B, H))
    masks = drawn_masks(*masked)
    found = lstm(*tensors(arrays), gates, *tensors(masks))
    for mine, theirs in zip(found, naive_lstm(*arrays, gates, masks), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-12)


def test_untied_lstm_is_torchs():
    generator = torch.Generator().manual_seed(0)
    theirs = torch.nn.LSTM(4, H).double()
    x = torch.randn(T, B, 4, dtype=torch.float64, generator=generator, requires_grad=True)
    order = (3, 1, 0, 2)  # torch has i, f, j, o; here they are o, f, i, j

    def mine(parameter):
        return torch.cat([parameter.view(4, H, -1)[k] for k in order]).squeeze(-1)

    w_ih, w_hh, b_ih, b_hh = theirs.parameters()
    zeros = torch.zeros(B, H, dtype=torch.float64)
    inputs = x @ mine(w_ih).T + mine(b_ih) + mine(b_hh)
    outputs, h, c = lstm(inputs, mine(w_hh), zeros, zeros, "untied")
    expected, (last_h, last_c) = theirs(x)
    torch.testing.assert_close(outputs, expected)
    torch.testing.assert_close((h, c), (last_h[0], last_c[0]))
    weights = torch.randn(outputs.shape, dtype=torch.float64, generator=generator)
    leaves = [x, *theirs.parameters()]
    gradients = torch.autograd.grad((outputs * weights).sum() + (c**2).sum(), leaves)
    wanted = torch.autograd.grad((expected * weights).sum() + (last_c**2).sum(), leaves)
    torch.testing.assert_close(gradients, wanted)


@given(st.integers(0, 10_000), st.floats(0.1, 100), st.sampled_from(GATES[:2]))
@settings(max_examples=60, deadline=None)
def test_cells_stay_within_one_when_the_input_gate_is_capped_or_tied(seed, scale, gates):
    blocks = 3 if gates == "tied" else 4
    inputs, weight, h = drawn((T, B, blocks * H), (blocks * H, H), (B, H), seed=seed, scale=scale)
    c = np.random.default_rng(seed).uniform(-1, 1, (B, H))
    for steps in range(1, T + 1):
        _, _, last = lstm(*tensors([inputs[:steps], weight, h, c]), gates)
        assert last.abs().max() <= 1 + 1e-12


def test_untied_cells_leave_that_range():
    inputs = torch.full((T, B, 4 * H), 5.0)
    zeros = torch.zeros(B, H)
    assert lstm(inputs, torch.zeros(4 * H, H), zeros, zeros, "untied")[2].min() > 1


LEAVES = (
    ("add", "sigmoid"),
    ("add", "relu"),
    ("add", "sigmoid"),
    ("multiply", "relu"),
    ("add", "tanh"),
    ("add", "sigmoid"),
    ("add", "tanh"),
    ("add", "sigmoid"),
)
SECOND = (("multiply", "tanh"), ("add", "tanh"), ("multiply", "tanh"), ("add", "sigmoid"))
INJECTION = ("add", "tanh")
THIRD = (("multiply", "identity"), ("add", "tanh"))
ROOT = ("multiply", "tanh")
COMBINE = {"add": np.add, "multiply": np.multiply}
ACTIVATE = {
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "identity": lambda x: x,
}


def node(kind, left, right):
    combine, activate = kind
    return ACTIVATE[activate](COMBINE[combine](left, right))


def naive_nas(x, weight, h, c, masks):
    """The tree of Zoph & Le's figure: leaves joined two by two, the memory injected into the first pair."""
    state, update = ones_for_none(masks)
    outputs = []
    for t in range(T):
        of_state = (h * state) @ weight.T
        level = []
        for leaf, kind in enumerate(LEAVES):
            place = NAS_BLOCKS.index(leaf) * H
            level.append(node(kind, x[t, :, place : place + H], of_state[:, place : place + H]))
        level = [node(kind, level[2 * k], level[2 * k + 1]) for k, kind in enumerate(SECOND)]
        level[0] = node(INJECTION, level[0] * update, c)
        level = [node(kind, level[2 * k], level[2 * k + 1]) for k, kind in enumerate(THIRD)]
        c = level[0]
        h = node(ROOT, *level)
        outputs.append(h)
    return np.stack(outputs), h, c


@pytest.mark.parametrize("masked", MASKED)
def test_nas_cell_is_its_tree(masked):
    arrays = drawn((T, B, 8 * H), (8 * H, H), (B, H), (B, H))
    masks = drawn_masks(*masked)
    found = nas(*tensors(arrays), *tensors(masks))
    for mine, theirs in zip(found, naive_nas(*arrays, masks), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-12)


def naive_rhn(x, weights, biases, s, masks):
    """One processing step of one sequence at a time."""
    state, update = ones_for_none(masks)
    outputs = np.zeros((T, B, H))
    s = s.copy()
    for t, b in itertools.product(range(T), range(B)):
        for step, weight in enumerate(weights):
            z = weight @ (s[b] * state[b]) + (x[t, b] if step == 0 else biases[step - 1])
            h, transform = np.tanh(z[:H]) * update[b], sigmoid(z[H:])
            s[b] = h * transform + s[b] * (1 - transform)
        outputs[t, b] = s[b]
    return outputs, s


@pytest.mark.parametrize("depth", [1, 2, 4])
@pytest.mark.parametrize("masked", MASKED)
def test_rhn_takes_as_many_steps_a_token_as_it_is_deep(depth, masked):
    arrays = drawn((T, B, 2 * H), (depth, 2 * H, H), (depth - 1, 2 * H), (B, H))
    masks = drawn_masks(*masked)
    found = rhn(*tensors(arrays), *tensors(masks))
    for mine, theirs in zip(found, naive_rhn(*arrays, masks), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-12)


@given(st.integers(0, 10_000), st.floats(0.1, 100), st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_rhn_states_stay_within_one(seed, scale, depth):
    arrays = drawn((T, B, 2 * H), (depth, 2 * H, H), (depth - 1, 2 * H), seed=seed, scale=scale)
    s = np.random.default_rng(seed).uniform(-1, 1, (B, H))
    assert rhn(*tensors([*arrays, s]))[0].abs().max() <= 1 + 1e-12


SHAPES = {
    **dict.fromkeys(("capped", "untied"), ((T, B, 4 * H), (4 * H, H), (B, H), (B, H))),
    "tied": ((T, B, 3 * H), (3 * H, H), (B, H), (B, H)),
    "nas": ((T, B, 8 * H), (8 * H, H), (B, H), (B, H)),
    "rhn": ((T, B, 2 * H), (3, 2 * H, H), (2, 2 * H), (B, H)),
}
CELLS = {
    **{gates: lambda x, w, h, c, *masks, g=gates: lstm(x, w, h, c, g, *masks) for gates in GATES},
    "nas": nas,
    "rhn": rhn,
}


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("masked", MASKED)
def test_gradients_are_those_of_the_outputs(cell, masked):
    leaves = [x.requires_grad_() for x in tensors(drawn(*SHAPES[cell]))]
    masks = tensors(drawn_masks(*masked))
    assert torch.autograd.gradcheck(lambda *args: CELLS[cell](*args, *masks), leaves, fast_mode=True)


@pytest.mark.parametrize("cell", CELLS)
def test_a_sequence_in_pieces_is_the_whole_sequence(cell):
    x, *weights = tensors(drawn(*SHAPES[cell]))
    parts = 1 if cell == "rhn" else 2
    weights, state = weights[:-parts], weights[-parts:]
    whole, *after = CELLS[cell](x, *weights, *state)
    first, *state = CELLS[cell](x[:2], *weights, *state)
    second, *state = CELLS[cell](x[2:], *weights, *state)
    assert torch.equal(torch.cat((first, second)), whole)
    assert all(map(torch.equal, state, after))
