"""Decoding of one translation model: a tiny one is trained once, and decoded in many ways."""

import dataclasses

import pytest

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.families import load_family
from hpobench_nmt.runner.family import Job

FAMILY = load_family("decoding")
if FAMILY.missing():
    pytest.skip(f"needs: {FAMILY.missing()}", allow_module_level=True)

from hpobench_nmt.runner.nmt.decoding import least_risk  # noqa: E402
from hpobench_nmt.runner.nmt.pairwise_scores import pairwise_scores  # noqa: E402

# For tests/runner/test_every_family.py.
SPEC = """
objectives = ["dev_bleu", "positions"]
[grid]
strategy = ["beam", "mbr"]
[fixed]
num_layers = 1
learning_rate = 0.02
bpe_symbols = 30
num_embed = 32
num_hidden = 48
num_heads = 2
max_length = 20
batch_size = 400
dropout = 0
checkpoint_interval = 20
max_updates = 80
samples = 2
"""
CORPUS = {"name": "parallel", "source": "de", "target": "en"} | {
    f"{part}_{side}": f"{part}.{side}" for part in ("train", "dev", "test") for side in ("source", "target")
}
TINY = {
    "bpe_symbols": 35,
    "num_layers": 1,
    "num_embed": 32,
    "num_hidden": 48,
    "num_heads": 2,
    "learning_rate": 0.01,
    "max_length": 20,
    "batch_size": 400,
    "dropout": 0.0,
    "checkpoint_interval": 20,
    "max_updates": 120,
}


@pytest.fixture(scope="module")
def base(tmp_path_factory, parallel_files):
    folder = tmp_path_factory.mktemp("corpus")
    parallel_files(folder)
    return folder


@pytest.fixture(scope="module")
def metrics(base):
    """The metrics of a configuration; all configurations of a seed share a model."""

    def of(seed=5, **changes):
        job = Job(FAMILY.settings(**TINY | changes), seed, CORPUS, base, base / "cache", base, "cpu")
        found = dict(FAMILY.train(job).metrics)
        del found["dev_cpu_time"]
        return found

    return of


def weights(base):
    return sorted(path.parent.name for path in (base / "cache" / "models").rglob("weights.pt"))


def test_one_model_serves_all_configurations_of_a_seed(metrics, base):
    first = metrics()
    (model,) = weights(base)
    assert set(first) == {metric.name for metric in FAMILY.metrics} - {"dev_cpu_time"}
    assert 50 < first["dev_bleu"] <= 100
    assert 0.7 < first["length_ratio"] < 1.4
    assert first["num_updates"] == 120
    assert metrics() == first
    assert metrics(averaged=6)["dev_chrf"] != first["dev_chrf"]
    assert weights(base) == [model]
    assert metrics(seed=6)["dev_chrf"] != first["dev_chrf"]
    assert len(weights(base)) == 2
    assert FAMILY.seed(FAMILY.settings(**TINY, model_seed=5), 1) == 6


def test_positions_count_every_hypothesis(metrics, base):
    greedy = metrics(beam_size=1)
    words = sum(len(line.split()) + 1 for line in (base / "dev.target").read_text().splitlines())
    assert greedy["positions"] == pytest.approx(words, rel=0.3)  # most words are one subword
    assert metrics(beam_size=3)["positions"] == pytest.approx(3 * greedy["positions"], rel=0.2)
    certain = {"strategy": "mbr", "top_p": 0.01}  # every sample is the greedy translation, even near a tie
    samples = metrics(**certain, samples=4)
    assert samples["positions"] == 4 * greedy["positions"]
    assert samples["dev_bleu"] == greedy["dev_bleu"]
    half = metrics(beam_size=1, sentences=10)
    assert 0 < half["positions"] < greedy["positions"]


def test_limits_and_penalties_change_translations(metrics):
    usual = metrics()
    assert metrics(limit=0.1)["length_ratio"] < usual["length_ratio"]
    assert metrics(no_repeat=1)["dev_chrf"] != usual["dev_chrf"]
    assert metrics(repetition_penalty=5.0)["dev_chrf"] != usual["dev_chrf"]
    assert (
        metrics(repetition_penalty=5.0, length_penalty=10.0)["positions"]
        >= metrics(repetition_penalty=5.0, length_penalty=0.0)["positions"]
    )


def test_samples_are_the_same_each_time_and_depend_on_their_settings(metrics):
    hot = {"strategy": "mbr", "samples": 4, "temperature": 2.0}
    first = metrics(**hot)
    assert metrics(**hot) == first
    assert metrics(**hot, top_p=0.3)["dev_chrf"] != first["dev_chrf"]
    assert metrics(**hot | {"samples": 16})["dev_bleu"] > first["dev_bleu"]


def test_the_translation_of_least_risk_is_most_like_the_others():
    scores = pairwise_scores("chrf", "13a")
    assert least_risk(["a cat sat", "the cat sat", "the cat sits", "dogs"], scores) == "the cat sat"
    assert least_risk(["one", "two", "two"], scores) == "two"
    assert pairwise_scores("bleu", "13a")(["the cat sat here"]) == [[pytest.approx(100)]]


def test_settings_that_average_in_training_are_refused():
    settings = FAMILY.settings(**TINY)
    for changes in ({"ema": 0.9}, {"average": 2}, {"workers": 2}):
        with pytest.raises(InputError, match="without ema, average and workers"):
            FAMILY.check(dataclasses.replace(settings, **changes))
