"""A parallel corpus as numbers of subwords, which are learned once for all jobs that can share them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from itertools import chain
from pathlib import Path

import numpy as np

from hpobench_nmt.core.arrays import Ints
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.corpora import ParallelCorpus
from hpobench_nmt.runner.disk.locks import key_of, make_once
from hpobench_nmt.runner.family import TrainingFailed
from hpobench_nmt.runner.nmt.bpe import Bpe, evenly, learn, learn_on
from hpobench_nmt.runner.nmt.marian_numbers import (
    NumberLines,
    Pairs,
    cut,
    encode,
    read_encoded,
    vocabulary_size,
    write_encoded,
)
from hpobench_nmt.runner.nmt.marian_settings import MarianSettings, longest
from hpobench_nmt.runner.nmt.text_scores import refuse_unspaced

_SIDES = ("source", "target")


@dataclass(frozen=True, eq=False)
class EncodedCorpus:
    """The subwords of each side, and the pairs of train and dev, each line with its end.

    Attributes:
        models: the content of sentencepiece's model files.
        short: the numbers of the training pairs that are short enough to train on.
        dev_lines: the text of dev, its source and target lines.
    """

    source: Bpe
    target: Bpe
    models: tuple[bytes, bytes]
    train: Pairs
    short: Ints
    dev: Pairs
    dev_lines: tuple[Sequence[str], Sequence[str]]

    @property
    def sizes(self) -> tuple[int, int]:
        """The sizes of the two vocabularies."""
        return vocabulary_size(self.source), vocabulary_size(self.target)

    def sample(self, sentences: int) -> tuple[str, list[str], list[str]]:
        """The name of BLEU on evenly spaced lines of dev, and their source and target; -1: all of dev."""
        count = len(self.dev_lines[0])
        if not _is_sample(sentences, count):
            return "dev_bleu", list(self.dev_lines[0]), list(self.dev_lines[1])
        source, target = ([lines[i] for i in evenly(count, sentences)] for lines in self.dev_lines)
        return "dev_bleu_sample", source, target


def encode_corpus(corpus: ParallelCorpus, settings: MarianSettings, cache: Path) -> EncodedCorpus:
    """The corpus in subwords, learned on its training part or read from the cache.

    Training pairs with more than `max_length` subwords on a side are left out. Lines of dev are cut to the
    length that the model reads.

    Raises:
        TrainingFailed: that number of subwords cannot be learned, or no pair is short enough.
    """
    key = key_of([corpus.provenance["sha256"], version("sentencepiece")])
    kind = f"{settings.vocabularies}-{settings.bpe_count}{settings.bpe_symbols}-of{settings.bpe_sentences}"

    def make(folder: Path) -> None:
        folder.mkdir(parents=True)
        for name, model, lines in zip(_SIDES, learn_sides(corpus, settings), corpus.train, strict=True):
            (folder / f"{name}.model").write_bytes(model)
            write_encoded(Bpe(model), lines, folder / name)

    folder = make_once(cache / f"encoded-{key}-{kind}", make)
    source_model, target_model = ((folder / f"{name}.model").read_bytes() for name in _SIDES)
    source, target = Bpe(source_model), Bpe(target_model)
    train = Pairs(read_encoded(source, folder / _SIDES[0]), read_encoded(target, folder / _SIDES[1]))
    most = longest(settings) - 1
    dev = Pairs(
        *(
            NumberLines.of(cut(line, most) for line in encode(bpe, lines))
            for bpe, lines in zip((source, target), corpus.dev, strict=True)
        )
    )
    lengths = np.stack([train.source.lengths, train.target.lengths])
    short = np.flatnonzero(((lengths > 1) & (lengths <= settings.max_length + 1)).all(axis=0))
    if not len(short):
        raise TrainingFailed(f"max_length {settings.max_length}: every training pair has more subwords.")
    return EncodedCorpus(source, target, (source_model, target_model), train, short, dev, corpus.dev)


def learn_sides(corpus: ParallelCorpus, settings: MarianSettings) -> tuple[bytes, bytes]:
    """sentencepiece's model of each side; the same model twice if the sides share one.

    The last models are cached, because a run that checks its spec often asks for the same models.

    Raises TrainingFailed if the text has fewer subwords, or more characters, than the settings ask for.
    """
    joint, sentences = settings.vocabularies == "joint", settings.bpe_sentences
    return _learnt(corpus, joint, settings.bpe_symbols, settings.bpe_count, sentences)


@lru_cache(maxsize=16)
def _learnt(
    corpus: ParallelCorpus, joint: bool, symbols: int, count: str, sentences: int
) -> tuple[bytes, bytes]:
    merges = count == "merges"
    source, target = (learn_on(lines, sentences) for lines in corpus.train)
    if joint:
        both = learn(chain(source, target), symbols, "joint", merges)
        return both, both
    return learn(source, symbols, "source", merges), learn(target, symbols, "target", merges)


def corpus_check(settings: MarianSettings, corpus: ParallelCorpus) -> None:
    """Refuse a vocabulary that the corpus cannot have (this takes seconds), and BLEU that would be near 0."""
    refuse_unspaced(corpus.dev[1], settings.bleu_tokenizer)
    try:
        learn_sides(corpus, settings)
    except TrainingFailed as error:
        raise InputError(str(error)) from None


def checkpoint_check(settings: MarianSettings, corpus: ParallelCorpus, metric: str) -> None:
    """Refuse a metric that checkpoints lack: they have dev_ppl, and dev_bleu if all of dev is decoded."""
    sentences = settings.checkpoint_sentences
    if metric == "dev_ppl":
        return
    if metric != "dev_bleu":
        raise InputError(
            "it is not measured at checkpoints. Name another with --objectives: dev_ppl, dev_bleu."
        )
    if not sentences or _is_sample(sentences, len(corpus.dev[0])):
        raise InputError(
            f"checkpoint_sentences = {sentences} does not decode all of dev at checkpoints. Set "
            f"checkpoint_sentences = -1, or name another metric with --objectives: dev_ppl."
        )


def _is_sample(sentences: int, count: int) -> bool:
    """Whether that value of checkpoint_sentences is a part of a dev of `count` lines."""
    return 0 <= sentences < count
