import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.runner.lm.awd_lstm_model import _FEW_STEPS  # noqa: E402
from hpobench_nmt.runner.lm.dropout import (  # noqa: E402
    embedding_dropout,
    locked_dropout,
    mask,
    plain_dropout,
)
from hpobench_nmt.runner.lm.language_model import detach  # noqa: E402
from hpobench_nmt.runner.lm.softmax import linear_cross_entropy  # noqa: E402
from hpobench_nmt.runner.lm.static import _STEPS, WARM_UP  # noqa: E402
from hpobench_nmt.runner.torch_training.memory import parameter_count  # noqa: E402


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def tokens(steps, batch, vocabulary=9, seed=0):
    return torch.randint(vocabulary, (steps, batch), generator=seeded(seed))


def test_masks_drop_the_share_asked_for_and_keep_the_mean():
    drawn = mask((200, 500), 0.3, torch.empty(0), seeded())
    assert drawn.unique().tolist() == [0.0, pytest.approx(1 / 0.7)]
    assert (drawn == 0).float().mean() == pytest.approx(0.3, abs=0.01)
    assert drawn.mean() == pytest.approx(1.0, abs=0.01)


def test_locked_dropout_has_one_mask_for_all_time_steps():
    dropped = locked_dropout(torch.ones(20, 4, 30), 0.5, seeded())
    assert (dropped == dropped[:1]).all()
    assert not (dropped[0, 0] == dropped[0, 1]).all()  # another one for each sequence


def test_embedding_dropout_drops_a_word_wherever_it_stands():
    words = tokens(50, 6, vocabulary=12)
    dropped = embedding_dropout(torch.ones(50, 6, 3), words, 12, 0.5, seeded())
    kept = {word: {tuple(v.tolist()) for v in dropped[words == word]} for word in words.unique().tolist()}
    assert all(len(values) == 1 for values in kept.values())
    values = {value for (value,) in kept.values()}
    assert values == {(0.0,) * 3, (2.0,) * 3}


def test_nothing_is_drawn_where_nothing_is_dropped():
    generator = seeded()
    before = generator.get_state()
    x, weight = torch.ones(3, 2, 4), torch.ones(4, 4)
    assert locked_dropout(x, 0.0, generator) is x
    assert plain_dropout(weight, 0.0, generator) is weight
    assert (generator.get_state() == before).all()


def test_without_dropout_it_is_a_stack_of_lstms(tiny, double):
    for layers in (1, 2, 3):
        model = tiny(layers)
        stack = double(model)
        words = tokens(12, 3)
        hidden, state = model(words, model.initial_state(3))
        zeros = [tuple(part[None].double() for part in pair) for pair in model.initial_state(3)]
        expected, states = stack.hidden(words, zeros)
        assert torch.allclose(hidden.double(), expected, atol=1e-6)
        for (h, c), (h0, c0) in zip(state, states, strict=True):
            assert torch.allclose(h.double(), h0[0], atol=1e-6)
            assert torch.allclose(c.double(), c0[0], atol=1e-6)


def test_gradients_are_those_of_a_stack_of_lstms_with_tied_embeddings(tiny, double):
    model = tiny()
    stack = double(model)
    words = tokens(7, 4)
    hidden, _ = model(words[:-1], model.initial_state(4))
    loss = linear_cross_entropy(
        hidden.reshape(-1, 5), model.output_weight, model.output_bias, words[1:].reshape(-1)
    )
    loss.backward()
    zeros = [tuple(part[None].double() for part in pair) for pair in model.initial_state(4)]
    logits, _ = stack(words[:-1], zeros)
    torch.nn.functional.cross_entropy(logits.reshape(-1, 9), words[1:].reshape(-1)).backward()
    pairs = [
        (model.output_weight, stack.embedding.weight),
        (model.output_bias, stack.decoder.bias),
        *zip(model.layers.parameters(), stack.lstms.parameters(), strict=True),
    ]
    for own, expected in pairs:
        assert not own.grad.is_sparse
        assert torch.allclose(own.grad.double(), expected.grad, atol=1e-6)


def test_reading_in_pieces_is_reading_at_once(tiny):
    model = tiny().eval()
    words = tokens(11, 2)
    whole, _ = model(words, model.initial_state(2))
    first, state = model(words[:4], model.initial_state(2))
    second, _ = model(words[4:], detach(state))
    assert torch.allclose(torch.cat((first, second)), whole, atol=1e-6)


def test_weight_drop_drops_hidden_to_hidden_weights_only(tiny):
    model = tiny(1, weight_drop=0.5)
    words = tokens(2, 3)
    # A first step from an empty state sees no hidden-to-hidden weight; a second one does.
    outputs = [model(words, model.initial_state(3))[0] for _ in range(8)]
    plain = model.eval()(words, model.initial_state(3))[0]
    assert all((output[0] == plain[0]).all() for output in outputs)
    assert all(not (output[1] == plain[1]).all() for output in outputs)


def test_dropped_weights_of_every_layer_get_no_gradient_and_others_do(tiny):
    model = tiny(2, weight_drop=0.5)
    hidden, _ = model(tokens(6, 3), model.initial_state(3))
    hidden.square().sum().backward()
    for layer in model.layers:
        weights = list(layer.parameters())
        recurrent = weights.pop(1)
        assert (recurrent.grad == 0).float().mean() == pytest.approx(0.5, abs=0.2)
        assert all((p.grad != 0).all() for p in weights)


RATES = ("dropout_input", "dropout_hidden", "dropout_output", "dropout_embedding", "weight_drop")


@pytest.mark.parametrize("rate", RATES)
def test_every_dropout_acts_in_training_and_never_in_evaluation(tiny, rate):
    model, plain = tiny(**{rate: 0.5}), tiny()
    words = tokens(9, 4)
    state = model.initial_state(4)
    assert not torch.allclose(model(words, state)[0], plain(words, state)[0])
    assert (model.eval()(words, state)[0] == plain.eval()(words, state)[0]).all()


def test_the_same_seed_gives_the_same_masks(tiny):
    rates = dict.fromkeys(RATES, 0.3)
    words = tokens(9, 4)
    one, same, other = (tiny(seed=seed, **rates) for seed in (1, 1, 2))
    state = one.initial_state(4)
    first = one(words, state)[0]
    assert (first == same(words, state)[0]).all()
    assert not (first == other(words, state)[0]).all()
    assert not (first == one(words, state)[0]).all()


def test_activation_regularisation(tiny):
    model = tiny(alpha=2.0, beta=3.0, dropout_output=0.5)
    words = tokens(9, 4)
    hidden, _ = model(words, model.initial_state(4))
    added = model.regularisation()
    # The temporal part is of the outputs before dropout: those of a twin without any.
    raw, _ = tiny()(words, model.initial_state(4))
    steps = hidden.new_tensor([((raw[t] - raw[t - 1]) ** 2).mean().item() for t in range(1, 9)]).mean()
    assert torch.allclose(added, 2 * (hidden**2).mean() + 3 * steps)
    assert tiny().regularisation() == 0.0


def test_sizes_and_tied_parameters(tiny):
    model = tiny(3)
    assert model.hidden_sizes == (6, 6, 5)
    lstm = sum(4 * o * (i + o + 2) for i, o in [(5, 6), (6, 6), (6, 5)])
    assert parameter_count(model) == 9 * 5 + 9 + lstm


def test_adaptation_matrices_of_zeros_change_nothing(tiny):
    model = tiny().eval()
    words = tokens(8, 2)
    state = model.initial_state(2)
    zeros = [torch.zeros(3, 3), torch.zeros(5, 5)]
    hidden, after = model.adapted(words, state, zeros)
    expected, expected_after = model(words, state)
    assert torch.allclose(hidden, expected, atol=1e-6)
    assert torch.allclose(after[1][1], expected_after[1][1], atol=1e-6)


def test_a_warm_up_is_of_both_kernels():
    """Pieces of a few steps have a kernel of their own, which takes a second to load."""
    assert WARM_UP > _STEPS
    assert 0 < (WARM_UP - 1) % _STEPS <= _FEW_STEPS
