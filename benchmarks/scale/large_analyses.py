"""`tables analyze` and `report` on a table of 100,000 rows: seconds, processor seconds, size of the page.

    python benchmarks/scale/large_analyses.py [--rows 100000] [--jobs 2]

The table is a random subset of a grid of 8 values for each of 6 hyperparameters. The report is of a run of
random search and Bayesian optimisation, with 20 trials of 60 look-ups each. The run itself is not timed. Both
commands run in separate processes, as users start them. Use an idle machine.
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
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.lookup.disk.folder import save_folder
from hpobench_nmt.lookup.table import Table

BAR_ANALYZE, BAR_REPORT, BAR_BYTES = 20.0, 30.0, 5_000_000
N_VALUES, N_HYPERPARAMETERS = 8, 6


def make_table(n_rows: int) -> Table:
    """A noisy quadratic against a cost, on a random subset of the grid."""
    rng = np.random.default_rng(0)
    values = tuple(float(v) for v in range(1, N_VALUES + 1))
    axes = tuple(Hyperparameter(f"h{i}", values) for i in range(N_HYPERPARAMETERS))
    grid = np.indices((N_VALUES,) * N_HYPERPARAMETERS).reshape(N_HYPERPARAMETERS, -1).T
    configs = np.asarray(grid[np.sort(rng.choice(len(grid), n_rows, replace=False))] + 1.0, dtype=np.float64)
    x = (configs - 1) / (N_VALUES - 1)
    bleu = 30 - 10 * ((x - rng.random(N_HYPERPARAMETERS)) ** 2).sum(axis=1) + rng.normal(0, 0.3, n_rows)
    seconds = 10 + 40 * x[:, 2] + 20 * x[:, 3] + rng.random(n_rows) * 5
    return Table(
        name="large",
        hyperparameters=axes,
        metrics=(Metric("bleu", "max", "BLEU", tolerance=0.5), Metric("seconds", "min", "s")),
        configs=configs,
        values=np.column_stack([bleu, seconds]),
        objectives=("bleu", "seconds"),
        provenance={"source": "made by benchmarks/scale/large_analyses.py"},
    )


def command(*arguments: str | Path) -> tuple[float, float]:
    """Run the command line, and return its seconds and processor seconds."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    line = [sys.executable, "-m", "hpobench_nmt", *map(str, arguments)]
    subprocess.run(line, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, processor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        table, run, page = Path(work) / "large", Path(work) / "run", Path(work) / "report.html"
        save_folder(make_table(arguments.rows), table)
        settings = "--methods RS,BO_EI_M_std --objectives bleu --trials 20 --lookups 60 --quiet --jobs"
        command("run", "quick", "--tables", table, *settings.split(), str(arguments.jobs), "--out", run)
        analyze = command("tables", "analyze", table)
        report = command("report", run, "--jobs", str(arguments.jobs), "--out", page)
        size = page.stat().st_size
    met = {True: "met", False: "MISSED"}
    print(f"{arguments.rows:,} rows")
    for name, (seconds, processor), bar in (
        ("tables analyze", analyze, BAR_ANALYZE),
        ("report", report, BAR_REPORT),
    ):
        print(
            f"  {name:15s} {seconds:5.1f} s (bar {bar:.0f} s: {met[seconds <= bar]}); "
            f"{processor:.1f} s of processor time"
        )
    print(f"  the page has {size / 1e6:.2f} MB (bar 5: {met[size <= BAR_BYTES]})")


if __name__ == "__main__":
    main()
