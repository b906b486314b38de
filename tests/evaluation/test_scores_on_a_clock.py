"""Scores of trials on a clock, whose trainings have checkpoints and end one after another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trajectory import Timeline, Trajectory
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.evaluation.hypervolume import hypervolume, table_scale
from hpobench_nmt.evaluation.scores import (
    answer,
    design_finish,
    make_goal,
)
from hpobench_nmt.methods.early.successive_halving import ASHA
from hpobench_nmt.methods.random_search import RandomSearch

# Three rows, whose best values are 2, 1 and 2.2; row 1 reaches 2 at its second checkpoint.
TRAININGS = Trainings(
    [0, 3, 6, 7],
    [1.0, 2.0, 4.0, 1.0, 2.0, 4.0, 4.0],
    [10.0, 20.0, 40.0, 10.0, 20.0, 40.0, 5.0],
    [[3.0], [2.0], [2.5], [4.0], [2.0], [1.0], [2.2]],
)
TWO = replace(TRAININGS, losses=np.column_stack([TRAININGS.losses[:, 0], [5.0] * 3 + [6.0] * 3 + [4.0]]))


def timed(*trainings):
    """A trajectory of (row, resource, finish)."""
    rows, resources, finishes = map(np.array, zip(*trainings, strict=True))
    places = TRAININGS.starts[rows] + [
        np.searchsorted(TRAININGS.resources[TRAININGS.starts[r] : TRAININGS.starts[r + 1]], x)
        for r, x in zip(rows, resources, strict=True)
    ]
    zeros = np.zeros(len(rows))
    timing = Timeline(resources.astype(float), zeros, zeros, finishes.astype(float), zeros.astype(np.int32))
    return Trajectory(rows, TRAININGS.best[places], "", timing)


WHOLE = timed((2, 4, 5), (0, 1, 15), (1, 2, 35), (0, 2, 45), (0, 4, 65), (1, 4, 85))


@pytest.mark.parametrize(
    ("tolerance", "resources", "runtime"),
    [
        (0.0, [np.inf, 4.0, np.inf], 85.0),
        (1.0, [2.0, 2.0, np.inf], 35.0),
        (1.2, [2.0, 2.0, 4.0], 5.0),
        (2.0, [1.0, 2.0, 4.0], 5.0),
    ],
)
def test_a_row_counts_from_its_first_checkpoint_that_is_good_enough(tolerance, resources, runtime):
    goal = make_goal("ftc", TRAININGS, tolerance=tolerance)
    assert goal.resources.tolist() == resources
    assert answer(goal, WHOLE, 0) == runtime
    assert answer(goal, WHOLE, 2) == max(runtime, 15.0)  # rows 2 and 0 were started first
    assert np.isnan(answer(goal, timed((0, 1, 15)), 0)) == (tolerance < 2.0)


@pytest.mark.parametrize(
    ("at", "gap"), [(4.0, np.nan), (5.0, 1.2), (34.9, 1.2), (35.0, 1.0), (84.0, 1.0), (85.0, 0.0), (1e9, 0.0)]
)
def test_the_gap_at_a_time(at, gap):
    found = answer(make_goal("fb", TRAININGS, score_at=at), WHOLE, 0)
    np.testing.assert_allclose(found, gap, rtol=1e-12)


def test_scores_of_a_front_count_whole_trainings():
    # All three rows are on the front; row 0 counts from its second checkpoint, its best one.
    assert answer(make_goal("fto", TWO), WHOLE, 0) == 5.0
    assert answer(make_goal("fta", TWO), WHOLE, 0) == 85.0
    for at, count in ((4.0, 0.0), (44.0, 1.0), (45.0, 2.0), (85.0, 3.0)):
        assert answer(make_goal("fbp", TWO, score_at=at), WHOLE, 0) == count


def test_a_trial_that_ended_before_its_score_is_taken_has_none():
    short = timed((2, 4, 5), (0, 1, 15))
    goal = make_goal("fb", TRAININGS, score_at=20.0)
    assert answer(goal, short, 0, lookups=3) == pytest.approx(1.2)  # the time was over
    assert np.isnan(answer(goal, short, 0, lookups=2))
    assert np.isnan(answer(goal, short, 0))
    assert np.isnan(answer(goal, replace(short, failure="it broke"), 0, lookups=3))
    assert answer(goal, replace(WHOLE, failure="it broke"), 0) == pytest.approx(1.2)


def test_the_share_of_the_hypervolume_at_a_time():
    seen = replace(WHOLE, losses=TWO.best[[6, 0, 4, 1, 2, 5]])
    shares = [answer(make_goal("fbh", TWO, score_at=at), seen, 0) for at in (4, 5, 15, 35, 45, 85)]
    assert shares[0] == 0.0
    assert shares[-1] == 1.0
    assert (np.diff(shares) >= 0).all()
    scale = table_scale(TWO.final)
    assert shares[3] == pytest.approx(
        hypervolume(scale.scaled(seen.losses[:3])) / hypervolume(scale.scaled(TWO.final))
    )


def test_a_trial_stops_as_soon_as_its_goal_is_met():
    rng = np.random.default_rng(3)
    lengths = rng.integers(2, 9, 40)
    steps = np.concatenate([np.arange(1.0, n + 1) for n in lengths])
    given = Trainings(np.cumsum([0, *lengths]), steps, steps, rng.normal(size=(len(steps), 1)))
    problem = Problem(np.zeros((40, 1)), 1, 40, 0, workers=3, resources=np.arange(1.0, 9))
    for tolerance in (0.0, 0.4):
        goal = make_goal("ftc", given, tolerance=tolerance)
        stopped, whole = (
            run_trial(problem, given, ASHA, np.random.default_rng(0), (), goals) for goals in ([goal], [])
        )
        runtime = answer(goal, whole, 0, 99)
        assert answer(goal, stopped, 0, 99) == runtime == stopped.timeline.finishes[-1]
        assert len(stopped.rows) < len(whole.rows)
        met = np.flatnonzero(whole.losses[:, 0] <= given.final.min() + tolerance)[0]
        assert runtime == whole.timeline.finishes[met]


def test_the_initial_design_is_over_when_the_rows_that_were_begun_first_have_ended():
    """Two workers: rows 5 and 3 begin at 0 and row 8 at 2; row 4 begins at 2, too, as the next request."""
    rows, starts = np.array([3, 4, 8, 5, 1]), np.array([0.0, 2.0, 2.0, 0.0, 7.0])
    finishes, workers = np.array([2.0, 4.0, 6.0, 7.0, 9.0]), np.array([0, 2, 0, 1, 1])
    nothing = np.zeros(5)
    done = Trajectory(rows, nothing[:, None], "", Timeline(nothing, nothing, starts, finishes, workers))
    assert [design_finish(done, n) for n in (0, 1, 2, 3, 4, 9)] == [0.0, 2.0, 7.0, 7.0, 7.0, 9.0]
    later = Timeline(nothing, nothing, starts, np.array([2.0, 4.0, 8.0, 7.0, 9.0]), workers)
    assert [design_finish(Trajectory(rows, nothing[:, None], "", later), n) for n in (2, 3)] == [7.0, 8.0]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_initial_design_is_over_where_trainings_take_no_time(workers):
    rng = np.random.default_rng(3)
    for _ in range(30):
        costs = rng.choice([0.0, 0.0, 1.0, 2.0, 5.0], size=8) + np.eye(8)[7]
        problem = Problem(np.arange(8.0)[:, None] / 7, 1, 8, 3, workers=workers)
        trainings = Trainings.whole(np.zeros((8, 1)), costs)
        done = run_trial(problem, trainings, RandomSearch, rng, [0, 1, 2])
        ends = dict(zip(done.rows.tolist(), done.timeline.finishes.tolist(), strict=True))
        assert design_finish(done, 3) == max(ends[row] for row in (0, 1, 2))


def test_a_training_that_failed_has_no_gap():
    given = Trainings.whole(np.array([[np.nan], [3.0], [1.0]]))
    goal = make_goal("fb", given, score_at=2.0)
    zeros = np.zeros(3)
    for order, gap in (([0, 1, 2], 2.0), ([1, 0, 2], 2.0), ([2, 0, 1], 0.0)):
        timing = Timeline(np.ones(3), np.ones(3), np.arange(3.0), np.arange(1.0, 4), zeros.astype(int))
        done = Trajectory(np.array(order), given.losses[order], "", timing)
        assert answer(goal, done, 0, 99) == gap
    only = Trajectory(np.array([0]), given.losses[:1], "", Timeline.of_lookups(1))
    assert np.isnan(answer(make_goal("fb", given, score_at=1.0), only, 0))
