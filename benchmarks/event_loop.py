"""Events per second of the loop: random search on a simulated clock, and one row at a time.

    python benchmarks/event_loop.py [--rows 20000] [--times 5] [--sequential]

An event is a finished training with everything that follows: the method receives its losses and is asked
again, and the worker starts. The output is the best of several runs, in processor time. `--sequential` only
measures look-ups of the sequential loop, so that two checkouts can be compared in turns.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.methods.random_search import RandomSearch

BAR = 200_000
WORKERS = 8


def sequential(rows: int) -> float:
    """Look-ups per second of the sequential loop."""
    losses = np.random.default_rng(0).random((rows, 1))
    problem = Problem(np.zeros((rows, 1)), 1, rows, 3)
    start = time.process_time()
    done = run_trial(problem, Trainings.whole(losses), RandomSearch, np.random.default_rng(1), [0, 1, 2])
    assert len(done.rows) == rows
    return rows / (time.process_time() - start)


def simulated(rows: int) -> float:
    """Events per second on a simulated clock with several workers."""
    rng = np.random.default_rng(0)
    trainings = Trainings.whole(rng.random((rows, 1)), rng.lognormal(size=rows))
    problem = Problem(np.zeros((rows, 1)), 1, rows, 3, workers=WORKERS, clock="cost")
    start = time.process_time()
    done = run_trial(problem, trainings, RandomSearch, np.random.default_rng(1), [0, 1, 2])
    assert len(done.rows) == rows and done.failure == ""
    return rows / (time.process_time() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--sequential", action="store_true")
    arguments = parser.parse_args()
    looked_up = max(sequential(arguments.rows) for _ in range(arguments.times))
    print(f"one row at a time: {looked_up:,.0f} look-ups a second")
    if not arguments.sequential:
        events = max(simulated(arguments.rows) for _ in range(arguments.times))
        verdict = "ok" if events >= BAR else "BELOW THE BAR"
        print(f"{WORKERS} workers, simulated clock: {events:,.0f} events a second (bar: {BAR:,}) {verdict}")


if __name__ == "__main__":
    main()
