"""Configurations of a space: all, or drawn at random from ranges."""

import itertools
import math

import numpy as np
import pytest

from hpobench_nmt.core.candidates import MOST_CANDIDATES, _rounded, draw, draw_near, whole_or_drawn
from hpobench_nmt.core.space import Hyperparameter


def drawn(low, high, scale="linear", count=500):
    axis = Hyperparameter("x", (low, high), scale, integer=False, continuous=True)
    return draw([axis], count, np.random.default_rng(0))[:, 0]


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_numbers_have_four_digits_and_the_first_are_the_same_for_more(scale):
    found = drawn(0.001, 0.5, scale)
    assert found.tolist() == [float(f"{value:.4g}") for value in found]
    assert len(found) > 400 and found.tolist() == drawn(0.001, 0.5, scale, 5000)[: len(found)].tolist()
    assert ((found >= 0.001) & (found <= 0.5)).all()


@pytest.mark.parametrize("scale", ["linear", "log"])
@pytest.mark.parametrize(
    ("low", "high", "digits"), [(20000.1, 20000.9, 8), (0.999, 0.9999, 7), (998.0, 1000.0, 6), (0.98, 1.0, 5)]
)
def test_a_narrow_range_has_numbers_between_its_ends(low, high, digits, scale):
    found = drawn(low, high, scale)
    assert len(found) > 300 and found.tolist() == [float(f"{value:.{digits}g}") for value in found]
    assert ((found >= low) & (found <= high)).all()


def test_a_whole_number_on_a_log_scale_is_as_likely_as_half_a_unit_on_either_side():
    axis = Hyperparameter("x", (1, 4), "log", integer=True, continuous=True)
    beside = [
        Hyperparameter(name, (0.0, 1.0), continuous=True) for name in "yz"
    ]  # makes equal ones distinct rows
    found = draw([axis, *beside], 40_000, np.random.default_rng(0))[:, 0]
    shares = [(found == value).mean() for value in (1, 2, 3, 4)]
    expected = np.diff(np.log([0.5, 1.5, 2.5, 3.5, 4.5])) / np.log(9)
    np.testing.assert_allclose(shares, expected, atol=4 * np.sqrt(0.25 / 40_000))


def test_a_space_of_whole_numbers_and_labels_is_taken_whole_up_to_a_limit():
    layers = Hyperparameter("layers", (1, 3), integer=True, continuous=True)
    size = Hyperparameter("size", (2, 5), "log", integer=True, continuous=True)
    rule = Hyperparameter("rule", ("a", "b"), kind="categorical")
    rng = np.random.default_rng(0)
    found = whole_or_drawn([layers, size, rule], 7, rng)
    assert found.tolist() == [list(map(float, c)) for c in itertools.product((1, 2, 3), (2, 3, 4, 5), (0, 1))]
    sizes = whole_or_drawn([Hyperparameter("sizes", (1, 2, 8))], 7, rng)
    assert sizes.tolist() == [[1.0], [2.0], [8.0]]
    assert len(whole_or_drawn([layers, size, rule], 7, rng, most=24)) == 24
    assert len(whole_or_drawn([layers, size, rule], 7, rng, most=23)) <= 7
    assert len(whole_or_drawn([layers, Hyperparameter("x", (0.0, 1.0), continuous=True)], 7, rng)) == 7
    at_most = Hyperparameter("n", (1, MOST_CANDIDATES), integer=True, continuous=True)
    assert len(whole_or_drawn([at_most], 7, rng)) == 100_000
    beyond = Hyperparameter("n", (0, MOST_CANDIDATES), integer=True, continuous=True)
    assert len(whole_or_drawn([beyond], 7, rng)) == 7


class At:
    """Draws these positions in place of random ones."""

    def __init__(self, *u):
        self.u = u

    def random(self, shape):
        return np.array(self.u).reshape(shape)


def code_at(axis, u):
    return draw([axis], 1, At(u))[0, 0]


REAL = Hyperparameter("lr", (0.12344, 0.98766), "log", continuous=True)
AXES = [
    REAL,
    Hyperparameter("dropout", (0.0, 0.5), continuous=True),
    Hyperparameter("layers", (1, 6), integer=True, continuous=True),
    Hyperparameter("width", (2, 600), "log", integer=True, continuous=True),
    Hyperparameter("batch", (16, 32, 64, 128), "log"),
    Hyperparameter("size", ("small", "base", "large"), kind="ordinal"),
    Hyperparameter("rule", ("a", "b", "c"), kind="categorical"),
]


@pytest.mark.parametrize("axis", AXES, ids=lambda axis: axis.name)
def test_the_ends_of_an_axis_are_the_ends_of_what_is_drawn(axis):
    """Rounded to four digits, an end of five would lie outside."""
    low, high = (axis.ends) if axis.continuous else (axis.numbers[0], axis.numbers[-1])
    assert (code_at(axis, 0.0), code_at(axis, np.nextafter(1.0, 0.0))) == (low, high)


def position(axis, code):
    """The middle of the positions from which a code is drawn; of a real number, its only one."""
    if not axis.continuous:
        return (axis.numbers.index(code) + 0.5) / len(axis.numbers)
    low, high = axis.ends
    if axis.whole and axis.scale == "linear":
        return (code - low + 0.5) / (high - low + 1)
    half = 0.5 if axis.whole else 0.0
    low, high = low - half, high + half
    return math.log(code / low, high / low) if axis.scale == "log" else (code - low) / (high - low)


def naive_near(around, count, rng):
    """One cell after another, from the definition."""
    starts = rng.integers(len(around), size=count)
    sizes = np.exp(rng.uniform(math.log(0.003), math.log(0.3), count))
    steps, anew, lots = rng.standard_normal((count, 7)), rng.random((count, 7)), rng.random((count, 7))
    shares, sure = rng.random(count), rng.integers(7, size=count)
    found = []
    for i in range(count):
        row = []
        for j, axis in enumerate(AXES):
            code = around[starts[i], j]
            if math.isnan(code):
                row.append(code_at(axis, anew[i, j]))
            elif lots[i, j] >= shares[i] and sure[i] != j:
                row.append(code)
            elif axis.kind == "categorical":
                row.append(code_at(axis, anew[i, j]))
            else:
                to = abs(position(axis, code) + sizes[i] * steps[i, j])
                to = 2.0 - to if to > 1.0 else to
                row.append(code_at(axis, min(to, np.nextafter(1.0, 0.0))))
        if row not in found:
            found.append(row)
    return np.array(found)


@pytest.mark.parametrize("digits", [1, 4, 5, 9, 14, 15, 17])
def test_numbers_are_rounded_as_by_a_format_to_the_bit(digits):
    rng = np.random.default_rng(digits)
    ends = [0.0, -0.0, 999.96, 999.94999, 1e22, 1e23, 5e-324, 1.7e308, np.nextafter(1000, 0)]
    tens = 10.0 ** np.arange(-30, 31)
    middle = (rng.integers(1, 99_999, 5000) + 0.5) / 10.0 ** rng.integers(0, 9, 5000)
    wide = rng.choice([-1, 1], 5000) * np.exp(rng.uniform(-700, 700, 5000))
    values = np.concatenate([ends, tens, np.nextafter(tens, 0), middle, wide, rng.random(5000)])
    formatted = np.array([float(f"{value:.{digits}g}") for value in values])
    assert _rounded(values, digits).tobytes() == formatted.tobytes()


@pytest.mark.parametrize("seed", range(3))
def test_candidates_near_others_are_those_of_a_naive_twin(seed):
    around = draw(AXES, 4, np.random.default_rng(seed))
    around[1, 2] = around[2, 5] = around[2, 6] = np.nan  # inactive there
    around[3, :4] = [0.98766, 0.5, 6.0, 600.0]  # ends, at which steps are reflected
    ours = draw_near(AXES, around, 300, np.random.default_rng([seed, 1]))
    naive = naive_near(around, 300, np.random.default_rng([seed, 1]))
    np.testing.assert_allclose(ours, naive, rtol=2e-4)  # a digit may be rounded in another way


def test_candidates_near_a_row_of_one_label_are_distinct_rows():
    axes = [Hyperparameter("rule", ("a", "b"), kind="categorical")]
    found = draw_near(axes, np.array([[0.0]]), 50, np.random.default_rng(0))
    assert sorted(found[:, 0].tolist()) == [0.0, 1.0]
