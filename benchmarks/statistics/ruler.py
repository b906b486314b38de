"""A ruler whose true figure is known: is it measured as it should be, and shown as often as predicted?

    python benchmarks/statistics/ruler.py [--boards 4000] [--trials 20] [--seed 0]

For rulers that peek at 1.3, 1.5 and 2 rows for each look-up (simulated_boards.py): the range of the true
ratio over tables and the true figure, the bias of the mean log r, and the coverage of the interval. Then for
both verdicts the share of boards with p < 0.05 and the predicted share: on the first table alone, and over
eight families (eight tables counted as families of their own) of five trials each. The predictions use the
mean squared standard error over boards.
"""

from __future__ import annotations

import argparse
from fractions import Fraction

import numpy as np
from scipy.special import nctdtr, stdtrit
from simulated_boards import FAMILIES, losses_of, starts_on

from hpobench_nmt.evaluation.figure import times_fewer
from hpobench_nmt.evaluation.power import power
from hpobench_nmt.evaluation.verdicts import on_other_families, on_these_tables

FEW = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--boards", type=int, default=4000)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    rng, families = np.random.default_rng(asked.seed), list(FAMILIES.values())
    tables = [starts_on(losses_of(table), asked.boards, asked.trials, rng) for table in FAMILIES]
    references = [table.random_search() for table in tables]
    for share in (Fraction(13, 10), Fraction(3, 2), Fraction(2)):
        true = np.array(
            [np.log(g.mean() / t.ruler(share).mean()) for t, g in zip(tables, references, strict=True)]
        )
        runtimes = [table.runtimes(rng, 1, share)[0] for table in tables]
        weights = np.array([1 / families.count(family) for family in families])
        log = np.average(true, weights=weights)
        figure = times_fewer(runtimes, references, families)
        low, high = figure.interval
        covered = (low <= np.exp(log)) & (high >= np.exp(log))
        print(f"c = {float(share)}: true {np.exp(true.min()):.3f} to {np.exp(true.max()):.3f}", end=", ")
        print(f"figure {np.exp(log):.3f}; bias {figure.log.mean() - log:+.2%}, covered {covered.mean():.2%}")

        one = times_fewer(runtimes[:1], references[:1], ["one"])
        shown = [on_these_tables(one, board).p < 0.05 for board in range(asked.boards)]
        degrees, shift = asked.trials - 1, true[0] / np.sqrt((one.se**2).mean())
        predicted = 1 - nctdtr(degrees, shift, stdtrit(degrees, 0.975))
        print(f"   one table, {asked.trials} trials: shown {np.mean(shown):.1%}, predicted {predicted:.1%}")

        few = [t[:, :FEW] for t in runtimes[:8]], [g[:, :FEW] for g in references[:8]]
        logs = times_fewer(*few, list(FAMILIES)[:8]).family_logs
        shown = [on_other_families(board).p < 0.05 for board in logs.T]
        sd = np.sqrt(logs.var(axis=0, ddof=1).mean())
        predicted = power(float(np.exp(true[:8].mean())), 8, sd)
        print(f"   eight families, {FEW} trials: shown {np.mean(shown):.1%}, predicted {predicted:.1%}")


if __name__ == "__main__":
    main()
