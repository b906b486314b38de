"""Peak memory of a large run: 5,000 trials of RS and BO on ja-en, written into a folder and scored.

    python benchmarks/scale/memory_of_a_large_run.py

ja-en must be installed (`hpobench-nmt tables fetch nmthpo`). The memory is the resident set of the main
process and of each worker, sampled from /proc every tenth of a second. Bar: 0.4 GB in the main process, in
every worker, and in `score`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BAR_GB = 0.4
_INTERVAL = 0.1


def resident(pid: int) -> float:
    """Resident memory of a process in GB, 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024**2 for line in lines if line.startswith("VmRSS:")), 0.0)


def children(pid: int) -> list[int]:
    """All descendants of a process."""
    found = []
    for task in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(task.read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
        if parent == pid:
            found += [int(task.parent.name), *children(int(task.parent.name))]
    return found


def peaks(command: list[str]) -> tuple[float, float, float]:
    """Seconds of a command, and peak memory of its own process and of its largest descendant in GB."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    own = workers = 0.0
    while process.poll() is None:
        own = max(own, resident(process.pid))
        workers = max([workers, *map(resident, children(process.pid))])
        time.sleep(_INTERVAL)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed.")
    return time.perf_counter() - start, own, workers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=5000)
    parser.add_argument("--table", default="ja-en")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    program = [sys.executable, "-m", "hpobench_nmt"]
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "out")
        run = [*program, "run", "quick", "--tables", arguments.table, "--methods", "RS,BO_EI_M_std"]
        run += ["--trials", str(arguments.trials), "--jobs", str(arguments.jobs), "--out", out, "--quiet"]
        largest = 0.0
        for name, command in (("run", run), ("score", [*program, "score", out])):
            seconds, own, workers = peaks(command)
            largest = max(largest, own, workers)
            print(f"{name:6s} {seconds:6.1f} s   main process {own:.2f} GB   largest worker {workers:.2f} GB")
    verdict = "met" if largest <= BAR_GB else "missed"
    print(f"peak {largest:.2f} GB (bar: {BAR_GB} GB): {verdict}")


if __name__ == "__main__":
    main()
