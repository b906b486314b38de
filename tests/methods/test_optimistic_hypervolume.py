"""The hypervolume that an optimistic guess adds, against moocore and by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moocore import hypervolume

from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.methods.acquisitions.acquisition import Belief
from hpobench_nmt.methods.acquisitions.optimistic_hypervolume import (
    GAIN,
    REFERENCE,
    by_optimistic_hypervolume,
)


def belief(mean, var, unseen, seen):
    front = seen[pareto_front(seen)]
    front = front[np.argsort(front[:, 0], kind="stable")]
    return Belief(mean, var, unseen, front, seen.min(axis=0), seen.max(axis=0), None)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([3, 4, 5]), st.booleans())
def test_it_is_what_moocore_says_of_the_front_with_and_without_the_point(seed, m, ties):
    rng = np.random.default_rng(seed)
    seen, mean = rng.random((rng.integers(1, 12), m)), rng.normal(0.4, 0.5, (m, 30))
    if ties:
        seen, mean = np.round(seen * 3) / 3, np.round(mean * 3) / 3
    var = np.zeros(30) if ties else rng.random(30) * 0.2
    unseen = rng.random(30) < 0.8
    # The units of the losses, and where they begin, do not matter.
    unit, offset = 10.0 ** rng.integers(-3, 4, m), rng.normal(size=m) * 10
    values = by_optimistic_hypervolume(belief(mean, var, unseen, seen))
    scaled = seen * unit + offset
    if not ties and len(seen) > 1:  # rounding may break a tie, and a single row has no unit
        best_scaled = belief((mean.T * unit + offset).T, var, unseen, scaled)
        wide = by_optimistic_hypervolume(
            best_scaled._replace(var=np.zeros(30), mean=((mean - np.sqrt(var)).T * unit + offset).T)
        )
        np.testing.assert_allclose(wide, values, atol=1e-9)
    low, spread = seen.min(axis=0), np.ptp(seen, axis=0)
    spread[spread == 0] = 1.0
    front = (seen - low) / spread
    before = hypervolume(front, ref=REFERENCE)
    for i in range(30):
        point = (mean[:, i] - GAIN * np.sqrt(var[i]) - low) / spread
        behind = [(point - f).max() for f in front[pareto_front(front)] if (f <= point).all()]
        if not unseen[i]:
            assert values[i] == -np.inf
        elif behind:
            assert values[i] == pytest.approx(-min(behind), rel=1e-12, abs=1e-12)
        else:
            after = hypervolume(np.vstack([front, np.minimum(point, REFERENCE)]), ref=REFERENCE)
            assert values[i] == pytest.approx(after - before, rel=1e-12, abs=1e-12)


def test_by_hand():
    seen = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    mean = np.array([[0.5, 0.5, 0.5], [0.0, 1.0, 1.0], [1.2, 1.0, 0.0]]).T
    values = by_optimistic_hypervolume(belief(mean, np.zeros(3), np.ones(3, bool), seen))
    # A cube of 0.6, less a corner of 0.1 x 0.1 x 0.6 for each loss, of which 0.1^3 is counted three times.
    assert values[0] == pytest.approx(0.6**3 - 3 * 0.01 * 0.6 + 2 * 0.001)
    assert values[1] == 0.0
    assert values[2] == pytest.approx(-0.2)
