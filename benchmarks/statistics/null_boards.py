"""Leaderboards of four copies of random search: how often are they shown to differ?

    python benchmarks/statistics/null_boards.py [--boards 10000] [--trials 20] [--seed 0]

Prints the coverage of the figure's 95% interval, and how often its limits are on the wrong side of 1. Then,
for each verdict, how often a copy differs from random search with p < 0.05, how often two copies differ from
each other, and how often any of the four copies differs, without a correction and with Benjamini and
Hochberg's. All of these should be 5%, apart from any copy without a correction.
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np
from simulated_boards import FAMILIES, losses_of, starts_on

from hpobench_nmt.core.arrays import Bools, Floats
from hpobench_nmt.evaluation.figure import Figure, times_fewer
from hpobench_nmt.evaluation.verdicts import benjamini_hochberg, on_other_families, on_these_tables

COPIES = 4


def p_values(figure: Figure, boards: int) -> dict[str, Floats]:
    """p of both verdicts, shape (boards, comparisons)."""
    numbers = range(len(figure.log))
    here = [on_these_tables(figure, i).p for i in numbers]
    other = [on_other_families(figure.family_logs[:, i]).p for i in numbers]
    return {
        "on these tables": np.reshape(here, (-1, boards)).T,
        "on other families": np.reshape(other, (-1, boards)).T,
    }


def share(cases: Bools) -> str:
    return f"{cases.mean():.2%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--boards", type=int, default=10_000)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    rng = np.random.default_rng(asked.seed)
    runtimes, references = [], []
    for table in FAMILIES:
        starts = starts_on(losses_of(table), asked.boards, asked.trials, rng)
        runtimes.append(starts.runtimes(rng, COPIES))
        references.append(starts.random_search())
    families = list(FAMILIES.values())
    flat = [t.reshape(-1, asked.trials) for t in runtimes]
    figure = times_fewer(flat, [np.tile(g, (COPIES, 1)) for g in references], families)
    low, high = figure.interval
    print(f"{asked.boards} boards of {COPIES} copies, {len(FAMILIES)} tables, {asked.trials} trials")
    print(f"mean log r {figure.log.mean():+.4f}; the interval is above 1 in {share(low > 1)},", end=" ")
    print(f"below in {share(high < 1)}, and covers 1 in {share((low <= 1) & (high >= 1))}")
    pairs = np.array(list(itertools.combinations(range(COPIES), 2)))
    one, two = ([t[pairs[:, side]].reshape(-1, asked.trials) for t in runtimes] for side in (0, 1))
    of_pairs = p_values(times_fewer(one, two, families), asked.boards)
    for verdict, p in p_values(figure, asked.boards).items():
        corrected = np.array([benjamini_hochberg(board) for board in p])
        print(f"{verdict}: each copy", *(share(copy < 0.05) for copy in p.T), end="; ")
        print(
            f"pairs {share(of_pairs[verdict] < 0.05)}; any copy {share(np.any(p < 0.05, axis=1))},", end=" "
        )
        print(f"corrected {share(np.any(corrected < 0.05, axis=1))}")


if __name__ == "__main__":
    main()
