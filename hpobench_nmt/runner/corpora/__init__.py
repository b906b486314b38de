"""Corpora that models are trained on: text for language models, pairs of lines for translation."""

from hpobench_nmt.runner.corpora.corpus import ParallelCorpus, TextCorpus
from hpobench_nmt.runner.corpora.load import (
    corpus_kind,
    corpus_of,
    corpus_report,
    filled_section,
    load_corpus,
    split_text,
)

__all__ = [
    "ParallelCorpus",
    "TextCorpus",
    "corpus_kind",
    "corpus_of",
    "corpus_report",
    "filled_section",
    "load_corpus",
    "split_text",
]
