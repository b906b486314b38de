"""Configurations of a space: all, or drawn at random from ranges."""

import itertools

import numpy as np
import pytest

from hpobench_nmt.core.candidates import MOST_CANDIDATES, draw, whole_or_drawn
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
    assert len(whole_or_drawn([layers, size, rule], 7, rng, most=24)) == 24
    assert len(whole_or_drawn([layers, size, rule], 7, rng, most=23)) <= 7
    assert len(whole_or_drawn([layers, Hyperparameter("x", (0.0, 1.0), continuous=True)], 7, rng)) == 7
    at_most = Hyperparameter("n", (1, MOST_CANDIDATES), integer=True, continuous=True)
    assert len(whole_or_drawn([at_most], 7, rng)) == 100_000
    beyond = Hyperparameter("n", (0, MOST_CANDIDATES), integer=True, continuous=True)
    assert len(whole_or_drawn([beyond], 7, rng)) == 7
