"""Several losses along learning curves: the front is over checkpoints. Everything against brute force."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trajectory import Timeline, Trajectory
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.evaluation.hypervolume import hypervolume, table_scale
from hpobench_nmt.evaluation.random_search import exact_random_search
from hpobench_nmt.evaluation.runtime_distribution import front_goals, runtimes
from hpobench_nmt.evaluation.scores import MOST_TARGETS, answer, make_goal
from hpobench_nmt.methods.random_search import RandomSearch


def made(seed, n_rows=30, longest=5, whole=True):
    """Curves of 1 to `longest` checkpoints with two losses, many of them equal, some missing at the end."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, n_rows)
    steps = np.concatenate([np.arange(1.0, n + 1) for n in lengths])
    losses = rng.integers(0, 12, (len(steps), 2)).astype(float)
    losses[(np.cumsum(lengths) - 1)[::6]] = np.nan
    costs = steps * np.repeat(rng.integers(1, 4, n_rows), lengths)
    return Trainings(np.cumsum([0, *lengths]), steps, costs if whole else costs * 0.37, losses)


def naive_front(given):
    """(row, checkpoint from 1) of the front; of one row's checkpoints with equal losses the first."""
    models = [
        (row, k + 1, tuple(given.losses[given.starts[row] + k]))
        for row in range(len(given))
        for k in range(given.starts[row + 1] - given.starts[row])
    ]
    sound = [m for m in models if m[2] == m[2] and not any(np.isnan(m[2]))]
    kept = [
        m
        for m in sound
        if not any(o[2] != m[2] and all(a <= b for a, b in zip(o[2], m[2], strict=True)) for o in sound)
    ]
    return [m[:2] for m in kept if not any(o[0] == m[0] and o[2] == m[2] and o[1] < m[1] for o in kept)]


def naive_found(given, trial, until):
    """The (row, checkpoint) that were reached by a time."""
    found = set()
    for row, resource, finish in zip(
        trial.candidates, trial.timeline.resources, trial.timeline.finishes, strict=True
    ):
        curve = given.resources[given.starts[row] : given.starts[row + 1]]
        found |= {(int(row), k + 1) for k, at in enumerate(curve) if at <= resource and finish <= until}
    return found


class Erratic:
    """Rows at random, any distance further."""

    def __init__(self, problem, rng):
        self.rng, self.problem, self.have = rng, problem, {}

    def suggest(self, running):
        every = range(len(self.problem.features))
        free = [r for r in every if r not in running and self.have.get(r, 0.0) < np.inf]
        if not free:
            return None
        row = int(self.rng.choice(free))
        more = [r for r in [*self.problem.resources, np.inf] if r > self.have.get(row, 0.0)]
        return row, more[int(self.rng.integers(len(more)))]

    def observe(self, progress):
        self.have[progress.row] = np.inf if progress.done else progress.resources[-1]


def trial_on(given, method=Erratic, seed=0, goals=(), workers=2):
    problem = Problem(
        np.zeros((len(given), 1)),
        2,
        len(given),
        0,
        workers=workers,
        resources=np.unique(given.resources),
        clock="cost",
    )
    return run_trial(problem, given, method, np.random.default_rng(seed), (), goals)


@pytest.mark.parametrize("seed", range(6))
def test_every_score_is_that_of_brute_force(seed):
    given = made(seed)
    trial, front = trial_on(given, seed=seed), naive_front(given)
    finishes = trial.timeline.finishes
    met = sorted(min(t for t in finishes if model in naive_found(given, trial, t)) for model in front)
    assert answer(make_goal("fto", given), trial, 0) == met[0]
    assert answer(make_goal("fta", given), trial, 0) == met[-1]
    scale = table_scale(given.losses)
    for at in finishes[[0, len(finishes) // 3, len(finishes) // 2, -1]]:
        found = naive_found(given, trial, at)
        assert answer(make_goal("fbp", given, score_at=at), trial, 0) == len(found & set(front))
        points = np.array([given.losses[given.starts[r] + k - 1] for r, k in found])
        share = hypervolume(scale.scaled(points)) / hypervolume(scale.scaled(given.losses))
        assert answer(make_goal("fbh", given, score_at=at), trial, 0) == pytest.approx(share)
    found = runtimes([trial], front_goals(given), 0)
    assert found.times[0].tolist() == met


@pytest.mark.parametrize("seed", range(4))
def test_a_trial_stops_when_the_front_is_found(seed):
    given = made(seed)
    whole = trial_on(given, seed=seed)
    for score in ("fto", "fta"):
        goal = make_goal(score, given)
        stopped = trial_on(given, seed=seed, goals=[goal])
        assert stopped.timeline.finishes[-1] == answer(goal, whole, 0) == answer(goal, stopped, 0)
    assert len(trial_on(given, seed=seed, goals=[make_goal("fto", given)]).rows) < len(whole.rows)


def test_two_checkpoints_of_one_row_count_apart_and_equal_ones_of_a_row_once():
    losses = [[3.0, 1.0], [1.0, 3.0], [1.0, 3.0], [2.0, 2.0], [1.0, 3.0], [9.0, 9.0]]
    given = Trainings([0, 3, 5, 6], [1.0, 2.0, 3.0, 1.0, 2.0, 1.0], [1, 2, 3, 4, 5, 6], losses)
    goal = make_goal("fta", given)
    assert goal.rows[goal.targets].tolist() == [0, 0, 1, 1]
    assert goal.resources[goal.targets].tolist() == [1.0, 2.0, 1.0, 2.0]
    assert (goal.needed, goal.by_row.tolist(), goal.n_rows) == (4, [2, 2, 0], 3)
    assert repr(goal) == "Goal('fta': 4 of 4 checkpoints)"


def test_where_the_second_loss_is_the_rows_own_the_front_is_that_of_best_checkpoints():
    given = made(3)
    given = replace(
        given, losses=np.column_stack([given.losses[:, 0], (given.owners * 7 % 11).astype(float)])
    )
    best = Trainings.whole(given.final)
    for score in ("fto", "fta"):
        rows = make_goal(score, given)
        assert (rows.by_row > 0).tolist() == make_goal(score, best).targets.tolist()
        assert rows.by_row.max() == 1


def test_a_long_front_is_scored_by_its_hypervolume_alone():
    steps = np.tile(np.arange(1.0, 31), 2)
    losses = np.column_stack([60.0 - np.arange(60), np.arange(60.0)])
    given = Trainings([0, 30, 60], steps, steps, losses)
    for score in ("fto", "fta", "fbp"):
        with pytest.raises(InputError, match=f"60 checkpoints, more than {MOST_TARGETS}, .* use fbh"):
            make_goal(score, given, score_at=9.0)
    assert make_goal("fbh", given, score_at=9.0).targets.sum() == 60
    assert [goal.needed for goal in front_goals(given)][-1] == 60 and len(front_goals(given)) <= 20
    assert make_goal("fta", Trainings.whole(losses)).needed == 60  # rows are always counted


@pytest.mark.parametrize("seed", range(3))
def test_random_search_of_whole_trainings_against_all_orders(seed):
    given = made(seed, n_rows=6)
    goals = [make_goal("fto", given), make_goal("fta", given), *front_goals(given)]
    orders = [whole_trainings(given, order) for order in permutations(range(6))]
    for goal in goals:
        times = np.array([answer(goal, trial, 0) for trial in orders])
        mean, std = exact_random_search(goal, 0, 1, given.whole_costs)
        assert mean == pytest.approx(times.mean())
        assert np.isnan(std) or std == pytest.approx(times.std())
    assert np.isnan(exact_random_search(make_goal("fbp", given, score_at=9.0), 0, 1, given.whole_costs)).all()


def whole_trainings(given, order):
    rows = np.array(order)
    costs = given.whole_costs[rows]
    finishes = np.cumsum(costs)
    resources = given.resources[given.starts[rows + 1] - 1]
    timing = Timeline(resources, costs, finishes - costs, finishes, np.zeros(len(rows), dtype=np.int32))
    return Trajectory(rows, given.final[rows], "", timing)


def test_random_search_reaches_every_checkpoint_of_a_row():
    given = made(1)
    trial = trial_on(given, RandomSearch, workers=1)
    assert len(trial.rows) == len(given)
    assert answer(make_goal("fbh", given, score_at=1e9), trial, 0) == 1.0
