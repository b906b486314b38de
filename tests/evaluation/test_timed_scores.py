from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpobench_nmt.core.errors import InputError
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.timed_loop import run_timed_trial
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trajectory import Timeline, Trajectory
from hpobench_nmt.evaluation.hypervolume import hypervolume, table_scale
from hpobench_nmt.evaluation.scores import answer, make_goal
from hpobench_nmt.evaluation.timed_scores import (
    design_finish,
    exact_cost_of_random_search,
    make_timed_goal,
    timed_answer,
)
from hpobench_nmt.methods.random_search import RandomSearch
from hpobench_nmt.methods.successive_halving import ASHA

# Three rows, whose best values are 2, 1 and 2.2; row 1 reaches 2 at its second checkpoint.
TRAININGS = Trainings(
    [0, 3, 6, 7],
    [1.0, 2.0, 4.0, 1.0, 2.0, 4.0, 4.0],
    [10.0, 20.0, 40.0, 10.0, 20.0, 40.0, 5.0],
    [[3.0], [2.0], [2.5], [4.0], [2.0], [1.0], [2.2]],
)


def trial(*trainings):
    """A trajectory of (row, resource, finish)."""
    rows, resources, finishes = map(np.array, zip(*trainings, strict=True))
    places = TRAININGS.starts[rows] + [
        np.searchsorted(TRAININGS.resources[TRAININGS.starts[r] : TRAININGS.starts[r + 1]], x)
        for r, x in zip(rows, resources, strict=True)
    ]
    zeros = np.zeros(len(rows))
    timing = Timeline(resources.astype(float), zeros, zeros, finishes.astype(float), zeros.astype(np.int32))
    return Trajectory(rows, TRAININGS.best[places], "", timing)


WHOLE = trial((2, 4, 5), (0, 1, 15), (1, 2, 35), (0, 2, 45), (0, 4, 65), (1, 4, 85))


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
    goal = make_timed_goal("ftc", TRAININGS, tolerance=tolerance)
    assert goal.resources.tolist() == resources
    assert timed_answer(goal, WHOLE, TRAININGS) == runtime
    assert timed_answer(goal, WHOLE, TRAININGS, least=50.0) == max(runtime, 50.0)
    assert np.isnan(timed_answer(goal, trial((0, 1, 15)), TRAININGS)) == (tolerance < 2.0)


@pytest.mark.parametrize(
    ("at", "gap"), [(4.0, np.nan), (5.0, 1.2), (34.9, 1.2), (35.0, 1.0), (84.0, 1.0), (85.0, 0.0), (1e9, 0.0)]
)
def test_the_gap_at_a_time(at, gap):
    found = timed_answer(make_timed_goal("fb", TRAININGS, score_at=at), WHOLE, TRAININGS)
    np.testing.assert_allclose(found, gap, rtol=1e-12)


def test_scores_of_a_front_count_whole_trainings():
    losses = np.column_stack([TRAININGS.losses[:, 0], [5.0] * 3 + [6.0] * 3 + [4.0]])
    two = Trainings(TRAININGS.starts, TRAININGS.resources, TRAININGS.costs, losses)
    # All three rows are on the front; row 0 counts from its second checkpoint, its best one.
    assert timed_answer(make_timed_goal("fto", two), WHOLE, two) == 5.0
    assert timed_answer(make_timed_goal("fta", two), WHOLE, two) == 85.0
    for at, count in ((4.0, 0.0), (44.0, 1.0), (45.0, 2.0), (85.0, 3.0)):
        assert timed_answer(make_timed_goal("fbp", two, score_at=at), WHOLE, two) == count


def test_a_trial_that_ended_before_its_score_is_taken_has_none():
    short = trial((2, 4, 5), (0, 1, 15))
    goal = make_timed_goal("fb", TRAININGS, score_at=20.0)
    assert timed_answer(goal, short, TRAININGS) == pytest.approx(1.2)  # the time was over
    assert timed_answer(goal, short, TRAININGS, lookups=3) == pytest.approx(1.2)
    assert np.isnan(timed_answer(goal, short, TRAININGS, lookups=2))
    assert np.isnan(timed_answer(goal, replace(short, failure="it broke"), TRAININGS))
    assert timed_answer(goal, replace(WHOLE, failure="it broke"), TRAININGS) == pytest.approx(1.2)


def test_the_share_of_the_hypervolume_at_a_time():
    losses = np.column_stack([TRAININGS.losses[:, 0], [5.0] * 3 + [6.0] * 3 + [4.0]])
    two = Trainings(TRAININGS.starts, TRAININGS.resources, TRAININGS.costs, losses)
    seen = replace(WHOLE, losses=two.best[[6, 0, 4, 1, 2, 5]])
    shares = [
        timed_answer(make_timed_goal("fbh", two, score_at=at), seen, two) for at in (4, 5, 15, 35, 45, 85)
    ]
    assert shares[0] == 0.0
    assert shares[-1] == 1.0
    assert (np.diff(shares) >= 0).all()
    scale = table_scale(two.final)
    assert shares[3] == pytest.approx(
        hypervolume(scale.scaled(seen.losses[:3])) / hypervolume(scale.scaled(two.final))
    )


def test_wrong_questions_are_refused_as_those_on_look_ups():
    for name, options in (("fto", {}), ("fb", {}), ("ftx", {}), ("ftc", {"tolerance": -1.0})):
        with pytest.raises(InputError):
            make_timed_goal(name, TRAININGS, **options)


@given(st.integers(0, 2**32), st.sampled_from(["ftb", "ftc", "fb", "fto", "fta", "fbp"]))
@settings(max_examples=40, deadline=None)
def test_on_look_ups_they_are_the_scores_of_the_sequential_benchmark(seed, name):
    rng = np.random.default_rng(seed)
    m = 2 if name in ("fto", "fta", "fbp") else 1
    losses = rng.integers(0, 6, (20, m)).astype(float)
    losses[rng.random(20) < 0.2] = np.nan
    if np.isnan(losses).any(axis=1).all():
        losses[0] = 1.0
    at = int(rng.integers(1, 20)) if name in ("fb", "fbp") else None
    whole = Trainings.whole(losses)
    sequential = make_goal(name, losses, tolerance=1.0, score_at=at)
    timed = make_timed_goal(name, whole, tolerance=1.0, score_at=at)
    assert timed.targets.tolist() == sequential.targets.tolist()
    problem = Problem(np.zeros((20, 1)), m, 20, 3)
    initial = rng.permutation(20)[:3].tolist()
    done = run_timed_trial(problem, whole, RandomSearch, rng, initial, [timed])
    found = timed_answer(timed, done, whole, least=3.0)
    np.testing.assert_allclose(found, answer(sequential, done.rows, 3), rtol=1e-12)


def test_a_trial_stops_as_soon_as_its_goal_is_met():
    rng = np.random.default_rng(3)
    lengths = rng.integers(2, 9, 40)
    steps = np.concatenate([np.arange(1.0, n + 1) for n in lengths])
    given = Trainings(np.cumsum([0, *lengths]), steps, steps, rng.normal(size=(len(steps), 1)))
    problem = Problem(np.zeros((40, 1)), 1, 40, 0, workers=3, resources=np.arange(1.0, 9))
    for tolerance in (0.0, 0.4):
        goal = make_timed_goal("ftc", given, tolerance=tolerance)
        stopped, whole = (
            run_timed_trial(problem, given, ASHA, np.random.default_rng(0), (), goals)
            for goals in ([goal], [])
        )
        runtime = timed_answer(goal, whole, given)
        assert timed_answer(goal, stopped, given) == runtime == stopped.timeline.finishes[-1]
        assert len(stopped.rows) < len(whole.rows)
        met = np.flatnonzero(whole.losses[:, 0] <= given.final.min() + tolerance)[0]
        assert runtime == whole.timeline.finishes[met]


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=6),
    st.integers(0, 4),
    st.integers(1, 3),
    st.integers(0, 4),
)
@settings(max_examples=60, deadline=None)
def test_the_exact_cost_of_random_search_is_that_of_all_orders(costs, k, needed, n_initial):
    costs, targets = np.array(costs, dtype=float), np.arange(len(costs)) < k
    n_initial = min(n_initial, len(costs))
    mean, std = exact_cost_of_random_search(targets, costs, needed, n_initial)
    if targets.sum() < needed:
        assert np.isnan([mean, std]).all()
        return
    taken = []
    for order in permutations(range(len(costs))):
        met = np.flatnonzero(targets[list(order)])[needed - 1] + 1
        taken.append(costs[list(order[: max(met, n_initial)])].sum())
    np.testing.assert_allclose(mean, np.mean(taken), rtol=1e-9, atol=1e-9)
    if n_initial < 2:
        np.testing.assert_allclose(std, np.std(taken), rtol=1e-9, atol=1e-6)
    else:
        assert np.isnan(std)


def test_simulated_random_search_has_its_exact_cost():
    rng = np.random.default_rng(0)
    costs, losses = rng.lognormal(size=60), rng.normal(size=(60, 1))
    given = Trainings.whole(losses, costs)
    goal = make_timed_goal("ftc", given, tolerance=0.5)
    problem = Problem(np.zeros((60, 1)), 1, 60, 0, clock="cost")
    trials = [
        run_timed_trial(problem, given, RandomSearch, np.random.default_rng(seed), (), [goal])
        for seed in range(1000)
    ]
    times = [timed_answer(goal, trial, given) for trial in trials]
    mean, std = exact_cost_of_random_search(goal.targets, costs)
    assert abs(np.mean(times) - mean) < 3.5 * std / 1000**0.5
    np.testing.assert_allclose(np.std(times), std, rtol=0.1)


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
        done = run_timed_trial(problem, trainings, RandomSearch, rng, [0, 1, 2])
        ends = dict(zip(done.rows.tolist(), done.timeline.finishes.tolist(), strict=True))
        assert design_finish(done, 3) == max(ends[row] for row in (0, 1, 2))


def test_a_training_that_failed_has_no_gap():
    given = Trainings.whole(np.array([[np.nan], [3.0], [1.0]]))
    goal = make_timed_goal("fb", given, score_at=2.0)
    zeros = np.zeros(3)
    for order, gap in (([0, 1, 2], 2.0), ([1, 0, 2], 2.0), ([2, 0, 1], 0.0)):
        timing = Timeline(np.ones(3), np.ones(3), np.arange(3.0), np.arange(1.0, 4), zeros.astype(int))
        trial = Trajectory(np.array(order), given.losses[order], "", timing)
        assert timed_answer(goal, trial, given) == gap
    only = Trajectory(np.array([0]), given.losses[:1], "", Timeline.of_lookups(1))
    assert np.isnan(timed_answer(make_timed_goal("fb", given, score_at=1.0), only, given))
