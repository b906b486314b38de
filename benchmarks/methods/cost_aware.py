"""The gain from knowing that trainings differ in cost: EI per expected cost against EI.

    hpobench-nmt tables fetch nmthpo && hpobench-nmt tables fetch nmtlc
    python benchmarks/methods/cost_aware.py [--workers 1] [--trials 100] [TABLE ...]

Each trial ends when a row is within the tolerance of the best. All trainings run to their end. Costs come
from the table: the number of updates, or the cost of the whole learning curve. The output has mean costs with
standard errors, and the geometric mean, with its 95% interval, of the ratio of the costs of EI per expected
cost and of EI, on the same initial designs.
"""

from __future__ import annotations

import argparse

import numpy as np
from threadpoolctl import threadpool_limits

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.seeds import initial_rows, method_generator
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.evaluation.scores import answer, make_goal
from hpobench_nmt.lookup.catalogue import load_table
from hpobench_nmt.lookup.table import Table
from hpobench_nmt.methods import BUILT_IN

TABLES = ("zh-en", "ru-en", "ja-en", "en-ja", "sw-en", "so-en", "nmtlc-zh-en", "nmtlc-fr-en")
METHODS = ("RS", "BO_EI_M_std", "BO_EIpC_M_std")
N_INITIAL = 3


def whole(table: Table) -> tuple[Trainings, str]:
    """The table's rows with their training costs, and the unit of the costs."""
    losses = table.losses(table.objectives[:1])
    if "num_updates" in {metric.name for metric in table.metrics}:
        return Trainings.whole(losses, table.column("num_updates")), "updates"
    assert table.curves is not None, f"{table.name} has no costs"
    curves = table.trainings([table.curves.metrics[0].name])
    return Trainings.whole(losses, curves.costs[curves.starts[1:] - 1]), table.curves.cost_unit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", default=TABLES)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--trials", type=int, default=100)
    arguments = parser.parse_args()
    with threadpool_limits(limits=1):
        for name in arguments.tables:
            table = load_table(name)
            trainings, unit = whole(table)
            objective = table.objective(table.objectives[0])
            goal = make_goal("ftc", trainings, tolerance=table.tolerance(objective))
            costs = trainings.costs
            problem = Problem(
                table.features, 1, len(table), N_INITIAL, workers=arguments.workers, clock="cost"
            )
            print(f"{name}: {unit}; the dearest row costs {costs.max() / costs.min():.1f} times the cheapest")
            found: dict[str, list[float]] = {}
            for method in METHODS:
                for trial in range(arguments.trials):
                    rng = method_generator(0, name, method, trial)
                    initial = initial_rows(0, name, trial, len(table), N_INITIAL)
                    factory = BUILT_IN[method].load()
                    done = run_trial(problem, trainings, factory, rng, initial, [goal])
                    assert not done.failure, done.failure
                    found.setdefault(method, []).append(answer(goal, done, 0))
                mean, error = np.mean(found[method]), np.std(found[method]) / arguments.trials**0.5
                print(f"  {method:14} {mean:12,.0f} ± {error:8,.0f}")
            each = np.log(found["BO_EIpC_M_std"]) - np.log(found["BO_EI_M_std"])
            half = 1.96 * each.std(ddof=1) / len(each) ** 0.5
            low, middle, high = np.exp([each.mean() - half, each.mean(), each.mean() + half])
            print(f"  EI per cost takes {middle:.2f} times the cost of EI [{low:.2f}, {high:.2f}]")


if __name__ == "__main__":
    main()
