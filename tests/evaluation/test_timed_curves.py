"""Curves and runtimes over the time of a clock, against what a loop over times finds."""

from __future__ import annotations

import numpy as np
import pytest

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.timed_loop import run_timed_trial
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trajectory import Timeline, Trajectory
from hpobench_nmt.evaluation.hypervolume import hypervolume, table_scale
from hpobench_nmt.evaluation.runtime_distribution import front_goals, gap_goals, runtimes
from hpobench_nmt.evaluation.timed_curves import (
    spaced_times,
    timed_hypervolume,
    timed_regret,
    timed_runtimes,
)
from hpobench_nmt.methods.random_search import RandomSearch
from hpobench_nmt.methods.successive_halving import ASHA


def made(m, seed=0):
    """Trainings of 30 rows with m losses, of which some checkpoints lack them."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 6, 30)
    steps = np.concatenate([np.arange(1.0, n + 1) for n in lengths])
    losses = rng.normal(size=(len(steps), m))
    ends = np.cumsum(lengths) - 1
    losses[ends[::6]] = np.nan
    return Trainings(np.cumsum([0, *lengths]), steps, steps * 1.5, losses)


def trials_on(given, method=ASHA, workers=3, n_initial=0, m=1, lookups=30):
    problem = Problem(
        np.zeros((30, 1)), m, lookups, n_initial, workers=workers, resources=np.arange(1.0, 6), clock="cost"
    )
    initial = list(range(n_initial))
    return [
        run_timed_trial(problem, given, method, np.random.default_rng(seed), initial) for seed in range(4)
    ]


def test_regret_at_any_time():
    given = made(1)
    nothing = Trajectory(np.empty(0, int), np.empty((0, 1)), "x", Timeline.of_lookups(0))
    trials = [*trials_on(given), *trials_on(given, lookups=4), nothing]
    best = float(np.nanmin(given.final))
    times = spaced_times(trials, 50)
    assert times[0] == min(t.timing.finishes[0] for t in trials[:-1])
    assert times[-1] == pytest.approx(max(t.timing.finishes[-1] for t in trials[:-1]))
    found = timed_regret(trials, best, times)
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


def test_hypervolume_at_any_time():
    given = made(2)
    trials, scale = trials_on(given, m=2) + trials_on(given, m=2, lookups=9), table_scale(given.final)
    times = spaced_times(trials, 20)
    ends = [trial.timing.finishes[-1] for trial in trials]
    assert (
        min(ends[:4]) < times[-1] and max(ends[4:]) < times[-1]
    )  # with all that can be found, and with less
    for trial, line in zip(trials, timed_hypervolume(trials, scale, times), strict=True):
        for at, share in zip(times, line, strict=True):
            points = scale.scaled(trial.losses[trial.timing.finishes <= at])
            found = min(hypervolume(points) / scale.total, 1.0)
            if at > trial.timing.finishes[-1] and found < 1.0 - 1e-9:
                assert np.isnan(share)
            else:
                assert share == pytest.approx(found)


@pytest.mark.parametrize("m", [1, 2])
def test_runtimes_to_goals(m):
    given = made(m)
    goals = gap_goals(given.final[:, 0] - np.nanmin(given.final)) if m == 1 else front_goals(given.final)
    trials = trials_on(given, m=m, n_initial=2)
    found = timed_runtimes(trials, goals, given, 2)
    assert found.lengths.tolist() == [t.timing.finishes[-1] for t in trials]
    for trial, line in zip(trials, found.times, strict=True):
        least = max(given.costs[given.starts[1:3] - 1])  # the initial design: rows 0 and 1, at once
        for goal, time in zip(goals, line, strict=True):
            met, rows = np.inf, set()
            for row, losses, finish in zip(trial.rows, trial.losses, trial.timing.finishes, strict=True):
                if m == 1 and losses[0] - np.nanmin(given.final) <= goal.gaps[goal.targets].max():
                    rows.add(row)
                if m == 2 and goal.targets[row] and (losses == given.final[row]).all():
                    rows.add(row)
                if len(rows) >= goal.needed:
                    met = max(finish, least)
                    break
            assert time == met


def test_of_one_worker_and_look_ups_they_are_the_runtimes_of_the_sequential_benchmark():
    losses = np.random.default_rng(4).normal(size=(30, 1))
    goals = gap_goals(losses[:, 0] - losses.min())
    trials = trials_on(Trainings.whole(losses), RandomSearch, workers=1, n_initial=3)
    found = timed_runtimes(trials, goals, Trainings.whole(losses), 3)
    np.testing.assert_array_equal(found.times, runtimes(trials, goals, 3).times)
