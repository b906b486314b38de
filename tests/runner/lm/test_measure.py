import contextlib
import dataclasses

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.runner.corpora import TextCorpus  # noqa: E402
from hpobench_nmt.runner.family import TrainingFailed  # noqa: E402
from hpobench_nmt.runner.lm.dynamic import UpdateRule, dynamic_nll, gradient_rms  # noqa: E402
from hpobench_nmt.runner.lm.mc_dropout import mc_nll  # noqa: E402
from hpobench_nmt.runner.lm.measure import learning_curve, measure, refuse_chaotic, rule_of  # noqa: E402
from hpobench_nmt.runner.lm.neural_cache import NeuralCache, cache_nll  # noqa: E402
from hpobench_nmt.runner.lm.settings import METRICS, EvaluationSettings  # noqa: E402
from hpobench_nmt.runner.lm.static import bits, perplexity, static_nll  # noqa: E402
from hpobench_nmt.runner.torch_training.loop import TrainingSummary  # noqa: E402
from hpobench_nmt.runner.torch_training.memory import parameter_count  # noqa: E402

WORDS = np.random.default_rng(0).integers(9, size=600)
CORPUS = TextCorpus("toy", "word", tuple("abcdefghi"), WORDS[:400], WORDS[400:500], WORDS[500:], {})
SETTINGS = EvaluationSettings(
    cache_window=30, dynamic_epsilon=0.01, dynamic_learning_rate=0.01, tuning_tokens=0
)


def metrics_of(model, corpus, settings):
    return measure(model, corpus, settings).metrics


def test_each_metric_is_what_its_name_says(tiny):
    model = tiny()
    found = metrics_of(model, CORPUS, SETTINGS)
    rule = UpdateRule("rms-rms-prior", 0.01, 5, SETTINGS.dynamic_decay, 0.01)
    rms = gradient_rms(model, CORPUS.train, SETTINGS.dynamic_batch, 5)
    cache = NeuralCache(30, SETTINGS.cache_theta, SETTINGS.cache_lambda)
    for part in ("dev", "test"):
        words = getattr(CORPUS, part)
        assert found[f"{part}_ppl"] == perplexity(static_nll(model, words))
        assert found[f"{part}_ppl_cache"] == perplexity(cache_nll(model, words, cache))
        assert found[f"{part}_ppl_dynamic"] == perplexity(dynamic_nll(model, words, rule, rms))
    assert found["num_param"] == parameter_count(model)
    assert all(found[name] > 0 for name in ("eval_time", "cache_time", "dynamic_time", "memory"))
    assert set(found) <= {metric.name for metric in METRICS}


def test_probabilities_averaged_over_masks_are_measured_where_asked_for(tiny):
    model = tiny(dropout_input=0.5)
    plain = {"cache_window": 0, "dynamic_rule": "none", "mc_masks": 3, "mc_steps": 20}
    found = metrics_of(model, CORPUS, dataclasses.replace(SETTINGS, **plain))
    for part in ("dev", "test"):
        nll = mc_nll(model, getattr(CORPUS, part), 3, 20, torch.Generator().manual_seed(0))
        assert found[f"{part}_ppl_mc"] == perplexity(nll) != found[f"{part}_ppl"]
    assert found["mc_time"] > 0


@pytest.mark.parametrize("learning_rate", [1e3, 1e30])
def test_dynamic_evaluation_that_diverges_has_no_metrics(tiny, learning_rate):
    chosen = dataclasses.replace(SETTINGS, dynamic_rule="sgd", dynamic_learning_rate=learning_rate)
    found = metrics_of(tiny(), CORPUS, chosen)
    assert not [name for name in found if "dynamic" in name]
    assert found["dev_ppl"] > 1 and found["dev_ppl_cache"] > 1


def test_adaptation_that_rounding_decides_is_refused_and_one_that_only_hurts_is_not(tiny):
    model, tokens = tiny(), np.random.default_rng(0).integers(9, size=2000)
    static = static_nll(model, tokens).mean()
    for learning_rate, chaotic in ((6.0, False), (12.0, True)):
        rule = UpdateRule("sgd", learning_rate)
        adapted = dynamic_nll(model, tokens, rule)
        assert static < adapted.mean()
        refused = pytest.raises(TrainingFailed, match="chaotic") if chaotic else contextlib.nullcontext()
        with refused:
            refuse_chaotic(model, tokens, rule, None, static, adapted)


def test_a_tuned_learning_rate_that_diverges_is_halved(tiny):
    model, sgd = tiny(), dataclasses.replace(SETTINGS, dynamic_rule="sgd", dynamic_learning_rate=32.0)
    # The first update comes after the fifth token, so that all rates are alike in these six.
    found = measure(model, CORPUS, dataclasses.replace(sgd, tuning_tokens=6))
    assert dynamic_nll(model, CORPUS.dev, UpdateRule("sgd", 16.0)).mean() > 2 * np.log(9)
    assert found.tuned["dynamic_learning_rate"] == 8.0
    assert "dev_ppl_dynamic" not in metrics_of(model, CORPUS, sgd)  # used as it is where nothing is tuned


def test_test_has_no_say_in_what_is_measured_on_dev(tiny):
    # The first update comes after the fifth token, so that dev never sees one.
    corpus = dataclasses.replace(CORPUS, dev=CORPUS.dev[:6])
    found = metrics_of(
        tiny(), corpus, dataclasses.replace(SETTINGS, dynamic_rule="sgd", dynamic_learning_rate=1e30)
    )
    assert found["dev_ppl_dynamic"] == found["dev_ppl"]
    assert "test_ppl_dynamic" not in found


@pytest.mark.parametrize("decay", [0.0, 0.3, 0.6, 1.0])
def test_any_decay_can_be_tuned_from(tiny, decay):
    chosen = dataclasses.replace(SETTINGS, dynamic_decay=decay, tuning_tokens=50)
    assert metrics_of(tiny(), CORPUS, chosen)["dev_ppl_dynamic"] > 1


def test_a_batch_larger_than_the_text_is_the_configurations_fault(tiny):
    with pytest.raises(TrainingFailed, match="400 tokens are too few for gradients of batches of 5000"):
        metrics_of(tiny(), CORPUS, dataclasses.replace(SETTINGS, dynamic_batch=5000))


def test_characters_are_measured_in_bits(tiny):
    model = tiny()
    found = metrics_of(model, dataclasses.replace(CORPUS, unit="character"), SETTINGS)
    assert found["dev_bpc"] == bits(static_nll(model, CORPUS.dev))
    assert not [name for name in found if "ppl" in name]
    training = TrainingSummary(({"update": 5, "dev_ppl": 8.0},), 5, 5, 1.0)
    characters = dataclasses.replace(CORPUS, unit="character")
    assert learning_curve(characters, training) == [{"update": 5, "dev_bpc": 3.0}]
    assert learning_curve(CORPUS, training) == [{"update": 5, "dev_ppl": 8.0}]


def test_segments_are_of_5_words_or_20_characters_unless_the_settings_say():
    characters = dataclasses.replace(CORPUS, unit="character")
    assert [rule_of(SETTINGS, corpus).segment for corpus in (CORPUS, characters)] == [5, 20]
    assert rule_of(dataclasses.replace(SETTINGS, dynamic_segment=7), characters).segment == 7


def test_what_is_not_asked_for_is_not_measured(tiny):
    found = metrics_of(tiny(), CORPUS, dataclasses.replace(SETTINGS, cache_window=0, dynamic_rule="none"))
    assert sorted(found) == ["dev_ppl", "eval_time", "memory", "num_param", "test_ppl"]


@pytest.mark.parametrize("rule", ["sgd", "sgd-prior", "rms-rms-prior", "sparse"])
def test_tuning_is_on_dev_and_never_makes_it_worse(tiny, rule):
    model = tiny()
    # All of dev, so that what is tuned is what is measured. The values to start from are bad ones.
    settings = dataclasses.replace(SETTINGS, dynamic_rule=rule, dynamic_learning_rate=0.3, cache_lambda=0.5)
    before = metrics_of(model, CORPUS, settings)
    after = metrics_of(model, CORPUS, dataclasses.replace(settings, tuning_tokens=100))
    for name in ("dev_ppl_cache", "dev_ppl_dynamic"):
        assert after[name] < before[name]
    assert after["dev_ppl"] == before["dev_ppl"]


def test_the_values_that_tuning_chose_are_told_and_give_the_same_metrics(tiny):
    model = tiny()
    settings = dataclasses.replace(SETTINGS, dynamic_rule="sgd", dynamic_learning_rate=32.0, tuning_tokens=6)
    found = measure(model, CORPUS, settings)
    assert set(found.tuned) == {"cache_theta", "cache_lambda", "dynamic_learning_rate", "dynamic_decay"}
    again = metrics_of(model, CORPUS, dataclasses.replace(settings, **found.tuned | {"tuning_tokens": 0}))
    for name in ("dev_ppl_cache", "test_ppl_cache", "dev_ppl_dynamic", "test_ppl_dynamic"):
        assert again[name] == found.metrics[name]
    assert measure(model, CORPUS, SETTINGS).tuned == {}
