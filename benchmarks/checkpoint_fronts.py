"""Time of an event along learning curves with two objectives against one, measured in turns.

    python benchmarks/checkpoint_fronts.py [--rows 300] [--times 9]

An event starts when a training reaches a checkpoint. The loop passes the losses to the method, updates the
goals, asks the method for the next row, and starts the worker. Random search measures the loop alone; MO-ASHA
against ASHA measures a method. The output is the median ratio of processor times; its bar is 1.3.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hpobench_nmt.core.problem import MethodFactory, Problem
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trajectory import Goal
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.evaluation.scores import make_goal
from hpobench_nmt.methods.multi_objective_halving import MOASHA
from hpobench_nmt.methods.random_search import RandomSearch
from hpobench_nmt.methods.successive_halving import ASHA

BAR = 1.3
CHECKPOINTS = 81
WORKERS = 8


def curves(rows: int, objectives: int) -> Trainings:
    """Falling curves with noise, and a second loss that is constant for each row."""
    rng = np.random.default_rng(0)
    steps = np.tile(np.arange(1.0, CHECKPOINTS + 1), rows)
    ends = np.repeat(rng.random(rows), CHECKPOINTS)
    losses = ends + 1.0 / steps + rng.normal(0, 0.01, len(steps))
    others = np.repeat(rng.random(rows), CHECKPOINTS)
    columns = np.column_stack([losses, others])[:, :objectives]
    costs = steps * np.repeat(rng.uniform(1, 2, rows), CHECKPOINTS)
    return Trainings(np.arange(rows + 1) * CHECKPOINTS, steps, costs, columns)


def seconds(method: MethodFactory, given: Trainings, goals: Sequence[Goal]) -> float:
    """Processor time per event."""
    m = given.losses.shape[1]
    problem = Problem(
        np.zeros((len(given), 1)),
        m,
        len(given),
        0,
        workers=WORKERS,
        resources=np.arange(1.0, CHECKPOINTS + 1),
        clock="cost",
    )
    start = time.process_time()
    trial = run_trial(problem, given, method, np.random.default_rng(1), (), goals)
    assert not trial.failure
    return (time.process_time() - start) / len(trial.rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--times", type=int, default=9)
    arguments = parser.parse_args()
    one, two = curves(arguments.rows, 1), curves(arguments.rows, 2)
    # These goals stay open, so that trials do not end early.
    goals = (
        [replace(make_goal(score, one), needed=len(one) + 1) for score in ("ftb", "ftc")],
        [replace(make_goal(score, two), needed=len(one) * CHECKPOINTS) for score in ("fto", "fta")],
    )
    for name, single, several in (("loop", RandomSearch, RandomSearch), ("ASHA", ASHA, MOASHA)):
        found = np.array(
            [
                (seconds(single, one, goals[0]), seconds(several, two, goals[1]))
                for _ in range(arguments.times + 1)
            ]
        )[1:]  # the first turn compiles
        ratio = float(np.median(found[:, 1] / found[:, 0]))
        micro = np.median(found, axis=0) * 1e6
        verdict = "ok" if ratio <= BAR else "ABOVE THE BAR"
        print(
            f"{name}: {micro[0]:.1f} µs an event with one objective, {micro[1]:.1f} µs with two; "
            f"{ratio:.2f} times (bar: {BAR}) {verdict}"
        )


if __name__ == "__main__":
    main()
