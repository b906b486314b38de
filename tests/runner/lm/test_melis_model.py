import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.runner.lm.dynamic import UpdateRule, dynamic_nll, gradient_rms  # noqa: E402
from hpobench_nmt.runner.lm.language_model import detach  # noqa: E402
from hpobench_nmt.runner.lm.melis_model import MelisModel  # noqa: E402
from hpobench_nmt.runner.lm.melis_settings import MelisSettings  # noqa: E402
from hpobench_nmt.runner.lm.parameter_budget import ModelShape, parameters_of_shape  # noqa: E402
from hpobench_nmt.runner.lm.static import static_nll  # noqa: E402
from hpobench_nmt.runner.torch_training.memory import parameter_count  # noqa: E402

V, H, E = 11, 6, 4
CELLS = ("lstm", "rhn", "nas")


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def tokens(steps, batch, seed=0):
    return torch.randint(V, (steps, batch), generator=seeded(seed))


def make(cell="lstm", depth=1, *, zero_state=0.0, seed=0, scale=2.0, **options):
    rates = {f"dropout_{name}": options.pop(name, 0.0) for name in ("input", "layer", "state", "output")}
    how = options.pop("state_dropout", "variational")
    shape = ModelShape(V, cell, depth, **{"projection": True, **options})
    settings = MelisSettings(**rates, state_dropout=how, zero_state=zero_state)
    model = MelisModel(shape, (H, H if shape.square else E), settings, seeded(seed))
    with torch.no_grad():
        # Weights far from zero, so that what a test changes shows.
        for parameter in model.parameters():
            parameter.mul_(scale)
    return model


def output(model, words, state=None):
    return model(words, model.initial_state(words.shape[1]) if state is None else state)[0].detach()


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("depth", [1, 3])
def test_the_number_of_parameters_is_the_budgets(cell, depth):
    for gates, shared, projection in itertools.product(("capped", "tied"), (True, False), (True, False)):
        if cell != "lstm" and gates == "tied":
            continue
        model = make(cell, depth, gates=gates, shared=shared, projection=projection)
        shape = ModelShape(V, cell, depth, gates, shared, projection)
        assert parameter_count(model) == parameters_of_shape(shape, H, H if shape.square else E)
        hidden = output(model, tokens(3, 2))
        assert hidden.shape == (3, 2, E if projection else H)
        assert model.output_weight.shape == (V, hidden.shape[2])


def test_shared_embeddings_are_one_parameter():
    shared, separate = make(shared=True), make(shared=False)
    assert shared.input_weight is shared.output_weight
    assert separate.input_weight is not separate.output_weight


@pytest.mark.parametrize("cell", ["lstm", "nas"])
def test_outputs_of_all_layers_are_added_up(cell):
    model = make(cell, 3, projection=False)
    words = tokens(7, 2)
    x, total = torch.nn.functional.embedding(words, model.input_weight), 0.0
    for layer, state in zip(model.layers, model.initial_state(2), strict=True):
        x, _ = layer(x, state)
        total = total + x
    torch.testing.assert_close(output(model, words), total.detach())


def test_an_rhn_is_one_layer_whose_depth_is_in_time():
    for depth in (1, 4):
        model = make("rhn", depth)
        assert len(model.initial_state(2)) == 1
        assert model.hidden_sizes == (H,)
    assert not torch.allclose(output(make("rhn", 1), tokens(4, 2)), output(make("rhn", 2), tokens(4, 2)))


@pytest.mark.parametrize("cell", CELLS)
def test_later_tokens_never_change_earlier_outputs(cell):
    model = make(cell, 2).eval()
    words = tokens(12, 3)
    before = output(model, words)
    for t in range(1, 12):
        changed = words.clone()
        changed[t] = (changed[t] + 1) % V
        after = output(model, changed)
        assert torch.equal(after[:t], before[:t])
        assert not torch.allclose(after[t], before[t])


@pytest.mark.parametrize("cell", CELLS)
def test_state_carries_the_past(cell):
    model = make(cell, 2).eval()
    words = tokens(9, 3)
    whole, _ = model(words, model.initial_state(3))
    first, state = model(words[:4], model.initial_state(3))
    second, _ = model(words[4:], detach(state))
    torch.testing.assert_close(torch.cat((first, second)), whole)


# Dropout


def test_nothing_is_dropped_in_evaluation():
    rates = {"input": 0.5, "layer": 0.5, "state": 0.5, "output": 0.5}
    dropped, plain = make(depth=2, **rates).eval(), make(depth=2).eval()
    assert torch.equal(output(dropped, tokens(5, 2)), output(plain, tokens(5, 2)))


def test_output_dropout_has_a_mask_for_every_time_step_and_acts_on_the_projection_too():
    for projection in (False, True):
        model = make(output=0.4, projection=projection, shared=False)
        zeros = output(model, tokens(400, 5)) == 0
        assert zeros.float().mean() == pytest.approx(0.4, abs=0.03)
        assert zeros.float().mean(0).min() > 0.3 and zeros.float().mean(0).max() < 0.5
    # The combined output was dropped before: else each kept entry would be the plain one scaled.
    kept = output(model, tokens(400, 5))
    plain = output(model.eval(), tokens(400, 5))
    assert not torch.allclose(kept[kept != 0], plain[kept != 0] / 0.6)


def forgetful(model):
    """The model without memory: each output depends on its own token alone."""
    with torch.no_grad():
        for layer in model.layers:
            layer.recurrent.zero_()
            layer.bias[H : 2 * H] = -100.0
    return model


@pytest.mark.parametrize(("name", "depth"), [("input", 1), ("layer", 2)])
def test_input_and_layer_dropout_have_a_mask_for_every_time_step(name, depth):
    model = forgetful(make(depth=depth, **{name: 0.5}))
    same = torch.full((50, 4), 3)
    hidden = output(model, same).flatten(0, 1)
    # 2^4 or 2^6 masks: the more draws, the more different outputs.
    assert len({tuple(row.tolist()) for row in hidden}) > 10
    undropped = output(model.eval(), same).flatten(0, 1)
    torch.testing.assert_close(undropped, undropped[:1].expand_as(undropped))


def test_layer_dropout_is_between_layers_only():
    one = make(depth=1, layer=0.5)
    assert torch.equal(output(one, tokens(5, 2)), output(make(depth=1), tokens(5, 2)))
    rhn = make("rhn", 3, layer=0.5)
    assert torch.equal(output(rhn, tokens(5, 2)), output(make("rhn", 3), tokens(5, 2)))


def separate_units(model, factor=1.0):
    """The model with units that see no other unit, and their recurrence times a factor."""
    with torch.no_grad():
        recurrent = model.layers[0].recurrent
        values = torch.linspace(1.0, 3.0, recurrent.numel() // H // H)
        for block, value in zip(recurrent.view(-1, H, H), values, strict=True):
            block.copy_(torch.eye(H) * value * factor)
    return model


@pytest.mark.parametrize("cell", CELLS)
def test_variational_dropout_has_one_mask_a_sequence_for_all_gates(cell):
    words = tokens(8, 60)
    kind = {"projection": False, "depth": 2 if cell == "rhn" else 1}
    found = output(separate_units(make(cell, state=0.5, **kind)), words)
    # A unit that is dropped does not see its past at any step, through any gate; another sees twice of it.
    dropped = output(separate_units(make(cell, **kind), 0.0), words)
    kept = output(separate_units(make(cell, **kind), 2.0), words)
    is_dropped = torch.isclose(found, dropped, atol=1e-6).all(0)
    is_kept = torch.isclose(found, kept, atol=1e-6).all(0)
    assert (is_dropped | is_kept).all()
    told_apart = ~(is_dropped & is_kept)  # a dead unit of the NAS cell is the same with and without a past
    assert told_apart.float().mean() > 0.9
    assert is_dropped[told_apart].float().mean() == pytest.approx(0.5, abs=0.15)
    assert not (is_dropped == is_dropped[:1]).all()  # each sequence has its own


def test_recurrent_dropout_has_one_mask_a_sequence_on_the_update():
    model = make(state=0.5, state_dropout="recurrent", projection=False)
    silent = output(model, tokens(8, 60)) == 0
    # What never gets an update stays at its zero.
    assert (silent.all(0) | ~silent.any(0)).all()
    assert silent[0].float().mean() == pytest.approx(0.5, abs=0.1)
    assert not torch.equal(silent[0], output(model, tokens(8, 60))[0] == 0)  # another sequence, another mask


@pytest.mark.parametrize(
    ("cell", "gates", "larger"), [("lstm", "capped", 1.5), ("lstm", "untied", 1.0), ("rhn", "capped", 1.0)]
)
def test_the_scaling_of_recurrent_dropout_in_the_papers_code(cell, gates, larger):
    """An update u is 1.5 m u in training, with m 0 or 1, and 1.5 (1 - p) u in evaluation."""
    kind = {"projection": False, "depth": 1, "gates": gates}
    how = ("recurrent", "recurrent-lamb")
    usual, lamb = (make(cell, state=0.2, state_dropout=each, **kind) for each in how)
    words = tokens(1, 60)  # one step from zeros: the new state is the admitted update, and linear in it
    state = usual.initial_state(60)
    part = 0 if cell == "rhn" else 1
    kept_usual, kept_lamb = (model(words, state)[1][0][part].detach() for model in (usual, lamb))
    torch.testing.assert_close(kept_lamb, kept_usual * 0.8 * larger)
    assert 0.1 < (kept_lamb == 0).float().mean() < 0.3
    evaluated, plain = (model.eval()(words, state)[1][0][part].detach() for model in (lamb, usual))
    torch.testing.assert_close(evaluated, plain * 0.8 * larger)
    # Adapted evaluation is scaled the same, and a model without dropout is not scaled at all.
    zeros = [torch.zeros(3, 3) for _ in lamb.hidden_sizes]
    longer = tokens(7, 2)
    adapted, _ = lamb.adapted(longer, lamb.initial_state(2), zeros)
    torch.testing.assert_close(adapted.detach(), output(lamb, longer))
    undropped = make(cell, state=0.0, state_dropout="recurrent-lamb", **kind).eval()
    assert torch.equal(output(undropped, longer), output(usual.eval(), longer))


def test_a_sequence_may_start_from_zeros():
    words, always, never = tokens(5, 3), make(zero_state=1.0), make(zero_state=0.0)
    state = detach(always(words, always.initial_state(3))[1])
    assert torch.equal(output(always, words, state), output(always, words))
    assert not torch.allclose(output(never, words, state), output(never, words))
    assert not torch.allclose(output(always.eval(), words, state), output(always.eval(), words))
    rarely = make(zero_state=0.2)
    zero, carried = output(rarely.eval(), words), output(rarely.eval(), words, state)
    rarely.train()
    starts = [torch.equal(output(rarely, words, state), zero) for _ in range(300)]
    assert np.mean(starts) == pytest.approx(0.2, abs=0.07)
    assert not torch.equal(zero, carried)


# Adaptation at test time


@pytest.mark.parametrize("cell", ["lstm", "nas"])
def test_adapted_hidden_states_go_on_in_time_and_upwards(cell):
    model = make(cell, projection=False).eval()
    words = tokens(7, 2)
    matrix = torch.randn(4, 4, generator=seeded(3))
    found, ((h, _),) = model.adapted(words, model.initial_state(2), [matrix])
    # h' = (I + M) h is read by R and by what follows: as if R were R (I + M).
    whole = torch.eye(H)
    whole[:4, :4] += matrix
    with torch.no_grad():
        model.layers[0].recurrent.copy_(model.layers[0].recurrent @ whole)
    torch.testing.assert_close(found.detach(), output(model, words) @ whole.T)
    torch.testing.assert_close(h, found[-1])


@pytest.mark.parametrize("cell", CELLS)
def test_adaptation_by_zero_matrices_is_none(cell):
    model = make(cell, 3).eval()
    words = tokens(7, 2)
    zeros = [torch.zeros(3, 3) for _ in model.hidden_sizes]
    found, _ = model.adapted(words, model.initial_state(2), zeros)
    torch.testing.assert_close(found.detach(), output(model, words))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("shared", [True, False])
def test_every_way_of_evaluating_reads_the_model(cell, shared):
    model = make(cell, 2, shared=shared, scale=1.0)
    words = np.random.default_rng(0).integers(V, size=60)
    before = [p.detach().clone() for p in model.parameters()]
    static = static_nll(model, words)
    for rule in (
        UpdateRule("rms-rms-prior", 0.02, 5, 0.1, 1e-3),
        UpdateRule("sparse", 0.02, 5, 0.1, 1e-3, units=4),
    ):
        rms = gradient_rms(model, words, 2, 5, rule.units)
        dynamic = dynamic_nll(model, words, rule, rms)
        np.testing.assert_allclose(dynamic[:5], static[:5], rtol=1e-5)  # nothing is learnt before it is read
        assert np.isfinite(dynamic).all() and not np.allclose(dynamic, static)
    assert all(map(torch.equal, before, model.parameters()))


@pytest.mark.parametrize("cell", CELLS)
def test_a_repeated_phrase_is_learnt_at_test_time(cell):
    model = make(cell)
    words = np.tile([1, 5, 2, 9, 4], 40)
    dynamic = dynamic_nll(model, words, UpdateRule("sgd", 0.5, 5))
    assert dynamic[-20:].mean() < 0.5 * static_nll(model, words)[-20:].mean()
