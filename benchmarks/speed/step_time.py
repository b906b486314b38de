"""Time of one step of each model-based method on the largest published table, and of Optuna's GPSampler.

    pip install 'hpobench-nmt[benchmark]'
    hpobench-nmt tables fetch nmthpo
    python benchmarks/speed/step_time.py [--table sw-en] [--trials 3] [--optuna-steps 50]

A step is ask, look up and tell. Our time is the mean over exhaustive trials on one core, including the prior.
The first trial of a process also compiles, so it is left out of the mean and shown separately. Optuna's time
is the mean of its first steps, which are its cheapest, because its cost grows with every observation. Optuna
chooses among the same configurations of the grid, and receives the worst value for a configuration that the
table lacks. Three losses are BLEU, decoding time and number of parameters; their bar is 2 ms.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from threadpoolctl import threadpool_limits

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.seeds import initial_rows, method_generator
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.lookup.catalogue import load_table
from hpobench_nmt.lookup.table import Table
from hpobench_nmt.methods import BUILT_IN

BAR_US = 80.0
BAR_RATIO = 500.0
BAR_OF_THREE_US = 2000.0
THREE = ("dev_bleu", "dev_gpu_time", "num_param")
CASES = (
    ("BO_EI_M", 1),
    ("BO_EI_R", 1),
    ("GB_EI_M", 1),
    ("GB_EIF_M", 1),
    ("BO_M", 2),
    ("BO_R", 2),
    ("GB_M", 2),
    ("RS", 1),
    ("BO_M_std", 3),
    ("ParEGO_M", 3),
)
BARRED = {"BO_EI_M", "BO_EI_R", "GB_EI_M", "GB_EIF_M", "BO_M", "BO_R", "GB_M"}


def step_us(table: Table, method: str, n_objectives: int, trials: int) -> tuple[float, float]:
    """Microseconds per step in exhaustive trials: the mean over trials, and the first trial."""
    losses = Trainings.whole(table.losses(THREE if n_objectives == 3 else table.objectives[:n_objectives]))
    problem = Problem(table.features, n_objectives, len(table), 3)
    factory = BUILT_IN[method].load()
    seconds = []
    for trial in range(trials + 1):
        rng = method_generator(0, table.name, method, trial)
        initial = initial_rows(0, table.name, trial, len(table), 3)
        start = time.process_time()
        trajectory = run_trial(problem, losses, factory, rng, initial)
        seconds.append((time.process_time() - start) / len(table))
        if trajectory.failure or len(trajectory.rows) != len(table):
            raise SystemExit(f"{method}: {trajectory.failure}")
    return float(np.mean(seconds[1:])) * 1e6, seconds[0] * 1e6


def optuna_step_us(table: Table, steps: int) -> float:
    """Microseconds per step of Optuna's GPSampler after the same initial design."""
    import warnings

    import optuna

    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    loss = table.losses(table.objectives[:1])[:, 0]
    row_of = {tuple(c): row for row, c in enumerate(table.configs.tolist())}
    worst = float(np.nanmax(loss))
    grid = {h.name: list(h.values) for h in table.hyperparameters}
    space: dict[str, optuna.distributions.BaseDistribution] = {
        name: optuna.distributions.IntDistribution(0, len(v) - 1) for name, v in grid.items()
    }
    study = optuna.create_study(sampler=optuna.samplers.GPSampler(seed=0, n_startup_trials=3))
    for row in initial_rows(0, table.name, 0, len(table), 3):
        numbers = {h: grid[h].index(v) for h, v in zip(grid, table.configs[row].tolist(), strict=True)}
        study.add_trial(
            optuna.trial.create_trial(params=numbers, distributions=space, value=float(loss[row]))
        )
    start = time.perf_counter()
    for _ in range(steps):
        trial = study.ask(space)
        config = tuple(grid[name][trial.params[name]] for name in grid)
        study.tell(trial, float(loss[row_of[config]]) if config in row_of else worst)
    return (time.perf_counter() - start) / steps * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", default="sw-en")
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--optuna-steps", type=int, default=50, help="0 leaves Optuna out")
    arguments = parser.parse_args()
    table = load_table(arguments.table)
    print(f"{table.name}: {len(table)} rows, one core, mean of {arguments.trials} exhaustive trials")
    ours = {}
    with threadpool_limits(limits=1):
        for method, n_objectives in CASES:
            ours[method], first = step_us(table, method, n_objectives, arguments.trials)
            bar = BAR_OF_THREE_US if n_objectives == 3 else BAR_US if method in BARRED else None
            verdict = "" if bar is None else ("ok" if ours[method] <= bar else "ABOVE THE BAR")
            print(
                f"{method:10s} {n_objectives} loss(es) {ours[method]:8.1f} us a step   "
                f"(first trial {first:8.1f})   {verdict}"
            )
        if arguments.optuna_steps:
            theirs = optuna_step_us(table, arguments.optuna_steps)
            slowest = max(ours[m] for m in BARRED)
            print(f"Optuna GPSampler, {arguments.optuna_steps} steps: {theirs:,.0f} us a step")
            for method in ("BO_EI_M", max(BARRED, key=ours.__getitem__)):
                ratio = theirs / ours[method]
                print(f"  {ratio:,.0f} times {method}'s (bar: {BAR_RATIO:.0f})")
            print("ok" if theirs / slowest >= BAR_RATIO else "BELOW THE BAR")


if __name__ == "__main__":
    main()
