"""Time of one step of `BO_auto`, in 50 look-ups of sw-en's 767 rows and of 100,000 random rows; its memory.

    hpobench-nmt tables fetch nmthpo
    python benchmarks/speed/auto_speed.py [--trials 10] [--live]

A step is ask, look up and tell, in processor time on one core. The figure is the mean over trials. The first
trial of each kind, which may compile, is left out. The 100,000 rows have 6 numbers. Their losses are the
squared distances to a point. To compare two versions, run both in turns, in separate folders.

With --live, it is the mean step of `hb.minimize` over the last half of searches in ranges, of up to 5,000
evaluations, for the same function with noise in 2, 6 and 10 dimensions.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import resource
import time

import numpy as np

import hpobench_nmt as hb
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.lookup.catalogue import load_table
from hpobench_nmt.methods import BUILT_IN

LOOKUPS, N_INITIAL = 50, 3
BAR_MS, BAR_LARGE_MS, BAR_LARGE_GB = 1.0, 100.0, 1.0


def step_ms(features: Floats, losses: Floats, trials: int) -> tuple[float, str]:
    """Milliseconds per step, and a hash of the rows of all trials."""
    problem, seconds, digest = Problem(features, 1, LOOKUPS, N_INITIAL), [], hashlib.sha256()
    trainings, make = Trainings.whole(losses[:, None]), BUILT_IN["BO_auto"].load()
    for trial in range(trials + 1):
        rng = np.random.default_rng(trial)
        initial = [int(row) for row in rng.permutation(len(losses))[:N_INITIAL]]
        start = time.process_time()
        trajectory = run_trial(problem, trainings, make, rng, initial)
        seconds.append((time.process_time() - start) / LOOKUPS)
        digest.update(trajectory.rows.astype("<i4").tobytes())
    return float(np.mean(seconds[1:])) * 1e3, digest.hexdigest()[:12]


def live_step_ms(dimensions: int, evaluations: int) -> float:
    """Milliseconds per step over the last half of a search in ranges."""
    rng, times = np.random.default_rng(0), []
    centre = rng.uniform(0.2, 0.8, size=dimensions)

    def bowl(config: dict[str, float]) -> float:
        times.append(time.process_time())
        return float(((np.array(list(config.values())) - centre) ** 2).sum() + 0.01 * rng.standard_normal())

    hb.minimize(bowl, {f"x{h}": (0.0, 1.0) for h in range(dimensions)}, budget=evaluations)
    return float(np.diff(times[evaluations // 2 :]).mean()) * 1e3


def main() -> None:
    """Print a line for each number of rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--live", action="store_true")
    options = parser.parse_args()
    if options.live:
        live_step_ms(2, 20)  # compiles
        for evaluations, dimensions in itertools.product((50, 200, 1000, 5000), (2, 6, 10)):
            ms = live_step_ms(dimensions, evaluations)
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
            print(f"{evaluations:5,d} evaluations, {dimensions:2d} dimensions: {ms:5.1f} ms, {memory:.2f} GB")
        return
    table = load_table("sw-en")
    ms, rows = step_ms(table.features, table.losses(table.objectives[:1])[:, 0], options.trials)
    print(f"    767 rows {ms:7.2f} ms a step (bar: {BAR_MS:.0f}), rows {rows}", flush=True)
    rng = np.random.default_rng(0)
    features, centre = rng.uniform(size=(100_000, 6)), rng.uniform(0.2, 0.8, size=6)
    ms, rows = step_ms(features, ((features - centre) ** 2).sum(axis=1), max(options.trials // 5, 1))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"100,000 rows {ms:7.2f} ms a step (bar: {BAR_LARGE_MS:.0f}), rows {rows}")
    print(f"{memory:.2f} GB (bar: {BAR_LARGE_GB:.0f})")


if __name__ == "__main__":
    main()
