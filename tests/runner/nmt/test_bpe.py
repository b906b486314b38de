import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sentencepiece = pytest.importorskip("sentencepiece", reason="needs: pip install sentencepiece")

from hpobench_nmt.runner.family import TrainingFailed  # noqa: E402
from hpobench_nmt.runner.nmt.bpe import Bpe, evenly, learn, learn_on  # noqa: E402

LINES = [
    "the quick brown fox jumps over the lazy dog",
    "der schnelle braune Fuchs springt über den faulen Hund",
    "quick quicker quickest , the dog ( lazy ) is quicker ; % 50",
] * 3
MODEL = learn(LINES, 80, "source")
BPE = Bpe(MODEL)


# Any text but the mark that stands for a space, and the characters that are no text.
@given(st.lists(st.text(st.characters(exclude_characters="▁", exclude_categories=("C",)))))
@settings(max_examples=200, deadline=None)
def test_decoding_undoes_encoding(lines):
    assert BPE.decode(BPE.encode(lines)) == [" ".join(line.split()) for line in lines]


def test_subwords_are_parts_of_words():
    for line, encoded in zip(LINES, BPE.encode(LINES), strict=True):
        assert encoded.replace(" ", "").replace("▁", " ").strip() == line


def test_frequent_words_are_split_less():
    few, many = (Bpe(learn(LINES, symbols, "source")).encode(LINES) for symbols in (50, 90))
    assert sum(len(line.split()) for line in many) < sum(len(line.split()) for line in few)


def test_as_many_symbols_as_asked_for():
    for symbols in (50, 90):
        pieces = {p for line in Bpe(learn(LINES, symbols, "source")).encode(LINES) for p in line.split()}
        assert 30 < len(pieces) <= symbols


def test_merges_are_counted_without_characters():
    for merges in (1, 20):
        processor = sentencepiece.SentencePieceProcessor(
            model_proto=learn(LINES, merges, "source", merges=True)
        )
        pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())][3:]
        assert sum(len(piece) > 1 for piece in pieces) == merges
        assert {piece for piece in pieces if len(piece) == 1} == set("".join(LINES)) - {" "} | {"▁"}
    with pytest.raises(TrainingFailed, match=r"has no more than \d+ merges") as failed:
        learn(LINES, 5000, "target", merges=True)
    most = int(str(failed.value).split("than ")[1].split()[0])
    learn(LINES, most, "target", merges=True)
    with pytest.raises(TrainingFailed, match=f"than {most} merges"):
        learn(LINES, most + 1, "target", merges=True)


def test_learning_is_deterministic():
    assert learn(LINES, 80, "source") == MODEL != learn(LINES, 81, "source")


def test_subwords_are_learnt_on_a_sample_that_is_evenly_spaced():
    assert evenly(10, 3).tolist() == [0, 4, 9]
    assert evenly(3, 3).tolist() == evenly(3, 9).tolist() == [0, 1, 2]
    assert list(learn_on(LINES, 0)) == LINES == list(learn_on(LINES, 9))
    assert list(learn_on(LINES, 2)) == [LINES[0], LINES[8]]


def test_white_space_is_one_space():
    assert BPE.encode(["the\u2028 quick\x85\tfox\n"]) == BPE.encode([" the quick fox"])


@pytest.mark.parametrize(
    ("symbols", "message"),
    [
        (20, r"bpe_symbols 20: the target side alone has \d+ characters"),
        (5000, r"bpe_symbols 5000: the target side has no more than \d+ subwords"),
    ],
)
def test_impossible_sizes(symbols, message):
    with pytest.raises(TrainingFailed, match=message):
        learn(LINES, symbols, "target")
