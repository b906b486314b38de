from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hpobench_nmt.core.trajectory import Timeline, Trajectory
from hpobench_nmt.evaluation.curves import (
    hypervolume_shares,
    simple_regret,
    spaced_times,
    summarise_curves,
)
from hpobench_nmt.evaluation.hypervolume import hypervolume, table_scale
from hpobench_nmt.evaluation.random_search import exact_random_search, random_search_regret
from hpobench_nmt.evaluation.scores import make_goal

CELLS = st.sampled_from([np.nan, 0.0, 1.0, 1.5, 4.0, 9.0])


def trial(*losses, failure=""):
    return Trajectory(np.arange(len(losses)), np.array(losses, dtype=float)[:, None], failure)


def test_regret_is_the_gap_to_the_best_so_far():
    trials = [trial(5, 7, 2, 3), trial(np.nan, np.nan, 4), trial(3, 1)]
    expected = [[4, 4, 1, 1], [np.inf, np.inf, 3, np.nan], [2, 0, 0, 0]]
    np.testing.assert_array_equal(simple_regret(trials, 1.0, np.arange(1.0, 5)), expected)


def test_no_trials_have_no_regret():
    nothing = simple_regret([], 0.0, np.empty(0))
    assert nothing.shape == (0, 0)
    assert len(summarise_curves(nothing).lookups) == 0


@settings(max_examples=60, deadline=None)
@given(
    data=st.data(),
    n=st.integers(1, 7),
    width=st.integers(1, 5),
    level=st.sampled_from([0.1, 0.25, 0.5, 0.75, 1.0]),
)
def test_mean_and_quantiles_of_whole_curves(data, n, width, level):
    value = st.sampled_from([np.inf, 0.0, 1.0, 2.0, 5.0])
    curves = np.array(
        data.draw(st.lists(st.lists(value, min_size=width, max_size=width), min_size=n, max_size=n))
    )
    found = summarise_curves(curves, levels=[level])
    for t, column in enumerate(curves.T):
        there = column[np.isfinite(column)]
        assert found.trials[t] == len(there)
        assert found.mean[t] == pytest.approx(there.mean()) if len(there) == n else np.isnan(found.mean[t])
        # The least value that at least this share of the trials has reached.
        reached = [v for v in column if (column <= v).mean() >= level - 1e-9]
        assert found.quantiles[0, t] == min(reached)


def test_a_curve_ends_where_too_few_trials_are_known():
    curves = np.array([[4.0, 3.0, np.nan, np.nan], [4.0, 1.0, 1.0, np.nan], [5.0, 5.0, 2.0, 0.0]])
    np.testing.assert_array_equal(summarise_curves(curves).lookups, [1, 2])
    half = summarise_curves(curves, least_share=0.5, lookups=np.array([1, 2, 4, 8]))
    np.testing.assert_array_equal(half.lookups, [1, 2, 4])
    np.testing.assert_allclose(half.mean, [13 / 3, 3, 1.5])
    np.testing.assert_array_equal(half.trials, [3, 3, 2])
    # Quartiles are of the trials that are known.
    np.testing.assert_array_equal(half.quantiles, [[4, 1, 1], [4, 3, 1], [5, 5, 2]])


@settings(max_examples=60, deadline=None)
@given(gaps=st.lists(CELLS, min_size=1, max_size=6), level=st.sampled_from([0.05, 0.25, 0.5, 0.75, 1.0]))
def test_random_search_over_all_permutations(gaps, level):
    gaps = np.array(gaps)
    assume(not np.isnan(gaps).all())
    found = random_search_regret(gaps, 10, levels=[level])
    orders = np.array(list(itertools.permutations(range(len(gaps)))))
    curves = np.fmin.accumulate(np.where(np.isnan(gaps), np.inf, gaps)[orders], axis=1)
    assert len(found.lookups) == len(gaps)
    for t, column in enumerate(curves.T):
        there = column[np.isfinite(column)]
        whole = len(there) == len(column)
        assert found.mean[t] == pytest.approx(there.mean()) if whole else np.isnan(found.mean[t])
        reached = [v for v in np.unique(column) if (column <= v).mean() >= level - 1e-9]
        assert found.quantiles[0, t] == min(reached)


def test_random_search_meets_the_exact_score_of_the_budget():
    losses = np.random.default_rng(0).exponential(size=(200, 1))
    curve = random_search_regret(losses[:, 0] - losses.min(), 60)
    for budget in (3, 20, 60):
        mean, _ = exact_random_search(make_goal("fb", losses, score_at=budget), 3)
        assert curve.mean[budget - 1] == pytest.approx(mean)


# --- on a clock --------------------------------------------------------------------------------------


def test_regret_at_any_time(made, trials_on):
    given = made(1)
    nothing = Trajectory(np.empty(0, int), np.empty((0, 1)), "x", Timeline.of_lookups(0))
    trials = [*trials_on(given), *trials_on(given, lookups=4), nothing]
    best = float(np.nanmin(given.final))
    times = spaced_times(trials, 50)
    assert times[0] == min(t.timing.finishes[0] for t in trials[:-1])
    assert times[-1] == pytest.approx(max(t.timing.finishes[-1] for t in trials[:-1]))
    found = simple_regret(trials, best, times)
    for trial, line in zip(trials, found, strict=True):
        ends = trial.timing.finishes
        for at, value in zip(times, line, strict=True):
            seen = trial.losses[ends <= at, 0]
            regret = np.nanmin(seen, initial=np.inf) - best
            if (len(ends) == 0 or at > ends[-1]) and regret > 0:
                assert np.isnan(value)
            else:
                assert value == regret


def test_where_all_that_finishes_does_so_at_once_there_is_one_time():
    for at in (0.3, 0.0):  # a geometric row from 0.3 to 0.3 would have rounding errors
        timing = Timeline(np.ones(2), np.ones(2), np.zeros(2), np.full(2, at), np.arange(2))
        trial = Trajectory(np.arange(2), np.ones((2, 1)), "", timing)
        assert spaced_times([trial, trial], 50).tolist() == [at]
    assert spaced_times([], 50).tolist() == []


def test_hypervolume_at_any_time(made, trials_on):
    given = made(2)
    trials, scale = trials_on(given, m=2) + trials_on(given, m=2, lookups=9), table_scale(given.final)
    times = spaced_times(trials, 20)
    ends = [trial.timing.finishes[-1] for trial in trials]
    # With all that can be found, and with less.
    assert min(ends[:4]) < times[-1] and max(ends[4:]) < times[-1]
    for trial, line in zip(trials, hypervolume_shares(trials, scale, times), strict=True):
        for at, share in zip(times, line, strict=True):
            points = scale.scaled(trial.losses[trial.timing.finishes <= at])
            found = min(hypervolume(points) / scale.total, 1.0)
            if at > trial.timing.finishes[-1] and found < 1.0 - 1e-9:
                assert np.isnan(share)
            else:
                assert share == pytest.approx(found)
