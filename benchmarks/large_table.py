"""Bayesian optimisation on a table of 100,000 rows: time of a step, and memory of the process.

python benchmarks/large_table.py [--rows 100000] [--budget 200]
"""

from __future__ import annotations

import argparse
import resource
import sys
import time

import numpy as np

from hpobench_nmt.core.loop import run_trial
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.methods import BUILT_IN

BAR_MS = 20.0
BAR_BYTES = 2**30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--budget", type=int, default=200)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    features = rng.random((arguments.rows, 6))
    losses = list(
        ((features - 0.3) ** 2).sum(axis=1, keepdims=True) + rng.normal(0, 0.05, (arguments.rows, 1))
    )
    factory = BUILT_IN["BO_EI_M"].load()
    small = Problem(features[:50], 1, 50, 3)
    run_trial(small, losses.__getitem__, factory, rng, [0, 1, 2])  # compiles
    problem = Problem(features, 1, arguments.budget, 3)
    start = time.perf_counter()
    run_trial(problem, losses.__getitem__, factory, rng, [0, 1, 2])
    step_ms = (time.perf_counter() - start) / arguments.budget * 1e3
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    print(f"{arguments.rows:,} rows, {arguments.budget} look-ups, prior and set-up included:")
    print(f"  {step_ms:.1f} ms a step (bar: {BAR_MS:.0f})")
    print(f"  the process took {peak / 2**20:,.0f} MiB at most (bar: 1,024)")
    print("ok" if step_ms <= BAR_MS and peak <= BAR_BYTES else "OUTSIDE THE BAR")


if __name__ == "__main__":
    main()
