"""The interface of a reader of one kind of corpus, and the options that several readers share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hpobench_nmt.runner.corpora.corpus import Corpus
from hpobench_nmt.runner.settings import Setting

Options = Mapping[str, Any]


@dataclass(frozen=True)
class CorpusReader:
    """How one kind of corpus is read.

    Attributes:
        name: the corpus's name in a spec.
        kind: for language models or for translation.
        options: the keys that a spec may set beside the name.
        depends: returns what the corpus depends on beside the options, such as a package's version or a
            file's size and time. Cheap. Raises InputError if something is missing.
        read: makes the corpus: of the options, the folder of relative paths, and the cache folder.
        split: another text, split as the corpus's own are: into tokens for a language model, into lines of
            tokens with blanks between them for a translation model. Of the options, the text's bytes, and its
            path for errors. Raises InputError if it is not UTF-8, where that is needed.
        check: refuses options that never go together (InputError); cheap.
    """

    name: str
    kind: Literal["text", "parallel"]
    options: tuple[Setting, ...]
    depends: Callable[[Options, Path, Path], list[str]]
    read: Callable[[Options, Path, Path], Corpus]
    split: Callable[[Options, bytes, Path], list[str]]
    check: Callable[[Options], None] = lambda options: None


VOCABULARY_OPTIONS = (
    Setting(
        "vocabulary", 0, int, 0, description="the most frequent of train, <unk> and <eos> counted; 0: all"
    ),
    Setting("min_count", 1, int, 1, description="rarer ones of train are <unk>"),
)
# All of dev and test unless a spec says otherwise, however short train is: other defaults would change the
# corpora of ledgers that are there.
LENGTH_OPTIONS = (
    Setting("train_tokens", 0, int, 0, description="only the last so many tokens of train; 0: all"),
    Setting("dev_tokens", 0, int, 0, description="only the first so many tokens of dev; 0: all"),
    Setting("test_tokens", 0, int, 0, description="only the first so many tokens of test; 0: all"),
)
UNIT_OPTION = Setting("unit", "word", str, choices=("word", "character"), description="what a token is")
TOKENISE_OPTION = Setting(
    "tokenise", False, bool, description="split words from punctuation, Chinese and Japanese into characters"
)
