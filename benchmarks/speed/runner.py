"""Rows per hour of the runner on this machine, and the share of time that is not training or measuring.

    pip install '.[train]'
    python benchmarks/speed/runner.py [--spec tables/sotu-awd-lstm/spec.toml] [--limit 4] [--jobs 2]

Trains the first configurations of a spec by the command line, in a temporary folder. The first row prepares
the corpus and everything that trainings share, before the clock starts. The command is timed from start to
end, without the time that a job waits because nothing is left to train.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from hpobench_nmt.lookup.disk.folder import LEDGER
from hpobench_nmt.runner.ledgers.ledger import read_ledger

ROOT = Path(__file__).parents[2]
BAR = 0.05


def train(spec: Path, folder: Path, limit: int, jobs: int) -> tuple[float, list[float]]:
    """Seconds of the command, and the seconds after which each of its records was written."""
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
    """The number of lines of the ledger."""
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
    # The last records belong to different jobs, because a job only stops when nothing is left to train.
    waited = sum(ends[-1] - end for end in ends[-arguments.jobs :])
    held = arguments.jobs * wall - waited
    share = 1 - sum(record.seconds for record in records) / held
    rows_per_hour = len(records) / held * arguments.jobs * 3600
    print(f"{len(records)} rows in {wall:.0f} s with {arguments.jobs} jobs: {rows_per_hour:.0f} an hour")
    print(f"{share:.1%} of the time is not training or measuring (bar {BAR:.0%})")


if __name__ == "__main__":
    main()
