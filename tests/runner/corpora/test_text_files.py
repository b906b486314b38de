import codecs
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.corpora import TextCorpus, corpus_kind, load_corpus

FILES = {"train": "train.txt", "dev": "dev.txt", "test": "test.txt"}


def load(base: Path, **section: Any) -> TextCorpus:
    corpus = load_corpus(section, base, base / "cache")
    assert isinstance(corpus, TextCorpus)
    return corpus


def write(base: Path, **parts: str) -> None:
    for part in FILES:
        (base / FILES[part]).write_bytes(parts.get(part, "a b\nc d\n").encode())


def text_of(corpus: TextCorpus, part: str) -> list[str]:
    return [corpus.vocabulary[i] for i in getattr(corpus, part)]


def test_words_and_the_ends_of_lines(tmp_path: Path) -> None:
    write(tmp_path, train="b a b\n\nc b\n", dev="a d\r\nb", test="\ufeffc a\n")
    corpus = load(tmp_path, name="text", **FILES)
    assert corpus.vocabulary == ("<unk>", "<eos>", "b", "a", "c")
    assert text_of(corpus, "train") == ["b", "a", "b", "<eos>", "<eos>", "c", "b", "<eos>"]
    assert text_of(corpus, "dev") == ["a", "<unk>", "<eos>", "b", "<eos>"]
    assert text_of(corpus, "test") == ["c", "a", "<eos>"]
    assert corpus.unit == "word"


def test_tokenise_splits_off_punctuation(tmp_path: Path) -> None:
    write(tmp_path, dev="Well, go.\n")
    plain, split = (load(tmp_path, name="text", **FILES, tokenise=flag) for flag in (False, True))
    assert (len(plain.dev), len(split.dev)) == (3, 5)


@pytest.mark.parametrize("end", ["<eos>", "</s>", "<eos>  "])
def test_a_text_with_ends_of_its_own_is_refused(end: str, tmp_path: Path) -> None:
    write(tmp_path, dev=f"a b\nc d {end}\n")
    with pytest.raises(InputError, match=r"dev\.txt, line 2: ends in <.*every line gets an <eos>.*Remove it"):
        load(tmp_path, name="text", **FILES)
    write(tmp_path, dev="a <eos> b\n")  # in the middle of a line it is a word
    assert len(load(tmp_path, name="text", **FILES).dev) == 4


def test_characters_are_the_text_itself(tmp_path: Path) -> None:
    texts = {"train": "zwölf\n\nzwölf ß", "dev": "flößz", "test": "ö\n"}
    write(tmp_path, **texts)
    corpus = load(tmp_path, name="text", unit="character", **FILES)
    assert {part: "".join(text_of(corpus, part)) for part in texts} == texts
    assert "<unk>" not in corpus.vocabulary
    write(tmp_path, **{**texts, "dev": "flöx", "test": "z\r\nz"})
    corpus = load(tmp_path, name="text", unit="character", **FILES)
    assert text_of(corpus, "dev") == ["f", "l", "ö", "<unk>"]
    assert text_of(corpus, "test") == ["z", "\n", "z"]


@given(st.lists(st.sampled_from("abcdef"), min_size=2), st.integers(3, 9), st.integers(1, 4))
def test_the_vocabulary_limits(
    tmp_path_factory: pytest.TempPathFactory, words: list[str], size: int, min_count: int
) -> None:
    base = tmp_path_factory.mktemp("text")
    write(base, train=" ".join(words))
    corpus = load(base, name="text", **FILES, vocabulary=size, min_count=min_count)
    assert len(corpus.vocabulary) <= size
    left_out = set(words) - set(corpus.vocabulary)
    enough = [word for word in set(words) if words.count(word) >= min_count]
    assert set(corpus.vocabulary) - {"<unk>", "<eos>"} <= set(enough)
    assert len(corpus.vocabulary) == min(size, len(enough) + 2)
    for word in left_out & set(enough):
        assert all(words.count(word) <= words.count(kept) for kept in corpus.vocabulary[2:])


def test_penn_treebank_keeps_its_unknown_words(tmp_path: Path) -> None:
    for part in ("train", "valid", "test"):
        (tmp_path / f"ptb.{part}.txt").write_text(f" the <unk> of N {part} \n the end \n")
    corpus = load(tmp_path, name="ptb", folder=".")
    assert corpus.vocabulary[:2] == ("<unk>", "<eos>")
    assert text_of(corpus, "dev") == ["the", "<unk>", "of", "N", "<unk>", "<eos>", "the", "end", "<eos>"]
    assert corpus.vocabulary.count("<unk>") == 1


def test_wikitext_counts_its_blank_lines(tmp_path: Path) -> None:
    for part in ("train", "valid", "test"):
        (tmp_path / f"wiki.{part}.tokens").write_text(" \n = Title = \n \n Some <unk> text @-@ here . \n")
    corpus = load(tmp_path, name="wikitext-2", folder=str(tmp_path))
    assert len(corpus.test) == 3 + 4 + 6
    with pytest.raises(InputError, match=r"folder: cannot read .*ptb\.train\.txt \(No such file"):
        load(tmp_path, name="ptb", folder=".")


def test_enwik8_is_split_by_bytes(tmp_path: Path) -> None:
    content = np.random.default_rng(3).integers(0, 256, 4000, dtype=np.uint8).tobytes()
    (tmp_path / "enwik8").write_bytes(content)
    corpus = load(tmp_path, name="enwik8", file="enwik8")
    assert (len(corpus.train), len(corpus.dev), len(corpus.test)) == (3600, 200, 200)
    assert corpus.unit == "character"
    assert len(corpus.vocabulary) == 256
    assert all(name.isprintable() for name in corpus.vocabulary)

    def byte(name: str) -> int:
        return int(name[1:3], 16) if re.fullmatch("<[0-9A-F]{2}>", name) else ord(name)

    joined = [byte(name) for part in FILES for name in text_of(corpus, part)]
    assert bytes(joined) == content


def test_text8_has_27_characters(tmp_path: Path) -> None:
    (tmp_path / "text8").write_text(" the quick brown fox jumps over a lazy dog" * 100)
    corpus = load(tmp_path, name="text8", file="text8", train_tokens=500, dev_tokens=10)
    assert (len(corpus.train), len(corpus.dev)) == (500, 10)
    assert sorted(corpus.vocabulary) == list(" abcdefghijklmnopqrstuvwxyz")
    (tmp_path / "text8.zip").write_bytes(b"PK\x03\x04...")
    with pytest.raises(InputError, match="zip archive"):
        load(tmp_path, name="text8", file="text8.zip")


def test_text8_of_words_has_the_parts_of_krause_et_al(tmp_path: Path) -> None:
    words = [f"w{i % 97}" for i in range(5000)]
    text = " " + " ".join(words)
    (tmp_path / "text8").write_text(text)
    corpus = load(tmp_path, name="text8", file="text8", unit="word")
    assert corpus.unit == "word"
    assert [word for part in FILES for word in text_of(corpus, part)] == words
    assert "".join(f" {word}" for word in text_of(corpus, "test")) in text[len(text) * 99 // 100 - 4 :]
    assert len(" ".join(text_of(corpus, "test"))) >= len(text) // 100
    assert len(corpus.dev) == (len(corpus.train) + len(corpus.dev)) // 10
    few = load(tmp_path, name="text8", file="text8", unit="word", vocabulary=50)
    assert len(few.vocabulary) == 50 and "<eos>" not in few.vocabulary
    characters = load(tmp_path, name="text8", file="text8")
    assert characters.unit == "character"


def test_text8_of_words_has_100_000_words_of_dev(tmp_path: Path) -> None:
    (tmp_path / "text8").write_text("a b " * 600_000)
    corpus = load(tmp_path, name="text8", file="text8", unit="word")
    assert len(corpus.dev) == 100_000
    assert len(corpus.test) == 12_000


def test_bad_files_are_named(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "dev.txt").write_bytes(b"fine\nfine\nna\xefve\n")
    with pytest.raises(InputError, match=r"dev\.txt, line 3: not UTF-8 \(byte 0xef\)"):
        load(tmp_path, name="text", **FILES)
    (tmp_path / "dev.txt").write_bytes(codecs.BOM_UTF8 + b"ok\n\xff\n")
    with pytest.raises(InputError, match=r"dev\.txt, line 2: not UTF-8 \(byte 0xff\)"):
        load(tmp_path, name="text", **FILES)
    (tmp_path / "dev.txt").write_bytes("as Notepad may save it\n".encode("utf-16"))
    with pytest.raises(InputError, match=r"dev\.txt, line 1: not UTF-8 .*`iconv -f UTF-16 -t UTF-8`"):
        load(tmp_path, name="text", **FILES)
    write(tmp_path)
    with pytest.raises(InputError, match=r"test: cannot read .*missing\.txt \(No such file"):
        load(tmp_path, name="text", **{**FILES, "test": "missing.txt"})
    with pytest.raises(InputError, match=r"test: cannot read .*\(Is a directory"):
        load(tmp_path, name="text", **{**FILES, "test": "."})
    for text, size in (("", 0), ("\n", 1)):  # of the second, nothing is left to predict
        write(tmp_path, test=text)
        with pytest.raises(InputError, match=f"test has {size} tokens but needs at least 2"):
            load(tmp_path, name="text", **FILES)
    with pytest.raises(InputError, match="dev is missing"):
        corpus_kind({"name": "text", "train": "train.txt"})
