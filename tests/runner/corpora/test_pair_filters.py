"""Filters of sentence pairs against counts made by hand."""

from pathlib import Path
from typing import Any

import pytest

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.corpora import ParallelCorpus, load_corpus
from hpobench_nmt.runner.corpora.load import READERS, _given, _options

# (source, target, the filter that drops the pair)
TRAIN = [
    ("eins zwei", "one two", ""),
    ("", "nothing", "empty"),
    ("lang", "\t ", "empty"),
    ("w " * 9, "w " * 8, "length"),
    ("a", "a b c d e f g", "ratio"),
    ("a", "b c d e f g", ""),  # as long as allowed: 3 times and 3
    ("12", "eleven", "script"),
    ("Kopie", "kopie", "copy"),
    ("eins zwei", "one two", "duplicate"),
    ("eins zwei", "one, two", ""),
    ("VIER", "quatre", "held_out"),
    ("fünf", "Five", "held_out"),
]
FILTERS = ["empty", "length", "ratio", "script", "copy", "duplicate", "held_out"]
SECTION = {"name": "parallel", "source": "de", "target": "en", "max_words": 8}


def load(base: Path, **options: Any) -> ParallelCorpus:
    files = {}
    parts = {"train": TRAIN, "dev": [("vier", "four", "")], "test": [("sechs", "five", "")]}
    for part, rows in parts.items():
        for index, side in enumerate(("source", "target")):
            files[f"{part}_{side}"] = f"{part}.{side}"
            (base / f"{part}.{side}").write_text("".join(f"{row[index]}\n" for row in rows))
    corpus = load_corpus({**SECTION, **files, **options}, base, base / "cache")
    assert isinstance(corpus, ParallelCorpus)
    return corpus


def test_every_filter_drops_what_it_is_for(tmp_path: Path) -> None:
    corpus = load(tmp_path, filters=FILTERS)
    kept = [(" ".join(s.split()), " ".join(t.split())) for s, t, reason in TRAIN if not reason]
    assert list(zip(*corpus.train, strict=True)) == kept
    assert corpus.provenance["filters"] == (
        "train: 9 of 12 pairs left out "
        "(2 empty, 1 length, 1 ratio, 1 script, 1 copy, 1 duplicate, 2 held_out)"
    )


@pytest.mark.parametrize("left_out", FILTERS[2:])
def test_without_a_filter_its_pairs_stay(tmp_path: Path, left_out: str) -> None:
    corpus = load(tmp_path, filters=[name for name in FILTERS if name != left_out])
    gone = sum(reason not in ("", left_out) for _, _, reason in TRAIN)
    assert len(corpus.train[0]) == len(TRAIN) - gone


def test_without_filters_a_bad_line_is_an_error_and_dev_is_never_filtered(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r'train\.source, line 2: empty.*set filters = \["empty"\]'):
        load(tmp_path)
    with pytest.raises(InputError, match=r"train\.source, line 4: 9 tokens, but max_words is 8.*filters"):
        load(tmp_path, filters="empty")
    with pytest.raises(InputError, match=r"no pair is left\. train: 12 of 12 pairs left out \("):
        load(tmp_path, filters=FILTERS, max_words=1, tokenise=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_words": 2}, r'min_words has no effect without filters = \["length"\]'),
        ({"max_ratio": 2, "filters": "length"}, r'max_ratio has no effect without filters = \["ratio"\]'),
        ({"filters": ["emtpy"]}, r'unknown filters "emtpy".*empty|emtpy'),
        ({"filters": 3}, r"filters must be"),
    ],
)
def test_settings_in_vain_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(tmp_path, **options)


def test_options_that_came_later_leave_the_names_of_prepared_corpora() -> None:
    """Without them, a prepared corpus has the name that it had before there were such options."""
    files = {f"{part}_{side}": "x" for part in ("train", "dev", "test") for side in ("source", "target")}
    old = {"source": "de", "target": "en", "tokenise": False, "max_words": 8, **files}
    assert _given(_options({**SECTION, **files})[1]) == old
    assert "unpack" in READERS["parallel"].options.__dataclass_fields__
    assert _given(_options({**SECTION, **files, "unpack": True})[1]) == old | {"unpack": True}
    limits = dict.fromkeys(("train_tokens", "dev_tokens", "test_tokens", "vocabulary"), 0) | {"min_count": 1}
    text = dict.fromkeys(("train", "dev", "test"), "x")
    plain = text | limits | {"tokenise": False, "unit": "word"}
    assert _given(_options({"name": "text", **text})[1]) == plain
