"""exp of many numbers at once."""

from __future__ import annotations

import numpy as np

from hpobench_nmt.methods.acquisitions.improvement import exponentials


def exp(x):
    found = np.empty(len(x))
    exponentials(x, found)
    return found


def test_it_is_within_two_units_in_the_last_place():
    x = -np.concatenate([np.geomspace(1e-300, 700, 100_001), np.linspace(0, 40, 100_001), [0.0]])
    expected = np.exp(x)
    assert (np.abs(exp(x) - expected) <= 2 * np.spacing(expected)).all()
    assert exp(np.array([0.0, -0.0])).tolist() == [1.0, 1.0]


def test_far_below_it_stays_tiny():
    found = exp(np.array([-700.0, -701.0, -1e300, -np.inf]))
    assert (found == found[0]).all() and 0 < found[0] < 1e-300
