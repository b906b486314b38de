from pathlib import Path
from typing import Any

import pytest

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.corpora import ParallelCorpus, load_corpus

NAMES = [f"{part}_{side}" for part in ("train", "dev", "test") for side in ("source", "target")]
SECTION = {"name": "parallel", "source": "de", "target": "en", **{name: f"{name}.txt" for name in NAMES}}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    for name in NAMES:
        (tmp_path / f"{name}.txt").write_text(f"first  line of {name}\nsecond, line\n")
    return tmp_path


def load(base: Path, **options: Any) -> ParallelCorpus:
    corpus = load_corpus({**SECTION, **options}, base, base / "cache")
    assert isinstance(corpus, ParallelCorpus)
    return corpus


def test_lines_are_kept_in_order(base: Path) -> None:
    corpus = load(base)
    assert corpus.dev == (
        ("first line of dev_source", "second, line"),
        ("first line of dev_target", "second, line"),
    )
    assert load(base, tokenise=True).train[1][1] == "second , line"
    assert corpus.provenance["size"] == "train 2 pairs, dev 2, test 2"


def test_only_a_line_feed_ends_a_line(base: Path) -> None:
    """Other characters that Python takes for line ends would shift one side against the other."""
    (base / "train_source.txt").write_text("a\u2028b\x0cc\x85d\ne", encoding="utf-8")
    assert load(base).train[0] == ("a b c d", "e")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"one\n\nthree\n", r"dev_target\.txt, line 2: empty"),
        (b"one\ntwo\n \t\n", r"dev_target\.txt, line 3: empty"),
        (b"one\n" + b"w " * 251, r"dev_target\.txt, line 2: 251 tokens, but max_words is 250"),
        (
            b"one\ntwo\nthree",
            r"dev_source\.txt has 2 lines but .*dev_target\.txt has 3.* matching at line 3\.",
        ),
        (b"one\n\xff\xfe\n", r"dev_target\.txt, line 2: not UTF-8"),
        (b"", r"dev_target: .*dev_target\.txt is empty"),
    ],
)
def test_bad_lines_are_named(base: Path, content: bytes, message: str) -> None:
    (base / "dev_target.txt").write_bytes(content)
    with pytest.raises(InputError, match=message):
        load(base)


@pytest.mark.parametrize("part", ["train", "dev", "test"])
def test_two_empty_sides_are_refused(base: Path, part: str) -> None:
    for side in ("source", "target"):
        (base / f"{part}_{side}.txt").write_bytes(b"")
    with pytest.raises(InputError, match=rf"{part}_source: .*{part}_source\.txt is empty"):
        load(base)


@pytest.mark.parametrize(("side", "line"), [("source", 4), ("target", 4), ("source", 9), ("target", 1)])
def test_the_line_from_which_two_sides_go_apart_is_named(base: Path, side: str, line: int) -> None:
    """By the lengths: a line too many in one of them shifts all below it."""
    lengths = [3, 8, 2, 11, 5, 1, 14, 6]
    for name in ("source", "target"):
        texts = ["w " * (n + (name == "target")) for n in lengths]
        if name == side:
            texts.insert(line - 1, "w " * 30)
        (base / f"dev_{name}.txt").write_text("\n".join(texts))
    with pytest.raises(InputError, match=rf"lines .* matching at line {line}\."):
        load(base)


def test_longer_lines_where_they_are_allowed(base: Path) -> None:
    (base / "dev_target.txt").write_bytes(b"one\n" + b"w " * 251)
    assert len(load(base, max_words=251).dev[1][1].split()) == 251


def test_a_missing_file(base: Path) -> None:
    with pytest.raises(InputError, match=r"\[corpus\] test_source: cannot read .*gone"):
        load(base, test_source="gone")
