"""Byte-pair encoding of one side of a corpus, by the sentencepiece library.

The library works on plain text, so that languages written without spaces need no word segmentation, and
its encoding can be undone exactly, so that BLEU is computed on the text itself.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

from hpobench_nmt.runner.family import TrainingFailed

_SPACE = "\u2581"  # the library's character for a blank
_MARKS = 3  # <unk>, <s>, </s>


class Bpe:
    """A learned segmentation of one language."""

    def __init__(self, model: bytes) -> None:
        import sentencepiece

        self._processor: Any = sentencepiece.SentencePieceProcessor(model_proto=model)

    def encode(self, lines: Sequence[str]) -> list[str]:
        """The lines as subwords with spaces between; white space within a line counts as one space."""
        pieces = self._processor.encode([" ".join(line.split()) for line in lines], out_type=str)
        return [" ".join(line) for line in pieces]

    def decode(self, lines: Sequence[str]) -> list[str]:
        """The text that the subwords stand for."""
        # One by one: in a list, sentencepiece 0.2.0 wants subwords in the first line.
        return [str(self._processor.decode(line.split())) if line.strip() else "" for line in lines]


def learn(lines: Sequence[str], symbols: int, side: str, merges: bool = False) -> bytes:
    """A model of that many subwords, every character of the lines among them. No randomness.

    The symbols are the three marks of unknown text, beginning and end, all characters, and the subwords that
    merges make; with `merges`, these last alone, as Zhang & Duh (2020) count. The side is for the error.

    Raises TrainingFailed for fewer symbols than characters, or more than the text has subwords.
    """
    import sentencepiece

    plain = [" ".join(line.split()) for line in lines]
    size = symbols + (len(set().union(*plain, _SPACE) - {" "}) + _MARKS if merges else 0)
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(plain),
            model_writer=model,
            model_type="bpe",
            vocab_size=size,
            character_coverage=1.0,
            normalization_rule_name="identity",
            max_sentence_length=1_000_000,
            num_threads=1,
            minloglevel=2,
        )
    except RuntimeError as error:
        reason = _reason(str(error), side, size - symbols)
        raise TrainingFailed(f"bpe_symbols {symbols}: {reason}") from None
    return model.getvalue()


def _reason(message: str, side: str, uncounted: int) -> str:
    """The library's message in words that name the setting, without the subwords that it does not count."""
    if found := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return f"the {side} side alone has {found[1]} characters and marks."
    if found := re.search(r"value <= (\d+)", message):
        what = "merges" if uncounted else "subwords"
        return f"the {side} side has no more than {int(found[1]) - uncounted} {what}."
    return f"no subwords could be learned on the {side} side ({message.strip()})."
