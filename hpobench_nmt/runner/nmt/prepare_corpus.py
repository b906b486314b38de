"""A parallel corpus in subwords and in Sockeye's format: made once for all jobs that can share it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from hpobench_nmt.runner.disk.locks import key_of, make_once
from hpobench_nmt.runner.family import Job
from hpobench_nmt.runner.nmt.bpe import Bpe, learn, learn_on
from hpobench_nmt.runner.nmt.commands import run_command
from hpobench_nmt.runner.nmt.settings import SockeyeSettings

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


def prepare(job: Job[SockeyeSettings], corpus: ParallelCorpus, pauses_for: Path | None = None) -> Prepared:
    """Learn subwords on each side of the training part, encode all parts, and run sockeye.prepare_data.

    The folder is made in the cache, unless it exists already. Its name depends on the text and the settings.
    Training sentences with more than `max_length` subwords on either side are left out. `pauses_for` is that
    of `run_command`.

    Raises TrainingFailed if the text has fewer subwords, or more characters, than `bpe_symbols`; and the
    errors of `run_command`.
    """
    settings, longest = job.settings, f"{job.settings.max_length}:{job.settings.max_length}"
    symbols, sentences, merges = settings.bpe_symbols, settings.bpe_sentences, settings.bpe_count == "merges"
    identity = [corpus.provenance["sha256"], version("sentencepiece"), version("sockeye")]
    kind = f"{'merges' if merges else 'bpe'}{symbols}{f'-of{sentences}' if sentences else ''}"

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
        arguments += ["--max-seq-len", longest, "--output", str(prepared.data)]
        run_command("sockeye.prepare_data", arguments, job.scratch / "prepare.log", pauses_for)

    name = f"nmt-{key_of(identity)}-{kind}-length{settings.max_length}"
    return Prepared(make_once(job.cache / name, make))
