"""Whether a table can distinguish methods: the rules that decide whether it belongs in a track.

    python benchmarks/tables/table_rules.py lohelp-alignment sotu-ngram [--objective dev_ppl] [--samples 2000]

A table is a name or a folder. It needs

- 50 rows or more;
- no control (methods/controls.py) that is more than 2.5 times as fast as random search, by its whole
  interval. A trial sees a random 60% of the rows, and looks up at most 100 of these;
- R2 of 0.1 or more, of forests on rows left out in five folds, for normal scores of the first objective.
  Rows without a value have the last rank;
- at most 10% of its rows within one standard deviation between seeds of the best row, if it is known.

A new table also needs a row that beats its baseline. How fast the order of the file is on the whole table is
printed as well.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from hpobench_nmt.analysis.tables.controls import (
    LEAST_R2,
    MOST_CONTROL,
    SAMPLES,
    in_words,
    times_fewer,
    too_fast,
)
from hpobench_nmt.benchmarking.task.instance import Instance, make_instance
from hpobench_nmt.benchmarking.task.suite import Suite, changed
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.evaluation.importance import predictable_share
from hpobench_nmt.evaluation.noise import seed_noise
from hpobench_nmt.lookup.baselines import baseline_of, rows_that_beat
from hpobench_nmt.lookup.catalogue import load_table
from hpobench_nmt.lookup.disk.folder import load_folder
from hpobench_nmt.lookup.table import Table

FEWEST_ROWS, MOST_NEAR = 50, 0.1
NONE_BEATS = "no row beats the baseline"


class FileOrder:
    """Looks up the rows in the order of the file."""

    def __init__(self, problem: Problem, rng: np.random.Generator) -> None:
        self._left: dict[int, None] = dict.fromkeys(range(len(problem.features)))

    def ask(self) -> int:
        return next(iter(self._left))

    def tell(self, index: int, losses: Floats) -> None:
        del self._left[index]


@dataclass(frozen=True)
class Figures:
    """What the rules ask of a table. `near` is the share of its rows near the best; NaN if it is unknown."""

    rows: int
    controls: pd.DataFrame
    r2: float
    near: float
    beats_baseline: bool

    def __str__(self) -> str:
        near = "unknown" if np.isnan(self.near) else f"{self.near:.1%}"
        beaten = "" if self.beats_baseline else f"; {NONE_BEATS}"
        return f"{self.rows} rows; {in_words(self.controls)}; R2 {self.r2:.2f}; near the best: {near}{beaten}"

    def failures(self, fewest_rows: int = FEWEST_ROWS) -> list[str]:
        """Each rule that fails, in words."""
        failed = [f"{control} above {MOST_CONTROL}" for control in too_fast(self.controls)]
        failed += [f"fewer than {fewest_rows} rows"] * (self.rows < fewest_rows)
        failed += [f"R2 below {LEAST_R2}"] * (self.r2 < LEAST_R2)
        return failed + [f"more than {MOST_NEAR:.0%} near the best"] * (self.near > MOST_NEAR)


def figures_of(suite: Suite, table: Table) -> Figures:
    """The figures of a table in a suite, whose trials are samples. InputError if the suite cannot use it."""
    instance = make_instance(suite, table)
    controls, baseline = times_fewer(suite, table), baseline_of(table.claims)
    r2 = predictable_share(instance.table.features, instance.losses[:, 0])
    beats = baseline is None or rows_that_beat(table, baseline) > 0
    return Figures(len(instance.table), controls, r2, share_near_best(instance), beats)


def share_near_best(instance: Instance) -> float:
    """The share of the rows within one deviation between seeds of the best; NaN if it is unknown."""
    again = instance.table.replicates
    if again is None:
        return np.nan
    response = instance.table.response(str(instance.objectives[0]))
    try:
        found = seed_noise(response, again.to_frame(), again.averaged)
    except InputError:  # all repeated trainings failed
        return np.nan
    deviation = found.pooled.sd / found.averaged_over**0.5
    return float((found.ranked["gap"] <= deviation).sum() / len(instance.table))


def main() -> None:
    """Print the figures of each table, and the rules that fail."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="+")
    parser.add_argument("--objective", help="default: the first of each table")
    parser.add_argument("--samples", type=int, default=2000)
    given = parser.parse_args()
    suite = changed(SAMPLES, trials=given.samples, objectives=[given.objective] if given.objective else [])
    for name in given.tables:
        table = load_folder(Path(name)) if Path(name).is_dir() else load_table(name)
        figures, whole = figures_of(suite, table), changed(suite, sample=None)
        failed = [*figures.failures(), *[NONE_BEATS] * (not figures.beats_baseline)]
        print(f"{table.name}: {', '.join(failed) or 'fits a track'}\n  {figures}")
        print(f"  {in_words(times_fewer(whole, table, [FileOrder]))}", flush=True)


if __name__ == "__main__":
    main()
