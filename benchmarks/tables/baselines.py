"""The baselines of tables: models of another kind on the same data, as a section of a spec.

    python benchmarks/tables/baselines.py tables/*/spec.toml

A language model should beat n-gram models (Kneser & Ney 1995) with the same vocabulary: the best of orders 3
to 5 and five discounts on dev. A translation model should beat a translation memory: the target of the source
in train that is nearest by the cosine of tf-idf weights of 2 to 4 characters.
"""

import itertools
import sys
from pathlib import Path

import numpy as np
import tomli_w
from scipy.sparse import csr_array

sys.path.append(str(Path(__file__).parents[2] / "examples"))
import ngram_table

from hpobench_nmt.lookup.user_folders import training_cache
from hpobench_nmt.runner.corpora import ParallelCorpus, TextCorpus
from hpobench_nmt.runner.corpora.load import load_corpus
from hpobench_nmt.runner.nmt.text_scores import bleu
from hpobench_nmt.runner.specs.spec_file import load_spec

MODELS = list(itertools.product((3, 4, 5), (0.5, 0.65, 0.8, 0.9, 0.95)))  # order and discount
SCRIPT = "benchmarks/tables/baselines.py"
LENGTHS = (2, 3, 4)  # of the strings of characters by which sources are compared


def kneser_ney(train: ngram_table.Text, dev: ngram_table.Text, words: int) -> tuple[float, str]:
    """The best dev perplexity of the models, and the description of the best model."""
    ngram_table.N_WORDS = words
    found = {}
    for order, discount in MODELS:
        levels = ngram_table.train(train, order, discount)
        ppl = ngram_table.perplexity(ngram_table.model_probabilities(levels, dev))
        found[ppl] = f"{order} tokens and discount {discount}"
    return min(found), found[min(found)]


def of_language_models(corpus: TextCorpus) -> tuple[str, str, float, str]:
    """Name, metric, value and description of the baseline on a corpus of words or subwords."""
    train, dev = (ngram_table.join([[t + 1 for t in part.tolist()]]) for part in (corpus.train, corpus.dev))
    value, best = kneser_ney(train, dev, len(corpus.vocabulary))
    return "a Kneser-Ney model", "dev_ppl", value, f"{best}, the best of {len(MODELS)} on dev"


def weights(lines: list[str], known: dict[str, int]) -> csr_array:
    """Counts of the strings of each line, shape (lines, strings). New strings are added to `known`."""
    places, columns = [], []
    for place, line in enumerate(lines):
        text = f" {line.lower()} "
        for length in LENGTHS:
            for start in range(len(text) - length + 1):
                places.append(place)
                columns.append(known.setdefault(text[start : start + length], len(known)))
    return csr_array((np.ones(len(places)), (places, columns)), shape=(len(lines), len(known)))


def of_translation(corpus: ParallelCorpus, sentences: int | None) -> tuple[str, str, float, str]:
    """The same for a parallel corpus. If `sentences` is given, only that many of dev count."""
    sources, references = (list(side)[:sentences] for side in corpus.dev)
    known: dict[str, int] = {}
    train = weights(list(corpus.train[0]), known)
    strings = train.shape[1]
    dev = weights(sources, known)[:, :strings]
    rarity = np.log(len(corpus.train[0]) / (train > 0).sum(axis=0)) + 1
    scaled = [part.log1p().multiply(rarity[None, :]).tocsr() for part in (train, dev)]
    train, dev = (part.multiply(1 / np.sqrt(part.power(2).sum(axis=1))[:, None]).tocsr() for part in scaled)
    nearest = np.concatenate(
        [(dev[i : i + 100] @ train.T).toarray().argmax(axis=1) for i in range(0, dev.shape[0], 100)]
    )
    found = bleu([corpus.train[1][i] for i in nearest], references, "13a")
    how = f"the target of the nearest source in train, by tf-idf of {LENGTHS[0]} to {LENGTHS[-1]} characters"
    return "a translation memory", "dev_bleu", found, how


def main() -> None:
    """Print the section of each spec."""
    for path in map(Path, sys.argv[1:]):
        spec = load_spec(path)
        corpus = load_corpus(spec.corpus, spec.base, training_cache())
        if isinstance(corpus, ParallelCorpus):
            name, metric, value, how = of_translation(corpus, spec.fixed.get("sentences"))
        else:
            name, metric, value, how = of_language_models(corpus)
        keys = {"name": name, "metric": metric, "value": round(value, 1), "how": f"{how} ({SCRIPT})"}
        print(f"# {path}\n{tomli_w.dumps({'baseline': keys})}", flush=True)


if __name__ == "__main__":
    main()
