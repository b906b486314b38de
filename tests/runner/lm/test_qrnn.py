"""The quasi-recurrent cell of AWD-LSTM's family, against a loop over single numbers."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.core.system.errors import InputError  # noqa: E402
from hpobench_nmt.runner.families.awd_lstm import FAMILY, build, parameters  # noqa: E402
from hpobench_nmt.runner.families.dynamic_evaluation import _model_settings  # noqa: E402
from hpobench_nmt.runner.lm.dynamic import RULES, UpdateRule, dynamic_nll, gradient_rms  # noqa: E402
from hpobench_nmt.runner.lm.fit import fit  # noqa: E402
from hpobench_nmt.runner.lm.qrnn import QRNNLayer  # noqa: E402
from hpobench_nmt.runner.lm.static import static_nll  # noqa: E402
from hpobench_nmt.runner.settings import settings_of  # noqa: E402
from hpobench_nmt.runner.torch_training.memory import parameter_count  # noqa: E402

STEPS, BATCH, INPUTS, UNITS = 7, 3, 4, 5


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def settings(**changes):
    given = {"cell": "qrnn", "layers": 3, "embedding_size": 5, "hidden_size": 6, **changes}
    return FAMILY.settings(**given)


def model_of(seed=1, **changes):
    rates = {s: 0.0 for s in settings_of(FAMILY.settings) if s.startswith("dropout") or s == "weight_drop"}
    model = build(settings(**rates | {"alpha": 0.0, "beta": 0.0} | changes), 9, "word", seeded(seed))
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(2.5)  # weights far from zero, so that what a test changes shows
    return model


def naive(x, weight, bias, c, previous, window, kept=None):
    """The equations of Bradbury et al. (2017), one number at a time; `kept` says which units take updates."""
    sigmoid = lambda value: 1 / (1 + np.exp(-value))  # noqa: E731
    steps, batch, _ = x.shape
    units = len(c[0])
    h = np.zeros((steps, batch, units))
    c, previous = c.copy(), previous.copy()
    for t in range(steps):
        for b in range(batch):
            read = list(x[t, b]) + (list(previous[b]) if window == 2 else [])
            for k in range(units):
                z, f, o = (
                    sum(w * value for w, value in zip(weight[block * units + k], read, strict=True))
                    + bias[block * units + k]
                    for block in range(3)
                )
                # The paper's f is what is kept: 1 where zoneout keeps all.
                forget = 1 - sigmoid(f) if kept is None else 1 - sigmoid(f) * kept[t, b, k]
                c[b, k] = forget * c[b, k] + (1 - forget) * np.tanh(z)
                h[t, b, k] = sigmoid(o) * c[b, k]
            previous[b] = x[t, b]
    return h, c, previous


def drawn(window, zoneout=0.0):
    """A layer in double precision, its inputs and state, and these as arrays."""
    layer = QRNNLayer(INPUTS, UNITS, window, zoneout, seeded()).double()
    rng = np.random.default_rng(0)
    x = rng.normal(size=(STEPS, BATCH, INPUTS))
    c, previous = rng.normal(size=(BATCH, UNITS)), rng.normal(size=(BATCH, INPUTS))
    state = tuple(torch.from_numpy(part) for part in (c, previous)[:window])
    weight, bias = (p.detach().numpy() for p in layer.parameters())
    return layer, torch.from_numpy(x), state, (x, weight, bias, c, previous, window)


@pytest.mark.parametrize("window", [1, 2])
def test_a_layer_is_the_loop_over_its_equations(window):
    layer, x, state, arrays = drawn(window)
    found, after = layer.read(x, state, list(layer.parameters()))
    h, c, previous = naive(*arrays)
    np.testing.assert_allclose(found.detach().numpy(), h, rtol=0, atol=1e-12)
    np.testing.assert_allclose(after[0].detach().numpy(), c, rtol=0, atol=1e-12)
    assert len(after) == window
    assert window == 1 or (after[1].numpy() == previous).all()


def test_zoneout_keeps_memories_in_training_and_slows_them_in_evaluation():
    layer, x, state, arrays = drawn(2, zoneout=0.4)
    found, _ = layer.read(x, state, list(layer.parameters()), seeded(3))
    mask = torch.empty(STEPS, BATCH, UNITS, dtype=torch.float64).bernoulli_(0.6, generator=seeded(3)).numpy()
    assert 0.3 < 1 - mask.mean() < 0.5
    np.testing.assert_allclose(found.detach().numpy(), naive(*arrays, mask)[0], rtol=0, atol=1e-12)
    found, _ = layer.eval().read(x, state, list(layer.parameters()))
    slowed = np.full((STEPS, BATCH, UNITS), 0.6)
    np.testing.assert_allclose(found.detach().numpy(), naive(*arrays, slowed)[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("window", [1, 2])
def test_gradients_are_those_of_differences(window):
    layer, x, state, _ = drawn(window)
    weights = [p.detach().clone().requires_grad_() for p in layer.parameters()]
    leaves = [part.clone().requires_grad_() for part in (x, *state)]

    def outputs(x, *rest):
        h, after = layer.read(x, rest[:window], rest[window:])
        return h, *after

    assert torch.autograd.gradcheck(outputs, (*leaves, *weights))


def test_a_model_has_the_layers_of_the_paper_s_code():
    model = model_of()
    # The first layer reads two words, the others one time step; the last has the size of the embedding.
    shapes = [[tuple(p.shape) for p in layer.parameters()] for layer in model.layers]
    assert shapes == [[(18, 10), (18,)], [(18, 6), (18,)], [(15, 6), (15,)]]
    sizes = [[tuple(part.shape) for part in state] for state in model.initial_state(4)]
    assert sizes == [[(4, 6), (4, 5)], [(4, 6)], [(4, 5)]]
    for layers in (1, 2, 4):
        chosen = settings(layers=layers)
        assert parameters(chosen, 9) == parameter_count(build(chosen, 9, "word", seeded()))
    # As in the code: 4 layers of 1,550 units, 400 of an embedding, the vocabulary of Penn Treebank.
    large = settings(layers=4, hidden_size=1550, embedding_size=400)
    by_hand = 10_000 * 401 + 3 * (1550 * 801 + 2 * 1550 * 1551 + 400 * 1551)
    assert parameters(large, 10_000) == by_hand


def test_reading_in_pieces_is_reading_at_once_and_never_looks_ahead():
    model = model_of().eval()
    words = torch.randint(9, (11, 2), generator=seeded())
    whole, end = model(words, model.initial_state(2))
    for cut in range(1, 11):
        first, state = model(words[:cut], model.initial_state(2))
        second, after = model(words[cut:], state)
        assert torch.allclose(torch.cat((first, second)), whole, atol=1e-6)
        assert torch.allclose(after[0][0], end[0][0], atol=1e-6)
        other = torch.cat((words[:cut], (words[cut:] + 1) % 9))
        changed, _ = model(other, model.initial_state(2))
        assert torch.equal(changed[:cut], whole[:cut])
        assert not torch.allclose(changed[cut], whole[cut])


@pytest.mark.parametrize(
    "rate", ["dropout_input", "dropout_hidden", "dropout_output", "weight_drop", "zoneout"]
)
def test_every_dropout_acts_in_training_and_only_zoneout_in_evaluation(rate):
    model, plain = model_of(**{rate: 0.5}), model_of()
    words = torch.randint(9, (9, 4), generator=seeded())
    state = model.initial_state(4)
    assert not torch.allclose(model(words, state)[0], plain(words, state)[0])
    same = torch.allclose(model.eval()(words, state)[0], plain.eval()(words, state)[0])
    assert same == (rate != "zoneout")


@pytest.mark.parametrize("rule", RULES)
def test_dynamic_evaluation_never_looks_ahead_and_adapts(rule):
    model = model_of()
    rng = np.random.default_rng(0)
    text = np.where(rng.random(200) < 0.8, 4, rng.integers(9, size=200))
    asked = UpdateRule(rule, 0.01 if "rms" in rule else 0.1, 5, 0.002, 0.01, 4)
    rms = gradient_rms(model, text, 2, 5, asked.units if rule == "sparse" else 0) if asked.needs_rms else None
    found = dynamic_nll(model, text, asked, rms)
    for cut in (23, 90):
        other = np.concatenate((text[:cut], (text[cut:] + 4) % 9))
        changed = dynamic_nll(model, other, asked, rms)
        assert (changed[: cut - 1] == found[: cut - 1]).all()
    assert found[80:].mean() < static_nll(model, text)[80:].mean()


def test_adaptation_matrices_change_what_goes_up_and_nothing_else():
    model = model_of().eval()
    words = torch.randint(9, (8, 2), generator=seeded())
    state = model.initial_state(2)
    hidden, after = model.adapted(words, state, [torch.zeros(3, 3)] * 3)
    expected, expected_after = model(words, state)
    assert torch.equal(hidden, expected)
    # A single layer's: h + M h on its first two units, the memory as it was.
    model = model_of(layers=1).eval()
    matrix = torch.tensor([[0.5, -1.0], [2.0, 0.25]])
    expected, expected_after = model(words, model.initial_state(2))
    hidden, after = model.adapted(words, model.initial_state(2), [matrix])
    assert torch.allclose(hidden[..., :2], expected[..., :2] + expected[..., :2] @ matrix.t())
    assert torch.equal(hidden[..., 2:], expected[..., 2:])
    assert torch.equal(after[0][0], expected_after[0][0])


def test_a_kept_model_is_read_again(tmp_path):
    from hpobench_nmt.runner.corpora import TextCorpus
    from hpobench_nmt.runner.disk.archives import load_named_tensors, read_archive
    from hpobench_nmt.runner.lm.kept_files import WEIGHTS, save_language_model

    model = model_of()
    text = np.arange(40) % 9
    words = tuple(str(i) for i in range(9))
    corpus = TextCorpus("chain", "word", words, text, text, text, {})
    save_language_model(tmp_path, model=model, corpus=corpus, settings=settings(), losses={}, statistics=None)
    weights = read_archive(tmp_path / WEIGHTS, load_named_tensors)
    again = FAMILY.architecture.build(settings(), 9, "word", seeded(7))
    again.load_state_dict(weights)
    assert (static_nll(again, text) == static_nll(model, text)).all()


def test_a_training_learns():
    rng = np.random.default_rng(0)
    text = (np.cumsum(np.where(rng.random(1400) < 0.9, 1, 3)) % 9).astype(np.int64)

    class Corpus:
        train, dev, vocabulary, unit = text[:1200], text[1200:], range(9), "word"

    chosen = settings(
        layers=1,
        zoneout=0.05,
        batch_size=4,
        bptt=10,
        max_epochs=4,
        learning_rate=10.0,
        alpha=0.0,
        **{name: 0.05 for name in settings_of(FAMILY.settings) if name.startswith("dropout")},
    )
    model, training = fit(FAMILY.architecture, chosen, Corpus, 1, "cpu")
    # A model that knows the chain has 1.4; one that knows how frequent words are, 9.
    assert np.exp(static_nll(model, text[1200:]).mean()) < 4
    assert training.best_update > 31  # it goes on learning


def test_zoneout_of_an_lstm_is_refused():
    FAMILY.check(settings(zoneout=0.1))
    with pytest.raises(
        InputError, match=r"^zoneout is only for the QRNN: set cell to 'qrnn', or zoneout to 0\.$"
    ):
        FAMILY.check(settings(zoneout=0.1, cell="lstm"))


def test_models_kept_before_there_were_qrnns_have_the_same_name():
    names = set(_model_settings(settings(cell="lstm"), 1))
    assert not names & {"cell", "zoneout", "precision", "accumulate", "fine_tune", "check_updates"}
    assert "cell" in _model_settings(settings(), 1)
