"""BOHB and TPE against a naive twin that works out every density point by point."""

import copy
import math

import numpy as np
import pytest
from twins.made import smooth_curves

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.space import Hyperparameter, Space
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.methods.bohb import BOHB, TPE, DensityRatio
from hpobench_nmt.methods.early.successive_halving import Hyperband
from hpobench_nmt.testing import PARALLEL_CHECKS

KINDS = 3


def mixed_problem(n_rows, seed=0, **options):
    """Two numbers and a category of three values; loss and distance depend on all of them."""
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.random((n_rows, 2)).round(3), rng.integers(KINDS, size=n_rows)])
    axes = [Hyperparameter(name, (0.0, 1.0), continuous=True, integer=False) for name in ("x", "y")]
    space = Space((*axes, Hyperparameter("kind", ("a", "b", "c"), kind="categorical")))
    features = space.features(codes)
    features.setflags(write=False)
    loss = ((codes[:, :2] - 0.3) ** 2).sum(axis=1) + 0.2 * codes[:, 2]
    return Problem(features, 1, n_rows, 3, space, codes, **options), loss[:, None]


def naive_kernel(a, b, width):
    """The product kernel of two configurations (x, y, kind), up to a factor that all share."""
    value = 1.0
    for j in range(2):
        value *= math.exp(-(((a[j] - b[j]) / width[j]) ** 2) / 2)
    h = min(width[2], (KINDS - 1) / KINDS)
    return value * ((1 - h) if a[2] == b[2] else h / (KINDS - 1))


def naive_width(points):
    shares = [np.mean(points[:, 2] == k) for k in range(KINDS)]
    spread = [points[:, 0].std(), points[:, 1].std(), math.sqrt((1 - sum(s * s for s in shares)) / 2)]
    return [max(1.06 * s * len(points) ** (-1 / 7), 1e-3) for s in spread]


def naive_choice(codes, free, known, rng):
    """The row by the letter of the algorithm; `known` has (row, loss) of the level, in order of arrival."""
    if rng.random() < 1 / 3:
        return None
    if known is None:
        return None
    ordered = [row for _, _, row in sorted((loss, place, row) for place, (row, loss) in enumerate(known))]
    n_good = max(4, int(0.15 * len(ordered)))
    n_bad = max(4, len(ordered) - n_good)
    good, bad = codes[ordered[:n_good]], codes[ordered[len(ordered) - n_bad :]]
    rows = [row for row in range(len(codes)) if free[row]]
    width, width_bad = naive_width(good), naive_width(bad)
    wide = [3 * h for h in width]
    weights = np.array([sum(naive_kernel(codes[row], point, wide) for point in good) for row in rows])
    drawn = sorted({int(row) for row in rng.choice(rows, 64, p=weights / weights.sum())})

    def ratio(row):
        a = sum(naive_kernel(codes[row], point, width) for point in good)
        b = sum(naive_kernel(codes[row], point, width_bad) for point in bad)
        return a / b if b else math.inf

    return max(drawn, key=ratio)


@pytest.mark.parametrize("seed", range(2))
def test_tpe_chooses_as_its_naive_twin(seed):
    problem, losses = mixed_problem(60, seed)
    losses[::11] = np.nan
    told, compared = [], 0

    class Noting(TPE):
        def tell(self, index, losses):
            super().tell(index, losses)
            told.append((index, math.inf if np.isnan(losses[0]) else losses[0]))

        def suggest(self, running):
            nonlocal compared
            rng, free = copy.deepcopy(self._rng), self._unseen.copy()
            row = super().suggest(running)
            expected = naive_choice(problem.configs, free, told if len(told) >= 6 else None, rng)
            assert expected in (row, None)
            compared += expected is not None
            return row

    rng = np.random.default_rng(seed)
    assert not run_trial(problem, Trainings.whole(losses), Noting, rng, [0, 1, 2]).failure
    assert compared > 25


def test_bohb_chooses_as_its_naive_twin_from_the_highest_level_with_enough_rows():
    features, given = smooth_curves(4, n_rows=80, failing=(3, 9))
    numbers, _ = mixed_problem(80)
    codes = np.column_stack([features, numbers.configs[:, 2]])
    problem = Problem(
        numbers.space.features(codes), 1, 80, 0, numbers.space, codes,
        workers=4, resources=np.unique(given.resources), clock="cost",
    )  # fmt: skip
    levels_used = set()

    class Noting(BOHB):
        def __init__(self, problem, rng):
            super().__init__(problem, rng)
            self.curves, inner = {}, self._field.sampler
            self._field.sampler = Compared(self, inner)

        def observe(self, progress):
            self.curves.setdefault(progress.row, None)
            self.curves[progress.row] = progress
            super().observe(progress)

    class Compared:
        def __init__(self, method, inner):
            self.method, self.inner, self.arrived = method, inner, {}

        def learn(self, row, level, loss):
            curve = self.method.curves[row]
            bound = self.method._field.levels[level]
            at = [k for k, r in enumerate(curve.resources) if r >= bound]
            so_far = curve.losses[: at[0] + 1 if at else None, 0]
            so_far = so_far[~np.isnan(so_far)]
            self.arrived.setdefault(level, []).append((row, min(so_far, default=math.inf)))
            self.inner.learn(row, level, loss)

        def choose(self, free, level):
            enough = [k for k, rows in self.arrived.items() if len(rows) >= 6]
            rng = copy.deepcopy(self.inner._rng)
            expected = naive_choice(codes, free, self.arrived[max(enough)] if enough else None, rng)
            if expected is not None:
                levels_used.add(max(enough))
            assert self.inner.choose(free, level) == expected
            return expected

    assert not run_trial(problem, given, Noting, np.random.default_rng(0)).failure
    assert levels_used == {0, 1, 2, 3}


def test_bohb_without_its_model_is_hyperband():
    features, given = smooth_curves(2, n_rows=60)
    problem = Problem(features, 1, 60, 0, workers=3, resources=np.unique(given.resources), clock="cost")

    def rows(make):
        return run_trial(problem, given, make, np.random.default_rng(5)).rows.tolist()

    assert rows(lambda p, r: BOHB(p, r, random_share=1.0)) == rows(Hyperband)
    assert rows(BOHB) != rows(Hyperband)


@pytest.mark.parametrize("check", PARALLEL_CHECKS, ids=lambda check: check.__name__)
def test_conformance(check):
    check(BOHB)


def test_a_share_must_be_one():
    problem, _ = mixed_problem(10)
    for share in (-0.1, 1.5, math.nan):
        with pytest.raises(InputError, match="random_share must be from 0 to 1"):
            DensityRatio(problem, np.random.default_rng(0), share)
