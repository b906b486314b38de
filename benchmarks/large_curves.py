"""Memory of learning curves: 100,000 rows with 50 checkpoints and 2 metrics.

    python benchmarks/large_curves.py [--rows 100000]

The file is written first, which takes about half a minute. Then a separate process reads it. The bar is for
the curves in memory: by how much they increase the process's memory. The peak while reading is shown as well.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.lookup.curve_files import CurveMetricSection, CurvesSection, curves_csv, read_curves
from hpobench_nmt.lookup.curves import Curves

BAR_GB = 0.5
CHECKPOINTS = 50
METRICS = ("dev_ppl", "dev_bleu")


def write(path: Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    steps = np.tile(np.arange(1.0, CHECKPOINTS + 1), rows)
    costs = np.cumsum(rng.lognormal(size=(rows, CHECKPOINTS)), axis=1).ravel()
    values = rng.normal(30.0, 5.0, (rows * CHECKPOINTS, 2))
    metrics = (Metric(METRICS[0], "min"), Metric(METRICS[1], "max"))
    starts = np.arange(rows + 1) * CHECKPOINTS
    path.write_bytes(curves_csv(Curves("update", metrics, (None, None), starts, steps, costs, values)))


def held() -> float:
    """Resident memory of this process in GB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1e6 for line in lines if line.startswith("VmRSS:"))


def read(path: Path, rows: int) -> None:
    metrics = {name: CurveMetricSection(direction="min") for name in METRICS}
    section = CurvesSection("update", metrics)
    small = path.with_name("small.csv")
    small.write_text("row,checkpoint,update,cost,dev_ppl,dev_bleu\n0,1,1,1,1,1\n")
    read_curves(small.read_bytes(), section, (), 1, small)  # imports and compilation do not count
    before, start = held(), time.perf_counter()
    curves = read_curves(path.read_bytes(), section, (), rows, path)
    seconds = time.perf_counter() - start
    now, most = held() - before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6 - before
    verdict = "ok" if now <= BAR_GB else "ABOVE THE BAR"
    size = path.stat().st_size / 1e9
    print(f"{curves}: read in {seconds:.1f} s from {size:.2f} GB of text")
    print(f"in memory {now:.2f} GB (bar: {BAR_GB}) {verdict}; while reading {most:.2f} GB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.read:
        read(arguments.read, arguments.rows)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "curves.csv"
        write(path, arguments.rows)
        command = [sys.executable, __file__, "--read", str(path), "--rows", str(arguments.rows)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
