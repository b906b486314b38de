"""A parallel corpus in subwords and in Sockeye's format: made once for all jobs that can share it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from hpobench_nmt.runner.disk.locks import make_once
from hpobench_nmt.runner.nmt.bpe import Bpe, learn, learn_on
from hpobench_nmt.runner.nmt.commands import run_command

if TYPE_CHECKING:
    from hpobench_nmt.runner.corpora import ParallelCorpus


@dataclass(frozen=True)
class Prepared:
    """A folder with a corpus in subwords (train.source, dev.source, …) and, in data/, in Sockeye's format."""

    folder: Path

    @property
    def data(self) -> Path:
        """Sockeye's prepared training data."""
        return self.folder / "data"

    def file(self, part: str, side: str) -> Path:
        """The subwords of one part ("train", "dev", "test") and side ("source", "target")."""
        return self.folder / f"{part}.{side}"

    def target_bpe(self) -> Bpe:
        """The segmentation that turns translations back into text."""
        return Bpe((self.folder / "target.model").read_bytes())


def prepare(
    corpus: ParallelCorpus,
    symbols: int,
    max_length: int,
    cache: Path,
    log: Path,
    pauses_for: Path | None = None,
    merges: bool = False,
    sentences: int = 0,
) -> Prepared:
    """Learn subwords on each side of the training part, encode all parts, and run sockeye.prepare_data.

    The folder is made in the cache, unless it exists already. Its name depends on the text and the settings.
    Training sentences with more than `max_length` subwords on either side are left out. With `merges`, the
    symbols count only merges, without characters. Subwords are learned on that many `sentences`; 0: on all.
    The log and `pauses_for` are those of `run_command`.

    Raises TrainingFailed if the text has fewer subwords, or more characters, than `symbols`; and the errors
    of `run_command`.
    """
    kind = f"{'merges' if merges else 'bpe'}{symbols}{f'-of{sentences}' if sentences else ''}"
    name = f"nmt-{_fingerprint(corpus)}-{kind}-length{max_length}"

    def make(folder: Path) -> None:
        folder.mkdir(parents=True)
        prepared = Prepared(folder)
        for side, index in (("source", 0), ("target", 1)):
            model = learn(learn_on(corpus.train[index], sentences), symbols, side, merges)
            (folder / f"{side}.model").write_bytes(model)
            bpe = Bpe(model)
            for part, lines in (("train", corpus.train), ("dev", corpus.dev), ("test", corpus.test)):
                text = "".join(line + "\n" for line in bpe.encode(lines[index]))
                prepared.file(part, side).write_text(text, "utf-8", newline="\n")
        arguments = ["--source", str(prepared.file("train", "source"))]
        arguments += ["--target", str(prepared.file("train", "target"))]
        arguments += ["--max-seq-len", f"{max_length}:{max_length}", "--output", str(prepared.data)]
        run_command("sockeye.prepare_data", arguments, log, pauses_for)

    return Prepared(make_once(cache / name, make))


def _fingerprint(corpus: ParallelCorpus) -> str:
    """A hash of the corpus's text and of the libraries that prepare it."""
    digest = hashlib.sha256()
    for library in ("sentencepiece", "sockeye"):
        digest.update(f"{library} {version(library)}\n".encode())
    for part in (corpus.train, corpus.dev, corpus.test):
        for lines in part:
            digest.update(f"{len(lines)}\n".encode())
            digest.update("\n".join(lines).encode())
    return digest.hexdigest()[:16]
