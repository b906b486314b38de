"""A parallel corpus as numbers of subwords, which are learnt once for all jobs that can share them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

import numpy as np

from hpobench_nmt.core.errors import InputError
from hpobench_nmt.runner.corpora import ParallelCorpus
from hpobench_nmt.runner.disk.locks import make_once
from hpobench_nmt.runner.family import TrainingFailed
from hpobench_nmt.runner.nmt.bpe import Bpe, learn
from hpobench_nmt.runner.nmt.marian_numbers import Pairs, encode
from hpobench_nmt.runner.nmt.marian_settings import MarianSettings
from hpobench_nmt.runner.nmt.text_scores import refuse_unspaced

_SUBWORDS = ("source.model", "target.model")


@dataclass(frozen=True, eq=False)
class EncodedCorpus:
    """The subwords of each side, and the pairs of train and dev, each line with its end.

    Attributes:
        models: of sentencepiece, as files hold them.
        dev_lines: the text of dev, its source and target lines.
    """

    source: Bpe
    target: Bpe
    models: tuple[bytes, bytes]
    train: Pairs
    dev: Pairs
    dev_lines: tuple[Sequence[str], Sequence[str]]

    def sample(self, sentences: int) -> tuple[str, list[str], list[str]]:
        """Source and target lines of dev, evenly spaced, and the name of their BLEU; -1: all of dev."""
        count = len(self.dev_lines[0])
        if sentences < 0 or sentences >= count:
            return "dev_bleu", list(self.dev_lines[0]), list(self.dev_lines[1])
        chosen = np.linspace(0, count - 1, sentences).round().astype(int)
        source, target = ([lines[i] for i in chosen] for lines in self.dev_lines)
        return "dev_bleu_sample", source, target


def encode_corpus(corpus: ParallelCorpus, settings: MarianSettings, cache: Path) -> EncodedCorpus:
    """The corpus in subwords, learnt on its training part or read from the cache.

    Training pairs with more than `max_length` subwords on a side are left out.

    Raises:
        TrainingFailed: no subwords of that number can be learnt, or no pair is short enough.
    """
    digest = hashlib.sha256(f"sentencepiece {version('sentencepiece')}\n".encode())
    for lines in corpus.train:
        digest.update("\n".join([str(len(lines)), *lines]).encode())
    kind = f"{settings.vocabularies}-{settings.bpe_count}{settings.bpe_symbols}"

    def make(folder: Path) -> None:
        folder.mkdir(parents=True)
        for name, model in zip(_SUBWORDS, learn_sides(corpus, settings), strict=True):
            (folder / name).write_bytes(model)

    folder = make_once(cache / f"subwords-{digest.hexdigest()[:16]}-{kind}", make)
    models = (folder / _SUBWORDS[0]).read_bytes(), (folder / _SUBWORDS[1]).read_bytes()
    source, target = map(Bpe, models)
    train, dev = (
        list(zip(encode(source, part[0]), encode(target, part[1]), strict=True))
        for part in (corpus.train, corpus.dev)
    )
    longest = settings.max_length + 1
    short = [pair for pair in train if 1 < len(pair[0]) <= longest and 1 < len(pair[1]) <= longest]
    if not short:
        raise TrainingFailed(f"max_length {settings.max_length}: every training pair has more subwords.")
    return EncodedCorpus(source, target, models, short, dev, corpus.dev)


def learn_sides(corpus: ParallelCorpus, settings: MarianSettings) -> tuple[bytes, bytes]:
    """sentencepiece's model of each side; the same twice where they share one.

    The last ones are remembered, because a run that checks its spec asks for the same ones often.

    Raises TrainingFailed where the text has fewer subwords, or more characters.
    """
    return _learnt(corpus, settings.vocabularies == "joint", settings.bpe_symbols, settings.bpe_count)


@lru_cache(maxsize=16)
def _learnt(corpus: ParallelCorpus, joint: bool, symbols: int, count: str) -> tuple[bytes, bytes]:
    merges = count == "merges"
    if joint:
        both = learn([*corpus.train[0], *corpus.train[1]], symbols, "joint", merges)
        return both, both
    source, target = corpus.train
    return learn(source, symbols, "source", merges), learn(target, symbols, "target", merges)


def corpus_check(settings: MarianSettings, corpus: ParallelCorpus) -> None:
    """Refuse a vocabulary that the corpus cannot have, which takes seconds, and BLEU that would be near 0."""
    refuse_unspaced(corpus.dev[1], settings.bleu_tokenizer)
    try:
        learn_sides(corpus, settings)
    except TrainingFailed as error:
        raise InputError(str(error)) from None
