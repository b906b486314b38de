"""Time of `hpobench-nmt --help`, of `import hpobench_nmt`, and of a run of two trials on one small table.

    hpobench-nmt tables fetch nmthpo
    python benchmarks/speed/startup.py [--times 10] [--against FOLDER]

Times are the best of several runs, each in a new process. A fixed piece of numpy work is timed between the
runs: on a busy machine, compare the ratios. With --against, another checkout of the project is timed in turns
with this one, in the same Python environment. The run of two trials is `paper-single` on zh-en. Each command
first runs once without timing, because the first run after an installation compiles.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

BAR_SECONDS = 0.5
RUN_BAR_SECONDS = 2.0
HERE = Path(__file__).parents[2]
RUN = ["-m", "hpobench_nmt", "run", "paper-single", "--tables", "zh-en", "--trials", "2", "--jobs", "2"]
CASES = (
    ("hpobench-nmt --help", ["-m", "hpobench_nmt", "--help"], BAR_SECONDS),
    ("import hpobench_nmt", ["-c", "import hpobench_nmt"], BAR_SECONDS),
    ("run of two trials on zh-en", RUN, RUN_BAR_SECONDS),
)


def fixed_work() -> float:
    """Seconds of a fixed piece of numpy work (sorting and multiplying) in one thread."""
    start = time.perf_counter()
    values = np.random.default_rng(0).random((4, 200_000))
    for _ in range(4):
        (np.sort(values, axis=1) * np.exp(values)).sum()
    return time.perf_counter() - start


def seconds_of(arguments: list[str], source: Path) -> float:
    """Seconds of one new process that imports the project from a folder."""
    with tempfile.TemporaryDirectory() as work:
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, *arguments],
            check=True,
            capture_output=True,
            cwd=work,
            env=os.environ | {"PYTHONPATH": str(source)},
        )
        return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--against", type=Path)
    arguments = parser.parse_args()
    sources = [HERE, *([arguments.against.resolve()] if arguments.against else [])]
    for name, command, bar in CASES:
        for source in sources:
            seconds_of(command, source)
        work, best = np.inf, dict.fromkeys(sources, np.inf)
        for _ in range(arguments.times):
            for source in sources:
                best[source] = min(best[source], seconds_of(command, source))
            work = min(work, fixed_work())
        ours = best[HERE]
        verdict = "ok" if ours <= bar else "ABOVE THE BAR"
        print(f"{name}: {ours:.2f} s (bar: {bar}) {verdict}; {ours / work:.1f} times the fixed work")
        for source in sources[1:]:
            print(f"  {source}: {best[source]:.2f} s; ours takes {ours / best[source]:.2f} of it")


if __name__ == "__main__":
    main()
