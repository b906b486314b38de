from __future__ import annotations

import itertools

import moocore
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trajectory import Trajectory
from hpobench_nmt.evaluation.curves import hypervolume_shares
from hpobench_nmt.evaluation.hypervolume import (
    attainment_surface,
    hypervolume,
    hypervolume_curve,
    table_scale,
)
from hpobench_nmt.evaluation.random_search import (
    MAX_ROWS,
    exact_random_search,
    random_search_attainment,
    random_search_hypervolume,
)
from hpobench_nmt.evaluation.scores import make_goal

COARSE = st.tuples(*[st.sampled_from([-0.3, 0.0, 0.2, 0.5, 0.9, 1.1, 1.4])] * 2)
FINE = st.tuples(*[st.floats(-0.5, 1.5)] * 2)
HOLED = st.tuples(*[st.sampled_from([np.nan, 0.0, 1.0, 2.0, 5.0])] * 2)


@settings(max_examples=150, deadline=None)
@given(points=st.lists(st.one_of(COARSE, FINE), min_size=1, max_size=15))
def test_every_step_of_the_curve_is_moocores_hypervolume(points):
    points = np.array(points)
    expected = [moocore.hypervolume(points[: n + 1], ref=[1.1, 1.1]) for n in range(len(points))]
    np.testing.assert_allclose(hypervolume_curve(points), expected, atol=1e-12)
    assert hypervolume(points) == pytest.approx(expected[-1], abs=1e-12)


@settings(max_examples=80, deadline=None)
@given(
    points=st.lists(st.tuples(*[st.sampled_from([-0.3, 0.0, 0.2, 0.5, 0.9, 1.1, np.nan])] * 4), max_size=9)
)
def test_every_step_of_the_curve_of_three_and_four_losses(points):
    for m in (3, 4):
        some = np.array(points).reshape(-1, 4)[:, :m]
        expected = []
        for n in range(1, len(some) + 1):
            inside = [p for p in some[:n].tolist() if max(p) < 1.1 and not np.isnan(p).any()]
            boxes = (b for k in range(1, len(inside) + 1) for b in itertools.combinations(inside, k))
            expected.append(sum(-((-1) ** len(b)) * np.prod(1.1 - np.max(b, axis=0)) for b in boxes))
        np.testing.assert_allclose(hypervolume_curve(some), expected, atol=1e-12)
        assert hypervolume(some) == pytest.approx(expected[-1] if len(some) else 0.0, abs=1e-12)


def test_points_with_a_nan_add_nothing():
    points = np.array([[0.5, 0.5], [np.nan, 0.1], [0.1, np.nan], [0.2, 0.9]])
    curve = hypervolume_curve(points)
    assert curve[0] == curve[1] == curve[2] < curve[3]
    assert hypervolume(np.empty((0, 2))) == 0.0


def test_the_scale_runs_from_the_ideal_to_the_worst_of_the_front():
    losses = np.array([[1.0, 40.0], [2.0, 20.0], [5.0, 10.0], [9.0, 90.0], [np.nan, 0.0]])
    scale = table_scale(losses)
    np.testing.assert_array_equal(scale.scaled(losses[:3]), [[0, 1], [0.25, 1 / 3], [1, 0]])
    assert scale.total == pytest.approx(moocore.hypervolume(scale.scaled(losses[:3]), ref=[1.1, 1.1]))


def test_a_front_of_one_row_is_scaled_by_the_worst_of_the_table():
    losses = np.array([[1.0, 1.0], [3.0, 2.0], [2.0, 5.0]])
    np.testing.assert_array_equal(table_scale(losses).scaled(losses), [[0, 0], [1, 0.25], [0.5, 1]])
    flat = np.array([[1.0, 1.0], [1.0, 1.0]])
    assert np.isfinite(table_scale(flat).scaled(flat)).all()
    huge = np.array([[1e100, -1e20]])
    assert table_scale(huge).scaled(huge).tolist() == [[0.0, 0.0]]


def test_shares_end_at_one_with_the_front_and_are_unknown_after_an_early_end():
    losses = np.array([[1.0, 4.0], [2.0, 2.0], [4.0, 1.0], [4.0, 4.0]])
    trials = [Trajectory(np.array(rows), losses[list(rows)]) for rows in ([3, 0, 1, 2], [0, 2, 1], [1, 0])]
    shares = hypervolume_shares(trials, table_scale(losses), np.arange(1.0, 5))
    assert shares[0, -1] == pytest.approx(1.0)
    assert shares[1, -1] == 1.0
    assert np.isnan(shares[2, 2:]).all()
    assert not np.isnan(shares[2, :2]).any()
    assert (np.diff(shares[:2], axis=1) >= 0).all()


@settings(max_examples=60, deadline=None)
@given(losses=st.lists(HOLED, min_size=1, max_size=6))
def test_expected_hypervolume_over_all_subsets(losses):
    losses = np.array(losses)
    assume(not np.isnan(losses).any(axis=1).all())
    scale = table_scale(losses)
    points = scale.scaled(losses)
    expected = [
        np.mean([hypervolume(points[list(drawn)]) for drawn in itertools.combinations(range(len(losses)), t)])
        for t in range(1, len(losses) + 1)
    ]
    goals = [make_goal("fbh", losses, score_at=t) for t in range(1, len(losses) + 1)]
    means = [exact_random_search(goal, 1) for goal in goals]
    np.testing.assert_allclose([mean * scale.total for mean, _ in means], expected, atol=1e-12)
    assert np.isnan([std for _, std in means]).all()
    found = random_search_hypervolume(losses, scale, 100)
    np.testing.assert_allclose(found * scale.total, expected, atol=1e-12)


def test_expected_hypervolume_of_a_large_table_is_refused():
    losses = np.random.default_rng(0).random((MAX_ROWS + 1, 2))
    with pytest.raises(InputError, match="10,000 rows"):
        random_search_hypervolume(losses, table_scale(losses), 10)


def attains(points, z):
    return bool(((points <= z).all(axis=1)).any())


@settings(max_examples=80, deadline=None)
@given(
    trials=st.lists(st.lists(st.one_of(COARSE, HOLED), max_size=4), min_size=1, max_size=5),
    level=st.sampled_from([0.2, 0.25, 0.5, 0.75, 1.0]),
)
def test_a_point_is_within_the_surface_if_enough_trials_attain_it(trials, level):
    trials = [np.array(points).reshape(-1, 2) for points in trials]  # some see nothing at all
    surface = attainment_surface(trials, level)
    values = np.concatenate(trials)
    for z in itertools.product([*np.unique(values[~np.isnan(values)]), -9.0, 9.0], repeat=2):
        enough = sum(attains(points, z) for points in trials) >= level * len(trials) - 1e-9
        assert attains(surface, np.array(z)) == enough
    assert (np.diff(surface[:, 0]) > 0).all()
    assert (np.diff(surface[:, 1]) < 0).all()


@settings(max_examples=80, deadline=None)
@given(
    losses=st.lists(HOLED, min_size=1, max_size=6),
    t=st.integers(1, 7),
    level=st.sampled_from([0.25, 0.5, 1.0]),
)
def test_the_surface_of_random_search_over_all_subsets(losses, t, level):
    losses = np.array(losses)
    subsets = list(itertools.combinations(range(len(losses)), min(t, len(losses))))
    surface = random_search_attainment(losses, t, level)
    for z in itertools.product([-1.0, 0.0, 1.0, 2.0, 5.0, 6.0], repeat=2):
        share = np.mean([attains(losses[list(drawn)], z) for drawn in subsets])
        assert attains(surface, np.array(z)) == (share >= level - 1e-9)


def test_wrong_levels_and_objectives():
    with pytest.raises(InputError, match="level"):
        attainment_surface([np.ones((1, 2))], 0.0)
    with pytest.raises(InputError, match="level"):
        random_search_attainment(np.ones((1, 2)), 1, 1.5)
    with pytest.raises(InputError, match="two and more objectives"):
        table_scale(np.ones((3, 1)))
    with pytest.raises(InputError, match="all objectives"):
        table_scale(np.full((2, 3), np.nan))
    with pytest.raises(InputError, match="known only for two objectives, not for 3"):
        random_search_hypervolume(np.ones((3, 3)), table_scale(np.ones((3, 3))), 1)
    with pytest.raises(InputError, match="both objectives"):
        table_scale(np.array([[np.nan, 1.0]]))
    assert attainment_surface([], 0.5).shape == (0, 2)
