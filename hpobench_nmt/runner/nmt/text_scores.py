"""BLEU and chrF of translations by sacrebleu, and a guard against scores of text without spaces."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from typing import Any, Literal

from hpobench_nmt.core.system.errors import InputError

Tokenizer = Literal["13a", "zh", "ja-mecab", "char"]

_MECAB = "pip install 'sacrebleu[ja]'"
# Runs of characters in scripts that are written without spaces, and the largest mean length of a run if there
# are spaces between words. Words of Chinese and Japanese have about two characters.
_UNSPACED = (
    (re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"), 3.5),
    (re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]+"), 9.0),  # Thai, Lao, Burmese, Khmer
)


def bleu(translations: Sequence[str], references: Sequence[str], tokenizer: Tokenizer = "13a") -> float:
    """Corpus BLEU, 0 to 100, with sacrebleu's defaults, except for the tokenizer.

    Raises InputError as `refuse_unspaced` does.
    """
    refuse_unspaced(references, tokenizer)
    return float(_bleu(tokenizer).corpus_score(list(translations), [list(references)]).score)


def chrf(translations: Sequence[str], references: Sequence[str]) -> float:
    """Corpus chrF2, 0 to 100, with sacrebleu's defaults. It needs no tokenizer."""
    import sacrebleu

    return float(sacrebleu.corpus_chrf(list(translations), [list(references)]).score)


def signature(translations: Sequence[str], references: Sequence[str], tokenizer: Tokenizer) -> str:
    """sacrebleu's signature of such a BLEU: how it was computed, and by which version."""
    metric = _bleu(tokenizer)
    metric.corpus_score(list(translations), [list(references)])
    return str(metric.get_signature())


def _bleu(tokenizer: Tokenizer) -> Any:
    import sacrebleu

    # force: lines may already be tokenised, as in the built-in corpora.
    return sacrebleu.BLEU(tokenize=tokenizer, force=True)


def check_tokenizer(tokenizer: Tokenizer) -> None:
    """Raise InputError if a tokenizer needs a missing package, with the command that installs it."""
    if tokenizer == "ja-mecab" and importlib.util.find_spec("MeCab") is None:
        raise InputError(f'bleu_tokenizer = "ja-mecab" needs MeCab. Run: {_MECAB}')


def refuse_unspaced(references: Sequence[str], tokenizer: Tokenizer) -> None:
    """Raise InputError for the tokenizer 13a on references without spaces.

    A sentence would count as a word or two, and BLEU would be near 0 even for good translations.
    """
    if tokenizer != "13a":
        return
    for script, longest in _UNSPACED:
        runs = [len(run) for line in references for run in script.findall(line)]
        letters = sum(character.isalpha() for line in references for character in line)
        if runs and sum(runs) > letters / 2 and sum(runs) / len(runs) > longest:
            raise InputError(
                "the target text has no spaces between words, and BLEU's tokenizer 13a splits at "
                "spaces: near-perfect translations would score near 0. Set bleu_tokenizer under [fixed] to "
                '"zh", "ja-mecab" or "char", or split the text (tokenise = true under [corpus]).'
            )
