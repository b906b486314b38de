import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the runner needs: pip install 'hpobench-nmt[train]'")
pytest.importorskip("sentencepiece")

from hpobench_nmt.runner.nmt.bpe import Bpe, learn  # noqa: E402
from hpobench_nmt.runner.nmt.marian_batches import batch_of, batches, padded_batch  # noqa: E402
from hpobench_nmt.runner.nmt.marian_numbers import (  # noqa: E402
    BEGIN,
    END,
    PAD,
    UNKNOWN,
    NumberLines,
    Pairs,
    decode,
    encode,
    read_encoded,
    vocabulary_size,
    write_encoded,
)

CPU = torch.device("cpu")


def pairs_of(lines):
    return Pairs(*map(NumberLines.of, zip(*lines, strict=True)))


@pytest.fixture(scope="module")
def pairs():
    draw = np.random.default_rng(3)
    return pairs_of(
        ([5] * draw.integers(1, 60) + [END], [6] * draw.integers(1, 60) + [END]) for _ in range(700)
    )


@pytest.mark.parametrize("words", [1, 100, 1000, 10**6])
def test_a_pass_has_every_pair_once_and_batches_of_as_many_words(pairs, words):
    found = batches(pairs, words, seed=1, epoch=0)
    assert sorted(np.concatenate(found).tolist()) == list(range(len(pairs)))
    sizes = [pairs.words(batch) for batch in found]
    assert max(sizes) <= max(words + 61, 61)
    if words == 1000:
        assert 0.97 * words < np.median(sizes) < 1.03 * words
    if words == 1:
        assert all(len(batch) == 1 for batch in found)


def test_batches_have_like_lengths_in_an_order_of_their_own_each_time(pairs):
    orders = [
        [tuple(b) for b in batches(pairs, 500, seed, epoch)] for seed, epoch in ((1, 0), (1, 1), (2, 0))
    ]
    assert orders[0] == [tuple(b) for b in batches(pairs, 500, 1, 0)]
    assert len({str(order) for order in orders}) == 3
    assert len(set(orders[0]) & set(orders[1])) < 3  # not the same batches in another order
    spread = [np.ptp(pairs.target.lengths[list(batch)]) for batch in orders[0]]
    assert np.mean(spread) < 9
    means = [np.mean(pairs.target.lengths[list(batch)]) for batch in orders[0]]
    assert abs(np.corrcoef(means, range(len(means)))[0, 1]) < 0.4  # short ones do not come first


def test_a_batch_by_hand():
    pairs = pairs_of([([7, 8, END], [4, END]), ([9, END], [5, 6, END])])
    batch = batch_of(pairs, [1, 0], CPU)
    assert batch.source.tolist() == [[9, END, PAD], [7, 8, END]]
    assert batch.mask.tolist() == [[1, 1, 0], [1, 1, 1]]
    assert batch.read[:, 0].tolist() == [BEGIN, BEGIN]
    assert batch.read[0].tolist() == [BEGIN, 5, 6]
    assert batch.real.tolist() == [[True, True, True], [True, True, False]]
    assert batch.written.tolist() == [5, 6, END, 4, END]
    assert batch_of(pairs, [0], CPU).mask is None


def test_lines_become_numbers_and_text_again():
    lines = ["the quick brown fox", "jumps over the lazy dog"] * 3
    bpe = Bpe(learn(lines, 40, "source"))
    numbers = encode(bpe, ["  the  fox ", "", "é"])
    assert numbers[1] == [END]
    assert all(line[-1] == END and min(line) >= 0 and max(line) < vocabulary_size(bpe) for line in numbers)
    assert decode(bpe, [*numbers[0], 7, 8]) == "the fox"
    assert UNKNOWN in numbers[2] and UNKNOWN not in numbers[0]
    assert vocabulary_size(bpe) == 41


def test_padded_batches_have_few_shapes_and_add_nothing_but_ends_and_padding(pairs):
    shapes, passes = set(), [chosen for epoch in range(20) for chosen in batches(pairs, 500, 1, epoch)]
    for chosen in passes:
        found, plain = padded_batch(pairs, chosen, 500, CPU), batch_of(pairs, chosen, CPU)
        (rows, read), (real, longest) = found.source.shape, plain.source.shape
        assert rows % 16 == 0 <= rows - real < 16
        assert read % 8 == 0 <= read - longest < 8
        assert torch.equal(found.source[:real, :longest], plain.source)
        assert found.source[:real].sum() == plain.source.sum()
        assert found.source[real:].tolist() == [[END] + [PAD] * (read - 1)] * (rows - real)
        assert torch.equal(found.mask[:, 0, 0], found.source != PAD)
        assert torch.equal(found.written[found.written != PAD], plain.written)
        assert torch.equal(found.read[:real, : plain.read.shape[1]], plain.read)
        assert found.words == 500
        shapes.add((*found.source.shape, *found.read.shape))
    assert len(shapes) < len(passes) / 8


def test_a_pass_over_chosen_pairs_is_one_over_them_alone(pairs):
    chosen = np.flatnonzero(pairs.source.lengths < 30)
    alone = pairs_of((pairs.source[i], pairs.target[i]) for i in chosen)
    for mine, other in zip(batches(pairs, 200, 1, 3, chosen), batches(alone, 200, 1, 3), strict=True):
        assert mine.tolist() == chosen[other].tolist()


@pytest.mark.parametrize("symbols", [40, 300])
def test_written_lines_are_read_as_they_were(symbols, tmp_path):
    draw = np.random.default_rng(2)
    lines = ["".join(draw.choice([*"abcdefghij  "], draw.integers(1, 60))) for _ in range(9000)]
    bpe = Bpe(learn(lines, symbols, "source"))
    write_encoded(bpe, lines, tmp_path / "train")
    found = read_encoded(bpe, tmp_path / "train")
    assert found.numbers.dtype == (np.uint8 if symbols == 40 else np.uint16)
    assert [line.tolist() for line in (found[i] for i in range(9000))] == encode(bpe, lines)
    assert found.lengths.tolist() == [len(line) for line in encode(bpe, lines)]
