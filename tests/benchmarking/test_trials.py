"""Blocks of trials in this process, compared with the loop called by hand."""

from __future__ import annotations

import dataclasses
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from hpobench_nmt.benchmarking.contestants.plugins import resolve_methods
from hpobench_nmt.benchmarking.running.trials import (
    Block,
    Took,
    TrialTable,
    plan,
    run_block,
    seconds_a_step,
    trial_of,
)
from hpobench_nmt.benchmarking.task.instance import make_instance
from hpobench_nmt.benchmarking.task.suite import Suite, changed
from hpobench_nmt.core.seeds import initial_rows, method_generator
from hpobench_nmt.core.trajectory import Trajectory

told = []
"""Of each method that was made: its first random number, and (row, losses) in the order of tell."""

threads = set()
"""Numbers of threads that libraries would have used in those methods."""


class Notes:
    """Looks up what is left from the highest row down, and notes all that it is given."""

    def __init__(self, problem, rng):
        self.left = list(range(len(problem.features)))
        self.seen = []
        told.append((rng.random(), self.seen))
        threads.update(library["num_threads"] for library in threadpool_info())

    def ask(self):
        return self.left[-1]

    def tell(self, index, losses):
        self.left.remove(index)
        self.seen.append((index, losses.tolist()))


@pytest.fixture
def notes():
    told.clear()
    threads.clear()
    return resolve_methods([Notes])[0]


def blocks_of(table, method, seed=0, **settings):
    suite = Suite("s", ("fto",), n_initial=4, **settings)
    return plan(suite, {table.name: make_instance(suite, table)}, [method], seed)


def test_a_block_runs_its_own_trials(toy, notes):
    """Each from its own initial design and generator, with the losses of the rows that were looked up."""
    whole, rest = blocks_of(toy, notes, seed=5, trials=27, stop="exhausted", lookups=9)
    assert (rest.first, rest.stop) == (25, 27)
    begun = time.perf_counter()
    with threadpool_limits(limits=2):
        found, seconds = run_block(rest)
    assert 0 < seconds <= time.perf_counter() - begun
    own = [trajectory.own_seconds for trajectory in found]
    assert all(spent >= 0.0 for spent in own)
    took = Took.of([*found, Trajectory(found[0].rows, found[0].losses)], seconds, 4)
    assert took == Took(seconds, own[1], 5)  # neither what was not measured nor the first trial counts
    assert Took.of(found[:1], seconds, 4) == Took(seconds, own[0], 5)
    assert seconds_a_step([took, Took(1.0, 4.0, 10)]) == (own[1] + 4.0) / 15
    assert threads == {1}
    losses = toy.losses(["bleu", "seconds"])
    assert len(found) == len(told) == 2
    for trial, trajectory, (number, seen) in zip((25, 26), found, told, strict=True):
        initial = initial_rows(5, "toy", trial, 36, 4)
        expected = initial + [row for row in range(35, -1, -1) if row not in initial][:5]
        assert trajectory.rows.tolist() == [row for row, _ in seen] == expected
        np.testing.assert_array_equal(trajectory.losses, losses[expected])
        np.testing.assert_array_equal([told_losses for _, told_losses in seen], losses[expected])
        assert number == method_generator(5, "toy", "Notes", trial).random()
        assert trajectory.failure == ""
    # Trials are numbered within the run, whatever the block.
    every, _ = run_block(dataclasses.replace(whole, first=24, stop=26))
    assert every[1].rows.tolist() == found[0].rows.tolist()


def test_a_trial_ends_when_its_goals_are_settled(toy, notes):
    """After the first row of the front, but not within the initial design."""
    (block,) = blocks_of(toy, notes, trials=12)
    front = set(toy.front(["bleu", "seconds"]).tolist())
    lengths = set()
    for trajectory in run_block(block)[0]:
        rows = trajectory.rows.tolist()
        if len(rows) == 4:
            assert front & set(rows)
        else:
            assert front & set(rows) == {rows[-1]}
        lengths.add(len(rows))
    assert len(lengths) > 1


def test_a_missing_loss_is_told_as_it_is(toy, notes):
    """In a row of which the other loss is known."""
    values = toy.values.copy()
    values[::2, 0] = np.nan
    values[1::4, 1] = np.nan
    table = dataclasses.replace(toy, values=values)
    (block,) = blocks_of(table, notes, trials=1, stop="exhausted")
    (trajectory,), _ = run_block(block)
    assert sorted(trajectory.rows.tolist()) == list(range(36))
    np.testing.assert_array_equal(trajectory.losses, table.losses(["bleu", "seconds"])[trajectory.rows])
    np.testing.assert_array_equal([losses for _, losses in told[0][1]], trajectory.losses)


def test_each_call_of_a_method_is_announced(toy, notes):
    (block,) = blocks_of(toy, notes, trials=1, stop="exhausted", lookups=6)
    calls = []
    trial_of(block.data, "Notes", Notes, 0, 0, on_call=calls.append)
    assert calls == ["making it"] + ["tell"] * 4 + ["ask", "tell"] * 2


@pytest.mark.parametrize(("lookups", "work"), [(20, 20), (36, 36), (1000, 36)])
def test_the_work_of_a_block_is_the_most_that_it_can_look_up(toy, notes, lookups, work):
    instance = make_instance(Suite("s", ("ftb",)), toy)
    problem = dataclasses.replace(instance.problem, lookups=lookups)
    data = TrialTable("toy", toy.sha256, problem, instance.losses, ())
    block = Block(data, notes, 7, 25, 32)
    assert block.work == 7 * work
    assert block.key == ("toy", "Notes", 25)
    assert data.initial(7, 3) == initial_rows(7, "toy", 3, 36, 3)


def test_a_plan_is_in_order_and_shares_what_a_table_has(two, notes):
    suite = Suite("s", ("ftb", "fb"), trials=26, score_at={"default": 5})
    instances = {t.name: make_instance(suite, t) for t in two}
    blocks = plan(suite, instances, iter([notes, *resolve_methods(["RS"])]), 3)
    assert [(b.key, b.stop, b.seed) for b in blocks] == [
        ((table, method, first), stop, 3)
        for table in ("toy", "other")
        for method in ("Notes", "RS")
        for first, stop in ((0, 25), (25, 26))
    ]
    for block in blocks:
        instance = instances[block.table]
        assert block.data.sha256 == instance.table.sha256
        assert block.data.problem is instance.problem
        assert block.data.losses is instance.losses
        assert block.data.goals == (*instance.goals, instance.target)
    exact = plan(changed(suite, trials=25), instances, [notes], 3)
    assert [(b.first, b.stop) for b in exact] == [(0, 25)] * 2
