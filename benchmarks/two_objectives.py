"""Two objectives: front rows and share of the hypervolume after 60 look-ups, also with diverged losses.

    python benchmarks/two_objectives.py [--trials 10] [METHOD ...]

METHOD is any method of two objectives, by default `BO_M_std` and `BO_auto`. The tables are sotu-awd-lstm and
the published ones that are installed. In the lines "diverged", 5% of sotu-awd-lstm's rows have 20 to 50 times
their perplexity: other rows in each trial, and none of the front.
"""

from __future__ import annotations

import argparse

import numpy as np
from moocore import hypervolume

from hpobench_nmt.benchmarking.plugins import resolve_methods
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.core.problem import MethodFactory, Problem
from hpobench_nmt.core.seeds import initial_rows, method_generator
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.lookup.catalogue import installed, load_table
from hpobench_nmt.lookup.table import Table

LOOKUPS, N_INITIAL = 60, 3
TABLES = ("sotu-awd-lstm", "zh-en", "ru-en", "ja-en", "en-ja", "sw-en", "so-en")
REFERENCE = 1.1  # in every loss, scaled from 0 at the ideal to 1 at the nadir of the front


def diverged(losses: Floats, front: set[int], seed: int) -> Floats:
    """The losses with a twentieth of the first one 20 to 50 times as large."""
    rng = np.random.default_rng(seed)
    others = [row for row in range(len(losses)) if row not in front]
    bad = rng.choice(others, len(losses) // 20, replace=False)
    changed = losses.copy()
    changed[bad, 0] *= rng.uniform(20, 50, len(bad))
    return changed


def measure(table: Table, name: str, method: MethodFactory, trials: int, bad: bool) -> tuple[float, float]:
    """Mean number of front rows found, and mean share of the hypervolume, of the losses as they are."""
    losses = table.losses(table.objectives[:2])
    rows = pareto_front(losses)
    ideal, nadir = losses[rows].min(axis=0), losses[rows].max(axis=0)
    scaled = (losses - ideal) / (nadir - ideal)
    total = hypervolume(scaled[rows], ref=REFERENCE)
    lookups = min(LOOKUPS, len(table))
    problem = Problem(table.features, 2, lookups, N_INITIAL, table.space, table.configs)
    found, shares = [], []
    for trial in range(trials):
        told = diverged(losses, set(rows.tolist()), trial) if bad else losses
        first = initial_rows(0, table.name, trial, len(table), N_INITIAL)
        rng = method_generator(0, table.name, name, trial)
        asked = run_trial(problem, Trainings.whole(told), method, rng, first).rows[:lookups]
        complete = scaled[asked][~np.isnan(scaled[asked]).any(axis=1)]
        found.append(len(np.intersect1d(asked, rows)))
        shares.append(hypervolume(complete, ref=REFERENCE) / total)
    return float(np.mean(found)), float(np.mean(shares))


def main() -> None:
    """Print a line per table and method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("methods", nargs="*", default=("BO_M_std", "BO_auto"), metavar="METHOD")
    parser.add_argument("--trials", type=int, default=10)
    options = parser.parse_args()
    methods = {m.name: m.load() for m in resolve_methods(list(options.methods))}
    for bad, name in [(True, TABLES[0]), *((False, name) for name in TABLES if name in installed())]:
        table = load_table(name)
        size = len(pareto_front(table.losses(table.objectives[:2])))
        for method, factory in methods.items():
            found, share = measure(table, method, factory, options.trials, bad)
            kind = " diverged" if bad else ""
            print(
                f"{name + kind:24s} {method:12s} {found:5.1f} of {size:2d} front rows  {share:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
