"""Two objectives: front rows and share of the hypervolume after 60 look-ups, also with diverged losses.

    pip install -e '.[botorch]'   # for botorch.LogEHVI
    hpobench-nmt tables fetch nmthpo
    python benchmarks/methods/two_objectives.py [--trials 10] [--methods BO_auto,BO_M_std,botorch.LogEHVI]

The first method is compared with the others: trials on a table by a test that flips signs, with Holm's
correction over tables. The tables are the shipped tables with two objectives, and the six of nmthpo if they
are installed. In the lines "diverged", the first loss of 5% of the rows is multiplied by 20 to 50. These rows
differ between trials, and are never on the front.
"""

from __future__ import annotations

import argparse

import numpy as np
from moocore import hypervolume

from hpobench_nmt.benchmarking.contestants.plugins import resolve_methods
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.core.problem import MethodFactory, Problem
from hpobench_nmt.core.seeds import initial_rows, method_generator
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.evaluation.comparisons import holm, sign_flips
from hpobench_nmt.lookup.catalogue import installed, load_table
from hpobench_nmt.lookup.table import Table

LOOKUPS, N_INITIAL = 60, 3
SHIPPED = ("sotu-awd-lstm", "sotu-ngram", "lohelp-de-en")
TABLES = (*SHIPPED, "zh-en", "ru-en", "ja-en", "en-ja", "sw-en", "so-en")
DIVERGED = SHIPPED[:2]
REFERENCE = 1.1  # in every loss, scaled from 0 at the ideal to 1 at the nadir of the front


def diverged(losses: Floats, front: set[int], seed: int) -> Floats:
    """The losses, with the first loss of a twentieth of the rows multiplied by 20 to 50."""
    rng = np.random.default_rng(seed)
    others = [row for row in range(len(losses)) if row not in front]
    bad = rng.choice(others, len(losses) // 20, replace=False)
    changed = losses.copy()
    changed[bad, 0] *= rng.uniform(20, 50, len(bad))
    return changed


def measure(table: Table, name: str, method: MethodFactory, trials: int, bad: bool) -> Floats:
    """Front rows found, and share of the hypervolume of the unchanged losses, shape (trials, 2)."""
    losses = table.losses(table.objectives[:2])
    rows = pareto_front(losses)
    ideal, nadir = losses[rows].min(axis=0), losses[rows].max(axis=0)
    scaled = (losses - ideal) / (nadir - ideal)
    total = hypervolume(scaled[rows], ref=REFERENCE)
    lookups = min(LOOKUPS, len(table))
    problem = Problem(table.features, 2, lookups, N_INITIAL, table.space, table.configs)
    found = []
    for trial in range(trials):
        told = diverged(losses, set(rows.tolist()), trial) if bad else losses
        first = initial_rows(0, table.name, trial, len(table), N_INITIAL)
        rng = method_generator(0, table.name, name, trial)
        trajectory = run_trial(problem, Trainings.whole(told), method, rng, first)
        if trajectory.failure:
            raise SystemExit(f"{name} on {table.name}: {trajectory.failure}")
        asked = trajectory.rows[:lookups]
        complete = scaled[asked][~np.isnan(scaled[asked]).any(axis=1)]
        share = hypervolume(complete, ref=REFERENCE) / total
        found.append([len(np.intersect1d(asked, rows)), share])
    return np.array(found)


def main() -> None:
    """Print a line per table and method, then means and comparisons."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--methods", default="BO_auto,BO_M_std,botorch.LogEHVI")
    parser.add_argument("--trials", type=int, default=10)
    options = parser.parse_args()
    methods = {m.name: m.load() for m in resolve_methods(options.methods.split(","))}
    cases = [(True, name) for name in DIVERGED] + [(False, name) for name in TABLES if name in installed()]
    shares = np.empty((len(methods), len(cases), options.trials))
    for j, (bad, name) in enumerate(cases):
        table = load_table(name)
        size = len(pareto_front(table.losses(table.objectives[:2])))
        for i, (method, factory) in enumerate(methods.items()):
            found = measure(table, method, factory, options.trials, bad)
            shares[i, j] = found[:, 1]
            rows, share = found.mean(axis=0)
            kind = " diverged" if bad else ""
            print(
                f"{name + kind:24s} {method:16s} {rows:5.1f} of {size:2d} front rows  {share:.3f}", flush=True
            )
    clean = [j for j, (bad, _) in enumerate(cases) if not bad]
    for method, own in zip(methods, shares, strict=True):
        print(f"{method:16s} {own[clean].mean():.3f} in the mean of {len(clean)} tables")
    for method, own in list(zip(methods, shares, strict=True))[1:]:
        gains = shares[0] - own
        shown = holm(sign_flips(gains)) < 0.05
        ahead, behind = shown & (gains.mean(axis=1) > 0), shown & (gains.mean(axis=1) < 0)
        names = [name for (_, name), worse in zip(cases, behind, strict=True) if worse]
        where = ", ".join(names) or "none"
        print(f"{next(iter(methods))} against {method}: shown ahead on {ahead.sum()}, behind on {where}")


if __name__ == "__main__":
    main()
