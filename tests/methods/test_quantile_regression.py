"""CQR: conformal correction by hand, and choices against a naive twin."""

import copy
import functools
import math

import numpy as np
import pytest
from twins.made import smooth_curves

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.methods import BUILT_IN, quantile_regression
from hpobench_nmt.methods.quantile_regression import (
    CQR,
    ConformalASHA,
    QuantileSampler,
    boosted_quantiles,
    conformal,
)
from hpobench_nmt.methods.surrogates.warping import normal_scores
from hpobench_nmt.testing import CONFORMANCE_CHECKS, PARALLEL_CHECKS

# One tree for each quantile is quick to fit.
QUICK = functools.partial(CQR, trees=1)
QUICK_ASHA = functools.partial(ConformalASHA, trees=1)


@pytest.fixture
def rarely_fitted(monkeypatch):
    """A fit whenever half as many rows more are known. A check would take hundreds of fits."""
    monkeypatch.setattr(quantile_regression, "GROWTH", 1.5)


@pytest.mark.parametrize("check", CONFORMANCE_CHECKS, ids=lambda check: check.__name__)
def test_conformance(check, rarely_fitted):
    check(QUICK)


@pytest.mark.parametrize("check", PARALLEL_CHECKS, ids=lambda check: check.__name__)
def test_conformance_along_curves(check, rarely_fitted):
    check(QUICK_ASHA)


def test_they_can_be_named():
    assert (BUILT_IN["CQR"].load(), BUILT_IN["CQR_ASHA"].load()) == (CQR, ConformalASHA)
    with pytest.raises(InputError, match="trees must be"):
        CQR(Problem(np.zeros((9, 1)), 1, 9, 0), np.random.default_rng(0), 0)


def naive_corrected(quantiles, kept_out, y):
    """By the definition: the k-th smallest of the m scores, k = ceil((m + 1)(1 - 2a)), at most m."""
    found = [list(row) for row in quantiles]
    for low, high, k_of_6 in ((0, 4, 4), (1, 3, 2)):
        scores = sorted(max(kept_out[low][i] - y[i], y[i] - kept_out[high][i]) for i in range(len(y)))
        wanted = -(-(len(y) + 1) * k_of_6 // 6)
        correction = scores[min(wanted, len(y)) - 1]
        found[low] = [q - correction for q in found[low]]
        found[high] = [q + correction for q in found[high]]
    return found


def test_trees_have_eight_leaves_of_three_rows_and_learn_from_all_rows():
    x = np.arange(200.0)[:, None]
    found = boosted_quantiles(x, np.random.default_rng(0).random(200), x, 1)
    assert max(len(set(line)) for line in found.tolist()) == 8
    two = boosted_quantiles(x[:6], np.repeat([0.0, 1.0], 3), x[:6], 1)  # five rows could not be split
    assert (np.diff(two, axis=1) != 0).tolist() == [[False, False, True, False, False]] * 5


def test_the_correction_as_its_naive_twin_and_its_coverage():
    rng = np.random.default_rng(0)
    for m in (1, 4, 5, 11, 40):
        kept_out, quantiles = (
            np.sort(rng.normal(size=(5, m)), axis=0),
            np.sort(rng.normal(size=(5, 3)), axis=0),
        )
        y = rng.normal(size=m)
        np.testing.assert_allclose(conformal(quantiles, kept_out, y), naive_corrected(quantiles, kept_out, y))
    # Quantiles that are far too narrow cover what they should once they are corrected.
    narrow = np.tile(np.linspace(-0.1, 0.1, 5)[:, None], (1, 500))
    fixed = conformal(narrow, narrow[:, :400], rng.normal(size=400))
    fresh = rng.normal(size=500)
    assert abs(np.mean((fixed[0] <= fresh) & (fresh <= fixed[4])) - 2 / 3) < 0.06
    assert abs(np.mean((fixed[1] <= fresh) & (fresh <= fixed[3])) - 1 / 3) < 0.06


def test_quantiles_of_trees_are_ordered_on_average_and_follow_the_data():
    x = np.linspace(0, 1, 200)[:, None]
    y = 3 * x[:, 0] + np.random.default_rng(0).normal(size=200) * (0.1 + x[:, 0])
    found = boosted_quantiles(x, y, x, 25)
    assert (np.diff(found.mean(axis=1)) > 0).all()
    assert found[4, 150:].mean() - found[0, 150:].mean() > 1.5 * (found[4, :50].mean() - found[0, :50].mean())
    assert abs(found[2].mean() - 1.5) < 0.2


class Compared:
    """A sampler whose every choice is worked out anew from what it learned."""

    def __init__(self, inner, features):
        self.inner, self.features, self.last, self.fitted, self.used = inner, features, {}, None, 0

    def learn(self, row, level, loss):
        self.last[row] = loss
        self.inner.learn(row, level, loss)

    def choose(self, free, level):
        rng = copy.deepcopy(self.inner._rng)
        row = self.inner.choose(free, level)
        if len(self.last) < 5:
            assert row is None
            return row
        if self.fitted is None or len(self.last) >= 1.1 * self.fitted[0]:
            rows, y = list(self.last), normal_scores(np.array(list(self.last.values())))
            order = rng.permutation(len(rows))
            count = -(-len(rows) // 10) if len(rows) >= 32 else 0
            out, used = order[:count], order[count:]
            x = self.features[rows]
            quantiles = boosted_quantiles(x[used], y[used], self.features, 1)
            if count:
                quantiles = naive_corrected(quantiles, quantiles[:, np.array(rows)[out]], y[out])
            self.fitted = len(rows), np.array(quantiles)
        drawn = rng.integers(5, size=len(free))
        values = [self.fitted[1][k][i] if free[i] else math.inf for i, k in enumerate(drawn)]
        assert row == rng.choice([i for i, value in enumerate(values) if value == min(values)])
        self.used += 1
        return row


def test_cqr_and_its_asha_choose_as_a_naive_twin():
    features, given = smooth_curves(1, n_rows=60, failing=(3, 9))
    whole = Problem(features, 1, 60, 3)
    timed = Problem(features, 1, 60, 0, workers=4, resources=np.unique(given.resources), clock="cost")
    made = []

    def noting(problem, rng):
        method = QUICK(problem, rng)
        method._sampler = Compared(method._sampler, features)
        made.append(method._sampler)
        return method

    def noting_asha(problem, rng):
        method = QUICK_ASHA(problem, rng)
        method._field.sampler = Compared(method._field.sampler, features)
        made.append(method._field.sampler)
        return method

    losses = Trainings.whole(given.final)
    assert not run_trial(whole, losses, noting, np.random.default_rng(0), [0, 3, 9]).failure
    assert not run_trial(timed, given, noting_asha, np.random.default_rng(0)).failure
    assert all(sampler.used > 40 for sampler in made)


def test_the_choice_is_random_until_five_rows_are_known():
    problem, rng = Problem(np.random.default_rng(0).random((30, 2)), 1, 30, 0), np.random.default_rng(1)
    sampler, free = QuantileSampler(problem, rng, trees=1), np.ones(30, dtype=bool)
    for row in range(5):
        before = rng.bit_generator.state
        assert sampler.choose(free, 0) is None
        assert rng.bit_generator.state == before
        sampler.learn(row, 0, float(row))
        free[row] = False
    assert sampler.choose(free, 0) in range(5, 30)


def test_it_beats_random_search_on_a_smooth_table():
    features = np.random.default_rng(1).random((200, 2))
    losses = ((features - 0.3) ** 2).sum(axis=1)[:, None]
    good = set(np.argsort(losses[:, 0])[:15].tolist())
    problem = Problem(features, 1, 40, 3)
    make = functools.partial(CQR, trees=3)
    found = [
        len(
            good
            & set(run_trial(problem, Trainings.whole(losses), make, np.random.default_rng(s), [0, 1, 2]).rows)
        )
        for s in range(3)
    ]
    assert np.mean(found) > 6  # random search finds 3
