"""Rows per hour that the runner reaches here, and the share of the time that is not training or measuring.

    pip install '.[train]'
    python benchmarks/runner.py [--spec tables/sotu-awd-lstm/spec.toml] [--limit 4] [--jobs 2]

Trains the first configurations of a spec by the command line, in a folder that is thrown away. The corpus and
what trainings share are prepared by the first row, before the clock starts. The command counts from its start
to its end; only the wait of a job that found nothing left to train does not.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from hpobench_nmt.lookup.folder import LEDGER
from hpobench_nmt.runner.ledgers.ledger import read_ledger

ROOT = Path(__file__).parents[1]
BAR = 0.05


def train(spec: Path, folder: Path, limit: int, jobs: int) -> tuple[float, list[float]]:
    """Seconds that the command takes, and those after which each of its records was there."""
    command = [sys.executable, "-m", "hpobench_nmt", "train", str(spec), "--out", str(folder), "--quiet"]
    known = count(folder)
    start = time.perf_counter()
    process = subprocess.Popen([*command, "--limit", str(limit), "--jobs", str(jobs), "--device", "cpu"])
    ends: list[float] = []
    while process.poll() is None:
        time.sleep(0.1)
        now = time.perf_counter() - start
        ends += [now] * (count(folder) - known - len(ends))
    if process.returncode:
        raise SystemExit(process.returncode)
    return time.perf_counter() - start, ends


def count(folder: Path) -> int:
    """Lines of the ledger."""
    path = folder / LEDGER
    return path.read_bytes().count(b"\n") if path.exists() else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spec", type=Path, default=ROOT / "tables" / "sotu-awd-lstm" / "spec.toml")
    parser.add_argument("--limit", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work) / "table"
        train(arguments.spec, folder, 1, 1)
        wall, ends = train(arguments.spec, folder, arguments.limit, arguments.jobs)
        records = read_ledger(folder / LEDGER).records[-len(ends) :]
    # The last records are one of each job, for a job only stops when there is nothing left.
    waited = sum(ends[-1] - end for end in ends[-arguments.jobs :])
    held = arguments.jobs * wall - waited
    share = 1 - sum(record.seconds for record in records) / held
    rows_per_hour = len(records) / held * arguments.jobs * 3600
    print(f"{len(records)} rows in {wall:.0f} s with {arguments.jobs} jobs: {rows_per_hour:.0f} an hour")
    print(f"{share:.1%} of the time is not training or measuring (bar {BAR:.0%})")


if __name__ == "__main__":
    main()
