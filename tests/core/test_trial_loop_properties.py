"""Whole trials of the timed loop: a naive twin, and what random search must give on any clock."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trajectory import Goal
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.methods.random_search import RandomSearch


def problem_of(given, workers=1, **options):
    n_rows = len(given)
    rules = {"n_objectives": given.losses.shape[1], "lookups": n_rows, "n_initial": 0, "clock": "cost"}
    return Problem(np.zeros((n_rows, 1)), **(rules | options), workers=workers, resume=given.resume)


def run(method, given, workers=1, goals=()):
    rng = np.random.default_rng(0)
    return run_trial(problem_of(given, workers), given, method, rng, (), goals)


# --- a naive twin ----------------------------------------------------------------------------------


class Erratic:
    """Any request that makes sense, at random, or none where it may wait."""

    def __init__(self, problem, rng):
        self.rng, self.problem, self.have, self.log = rng, problem, {}, []

    def suggest(self, running):
        rows = [
            r
            for r in range(len(self.problem.features))
            if r not in running and self.have.get(r, 0) < math.inf
        ]
        if running and (not rows or self.rng.random() < 0.2):
            return None
        row = int(self.rng.choice(rows))
        more = [r for r in [*self.problem.resources, math.inf] if r > self.have.get(row, 0)]
        return row, more[int(self.rng.integers(len(more)))]

    def observe(self, progress):
        self.have[progress.row] = math.inf if progress.done else progress.resources[-1]
        self.log.append((progress.row, len(progress.losses), progress.done, progress.time))


def naive(problem, given, method, initial):
    """The same as the loop, with lists that are searched and no state but what is written down."""
    now, number, jobs, past = 0.0, 0, [], []
    starts = given.starts.tolist()
    waiting = list(initial)
    while True:
        for _ in range(problem.workers):
            idle = [w for w in range(problem.workers) if all(w != job["worker"] for job in jobs)]
            last = {w: [p for p in past if p["worker"] == w][-1:] for w in idle}
            ended = {p["row"] for p in past if p["done"]}
            free = set(range(len(given))) - ended - {job["row"] for job in jobs}
            if not idle or not free:
                break
            if waiting:
                row, resource = waiting.pop(0), math.inf
            else:
                answer = method.suggest({job["row"]: job["asked"] for job in jobs})
                if answer is None:
                    break
                row, resource = answer
            own = [w for w in idle if last[w] and last[w][0]["row"] == row]
            worker = own[0] if own else idle[0]
            before = max([p["checkpoint"] for p in past if p["row"] == row], default=0)
            curve = range(starts[row], starts[row + 1])
            reached = [i for i in curve if given.resources[i] >= resource][:1] or [curve[-1]]
            cost = given.costs[reached[0]]
            goes_on = bool(own) and last[worker][0]["finish"] == now
            if before and (given.resume or goes_on):
                cost = cost - given.costs[starts[row] + before - 1]
            jobs.append(
                {
                    "row": row,
                    "asked": resource,
                    "worker": worker,
                    "start": now,
                    "finish": now + cost,
                    "number": number,
                    "checkpoint": reached[0] - starts[row] + 1,
                    "done": reached[0] == curve[-1],
                }
            )
            number += 1
        if not jobs:
            return past
        now = min(job["finish"] for job in jobs)
        finished = sorted((j for j in jobs if j["finish"] == now), key=lambda job: job["number"])
        jobs = [job for job in jobs if job["finish"] != now]
        for job in finished:
            past.append(job)
            first = starts[job["row"]]
            here = slice(first, first + job["checkpoint"])
            method.observe(
                type(
                    "P",
                    (),
                    {**job, "resources": given.resources[here], "losses": given.losses[here], "time": now},
                )
            )


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
