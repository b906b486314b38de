"""Does the slope of a learning curve tell how a training ends, beyond its loss so far?

    hpobench-nmt tables fetch nmthpo && hpobench-nmt tables fetch nmtlc && hpobench-nmt tables fetch taskset
    python benchmarks/methods/curve_slopes.py

At each level of `BO_levels` but the first and the last, losses are replaced by the normal scores of their
ranks, as in its model. A line has the shares of the variance of the last level's scores that a linear
regression on the level's scores explains, and one on the scores of this level and of the level before, which
knows the slope as well.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from development_tables import families
from early_stopping import TABLES

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.lookup.catalogue import load_table
from hpobench_nmt.methods.early.partial_training import training_levels
from hpobench_nmt.methods.level_gaussian_process import ETA
from hpobench_nmt.methods.surrogates.warping import normal_scores


def scores_of(name: str) -> Floats:
    """Normal scores of a table's rows at each level, shape (N, I)."""
    table = load_table(name)
    assert table.curves is not None
    held = [metric.name for metric in table.curves.metrics]
    trainings = table.trainings([table.main_metric if table.main_metric in held else held[0]])
    resources = np.unique(trainings.resources)
    levels = training_levels(Problem(table.features, 1, len(table), 0, resources=resources), ETA)
    losses = np.empty((len(table), len(levels)))
    for row in range(len(table)):
        own = slice(trainings.starts[row], trainings.starts[row + 1])
        best = np.fmin.accumulate(trainings.losses[own, 0])
        losses[row] = best[np.minimum(trainings.resources[own].searchsorted(levels), len(best) - 1)]
    losses = np.where(np.isnan(losses), np.inf, losses)
    return np.column_stack([normal_scores(column) for column in losses.T])


def explained(known: Floats, last: Floats) -> float:
    """Share of the variance of `last`, shape (N,), that a linear regression on `known`, (N, k), explains."""
    design = np.column_stack([np.ones(len(last)), known])
    rest = last - design @ np.linalg.lstsq(design, last, rcond=None)[0]
    return 1.0 - float(rest.var() / last.var())


def main() -> None:
    """Print a line per table."""
    gains = []
    for name in [*TABLES, *families()["taskset"]]:
        scores = scores_of(name)
        pairs = [
            (explained(scores[:, [i]], scores[:, -1]), explained(scores[:, [i - 1, i]], scores[:, -1]))
            for i in range(1, scores.shape[1] - 1)
        ]
        gains += [both - one for one, both in pairs]
        print(f"{name:28}" + "  ".join(f"{one:.2f} to {both:.2f}" for one, both in pairs))
    middle, large = np.quantile(gains, [0.5, 0.9])
    print(f"gain by the slope: median {middle:.3f}, at most {large:.3f} in nine of ten")


if __name__ == "__main__":
    main()
