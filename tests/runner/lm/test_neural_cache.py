import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="needs torch: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.runner.lm.neural_cache import NeuralCache, cache_nll, tuned_cache  # noqa: E402
from hpobench_nmt.runner.lm.static import static_nll  # noqa: E402

WORDS = np.random.default_rng(0).integers(9, size=40)


def naive(model, words, cache):
    """Grave et al. 2017, word by word."""
    words = torch.from_numpy(words)
    with torch.no_grad():
        hidden = model.eval()(words[:-1, None], model.initial_state(1))[0][:, 0].double()
    logits = hidden @ model.output_weight.double().t() + model.output_bias.double()
    found = []
    for t, target in enumerate(words[1:].tolist()):
        p = logits[t].softmax(0)[target].item()
        weights = {i: math.exp(cache.theta * float(hidden[t] @ hidden[i])) for i in range(t)}
        recent = {i: w for i, w in weights.items() if i >= t - cache.window}
        if recent:
            same = sum(w for i, w in recent.items() if words[i + 1] == target)
            p = (1 - cache.weight) * p + cache.weight * same / sum(recent.values())
        found.append(-math.log(p))
    return np.array(found)


@settings(max_examples=25, deadline=None)
@given(
    length=st.integers(2, 40),
    window=st.integers(1, 50),
    theta=st.sampled_from([0.0, 0.3, 2.0]),
    weight=st.sampled_from([0.0, 0.1, 0.9]),
)
def test_it_is_the_naive_cache(tiny_model, length, window, theta, weight):
    cache = NeuralCache(window, theta, weight)
    found = cache_nll(tiny_model, WORDS[:length], cache)
    assert found == pytest.approx(naive(tiny_model, WORDS[:length], cache), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("window", [100, 270])
def test_texts_and_windows_longer_than_a_block(tiny, window):
    words = np.random.default_rng(1).integers(9, size=400)
    cache = NeuralCache(window, 0.5, 0.4)
    assert cache_nll(tiny(), words, cache) == pytest.approx(naive(tiny(), words, cache), rel=1e-4)


def test_an_empty_share_is_static_evaluation(tiny):
    assert (cache_nll(tiny(), WORDS, NeuralCache(10, 1.0, 0.0)) == static_nll(tiny(), WORDS)).all()


def test_probabilities_sum_to_one(tiny):
    ends = [np.append(WORDS[:20], word) for word in range(9)]
    last = [cache_nll(tiny(), words, NeuralCache(15, 0.7, 0.3))[-1] for words in ends]
    assert np.exp(-np.array(last)).sum() == pytest.approx(1.0)


def test_a_word_is_not_seen_before_it_is_predicted(tiny):
    changed = WORDS.copy()
    changed[25] = (changed[25] + 1) % 9
    before, after = (cache_nll(tiny(), words, NeuralCache(30, 0.7, 0.3)) for words in (WORDS, changed))
    assert (before[:24] == after[:24]).all()
    assert before[24] != after[24]


def test_tuning_finds_the_best_of_the_grid(tiny):
    thetas = [0.4 * factor for factor in (0.125, 0.25, 0.5, 1, 2, 4)]
    weights = [min(0.3 * factor, 0.95) for factor in (0.25, 0.5, 1, 2, 3, 4)]
    best = tuned_cache(tiny(), WORDS, NeuralCache(20, 0.4, 0.3))
    losses = {(t, w): cache_nll(tiny(), WORDS, NeuralCache(20, t, w)).mean() for t in thetas for w in weights}
    assert losses[best.theta, best.weight] == min(losses.values())


def test_repetition_makes_the_cache_pay(tiny):
    words = np.tile(WORDS[:8], 12)
    static = static_nll(tiny(), words).mean()
    assert cache_nll(tiny(), words, NeuralCache(50, 0.5, 0.5)).mean() < static


@pytest.fixture(scope="module")
def tiny_model():
    from hpobench_nmt.runner.lm.awd_lstm_model import AWDLSTM
    from hpobench_nmt.runner.lm.awd_lstm_settings import ModelSettings

    settings = ModelSettings(layers=1, embedding_size=5, hidden_size=5)
    model = AWDLSTM(9, settings, torch.Generator().manual_seed(4))
    with torch.no_grad():
        model.output_weight.mul_(10)
    return model
