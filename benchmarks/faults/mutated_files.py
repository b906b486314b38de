"""Mutated files for every reader: each must be read, or refused in one line that names the file.

    python benchmarks/faults/mutated_files.py                          # 2,000 inputs for each reader
    python benchmarks/faults/mutated_files.py --inputs 200 roles sweep # readers whose name holds one of these
    python benchmarks/faults/mutated_files.py --seed 7                 # other inputs

The readers and their valid files are declared in tests/fuzz/fuzzing/readers.py, whose tests try the first 20
inputs of seed 0. An input is read in this process, within 20 s. A table shows how many were read and how many
were refused; each fault is printed with its input. The exit code is 1 if there is any.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[2] / "tests" / folder) for folder in ("fuzz", "helpers")]


def tried(name: str, reader: Any, seed: int, inputs: int, shown: int) -> int:
    """Print how the inputs of a reader ended, and return how many were faults."""
    trying: Any = import_module("fuzzing.tries")
    faults, started = 0, time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutated-") as folder:
        tries = trying.Tries(name, reader, Path(folder).resolve())
        for number in range(inputs):
            try:
                tries.once([seed, number])
            except trying.Fault as fault:
                faults += 1
                if faults <= shown:
                    print(f"FAULT: {fault}", flush=True)
    counts, seconds = tries.counts, time.monotonic() - started
    print(
        f"{name:34}{inputs:8,}{counts['read']:8,}{counts['refused']:9,}{faults:8}{seconds:8.0f} s", flush=True
    )
    return faults


def main() -> None:
    """Try the readers, and exit with 1 if there was a fault."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", help="only readers whose name holds one of these")
    parser.add_argument("--inputs", type=int, default=2000, help="for each reader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shown", type=int, default=3, help="faults of a reader that are printed")
    chosen = parser.parse_args()
    logging.disable()
    readers: Any = import_module("fuzzing.readers")

    print(f"{'reader':34}{'inputs':>8}{'read':>8}{'refused':>9}{'faults':>8}{'time':>10}")
    faults = 0
    for name, reader in readers.READERS.items():
        if chosen.words and not any(word.lower() in name.lower() for word in chosen.words):
            continue
        if reader.missing:
            print(f"{name:34} needs {', '.join(reader.missing)}")
            continue
        faults += tried(name, reader, chosen.seed, chosen.inputs, chosen.shown)
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
