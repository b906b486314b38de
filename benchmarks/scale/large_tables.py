"""Time and memory of the core's work with large tables, each with its bar.

python benchmarks/scale/large_tables.py            # about a minute and a half
python benchmarks/scale/large_tables.py check add  # some of them

Each command runs in a separate process, so that imports count, and memory is that of the whole process. The
bars are for two cores.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

GRID = {
    "bpe": 5,
    "layers": 4,
    "embedding": 5,
    "hidden": 5,
    "heads": 4,
    "learning_rate": 10,
    "dropout": 50,
}


def write_table(folder: Path, n_rows: int, n_metrics: int = 3) -> Path:
    """Write a CSV file with this many rows of the grid above and metrics of 17 digits, and its datasheet."""
    rng = np.random.default_rng(0)
    sizes = list(GRID.values())
    chosen = rng.choice(np.prod(sizes), size=n_rows, replace=False)
    grids = [
        np.arange(1, size + 1) * step
        for size, step in zip(sizes, (1e4, 1, 64, 256, 2, 1e-4, 0.01), strict=True)
    ]
    columns = [grid[place] for grid, place in zip(grids, np.unravel_index(chosen, sizes), strict=True)]
    columns += [rng.normal(20, 3, n_rows) for _ in range(n_metrics)]
    metrics = [f"metric_{j}" for j in range(n_metrics)]
    path = folder / "large.csv"
    with path.open("w") as file:
        file.write(",".join([*GRID, *metrics]) + "\n")
        for start in range(0, n_rows, 50_000):
            block = [column[start : start + 50_000].tolist() for column in columns]
            file.writelines(",".join(map(repr, row)) + "\n" for row in zip(*block, strict=True))
    sections = [f"[hyperparameters.{name}]" for name in GRID]
    sections += [
        f'[metrics.{name}]\ndirection = "{"max" if name == "metric_0" else "min"}"' for name in metrics
    ]
    path.with_suffix(".toml").write_text(
        'objectives = ["metric_0", "metric_1"]\n' + "\n".join(sections) + "\n"
    )
    return path


def measure(arguments: list[str], home: Path) -> tuple[float, float, float]:
    """Elapsed seconds, processor seconds, and GB (the largest resident size) of a process."""
    code = (
        "import resource, runpy, sys\nsys.argv = sys.argv[1:]\n"
        "try:\n    runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)\n"
        "finally:\n    used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "    print(used.ru_utime + used.ru_stime, used.ru_maxrss, file=sys.stderr)\n"
    )
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "HPOBENCH_NMT_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.perf_counter() - start
    if done.returncode:
        sys.exit(done.stderr)
    processor, kilobytes = done.stderr.split()[-2:]
    return seconds, float(processor), int(kilobytes) * 1024 / 1e9


def check(home: Path) -> None:
    path = write_table(home, 100_000, n_metrics=6)
    measure(["hpobench_nmt", "tables", "add", str(path)], home)
    seconds, processor, memory = measure(["hpobench_nmt", "tables", "check", "large"], home)
    report("tables check, 100,000 rows", seconds, 5, f"({processor:.2f} s of a processor, {memory:.2f} GB)")


def analyze(home: Path) -> None:
    path = write_table(home, 100_000)
    measure(["hpobench_nmt", "tables", "add", str(path)], home)
    seconds, processor, memory = measure(["hpobench_nmt", "tables", "analyze", "large"], home)
    report(
        "tables analyze, 100,000 rows, 7 hyperparameters",
        seconds,
        20,
        f"({processor:.2f} s of a processor, {memory:.2f} GB)",
    )


def add(home: Path) -> None:
    path = write_table(home, 1_000_000)
    seconds, processor, memory = measure(["hpobench_nmt", "tables", "add", str(path)], home)
    report(
        "tables add, 1,000,000 rows, 7 hyperparameters", seconds, 10, f"({processor:.2f} s of a processor)"
    )
    report("its memory", memory, 0.8, unit="GB")


def front(home: Path) -> None:
    from hpobench_nmt.core.pareto import pareto_front

    losses = np.random.default_rng(0).dirichlet(np.ones(3), size=20_000)
    start = time.perf_counter()
    rows = pareto_front(losses)
    report(f"front of three objectives, {len(rows):,} of 20,000 rows on it", time.perf_counter() - start, 1)


def report(what: str, measured: float, bar: float, more: str = "", unit: str = "s") -> None:
    mark = "ok" if measured <= bar else "MISSED"
    print(f"{what:60} {measured:6.2f} {unit:2}  bar {bar:g} {unit}  {mark}  {more}".rstrip(), flush=True)


BENCHMARKS: dict[str, Callable[[Path], None]] = {
    "check": check,
    "analyze": analyze,
    "add": add,
    "front": front,
}


def main() -> None:
    for name in sys.argv[1:] or BENCHMARKS:
        with tempfile.TemporaryDirectory() as home:
            BENCHMARKS[name](Path(home))


if __name__ == "__main__":
    main()
