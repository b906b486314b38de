"""The cost of parallel workers for model-based methods: time per step, and look-ups to the tolerance.

    hpobench-nmt tables fetch nmthpo
    python benchmarks/methods/parallel_methods.py [--trials 50] [--seed 0] [TABLE ...]

First, the processor time of a step of BO_EI_M on sw-en with 16 workers is compared with that of one worker,
in exhaustive trials, in turns. The bar is 3 times.

Then the script counts the rows that each method has started when the first row within the tolerance of ftc is
finished. All rows take the same time, so 16 workers work in rounds of 16. The output has means with standard
errors. The methods are batched EI (whose variance is conditioned on pending rows), EI that only leaves out
pending rows, Thompson sampling, and random search. The last lines compare pairs of methods on the same tables
and initial designs: the mean difference of log look-ups, as a ratio, with its 95% interval over trials.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.seeds import initial_rows, method_generator
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.evaluation.scores import make_goal
from hpobench_nmt.lookup.catalogue import load_table
from hpobench_nmt.lookup.table import Table
from hpobench_nmt.methods import BUILT_IN
from hpobench_nmt.methods.gaussian_process import BO_M_std
from hpobench_nmt.methods.model_based import ModelBased
from hpobench_nmt.methods.surrogates.pending import Given

TABLES = ("zh-en", "ru-en", "ja-en", "en-ja", "sw-en", "so-en")
WORKERS = (1, 4, 16)
BAR = 3.0
N_INITIAL = 3


class _LeftOut(ModelBased):
    """EI that leaves out pending rows, but does not condition the variance on them."""

    def scores(self, given: Given) -> Floats:
        return super().scores(given._replace(var=self.posterior.var))


def left_out(problem: Problem, rng: np.random.Generator) -> ModelBased:
    """Model and acquisition of BO_EI_M_std, with pending rows only left out."""
    from hpobench_nmt.methods.acquisitions.acquisition import by_expected_improvement

    return _LeftOut(problem, rng, BO_M_std.surrogate(problem), by_expected_improvement)


def trial(
    table: Table,
    trainings: Trainings,
    factory: Any,
    name: str,
    workers: int,
    number: int,
    seed: int,
    goals: Any,
) -> Any:
    """One trial on the clock of look-ups."""
    problem = Problem(table.features, 1, len(table), N_INITIAL, workers=workers)
    rng = method_generator(seed, table.name, name, number)
    initial = initial_rows(seed, table.name, number, len(table), N_INITIAL)
    done = run_trial(problem, trainings, factory, rng, initial, goals)
    assert not done.failure, done.failure
    return done


def step_time() -> None:
    """Print the processor time of a step with 16 workers, divided by that with one worker."""
    table = load_table("sw-en")
    trainings = Trainings.whole(table.losses(table.objectives[:1]))
    seconds: dict[int, list[float]] = {1: [], 16: []}
    factory = BUILT_IN["BO_EI_M"].load()
    for number in range(6):
        for workers, found in seconds.items():
            start = time.process_time()
            trial(table, trainings, factory, "BO_EI_M", workers, number, 0, ())
            found.append((time.process_time() - start) / len(table))
    alone, batched = (float(np.median(found[1:])) for found in seconds.values())
    verdict = "ok" if batched <= BAR * alone else "ABOVE THE BAR"
    print(
        f"BO_EI_M on sw-en: {alone * 1e6:.0f} us a step with 1 worker, {batched * 1e6:.0f} us with 16: "
        f"{batched / alone:.1f} times (bar: {BAR:.0f}) {verdict}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", default=TABLES)
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    methods = {
        "batched EI": BUILT_IN["BO_EI_M_std"].load(),
        "EI, pending left out": left_out,
        "Thompson": BUILT_IN["TS_M_std"].load(),
        "RS": BUILT_IN["RS"].load(),
    }
    with threadpool_limits(limits=1):
        step_time()
        logs: dict[tuple[str, int], list[list[float]]] = {}
        for name in arguments.tables:
            table = load_table(name)
            objective = table.objective(table.objectives[0])
            trainings = Trainings.whole(table.losses([objective]))
            goal = make_goal("ftc", trainings, tolerance=table.tolerance(objective))
            print(f"{name}: look-ups to within {table.tolerance(objective):g} of the best {objective.metric}")
            for method, factory in methods.items():
                shown = []
                for workers in WORKERS:
                    found = []
                    for number in range(arguments.trials):
                        done = trial(
                            table, trainings, factory, method, workers, number, arguments.seed, [goal]
                        )
                        rounds = done.timeline.finishes[-1]
                        found.append(float(max(rounds * workers, N_INITIAL)))
                    logs.setdefault((method, workers), []).append(np.log(found).tolist())
                    shown.append(f"{np.mean(found):6.1f} ± {np.std(found) / len(found) ** 0.5:4.1f}")
                columns = (f"{w:>4} workers: {s}" for w, s in zip(WORKERS, shown, strict=True))
                print(f"  {method:22}" + "".join(columns))
    for other in ("EI, pending left out", "Thompson"):
        for workers in WORKERS:
            each = np.array(logs[other, workers]) - np.array(logs["batched EI", workers])
            over = each.mean(axis=0)  # mean over tables, by trial
            half = 1.96 * over.std(ddof=1) / len(over) ** 0.5
            low, middle, high = np.exp([over.mean() - half, over.mean(), over.mean() + half])
            print(
                f"{other}, {workers} workers: {middle:.2f} times the look-ups of batched EI "
                f"[{low:.2f}, {high:.2f}]"
            )


if __name__ == "__main__":
    main()
