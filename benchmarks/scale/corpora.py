"""Time and memory to prepare a parallel corpus, and to open it in a training.

    python benchmarks/scale/corpora.py [--pairs 1000000] [--bpe-sentences 100000]

Writes this many pairs of random sentences of 5 to 39 words (a vocabulary of 60,000, English lengths) as two
text files. One process prepares the corpus with the filters empty, length, ratio and duplicate. A second
process learns 8,000 subwords per side for the family `marian`, and encodes the pairs. A third process opens
the encoded corpus, as every further training does, and makes the batches of one epoch. Bars: 1,000,000 pairs
in 3 minutes and 2 GB, 10,000,000 in 4 GB.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hpobench_nmt.runner.corpora import load_corpus
from hpobench_nmt.runner.nmt.marian_batches import batches
from hpobench_nmt.runner.nmt.marian_corpus import encode_corpus
from hpobench_nmt.runner.nmt.marian_settings import MarianSettings

_WORDS, _LETTERS = 60_000, "etaoinshrdlcumwfgypbvk"
_STEPS = ("prepare", "encode", "open")


def sentences(count: int, seed: int) -> Iterator[str]:
    """Random sentences whose words have Zipf's frequencies."""
    draw = np.random.default_rng(seed)
    words = np.array(["".join(draw.choice([*_LETTERS], draw.integers(2, 11))) for _ in range(_WORDS)])
    share = 1 / np.arange(1, _WORDS + 1)
    ends = np.cumsum(share / share.sum())
    for first in range(0, count, 10_000):
        lengths = draw.integers(5, 40, min(10_000, count - first))
        drawn = words[np.searchsorted(ends, draw.random(lengths.sum())).clip(max=_WORDS - 1)]
        for line in np.split(drawn, np.cumsum(lengths)[:-1]):
            yield " ".join(line)


def write_corpus(folder: Path, pairs: int) -> None:
    """The six files of the corpus."""
    for part, count in (("train", pairs), ("dev", 1000), ("test", 1000)):
        for seed, side in enumerate(("source", "target")):
            with (folder / f"{part}.{side}").open("w") as file:
                file.writelines(f"{line}\n" for line in sentences(count, len(part) + 10 * seed))


def step(name: str, folder: Path, sentences: int) -> None:
    """One step, run in a separate process."""
    names = [f"{part}_{side}" for part in ("train", "dev", "test") for side in ("source", "target")]
    section: dict[str, Any] = {"name": "parallel", "source": "de", "target": "en"}
    section |= {name: name.replace("_", ".") for name in names}
    section["filters"] = ["empty", "length", "ratio", "duplicate"]
    corpus = load_corpus(section, folder, folder / "cache")
    if name != "prepare":
        settings = MarianSettings(
            bpe_symbols=8000, num_layers=1, num_embed=32, num_hidden=32, num_heads=1, learning_rate=1e-3,
            bpe_sentences=sentences,
        )  # fmt: skip
        found = encode_corpus(corpus, settings, folder / "cache")  # type: ignore[arg-type]
        batches(found.train, 4096, 1, 0, found.short)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--bpe-sentences", type=int, default=100_000)
    parser.add_argument("--step", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        step(given.step, given.folder, given.bpe_sentences)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_corpus(folder, given.pairs)
        size = sum(path.stat().st_size for path in folder.iterdir())
        print(f"{given.pairs:,} pairs, {size / 1e9:.2f} GB of text")
        for each in _STEPS:
            before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            command = [sys.executable, __file__, "--step", each, "--folder", name]
            process = subprocess.Popen([*command, "--bpe-sentences", str(given.bpe_sentences)])
            own = 0
            while process.poll() is None:
                own = max(own, _memory(process.pid))
                time.sleep(0.02)
            if process.returncode:
                sys.exit(process.returncode)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            clock = time.perf_counter() - started
            print(f"{each}: {used:.0f} s of processor time, {clock:.0f} s by the clock, {own / 1e9:.2f} GB")


def _memory(process: int) -> int:
    """The private memory of a process in bytes, because pages of mapped files are shared."""
    try:
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return 1024 * int(line.split()[1])
    except (FileNotFoundError, ProcessLookupError):  # it has just ended
        pass
    return 0


if __name__ == "__main__":
    main()
