"""How many trainings of a large model does knowing a small one save? The figures of the suite `scale`.

    hpobench-nmt tables fetch steplaw     # and algoperf, and nmthpo
    hpobench-nmt run scale --out results/scale
    python benchmarks/methods/small_to_large.py results/scale [--against BO_auto]

Prints for each table that has a source, from the configurations that both have:

- zero-shot, exact: the regret of the source's best configuration, in the objective's unit and as a share of
  the way from the best row to the median row, and its rank;
- trainings until a row is within the tolerance of the best, capped at the suite's look-ups: of random search
  (exact) and of --against, and how many trainings each method saves compared with --against, with a 95%
  interval over trials;
- the regret after the suite's `score_at` look-ups, in the same way;
- the cost of training the whole source, in trainings of the target: by 6 N D for Step Law tables, otherwise
  by seconds. If the source was trained anyway, a method's saving is a net gain. Otherwise the saving must
  exceed this cost.

Intervals are percentile bootstrap intervals over trials, with fixed tables. The pairs are too few for a test.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import numpy as np

from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.benchmarking.records.store import load_results
from hpobench_nmt.benchmarking.task.instance import Instance, with_transfer_tables
from hpobench_nmt.benchmarking.task.scoring import score_of
from hpobench_nmt.benchmarking.task.target import budget_of, random_search_within
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.evaluation.restricted import runtime_within
from hpobench_nmt.lookup.catalogue import load_table

RESAMPLES = 10_000
_SIZES = re.compile(r"steplaw-([\d.]+)m-([\d.]+)b")


def tokens_times_parameters(name: str) -> float:
    """N D of a table of dense Step Law models, from its name; NaN for other tables."""
    found = _SIZES.fullmatch(name)
    return float(found[1]) * float(found[2]) if found else np.nan


def source_price(target: str, source: str, rows: int) -> float:
    """The cost of `rows` trainings of the source, in trainings of the target."""
    price = tokens_times_parameters(source) / tokens_times_parameters(target)
    if np.isnan(price):
        ours, theirs = (load_table(name).column("seconds") for name in (target, source))
        price = float(np.nanmean(theirs) / np.nanmean(ours))
    return rows * price


def zero_shot(instance: Instance) -> tuple[float, float, int]:
    """Regret of the source's best configuration, its share of the median row's regret, and its rank."""
    losses = instance.losses[:, 0]
    source = instance.problem.sources[0]
    # The table's row with the configuration of the source's best row.
    places = [
        int(np.flatnonzero((instance.table.features == row).all(axis=1))[0])
        for row in source.features[np.argsort(source.losses[:, 0], kind="stable")[:1]]
    ]
    best = losses[places[0]]
    regret = float(best - np.nanmin(losses))
    share = regret / float(np.nanmedian(losses) - np.nanmin(losses))
    return regret, share, int((losses < best).sum()) + 1


def runtimes_of(results: Results, table: str, method: str) -> Floats:
    """Trainings until the target of ftc, capped at the budget, by trial."""
    instance = results.instances[table]
    goal = next(goal for goal in instance.goals if goal.name == "ftc")
    tau, problem = budget_of(instance), instance.problem
    found = [
        runtime_within(goal, trial, tau, problem.n_initial, problem.lookups)
        for trial in results.trials[table, method]
    ]
    return np.asarray(np.minimum(np.array(found), tau))


def regrets_of(results: Results, table: str, method: str) -> Floats:
    """The gap to the best at the suite's `score_at`, by trial."""
    instance = results.instances[table]
    goal = next(goal for goal in instance.goals if goal.name == "fb")
    return np.array([score_of(instance, goal, trial) for trial in results.trials[table, method]])


def less(ours: Floats, theirs: Floats, digits: int = 1) -> str:
    """By how much our mean is smaller than theirs, with an interval over trials."""
    draws = np.random.default_rng(0).integers(0, len(ours), (RESAMPLES, len(ours)))
    low, high = np.quantile((theirs - ours)[draws].mean(axis=1), [0.025, 0.975])
    return f"{(theirs - ours).mean():+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--against", default="BO_auto")
    arguments = parser.parse_args()
    results = load_results(arguments.folder)
    for table, source in results.suite.source_of.items():
        if table not in results.instances:
            continue
        instance = with_transfer_tables(results.suite, results.instances[table])
        regret, share, rank = zero_shot(instance)
        goal = next(goal for goal in instance.goals if goal.name == "ftc")
        chance = random_search_within(instance, goal, budget_of(instance))
        price = source_price(table, source, len(instance.table))
        print(
            f"{source} -> {table}: {len(instance.table)} configurations, {int(goal.targets.sum())} within "
            f"{instance.tolerance:.2g} of the best; zero-shot rank {rank}, regret {regret:.3g} "
            f"({share:.0%} of the median's); source = {price:.1f} trainings"
        )
        theirs = runtimes_of(results, table, arguments.against)
        gaps = regrets_of(results, table, arguments.against)
        print(
            f"    random search {chance:.1f} trainings (exact); {arguments.against} {theirs.mean():.1f}, "
            f"regret {gaps.mean():.4f}"
        )
        for method in results.methods:
            if method not in (arguments.against, "RS"):
                found = less(runtimes_of(results, table, method), theirs)
                gap = less(regrets_of(results, table, method), gaps, 4)
                print(f"    {method:12} saves {found:20} regret less by {gap}")


if __name__ == "__main__":
    main()
