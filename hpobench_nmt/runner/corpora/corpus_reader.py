"""The interface of a reader of one kind of corpus, and the options that several readers share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic, Literal

from hpobench_nmt.runner.corpora.corpus import Corpus
from hpobench_nmt.runner.family import S
from hpobench_nmt.runner.settings import Settings, setting


@dataclass(frozen=True)
class CorpusReader(Generic[S]):
    """How one kind of corpus is read, by its name in a spec.

    Attributes:
        options: the keys that a spec may set in addition to the name.
        depends: returns what the corpus depends on apart from the options, such as a package's version or a
            file's size and time. Cheap. Raises InputError if something is missing.
        read: makes the corpus from the options, the folder that relative paths start from, and the cache
            folder.
        split: splits another text in the same way as the corpus: into tokens for a language model, into lines
            of tokens with spaces between them for a translation model. Its arguments are the options, the
            text's bytes, and the text's path for errors. Raises InputError if the text must be UTF-8 and is
            not.
        check: refuses options that cannot be combined (InputError). Cheap.
    """

    name: str
    kind: Literal["text", "parallel"]
    options: type[S]
    depends: Callable[[S, Path, Path], list[str]]
    read: Callable[[S, Path, Path], Corpus]
    split: Callable[[S, bytes, Path], list[str]]
    check: Callable[[S], None] = lambda options: None


vocabulary_size = partial(setting, about="most frequent tokens of train, with <unk> and <eos>; 0: all", low=0)
unit_of_tokens = partial(setting, about="what a token is")
tokenising = partial(setting, about="split punctuation from words, and Chinese and Japanese into characters")


@dataclass(frozen=True, kw_only=True)
class TextOptions(Settings):
    """Options of every corpus for language models.

    All of dev and test are used unless a spec sets a limit, however short train is. Other defaults would
    change the corpora of existing ledgers.
    """

    vocabulary: int = vocabulary_size(0)
    min_count: int = setting(1, "tokens of train that are rarer become <unk>", low=1)
    train_tokens: int = setting(0, "number of tokens of train to use, from its end; 0: all", low=0)
    dev_tokens: int = setting(0, "number of tokens of dev to use, from its start; 0: all", low=0)
    test_tokens: int = setting(0, "number of tokens of test to use, from its start; 0: all", low=0)
