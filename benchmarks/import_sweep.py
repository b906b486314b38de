"""Time and memory of importing a large sweep of 100,000 runs by 60 columns, each with its bar.

python benchmarks/import_sweep.py

The file is MLflow's `search_runs()` as CSV: 12 hyperparameters drawn at random, 12 of grids and labels, 12
metrics, and 24 columns of bookkeeping, tags and constants. The command runs in a separate process, so that
imports count, and memory is that of the whole process. The bars are for two cores.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from large_tables import measure, report

ROWS = 100_000


def write_runs(path: Path, n_rows: int = ROWS) -> None:
    """Write a file with this many runs and 60 columns."""
    rng = np.random.default_rng(0)
    columns: dict[str, list[str]] = {
        "run_id": [f"{rng.integers(2**63):032x}" for _ in range(n_rows)],
        "experiment_id": ["3"] * n_rows,
        "status": np.where(rng.random(n_rows) < 0.02, "FAILED", "FINISHED").tolist(),
        "artifact_uri": [f"file:///data/mlruns/3/{row:x}/artifacts" for row in range(n_rows)],
        "start_time": [f"2024-03-{1 + row % 28:02d} 10:00:00.000000+00:00" for row in range(n_rows)],
        "end_time": [
            f"2024-03-{1 + row % 28:02d} 11:{row % 60:02d}:07.250000+00:00" for row in range(n_rows)
        ],
    }
    for j in range(12):
        columns[f"metrics.val_loss_{j}"] = list(map(repr, rng.normal(3, 1, n_rows).tolist()))
    for j in range(12):
        drawn = 10 ** rng.uniform(-5, -1, n_rows) if j % 2 else rng.random(n_rows)
        columns[f"params.rate_{j}"] = list(map(repr, drawn.tolist()))
    for j in range(8):
        columns[f"params.size_{j}"] = list(map(str, (2 ** rng.integers(4, 10, n_rows)).tolist()))
    for j in range(4):
        columns[f"params.kind_{j}"] = rng.choice(["adam", "sgd", "None", "lamb"], n_rows).tolist()
    for j in range(6):
        columns[f"params.fixed_{j}"] = ["12"] * n_rows
    for j in range(12):
        columns[f"tags.note_{j}"] = [f"run {row} of note {j}" for row in range(n_rows)]
    assert len(columns) == 60
    with path.open("w") as file:
        file.write(",".join(columns) + "\n")
        file.writelines(",".join(row) + "\n" for row in zip(*columns.values(), strict=True))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.csv"
        write_runs(path)
        command = ["hpobench_nmt", "tables", "import", str(path), "--metric", "val_loss_0"]
        seconds, processor, memory = measure(command, Path(folder) / "home")
        size = path.stat().st_size / 1e6
    report(
        f"tables import, {ROWS:,} runs of 60 columns, {size:.0f} MB",
        seconds,
        10,
        f"({processor:.2f} s of a processor)",
    )
    report("its memory", memory, 1, unit="GB")


if __name__ == "__main__":
    main()
