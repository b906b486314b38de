"""Configurations drawn at random from ranges."""

import numpy as np
import pytest

from hpobench_nmt.core.candidates import draw
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
