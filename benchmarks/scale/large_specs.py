"""Planning a grid of 10^6 configurations, and the state of a ledger of 1,000 and 100,000 rows.

    pip install '.[train]'
    python benchmarks/scale/large_specs.py

Times are processor times of commands in separate processes, including the start of Python. The last is the
time to find one training in a ledger after a line was appended, as the runner does before and after each
training.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from hpobench_nmt.runner.ledgers.ledger import Record, append, chained, open_ledger, read_ledger, training_key
from hpobench_nmt.runner.ledgers.ledger_tail import recorded
from hpobench_nmt.runner.specs.spec_file import load_spec

PLAN_BAR, STATUS_BAR, LOOK_BAR = 2.0, 0.5, 0.02

SPEC = """
name = "large"
family = "melis"
[corpus]
name = "text"
train = "train.txt"
dev = "dev.txt"
test = "test.txt"
[grid]
"""
AXES = ("depth", "input_embedding_ratio", "learning_rate", "dropout_input", "dropout_state", "dropout_output")


def spec_of(folder: Path, values: int) -> Path:
    """A spec of values^6 configurations."""
    grid = [(n + 1) / values for n in range(values)]
    lines = [f"{name} = {[round(0.9 * v, 6) for v in grid]}" for name in AXES[1:]]
    path = folder / f"large-{values}.toml"
    path.write_text("\n".join([SPEC, f"depth = {list(range(1, values + 1))}", *lines]))
    return path


def processor_time(*command: str) -> float:
    """Seconds of processor time of one command of the package."""
    before = os.times()
    subprocess.run([sys.executable, "-m", "hpobench_nmt", *command], check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def fill(spec_path: Path, folder: Path, rows: int) -> None:
    """Write a ledger of this many trainings, each with a curve of 20 checks."""
    spec = load_spec(spec_path)
    open_ledger(folder / "ledger.jsonl", spec.identity, {"sha256": "0"})
    curve = [{"update": 100.0 * n, "epoch": n / 10, "dev_ppl": 100.0 + n, "seconds": n} for n in range(20)]
    metrics = {metric.name: 1.0 for metric in spec.metrics}
    head = read_ledger(folder / "ledger.jsonl").head
    with (folder / "ledger.jsonl").open("ab") as file:
        for row in range(rows):
            line = {"config": spec.configuration(row), "replicate": 0, "seed": row, "status": "done"}
            line |= {"metrics": metrics, "curve": curve, "device": "cpu", "seconds": 100.0}
            content, head = chained(json.dumps(line).encode()[:-1], head)
            file.write(content + b"\n")


def main() -> None:
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        million = spec_of(folder, 10)
        taken = min(processor_time("train", str(million), "--dry-run") for _ in range(3))
        print(f"train --dry-run of 10^6 configurations: {taken:.2f} s (bar {PLAN_BAR} s)")
        for rows, values in ((1_000, 4), (100_000, 8)):
            out = folder / f"out-{rows}"
            path = spec_of(folder, values)
            fill(path, out, rows)
            status = ("train", str(path), "--out", str(out), "--status")
            taken = min(processor_time(*status) for _ in range(3))
            bar = f" (bar {STATUS_BAR} s)" if rows == 1_000 else ""
            print(f"train --status of a ledger of {rows:,} rows: {taken:.2f} s{bar}")
            spec, ledger = load_spec(path), out / "ledger.jsonl"
            recorded(ledger, training_key(spec.configuration(0), 0))
            looks = []
            for row in range(rows, rows + 5):
                append(ledger, Record(dict[str, Any](spec.configuration(row)), 0, row, "failed"))
                start = time.process_time()
                assert recorded(ledger, training_key(spec.configuration(row), 0))
                looks.append(time.process_time() - start)
            print(f"  looking for one training: {max(looks) * 1e3:.2f} ms (bar {LOOK_BAR * 1e3:.0f} ms)")


if __name__ == "__main__":
    main()
