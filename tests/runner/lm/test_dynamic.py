from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'hpobench-nmt[train]'")

from torch.nn.functional import cross_entropy  # noqa: E402

from hpobench_nmt.core.system.errors import InputError  # noqa: E402
from hpobench_nmt.runner.lm.dynamic import RULES, UpdateRule, dynamic_nll, gradient_rms  # noqa: E402
from hpobench_nmt.runner.lm.static import static_nll  # noqa: E402

RNG = np.random.default_rng(0)
TRAIN = RNG.integers(9, size=200)
WORDS = RNG.integers(9, size=43)

RULE = {
    "sgd": UpdateRule("sgd", 0.5, 1, decay=0.1),  # which it has no use for
    "sgd-prior": UpdateRule("sgd-prior", 0.5, 5, 0.1),
    "rms-prior": UpdateRule("rms-prior", 0.02, 5, 0.1, 1e-3),
    "rms-rms-prior": UpdateRule("rms-rms-prior", 0.02, 4, 0.3, 1e-3),
    "sparse": UpdateRule("sparse", 0.02, 5, 0.3, 1e-3, units=4),
}
UNITS = {name: rule.units for name, rule in RULE.items()}


def zeros(model, batch):
    return [tuple(part[None].double() for part in pair) for pair in model.initial_state(batch)]


def detached(states):
    return [tuple(part.detach() for part in state) for state in states]


def naive_rms(stack, state, words, batch, segment):
    """Eq. 5, a parameter at a time."""
    length = len(words) // batch
    columns = torch.from_numpy(words[: length * batch]).view(batch, length).t()
    sums, count = [torch.zeros_like(p) for p in stack.parameters()], 0
    for start in range(0, length - 1, segment):
        inputs = columns[start : start + segment][: length - 1 - start]
        logits, state = stack(inputs, detached(state))
        targets = columns[start + 1 : start + 1 + len(inputs)]
        loss = cross_entropy(logits.flatten(0, 1), targets.flatten())
        gradients = torch.autograd.grad(loss, list(stack.parameters()))
        sums = [s + g * g for s, g in zip(sums, gradients, strict=True)]
        count += 1
    return [torch.sqrt(s / count) for s in sums]


def naive_dynamic(stack, state, words, rule, rms):
    """Eqs. 4, 6 and 8, a parameter at a time, with automatic differentiation in double precision."""
    words = torch.from_numpy(words)
    globals_ = [p.detach().clone() for p in stack.parameters()]
    mean = torch.cat([r.flatten() for r in rms]).mean()
    if rule.decay_scale == "tensors":
        mean = torch.stack([r.mean() for r in rms]).mean()
    found = []
    for start in range(0, len(words) - 1, rule.segment):
        inputs = words[start : start + rule.segment][: len(words) - 1 - start, None]
        targets = words[start + 1 : start + 1 + len(inputs)]
        logits, state = stack(inputs, detached(state))
        each = cross_entropy(logits[:, 0], targets, reduction="none")
        found += each.tolist()
        eta = rule.learning_rate * (max(0, 1 - len(found) / rule.horizon) if rule.horizon else 1)
        gradients = torch.autograd.grad(each.mean(), list(stack.parameters()))
        with torch.no_grad():
            for p, whole, g, r in zip(stack.parameters(), globals_, gradients, rms, strict=True):
                if rule.name == "sgd":
                    p.sub_(eta * g)
                elif rule.name == "sgd-prior":
                    p.copy_(p - eta * g + rule.decay * (whole - p))
                else:
                    step = eta * g / (r + rule.epsilon)
                    normed = torch.ones_like(r)
                    if rule.name == "rms-rms-prior":
                        normed = torch.clamp(r / mean, max=1 / rule.decay)
                    p.copy_(p - step + rule.decay * (whole - p) * normed)
    return np.array(found)


class Adapted(torch.nn.Module):
    """Eq. 9 with LSTM cells; its parameters are the adaptation matrices."""

    def __init__(self, stack, sizes):
        super().__init__()
        self.stack = [stack]  # in a list, so that its parameters are not this module's
        self.matrices = torch.nn.ParameterList(torch.zeros(n, n).double() for n in sizes)

    def forward(self, tokens, states):
        (stack,) = self.stack
        x, after = stack.embedding(tokens), []
        for lstm, matrix, (h, c) in zip(stack.lstms, self.matrices, states, strict=True):
            outputs = []
            for step in x:
                out, (h, c) = lstm(step[None], (h, c))
                change = torch.zeros_like(out)
                change[..., : len(matrix)] = out[..., : len(matrix)] @ matrix.T
                h = out + change
                outputs.append(h[0])
            x = torch.stack(outputs)
            after.append((h, c))
        return stack.decoder(x), after


def oracle(name, model, double):
    stack = double(model)
    return stack if name != "sparse" else Adapted(stack, [4, 4])


@pytest.mark.parametrize("name", RULES)
def test_gradient_statistics_are_those_of_the_naive_loop(tiny, double, name):
    model = tiny()
    reference = oracle(name, model, double)
    found = gradient_rms(model, TRAIN, 3, 5, UNITS[name])
    expected = naive_rms(reference, zeros(model, 3), TRAIN, 3, 5)
    assert len(found) == len(expected)
    for own, other in zip(found, expected, strict=True):
        assert torch.allclose(own.double(), other, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("name", RULES)
def test_every_rule_is_its_equation(tiny, double, name):
    model, rule = tiny(), RULE[name]
    reference = oracle(name, model, double)
    expected_rms = naive_rms(reference, zeros(model, 3), TRAIN, 3, 5)
    rule_there = replace(rule, name="rms-rms-prior") if name == "sparse" else rule
    expected = naive_dynamic(reference, zeros(model, 1), WORDS, rule_there, expected_rms)
    found = dynamic_nll(model, WORDS, rule, gradient_rms(model, TRAIN, 3, 5, rule.units))
    assert found == pytest.approx(expected, rel=2e-4)
    assert abs(found - static_nll(model, WORDS))[rule.segment :].max() > 0.01  # it did adapt


def test_the_decay_of_the_published_code_is_another_one_and_either_is_exact(tiny, double):
    model, rule = tiny(), replace(RULE["rms-rms-prior"], decay_scale="tensors")
    reference = double(model)
    expected_rms = naive_rms(reference, zeros(model, 3), TRAIN, 3, 5)
    expected = naive_dynamic(reference, zeros(model, 1), WORDS, rule, expected_rms)
    rms = gradient_rms(model, TRAIN, 3, 5)
    found = dynamic_nll(model, WORDS, rule, rms)
    assert found == pytest.approx(expected, rel=2e-4)
    elements = torch.cat([r.flatten() for r in rms]).mean() / torch.stack([r.mean() for r in rms]).mean()
    same = replace(rule, decay=rule.decay * float(elements), decay_scale="elements")
    assert dynamic_nll(model, WORDS, same, rms) == pytest.approx(found, rel=1e-5)
    assert abs(dynamic_nll(model, WORDS, RULE["rms-rms-prior"], rms) - found).max() > 1e-3


@pytest.mark.parametrize("name", RULES)
def test_a_learning_rate_that_falls_is_its_equation_and_does_not_look_ahead(tiny, double, name):
    model, rule = tiny(), replace(RULE[name], horizon=25)
    reference = oracle(name, model, double)
    expected_rms = naive_rms(reference, zeros(model, 3), TRAIN, 3, 5)
    rule_there = replace(rule, name="rms-rms-prior") if name == "sparse" else rule
    expected = naive_dynamic(reference, zeros(model, 1), WORDS, rule_there, expected_rms)
    rms = gradient_rms(model, TRAIN, 3, 5, rule.units)
    found = dynamic_nll(model, WORDS, rule, rms)
    assert found == pytest.approx(expected, rel=2e-4)
    assert abs(found - dynamic_nll(model, WORDS, RULE[name], rms)).max() > 1e-3
    # A shorter last segment may round otherwise, by 32 bits.
    assert dynamic_nll(model, WORDS[:31], rule, rms) == pytest.approx(found[:30], rel=1e-6)


def test_the_learning_rate_falls_to_zero_and_stays_there():
    rule = UpdateRule("sgd", 0.5, horizon=20)
    assert [rule.learning_rate_after(t) for t in (0, 5, 20, 25)] == [0.5, 0.375, 0.0, 0.0]
    assert UpdateRule("sgd", 0.5).learning_rate_after(10**9) == 0.5


@pytest.mark.parametrize("name", RULES)
def test_a_word_is_not_seen_before_it_is_predicted(tiny, name):
    model, rule = tiny(), RULE[name]
    rms = gradient_rms(model, TRAIN, 3, 5, rule.units)
    changed = WORDS.copy()
    changed[22] = (changed[22] + 1) % 9
    before, after = (dynamic_nll(model, words, rule, rms) for words in (WORDS, changed))
    assert (before[:21] == after[:21]).all()
    assert before[21] != after[21]
    assert (before[25:] != after[25:]).all()


@pytest.mark.parametrize("name", RULES)
def test_probabilities_sum_to_one_at_every_word(tiny, name):
    model, rule = tiny(), RULE[name]
    rms = gradient_rms(model, TRAIN, 3, 5, rule.units)
    for length in (1, 2, 11, 19):
        ends = [np.append(WORDS[:length], word) for word in range(9)]
        last = [dynamic_nll(model, words, rule, rms)[-1] for words in ends]
        assert np.exp(-np.array(last)).sum() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("name", RULES)
def test_the_model_is_left_as_it_was(tiny, name):
    model, rule = tiny(dropout_input=0.5), RULE[name]
    values = [p.detach().clone() for p in model.parameters()]
    places = [p.data_ptr() for p in model.parameters()]
    dynamic_nll(model, WORDS, rule, gradient_rms(model, TRAIN, 3, 5, rule.units))
    assert model.training
    for p, value, place in zip(model.parameters(), values, places, strict=True):
        assert (p == value).all()
        assert p.data_ptr() == place
        assert p.grad is None
        assert p.requires_grad


@pytest.mark.parametrize("name", RULES)
def test_without_learning_it_is_static_evaluation(tiny, name):
    model, rule = tiny(), RULE[name]
    still = UpdateRule(name, 0.0, rule.segment, rule.decay, rule.epsilon, rule.units)
    found = dynamic_nll(model, WORDS, still, gradient_rms(model, TRAIN, 3, 5, rule.units))
    assert found == pytest.approx(static_nll(model, WORDS), abs=1e-5)


def test_every_word_is_read_once(tiny):
    model = tiny()
    read = []
    model.register_forward_hook(lambda module, inputs, output: read.append(len(inputs[0])))
    for length in (20, 40):
        read.clear()
        dynamic_nll(model, WORDS[:length], RULE["sgd-prior"])
        assert sum(read) == length - 1
        assert max(read) <= 5


def test_segments_need_not_divide_the_text(tiny):
    model = tiny()
    for segment in (1, 7, 42, 1000):
        assert len(dynamic_nll(model, WORDS, UpdateRule("sgd", 0.1, segment))) == 42
    whole = dynamic_nll(model, WORDS, UpdateRule("sgd", 0.1, 1000))
    assert whole == pytest.approx(static_nll(model, WORDS), abs=1e-5)  # never updated before the end


def test_the_same_twice(tiny):
    model, rule = tiny(), RULE["rms-rms-prior"]
    rms = gradient_rms(model, TRAIN, 3, 5)
    one, two = (dynamic_nll(model, WORDS, rule, rms) for _ in range(2))
    assert (one == two).all()


def test_wrong_rules_are_refused(tiny):
    with pytest.raises(InputError, match="Did you mean 'rms-prior'"):
        UpdateRule("rms-priors", 0.1)
    with pytest.raises(InputError, match="at least 1 token"):
        UpdateRule("sgd", 0.1, 0)
    with pytest.raises(InputError, match="Did you mean 'tensors'"):
        UpdateRule("sgd", 0.1, decay_scale="tensor")
    with pytest.raises(InputError, match="decay rate"):
        UpdateRule("sgd-prior", 0.1, 5, 1.5)
    with pytest.raises(InputError, match="hidden unit"):
        UpdateRule("sparse", 0.1)
    with pytest.raises(InputError, match="needs the RMS"):
        dynamic_nll(tiny(), WORDS, RULE["rms-prior"])
    with pytest.raises(InputError, match="too few"):
        gradient_rms(tiny(), TRAIN[:5], 5, 5)
