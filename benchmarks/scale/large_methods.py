"""Bayesian optimisation and graph-based methods on large tables: time per step, and memory of the process.

    python benchmarks/scale/large_methods.py                       # BO on 100,000 rows, 200 look-ups
    python benchmarks/scale/large_methods.py --rows 1000000        # BO on a million rows
    python benchmarks/scale/large_methods.py --method GB_EI_M      # the sparse graph on 100,000 rows
    python benchmarks/scale/large_methods.py --compare 10000       # the sparse graph against the dense one

Rows are scattered in six dimensions. On a machine with other work, processor time is more reliable than
elapsed time. Both are printed, and processor time is compared with the bars. The peak memory is that of the
whole process, so run each case separately.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.problem import MethodFactory, Problem
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trajectory import Trajectory
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.methods import BUILT_IN
from hpobench_nmt.methods.acquisitions.acquisition import by_expected_improvement
from hpobench_nmt.methods.graphs.graph import (
    BETA,
    NEIGHBOURS,
    SIGMA_SQUARED,
    graph_covariance,
    graph_laplacian,
)
from hpobench_nmt.methods.graphs.sparse_graph import SparseGraphPrior, nearest_pairs, weights_of
from hpobench_nmt.methods.kernels import DensePrior, matern52
from hpobench_nmt.methods.model_based import ModelBased, Surrogate

# By method's family and number of rows: milliseconds per step, GiB, and seconds of set-up.
BARS = {
    ("BO", 100_000): (20.0, 1.0, 60.0),
    ("BO", 1_000_000): (150.0, 4.0, 60.0),
    ("GB", 100_000): (100.0, 2.0, 60.0),
}


def table(rows: int) -> tuple[NDArray[np.float64], Trainings]:
    """Features, and the losses of all rows."""
    rng = np.random.default_rng(0)
    features = rng.random((rows, 6))
    losses = ((features - 0.3) ** 2).sum(axis=1, keepdims=True) + rng.normal(0, 0.05, (rows, 1))
    return features, Trainings.whole(losses)


def trial(problem: Problem, trainings: Trainings, method: MethodFactory) -> Trajectory:
    """One trial; it must not fail."""
    found = run_trial(problem, trainings, method, np.random.default_rng(0), [0, 1, 2])
    if found.failure:
        raise SystemExit(found.failure)
    return found


def measure(name: str, rows: int, budget: int) -> None:
    """Compare a step, the set-up, and memory with the bars."""
    factory = BUILT_IN[name].load()
    features, trainings = table(rows)
    trial(Problem(features[:50], 1, 50, 3), trainings, factory)  # compiles
    if name.startswith("GB"):
        some = features[:999]
        SparseGraphPrior(weights_of(nearest_pairs(some, 5), some, matern52), 1.0, 1.0, some).row(0)
    problem = Problem(features, 1, budget, 3)
    start, cpu = time.perf_counter(), time.process_time()
    factory(problem, np.random.default_rng(0))  # caches the prior for the table's trials
    setup_s = time.process_time() - cpu
    print(f"{name} on {rows:,} rows, {budget} look-ups:")
    print(f"  set-up: {time.perf_counter() - start:.1f} s elapsed, {setup_s:.1f} s of the processor", end=" ")
    start, cpu = time.perf_counter(), time.process_time()
    trial(problem, trainings, factory)
    elapsed = (time.perf_counter() - start) / budget * 1e3
    step = (time.process_time() - cpu) / budget * 1e3
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    bars = BARS.get((name[:2], rows))
    step_bar, memory_bar, setup_bar = bars or (np.inf, np.inf, np.inf)
    print(f"(bar: {setup_bar:.0f})")
    print(f"  {elapsed:.1f} ms a step elapsed, {step:.1f} ms of the processor (bar: {step_bar:.0f})")
    print(f"  the process took {peak / 2**20:,.0f} MiB at most (bar: {memory_bar * 1024:,.0f})")
    if bars:
        within = step <= step_bar and peak <= memory_bar * 2**30 and setup_s <= setup_bar
        print("ok" if within else "OUTSIDE THE BAR")


def compare(rows: int, budget: int) -> None:
    """EI with the sparse prior against EI with the dense prior, which takes minutes and 40 bytes * rows^2."""
    features, trainings = table(rows)
    weights = weights_of(nearest_pairs(features, NEIGHBOURS), features, matern52)
    sparse = SparseGraphPrior(weights, SIGMA_SQUARED, BETA, features)
    covariance = graph_covariance(graph_laplacian(features, matern52, NEIGHBOURS))
    own = covariance.diagonal() - SIGMA_SQUARED / (2 * BETA * rows)
    error = (sparse.diagonal - covariance.diagonal()) / own
    off = max(np.abs(sparse.row(i) - covariance[i]).max() / own[i] for i in range(0, rows, rows // 50))
    print(f"{rows:,} rows: over the diagonal of K less its mean,")
    print(f"  rows of K are off by {off:.4f} at most, its diagonal by {error.std():.3f} (standard deviation)")
    problem = Problem(features, 1, budget, 3)
    found = []
    for prior in (sparse, DensePrior(covariance)):
        surrogate = Surrogate(prior)
        found.append(
            trial(
                problem,
                trainings,
                lambda problem, rng, s=surrogate: ModelBased(problem, rng, s, by_expected_improvement),
            )
        )
    same = len(set(found[0].rows.tolist()) & set(found[1].rows.tolist()))
    best = [t.losses.min() for t in found]
    print(f"  EI: {same} of {budget} rows looked up are the same; best loss {best[0]:.4f} and {best[1]:.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--budget", type=int, default=200)
    parser.add_argument("--method", default="BO_EI_M")
    parser.add_argument("--compare", type=int, metavar="ROWS", help="sparse graph against the dense one")
    arguments = parser.parse_args()
    if arguments.compare:
        compare(arguments.compare, arguments.budget)
    else:
        measure(arguments.method, arguments.rows, arguments.budget)


if __name__ == "__main__":
    main()
