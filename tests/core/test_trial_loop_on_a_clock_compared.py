"""The trial loop on a clock, compared with look-ups, a naive twin and exact values of random search."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trials_on_a_clock import Fails, problem_of, run
from twins.clock import Erratic, naive

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trajectory import Goal
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.methods import BUILT_IN
from hpobench_nmt.methods.random_search import RandomSearch

# --- look-ups of one worker are unit costs on a clock ------------------------------------------------


def grid(n_objectives):
    axes = np.meshgrid(*[np.linspace(0.0, 1.0, 3)] * 3, indexing="ij")
    features = np.stack([a.ravel() for a in axes], axis=1)
    features.setflags(write=False)
    slopes = np.random.default_rng(7).normal(size=(3, n_objectives))
    return features, np.sin(3.0 * features @ slopes) + (features - 0.4) ** 2 @ np.abs(slopes)


@pytest.mark.parametrize(
    "name",
    ["RS", "BO_EI_M", "GB_EIF_R", pytest.param("BO_M_std", marks=pytest.mark.oracle), "NSGA2", "Fails"],
)
def test_look_ups_give_the_trajectories_of_a_clock_with_unit_costs(name):
    factory = Fails if name == "Fails" else BUILT_IN[name].load()
    counts = (1,) if name == "Fails" else BUILT_IN[name].objectives
    for m in counts:
        features, losses = grid(m)
        losses[4] = np.nan
        best = np.flatnonzero(losses[:, 0] == np.nanmin(losses[:, 0]))
        target = np.isin(np.arange(len(losses)), best)
        for seed in range(4):
            rng = np.random.default_rng(seed)
            initial = rng.choice(len(losses), 3, replace=False).tolist()
            goals = [[], [Goal(target, 1)], [Goal(target, 1), Goal(target, 2, 9)], [Goal(target, 1, 2)]][seed]
            problem = Problem(features, m, 20 if seed else len(losses), 3)
            ours, timed = (
                run_trial(each, Trainings.whole(losses), factory, np.random.default_rng(seed), initial, goals)
                for each in (problem, replace(problem, clock="cost"))
            )
            assert ours.timing is None and timed.timing is not None
            assert timed.rows.tolist() == ours.rows.tolist()
            assert timed.losses.tobytes() == ours.losses.tobytes()
            assert timed.failure == ours.failure
            for name_of_column in ("resources", "costs", "starts", "finishes", "workers"):
                theirs, own = (getattr(t.timeline, name_of_column) for t in (timed, ours))
                assert theirs.dtype == own.dtype
                assert theirs.tolist() == own.tolist()


# --- a naive twin ----------------------------------------------------------------------------------


@st.composite
def many_trainings(draw):
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=7))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    whole = draw(st.booleans())  # whole numbers make many trainings finish at one time
    steps = [rng.integers(1, 4, n) if whole else rng.lognormal(size=n) for n in lengths]
    losses = rng.integers(0, 4, (sum(lengths), 1)).astype(float)
    losses[rng.random(len(losses)) < 0.2] = np.nan
    return Trainings(
        np.cumsum([0, *lengths]),
        np.concatenate([np.cumsum(rng.integers(1, 3, n)) for n in lengths]),
        np.concatenate([np.cumsum(step) for step in steps]),
        losses,
        draw(st.booleans()),
    )


@given(
    given=many_trainings(), workers=st.integers(1, 9), seed=st.integers(0, 2**32), n_initial=st.integers(0, 3)
)
@settings(max_examples=150, deadline=None)
def test_the_loop_agrees_with_a_naive_twin(given, workers, seed, n_initial):
    initial = np.random.default_rng(seed).permutation(len(given))[:n_initial].tolist()
    problem = problem_of(given, workers, resources=np.unique(given.resources), n_initial=len(initial))
    made = []

    def make(problem, rng):
        made.append(Erratic(problem, rng))
        return made[-1]

    trial = run_trial(problem, given, make, np.random.default_rng(seed), initial)
    twin = Erratic(problem, np.random.default_rng(seed))
    past = naive(problem, given, twin, initial)
    assert trial.failure == ""
    assert made[0].log == twin.log
    assert trial.rows.tolist() == [p["row"] for p in past]
    time = trial.timeline
    for column, key in [("starts", "start"), ("finishes", "finish"), ("workers", "worker")]:
        assert getattr(time, column).tolist() == [p[key] for p in past]
    at = [given.starts[p["row"]] + p["checkpoint"] - 1 for p in past]
    assert time.resources.tolist() == given.resources[at].tolist()
    # What must hold of any trial.
    assert (np.diff(time.finishes) >= 0).all()
    np.testing.assert_allclose(time.finishes - time.starts, time.costs, rtol=0, atol=1e-9)
    for worker in range(workers):
        own = time.workers == worker
        assert (time.starts[own][1:] >= time.finishes[own][:-1]).all()
    if given.resume:
        # Each row's increments sum up to the whole.
        for row in range(len(given)):
            np.testing.assert_allclose(
                time.costs[trial.rows == row].sum(), given.costs[given.starts[row + 1] - 1]
            )


# --- random search: exact values and bounds ----------------------------------------------------------


def in_order(order):
    """A method that takes the rows in this order."""

    class InOrder(RandomSearch):
        def __init__(self, problem, rng):
            super().__init__(problem, rng)
            self._order = list(order)[::-1]

    return InOrder


costs_of_rows = st.lists(st.integers(1, 50), min_size=2, max_size=5)


@given(costs=costs_of_rows, n_targets=st.integers(1, 3))
@settings(max_examples=25, deadline=None)
def test_random_search_on_the_cost_clock_has_its_exact_value(costs, n_targets):
    """Mean cost until the first of k targets: the others' costs over k + 1, and the targets' mean cost."""
    costs, k = np.array(costs, dtype=float), min(n_targets, len(costs))
    given = Trainings.whole(np.zeros((len(costs), 1)), costs)
    goal = Goal(np.arange(len(costs)) < k, 1)
    orders = list(permutations(range(len(costs))))
    taken = [run(in_order(order), given, goals=[goal]).timeline.finishes[-1] for order in orders]
    np.testing.assert_allclose(np.mean(taken), costs[k:].sum() / (k + 1) + costs[:k].mean(), rtol=1e-12)


@given(costs=costs_of_rows, workers=st.integers(1, 7), target=st.integers(0, 4))
@settings(max_examples=25, deadline=None)
def test_several_workers_are_never_idle_and_never_do_more_than_their_work(costs, workers, target):
    costs = np.array(costs, dtype=float)
    given = Trainings.whole(np.zeros((len(costs), 1)), costs)
    alone, unit = Trainings.whole(np.zeros((len(costs), 1))), Goal(np.arange(len(costs)) == target, 1)
    ratios = []
    for order in permutations(range(len(costs))):
        time = run(in_order(order), given, workers).timeline
        assert len(time.costs) == len(costs)
        assert time.finishes[-1] >= costs.sum() / workers
        assert time.finishes[-1] >= costs.max()
        latest_start = time.starts.max()
        for worker in range(min(workers, len(costs))):
            own = time.workers == worker
            assert time.starts[own][0] == 0.0
            assert time.starts[own][1:].tolist() == time.finishes[own][:-1].tolist()
            assert time.finishes[own][-1] >= latest_start
        if target < len(costs):
            runtimes = [
                run(in_order(order), alone, w, goals=[unit]).timeline.finishes[-1] for w in (1, workers)
            ]
            assert runtimes[1] == math.ceil(runtimes[0] / workers)
            ratios.append(runtimes)
    if ratios:
        one, several = np.mean(ratios, axis=0)
        assert several >= one / workers


def test_where_costs_differ_a_cheap_target_is_found_more_than_w_times_sooner():
    """Two workers need not wait for the expensive row: a mean time of 1 against one worker's 51."""
    given = Trainings.whole(np.zeros((2, 1)), np.array([100.0, 1.0]))
    goal = Goal(np.array([False, True]), 1)
    means = [
        np.mean([run(in_order(o), given, w, goals=[goal]).timeline.finishes[-1] for o in ((0, 1), (1, 0))])
        for w in (1, 2)
    ]
    assert means == [51.0, 1.0]


def test_the_same_seed_gives_the_same_bytes():
    given = Trainings.whole(np.random.default_rng(0).random((50, 1)), np.random.default_rng(1).random(50))
    for seed in range(3):
        trials = [
            run_trial(problem_of(given, 4), given, RandomSearch, np.random.default_rng(seed))
            for _ in range(2)
        ]
        first, second = (
            [t.rows.tobytes(), t.timeline.finishes.tobytes(), t.timeline.workers.tobytes()] for t in trials
        )
        assert first == second
        assert sorted(trials[0].rows.tolist()) == list(range(50))
