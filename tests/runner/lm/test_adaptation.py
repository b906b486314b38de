"""The analyses of Krause et al. (2018), sections 7.4 and 7.5, against plain evaluations and plain torch."""

from copy import deepcopy
from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'hpobench-nmt[train]'")

from torch.nn.functional import cosine_similarity, cross_entropy  # noqa: E402

from hpobench_nmt.core.system.errors import InputError  # noqa: E402
from hpobench_nmt.runner.lm.adaptation import (  # noqa: E402
    adaptation_curve,
    losses_of_parts,
    sample,
    timescales,
    word_effect,
)
from hpobench_nmt.runner.lm.dynamic import UpdateRule, dynamic_nll, gradient_rms  # noqa: E402
from hpobench_nmt.runner.lm.static import static_nll  # noqa: E402

RNG = np.random.default_rng(3)
TRAIN = RNG.integers(9, size=200)
WORDS = RNG.integers(9, size=62)
RULES = {
    "sgd": UpdateRule("sgd", 0.5, 4),
    "rms-rms-prior": UpdateRule("rms-rms-prior", 0.02, 5, 0.3, 1e-3),
    "sparse": UpdateRule("sparse", 0.02, 5, 0.3, 1e-3, units=4),
}


def rms_of(model, rule):
    return gradient_rms(model, TRAIN, 3, 5, rule.units)


def test_parts_that_begin_anew_are_separate_evaluations_and_parts_carried_on_are_one(tiny):
    model, rule = tiny(), RULES["sgd"]
    dynamic = partial(dynamic_nll, model, rule=rule)
    anew, carried = (losses_of_parts(WORDS, 3, dynamic, carried_on) for carried_on in (False, True))
    assert anew.shape == carried.shape == (3, 19)  # 62 tokens are three times 20, and 2 that are left out
    whole = dynamic(WORDS[:60])
    for part in range(3):
        words = WORDS[20 * part : 20 * part + 20]
        assert (anew[part] == dynamic(words)).all()
        assert (carried[part] == whole[20 * part : 20 * part + 19]).all()
    assert (anew[0] == carried[0]).all()
    assert abs(anew[1] - carried[1]).max() > 1e-3


def test_timescales_are_the_mean_losses_of_the_parts(tiny):
    model, rule = tiny(), RULES["sgd"]
    found = timescales(model, WORDS, 3, rule, window=8)
    assert found.position.tolist() == [1, 8, 16]
    assert found.tokens.tolist() == [7, 8, 4]
    for name, evaluate in (("static", static_nll), ("dynamic", partial(dynamic_nll, rule=rule))):
        for end, carried_on in (("", False), ("_carried", True)):
            mean = losses_of_parts(WORDS, 3, partial(evaluate, model), carried_on).mean(0)
            expected = [mean[:7].mean(), mean[7:15].mean(), mean[15:].mean()]
            assert found[name + end].tolist() == pytest.approx(expected)


def test_too_many_parts_are_refused():
    for parts in (0, 32):
        with pytest.raises(InputError, match="cannot be cut into"):
            losses_of_parts(WORDS, parts, lambda words: words[1:] * 1.0)


def test_a_curve_is_the_mean_loss_of_each_window_and_no_window_lies_across_the_change(tiny):
    model, rule = tiny(), RULES["rms-rms-prior"]
    rms = rms_of(model, rule)
    sequences = [WORDS[:30], WORDS[30:60]]
    curve = adaptation_curve(model, sequences, rule, rms, change=13, window=10)
    assert curve.position.tolist() == [-12, -10, 0, 10]
    assert curve.tokens.tolist() == [2, 10, 10, 7]
    found = {
        "static": [static_nll(model, words) for words in sequences],
        "dynamic": [dynamic_nll(model, words, rule, rms) for words in sequences],
    }
    for name, losses in found.items():
        mean = (losses[0] + losses[1]) / 2  # of the tokens 1 to 29
        expected = [mean[:2].mean(), mean[2:12].mean(), mean[12:22].mean(), mean[22:].mean()]
        assert curve[name].tolist() == pytest.approx(expected)


def test_a_point_of_the_curve_depends_on_what_was_read_before_it_alone(tiny):
    model, rule = tiny(), RULES["sgd"]
    other = np.concatenate([WORDS[:41], (WORDS[41:60] + 1) % 9])
    one, two = (adaptation_curve(model, [words], rule, window=10, change=1) for words in (WORDS[:60], other))
    assert one[:4].equals(two[:4])
    assert (one.dynamic[4:] != two.dynamic[4:]).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sequences": [WORDS[:5], WORDS[:6]]}, "one length"),
        ({"sequences": []}, "one length"),
        ({"sequences": [WORDS[:5]], "change": 5}, "not within"),
        ({"sequences": [WORDS[:5]], "window": 0}, "window"),
    ],
)
def test_curves_that_make_no_sense_are_refused(tiny, arguments, message):
    with pytest.raises(InputError, match=message):
        adaptation_curve(tiny(), rule=RULES["sgd"], **arguments)


def endings(model, words, evaluate):
    """log p of each word of the vocabulary after these, from evaluations of nine texts."""
    return -np.array([evaluate(model, np.append(words, word))[-1] for word in range(9)])


@pytest.mark.parametrize("position", [9, 11, 12])
def test_the_effect_of_a_word_is_that_of_a_step_of_plain_gradient_descent(tiny, double, position):
    model, rule = tiny(), RULES["sgd"]
    found = word_effect(model, WORDS, position, rule)
    dynamic = partial(dynamic_nll, rule=rule)
    before = endings(model, WORDS[:position], dynamic)
    assert found.before.to_numpy() == pytest.approx(before, abs=1e-5)
    # The same by torch: two segments read and learned from, then the one that predicts tokens 9 to 12.
    stack = double(model)
    states = [tuple(part[None].double() for part in pair) for pair in model.initial_state(1)]
    for start in (0, 4, 8):
        piece, held = torch.from_numpy(WORDS[start : start + 5]), states
        logits, states = stack(piece[:-1, None], held)
        states = [tuple(part.detach() for part in state) for state in states]
        gradients = torch.autograd.grad(cross_entropy(logits[:, 0], piece[1:]), list(stack.parameters()))
        with torch.no_grad():
            for p, gradient in zip(stack.parameters(), gradients, strict=True):
                p -= 0.5 * gradient
    with torch.no_grad():
        logits, _ = stack(piece[:-1, None], held)
    after = logits[position - 9, 0].log_softmax(0).numpy()
    assert found.after.to_numpy() == pytest.approx(after, abs=1e-4)
    assert found.change.tolist() == (found.after - found.before).tolist()
    word = int(WORDS[position])
    weight = model.output_weight.detach()
    assert found.cosine.to_numpy() == pytest.approx(
        cosine_similarity(weight, weight[word], dim=1).numpy(), abs=1e-6
    )
    assert found.cosine[word] == pytest.approx(1.0)


@pytest.mark.parametrize("name", RULES)
def test_the_effect_of_a_word_does_not_look_behind_its_segment(tiny, name):
    model, rule = tiny(), RULES[name]
    rms = rms_of(model, rule)
    whole, cut = (word_effect(model, words, 8, rule, rms) for words in (WORDS, WORDS[: 2 * rule.segment + 1]))
    assert whole.equals(cut)
    assert np.exp(whole.before).sum() == pytest.approx(1)
    assert np.exp(whole.after).sum() == pytest.approx(1)
    assert abs(whole.change).max() > 1e-3


def test_a_word_that_is_not_predicted_has_no_effect(tiny):
    for position in (0, len(WORDS)):
        with pytest.raises(InputError, match="predicted"):
            word_effect(tiny(), WORDS, position, RULES["sgd"])


@pytest.mark.parametrize("name", [*RULES, None])
@pytest.mark.parametrize("context", [1, 5, 8])
def test_a_sample_has_the_losses_of_reading_it_after_its_context(tiny, name, context):
    model = tiny()
    rule = RULES[name] if name else None
    rms = rms_of(model, rule) if rule else None
    values = deepcopy(model.state_dict())
    written, losses = sample(model, WORDS[:context], 14, rule, np.random.default_rng(1), rms)
    again, _ = sample(model, WORDS[:context], 14, rule, np.random.default_rng(1), rms)
    assert (written == again).all()
    words = np.concatenate([WORDS[:context], written])
    read = dynamic_nll(model, words, rule, rms) if rule else static_nll(model, words)
    assert losses == pytest.approx(read[-14:], abs=1e-5)
    assert all((values[key] == value).all() for key, value in model.state_dict().items())
    # Each token is the one where the running sum of all probabilities passes the number that was drawn.
    uniform = np.random.default_rng(1).random(14)
    evaluate = partial(dynamic_nll, rule=rule, rms=rms) if rule else static_nll
    for number in (0, 6, 13):
        running = np.cumsum(np.exp(endings(model, words[: context + number], evaluate)))
        below = running[written[number] - 1] if written[number] else 0.0
        assert below - 1e-5 <= uniform[number] <= running[written[number]] + 1e-5


def test_a_sample_needs_a_context(tiny):
    with pytest.raises(InputError, match="context"):
        sample(tiny(), WORDS[:0], 3, None, np.random.default_rng(0))
