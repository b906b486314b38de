"""How many changed bytes the hashes detect, and what the hashes cost.

python benchmarks/faults/byte_flips.py             # a few minutes: flips, then costs
python benchmarks/faults/byte_flips.py --flips 100
python benchmarks/faults/byte_flips.py --costs     # results of 5,000 trials and a ledger of 1,000 rows

A flip changes one byte of a file. It is noticed if reading ends in an error. Other flips are harmless if the
content read is the same as before, because no result can change then. The bars: every flip that can change a
result is noticed, and hashes take at most 3% of processor time.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def flipped(path: Path, read: Callable[[], Any], flips: int, seed: int = 0) -> tuple[int, int, int]:
    """Numbers of noticed flips, of harmless flips, and of unnoticed flips that changed the content read."""
    from hpobench_nmt.core.system.errors import InputError

    whole, draw = path.read_bytes(), random.Random(seed)
    before = read()
    noticed = harmless = 0
    for _ in range(flips):
        place = draw.randrange(len(whole))
        value = draw.choice([byte for byte in range(256) if byte != whole[place]])
        path.write_bytes(whole[:place] + bytes([value]) + whole[place + 1 :])
        try:
            found = read()
        except InputError:
            noticed += 1
        else:
            harmless += found == before
    path.write_bytes(whole)
    return noticed, harmless, flips - noticed - harmless


def a_ledger(folder: Path, rows: int) -> Path:
    """A ledger of `rows` trainings, each with a curve of ten checkpoints."""
    from hpobench_nmt.lookup.disk.file_names import LEDGER
    from hpobench_nmt.runner.ledgers import ledger

    path = folder / LEDGER
    ledger.open_ledger(path, {"name": "t", "seed": 1}, {"sha256": "ab" * 32})
    rng = np.random.default_rng(0)
    os.fsync = lambda fd: None  # the disk's time does not count
    versions = {"torch": "2.9.0", "python": "3.11.9"}
    for row in range(rows):
        config = {"a": row, "b": 0.5}
        curve = [{"update": 100 * i, "dev_ppl": float(rng.random())} for i in range(1, 11)]
        metrics = {"dev_ppl": float(rng.random()), "seconds": float(rng.random())}
        ledger.append(
            path,
            ledger.Record(config, 0, row, "done", "", metrics, curve, versions=versions, seconds=1.5),
        )
    return path


def flips(count: int) -> None:
    """Print how many flips are noticed for each kind of file."""
    import hpobench_nmt as hb
    from hpobench_nmt.benchmarking.records.manifest import read_manifest
    from hpobench_nmt.lookup.disk.folder import load_folder, save_folder
    from hpobench_nmt.runner.ledgers.ledger import read_ledger

    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        os.environ["HPOBENCH_NMT_HOME"] = name
        table = hb.load_table("sotu-awd-lstm")
        place = home / "tables" / table.name
        save_folder(table, place)
        results = home / "results"
        hb.run("quick", tables=[table.name], methods=["RS"], trials=20, jobs=1, out=results)

        def of_table() -> object:
            found = load_folder(place)
            columns = [(m.name, m.direction, m.missing, m.tolerance) for m in found.metrics]
            return found.sha256, found.objectives, columns

        def of_results() -> object:
            return str(read_manifest(results)), hb.load_results(results).scores().to_csv()

        ledger = a_ledger(home, 20)
        files: dict[str, tuple[Path, Callable[[], object]]] = {
            "results: observations": (next(results.glob("observations/*/*.parquet")), of_results),
            "results: manifest": (results / "manifest.json", of_results),
            "table": (place / "table.csv", of_table),
            "datasheet": (place / "datasheet.toml", of_table),
            "ledger": (ledger, lambda: read_ledger(ledger).records),
        }
        print(f"{'file':24}{'flips':>8}{'noticed':>10}{'no change':>12}{'unnoticed':>12}")
        for what, (path, read) in files.items():
            noticed, harmless, wrong = flipped(path, read, count)
            print(f"{what:24}{count:8}{noticed:10}{harmless:12}{wrong:12}", flush=True)


def seconds(work: Callable[[], object], times: int = 5) -> float:
    """Smallest processor time of several repetitions."""
    taken = []
    for _ in range(times):
        started = time.process_time()
        work()
        taken.append(time.process_time() - started)
    return min(taken)


def costs() -> None:
    """Print the hashes' share of the processor time of writing and reading."""
    import hashlib

    import hpobench_nmt as hb
    from hpobench_nmt.benchmarking.records.manifest import read_manifest
    from hpobench_nmt.runner.ledgers.ledger import NO_HEAD, chained, read_ledger, split

    with tempfile.TemporaryDirectory() as name:
        results = Path(name) / "results"
        started = time.process_time()
        hb.run("quick", tables=["sotu-awd-lstm"], methods=["RS"], trials=5000, jobs=1, out=results)
        run = time.process_time() - started
        read = seconds(lambda: hb.load_results(results), 3)
        manifest = read_manifest(results)
        paths = list(results.glob("observations/*/*.parquet"))
        hashing = seconds(lambda: [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths])
        again = seconds(lambda: (read_manifest(results), manifest.to_json())) * len(paths)
        print(f"results of 5,000 trials: run {run:.2f} s, hashes {(hashing + again) / run:.2%}")
        print(f"results of 5,000 trials: read {read:.3f} s, hashes {hashing / read:.2%}")
        started = time.process_time()
        ledger = a_ledger(Path(name), 1000)
        written = time.process_time() - started
        bodies = [split(line)[0] for line in ledger.read_bytes().splitlines()]
        read = seconds(lambda: read_ledger(ledger))

        def follow() -> None:
            head = NO_HEAD
            for body in bodies:
                _, head = chained(body, head)

        hashing = seconds(follow)
        print(f"ledger of 1,000 rows: written in {written:.2f} s, hashes {hashing / written:.2%}")
        print(f"ledger of 1,000 rows: read in {read:.3f} s, hashes {hashing / read:.2%}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--flips", type=int, default=500, help="flips of each file")
    parser.add_argument("--costs", action="store_true", help="only the costs")
    asked = parser.parse_args()
    if not asked.costs:
        flips(asked.flips)
    costs()
