"""Ratios of mean runtimes on a clock, with bootstrap intervals: between methods, and by numbers of workers.

    hpobench-nmt tables fetch nmthpo && hpobench-nmt tables fetch nmtlc
    hpobench-nmt run multi-fidelity && hpobench-nmt run parallel-1     # and so on
    python benchmarks/methods/clock_suites.py methods results/multi-fidelity --of ASHA --to RS,BO_EI_M_std
    python benchmarks/methods/clock_suites.py workers results/parallel-1 results/parallel-4

`methods` divides the mean time of each other method by the mean time of --of, by table. `workers` multiplies
times by the number of workers, which gives look-ups, and divides them by the look-ups of the first folder.
Intervals are 95% percentile bootstrap intervals over trials. A cell with an unanswered trial is empty.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from hpobench_nmt.analysis.verdicts import score_values
from hpobench_nmt.benchmarking.records.store import load_results

RESAMPLES = 10_000


def ratio(above: np.ndarray, below: np.ndarray) -> str:
    """The ratio of two means with its interval."""
    if not (np.isfinite(above).all() and np.isfinite(below).all()):
        return "–"
    rng = np.random.default_rng(0)
    means = [x[rng.integers(0, len(x), (RESAMPLES, len(x)))].mean(axis=1) for x in (above, below)]
    low, high = np.quantile(means[0] / means[1], [0.025, 0.975])
    return f"{above.mean() / below.mean():.2f} ({low:.2f}–{high:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["methods", "workers"])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--score", default="ftc")
    parser.add_argument("--of", default="ASHA")
    parser.add_argument("--to", default="RS,BO_EI_M_std")
    arguments = parser.parse_args()
    runs = [load_results(folder) for folder in arguments.folders]
    for table in runs[0].instances:
        cells = []
        if arguments.what == "methods":
            methods, values = score_values(runs[0], table)
            found = dict(zip(methods, values[arguments.score], strict=True))
            cells = [f"{m} {ratio(found[m], found[arguments.of])}" for m in arguments.to.split(",")]
        else:
            first = None
            for run in runs:
                methods, values = score_values(run, table)
                times = values[arguments.score] * run.suite.workers
                first = times if first is None else first
                pairs = zip(methods, times, first, strict=True)
                cells += [f"{run.suite.workers}x{m} {ratio(a, b)}" for m, a, b in pairs if run is not runs[0]]
        print(f"{table:14} {arguments.score}: {'; '.join(cells)}")


if __name__ == "__main__":
    main()
