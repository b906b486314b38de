import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.corpora.sentence_pairs import clean, split

SIZES = {"train": 6, "dev": 2, "test": 3}
TEXTS = st.text(st.sampled_from("aAbBcC1. "), max_size=8)
PAIRS = st.lists(st.tuples(TEXTS, TEXTS), max_size=60)


@given(PAIRS)
def test_no_source_and_no_target_occurs_twice(pairs: list[tuple[str, str]]) -> None:
    kept = clean(pairs, ("en", "de"), 1, 10)
    for side in zip(*kept, strict=True):
        assert len({line.casefold() for line in side}) == len(side)
    for source, target in kept:
        assert source.casefold() != target.casefold()
        assert any(map(str.isalpha, source))


@given(PAIRS, st.randoms())
def test_the_order_of_the_pairs_does_not_matter(pairs: list[tuple[str, str]], random: object) -> None:
    shuffled = list(pairs)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert clean(pairs, ("en", "de"), 1, 10) == clean(shuffled, ("en", "de"), 1, 10)


def test_what_is_dropped() -> None:
    good = ("Open the file", "Datei öffnen")
    bad = [
        ("Save", ""),
        ("  ", "leer"),
        ("100 %", "100 %."),
        ("OK then", "ok THEN"),
        ("one", "eins zwei drei vier fünf sechs sieben"),
        ("a b c d e f g h i j k", "zu lange Zeile als daß sie hier noch erlaubt wäre, ja"),
    ]
    assert clean([good, *bad], ("en", "de"), 1, 10) == [good]
    assert clean([good, ("Save", "Speichern")], ("en", "de"), 2, 10) == [good]


def test_the_most_frequent_translation_is_kept() -> None:
    pairs = [("Edit", "Anpassen"), ("Edit", "Bearbeiten"), ("Edit", "Bearbeiten")]
    assert clean(pairs, ("en", "de"), 1, 10) == [("Edit", "Bearbeiten")]
    tied = [("Remove", "Löschen"), ("Delete", "Löschen"), ("Remove", "Entfernen")]
    assert sorted(clean(tied, ("en", "de"), 1, 10)) == [("Delete", "Löschen"), ("Remove", "Entfernen")]


def test_what_was_left_in_english_is_dropped() -> None:
    pairs = [("Open file", "Открыть файл"), ("Save the file", "Save file")]
    assert clean(pairs, ("en", "ru"), 1, 10) == [("Open file", "Открыть файл")]
    assert len(clean(pairs, ("en", "de"), 1, 10)) == 2


@given(st.integers(0, 100))
def test_parts_are_of_their_sizes_and_share_nothing(seed: int) -> None:
    pairs = [(f"s{i}", f"t{i}") for i in range(11)]
    corpus = split("c", ("s", "t"), pairs, SIZES, seed, {})
    parts = [list(zip(*part, strict=True)) for part in (corpus.train, corpus.dev, corpus.test)]
    assert [len(part) for part in parts] == [6, 2, 3]
    assert sorted(pair for part in parts for pair in part) == sorted(pairs)


def test_dev_and_test_do_not_depend_on_the_size_of_train() -> None:
    pairs = [(f"s{i}", f"t{i}") for i in range(30)]
    large = split("c", ("s", "t"), pairs, {**SIZES, "train": 20}, 3, {})
    small = split("c", ("s", "t"), reversed(pairs), {**SIZES, "train": 5}, 3, {})
    assert (large.dev, large.test) == (small.dev, small.test)
    assert large.train[0][:5] == small.train[0]
    assert large.dev != split("c", ("s", "t"), pairs, SIZES, 4, {}).dev


def test_too_few_pairs() -> None:
    with pytest.raises(
        InputError, match="only 10 pairs s-t are left after cleaning, not 11: set train to at most 5"
    ):
        split("c", ("s", "t"), [(f"s{i}", f"t{i}") for i in range(10)], SIZES, 1, {})
