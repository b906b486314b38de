"""Translation of other text by a kept Sockeye model."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from hpobench_nmt.core.system.errors import RunError
from hpobench_nmt.runner.family import Job, TrainingFailed, Translated
from hpobench_nmt.runner.nmt.commands import run_command
from hpobench_nmt.runner.nmt.kept_files import SOCKEYE_FILES, KeptTranslationModel
from hpobench_nmt.runner.nmt.timed_translate import read_times
from hpobench_nmt.runner.nmt.train_model import decode_arguments


def translate(kept: KeptTranslationModel, lines: Sequence[str], device: str) -> Translated:
    """Translate lines of tokens, with the beam and the batch size of the training's own decoding.

    Raises RunError if Sockeye fails.
    """
    encoded = kept.source.encode(lines)
    subwords = [subword for line in encoded for subword in line.split()]
    outside = sum(subword not in kept.known for subword in subwords)
    if not subwords:
        return Translated([""] * len(lines), 0, 0, 0.0)
    full = [line for line in encoded if line]
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        model = work / "model"
        model.mkdir()
        for file in SOCKEYE_FILES:  # and nothing else that may lie in the folder
            (model / file).symlink_to((kept.folder / file).resolve())
        source, output, log = work / "source", work / "output", work / "log"
        source.write_text("".join(line + "\n" for line in full), "utf-8", newline="\n")
        job = Job(kept.settings, kept.about.seed, kept.about.corpus, work, work, work, device)
        try:
            words = ["1", *decode_arguments(job, model, source, output)]
            run_command("hpobench_nmt.runner.nmt.timed_translate", words, log)
        except TrainingFailed as error:
            raise RunError(str(error)) from None
        seconds, _ = read_times(log.read_text("utf-8"))
        found = kept.target.decode(output.read_text("utf-8").removesuffix("\n").split("\n"))
    if len(found) != len(full):
        raise RunError(f"Sockeye translated {len(found):,} of {len(full):,} lines.")
    translations = iter(found)
    text = [next(translations) if line else "" for line in encoded]
    return Translated(text, len(subwords), outside, seconds)
