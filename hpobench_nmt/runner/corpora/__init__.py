"""Corpora that models are trained on: text for language models, pairs of lines for translation."""

from hpobench_nmt.runner.corpora.corpus import ParallelCorpus as ParallelCorpus
from hpobench_nmt.runner.corpora.corpus import TextCorpus as TextCorpus
from hpobench_nmt.runner.corpora.load import corpus_kind as corpus_kind
from hpobench_nmt.runner.corpora.load import corpus_of as corpus_of
from hpobench_nmt.runner.corpora.load import corpus_report as corpus_report
from hpobench_nmt.runner.corpora.load import filled_section as filled_section
from hpobench_nmt.runner.corpora.load import load_corpus as load_corpus
from hpobench_nmt.runner.corpora.load import split_text as split_text
