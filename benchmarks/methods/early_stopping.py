"""The gain from stopping trainings early on the tables with learning curves, in simulated time.

    hpobench-nmt tables fetch nmthpo && hpobench-nmt tables fetch nmtlc
    python benchmarks/methods/early_stopping.py [--workers 8] [--trials 100] [TABLE ...]

Each method runs until it finds a value within 5% of the way from the best row to the median row. The value is
the table's main metric, or a perplexity if the curves have nothing else. The output has the mean cost with
its standard error, the ratio of random search's mean cost to it, and the processor time of a trial. Below
each table are geometric means of ratios of costs, with their 95% intervals: of the model-based method,
BO_levels, to ASHA, and to BO_levels with levels that triple the resource instead of doubling it (`tripling`).
With one worker, random search is shown with its exact value. The bar is for 100 trials of ASHA with 8 workers
on sw-en, on two cores. Perplexities of different vocabularies cannot be compared. So on the NMT tables of
nmthpo, the results do not apply to translations.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.seeds import method_generator
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.evaluation.random_search import exact_random_search
from hpobench_nmt.evaluation.scores import answer, make_goal
from hpobench_nmt.lookup.catalogue import load_table
from hpobench_nmt.methods.early.median_stopping import MedianStopping
from hpobench_nmt.methods.early.successive_halving import ASHA, ASHAStopping, Hyperband, SuccessiveHalving
from hpobench_nmt.methods.level_gaussian_process import LevelBO
from hpobench_nmt.methods.random_search import RandomSearch

TABLES = ("ru-en", "ja-en", "sw-en", "so-en", "nmtlc-zh-en", "nmtlc-fr-en", "lohelp-de-en", "sotu-awd-lstm")


def tripling(problem: Problem, rng: np.random.Generator) -> LevelBO:
    """BO_levels with levels that triple the resource."""
    return LevelBO(problem, rng, eta=3)


METHODS = (
    RandomSearch, MedianStopping, SuccessiveHalving, Hyperband, ASHAStopping, ASHA, LevelBO, tripling,
)  # fmt: skip
BAR = 4.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", default=TABLES)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--trials", type=int, default=100)
    arguments = parser.parse_args()
    for name in arguments.tables:
        table = load_table(name)
        assert table.curves is not None, f"{name} has no curves: fetch nmtlc"
        held = [metric.name for metric in table.curves.metrics]
        metric = table.main_metric if table.main_metric in held else held[0]
        trainings = table.trainings([metric])
        losses = trainings.final[:, 0]
        tolerance = 0.05 * float(np.nanmedian(losses) - np.nanmin(losses))
        goal = make_goal("ftc", trainings, tolerance=tolerance)
        problem = Problem(
            table.features,
            1,
            len(table),
            0,
            workers=arguments.workers,
            resources=np.unique(trainings.resources),
            clock="cost",
        )
        unit = table.curves.cost_unit
        targets = f"{int(goal.targets.sum())} of {len(table)} rows"
        print(f"{name}: {metric} within {tolerance:.3g} of the best, {targets}")
        if arguments.workers == 1:
            whole = trainings.costs[trainings.starts[1:] - 1]
            exact, _ = exact_random_search(goal, 0, costs=whole)
            print(f"  {'exact RandomSearch':18} {exact:12,.0f}            {unit}")
        reference = np.nan
        logs: dict[str, list[float]] = {}
        for method in METHODS:
            times, start = [], time.process_time()
            for trial in range(arguments.trials):
                rng = method_generator(0, name, method.__name__, trial)
                done = run_trial(problem, trainings, method, rng, (), [goal])
                assert not done.failure, done.failure
                times.append(answer(goal, done, 0))
            seconds = time.process_time() - start
            mean, error = float(np.mean(times)), float(np.std(times)) / len(times) ** 0.5
            logs[method.__name__] = np.log(times).tolist()
            reference = mean if method is RandomSearch else reference
            print(
                f"  {method.__name__:18} {mean:12,.0f} ± {error:8,.0f} {unit}, {reference / mean:5.1f} times "
                f"sooner, {seconds / len(times) * 1e3:.1f} ms a trial"
            )
            if method is ASHA and name == "sw-en" and arguments.workers == 8:
                needed = seconds / len(times) * 100 / 2
                print(f"  100 trials on two cores: {needed:.1f} s (bar: {BAR:.0f} s)", end=" ")
                print("ok" if needed <= BAR else "ABOVE THE BAR")
        for one, other in (("LevelBO", "ASHA"), ("LevelBO", "tripling")):
            model, rival = np.array(logs[one]), np.array(logs[other])
            half = 1.96 * float(np.sqrt((model.var(ddof=1) + rival.var(ddof=1)) / len(model)))
            over = float(model.mean() - rival.mean())
            low, middle, high = np.exp([over - half, over, over + half])
            print(f"  {one} takes {middle:.2f} times the cost of {other} [{low:.2f}, {high:.2f}]")


if __name__ == "__main__":
    main()
