from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpobench_nmt.core.trajectory import Goal, Timeline, Trajectory, Trials

LOSSES = np.column_stack([np.arange(9.0), -np.arange(9.0)])
LOSSES[4, 1] = np.nan  # one of two losses is missing


def trajectory(rows, failure=""):
    rows = np.array(rows, dtype=np.int64)
    return Trajectory(rows, LOSSES[rows], failure)


some_rows = st.permutations(range(9)).map(lambda rows: rows[:4]) | st.just([])
trajectories = st.lists(st.builds(trajectory, some_rows, st.sampled_from(["", "no"])), max_size=8)


def same(found, expected):
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a.rows, b.rows)
        np.testing.assert_array_equal(a.losses, b.losses)
        assert (a.failure, a.rows.dtype, a.losses.dtype) == (b.failure, b.rows.dtype, b.losses.dtype)


@given(expected=trajectories)
def test_trials_are_the_trajectories_that_they_were_made_of(expected):
    trials = Trials.of(LOSSES, expected)
    same(trials, expected)
    same([trials[i - len(expected)] for i in range(len(expected))], expected)
    same(trials[1:5:2], expected[1:5:2])
    assert trials.lengths.tolist() == [len(t.rows) for t in expected]
    assert trials.failures == {i: "no" for i, t in enumerate(expected) if t.failure}
    with pytest.raises(IndexError):
        trials[len(expected)]


@given(parts=st.lists(trajectories, min_size=1, max_size=4))
def test_parts_are_joined_and_taken_apart(parts):
    whole = Trials.joined([Trials.of(LOSSES, part) for part in parts])
    same(whole, [t for part in parts for t in part])
    first = 0
    for part in parts:
        taken = whole.part(first, first + len(part))
        same(taken, part)
        assert taken.failures == {i: "no" for i, t in enumerate(part) if t.failure}
        first += len(part)


def test_a_trajectory_may_be_changed_without_changing_others():
    trials = Trials.of(LOSSES.copy(), [trajectory([1, 2])])
    trials[0].rows[:] = 7
    trials[0].losses[:] = 7
    same(trials, [trajectory([1, 2])])


def test_they_take_four_bytes_for_each_look_up():
    trials = Trials.of(LOSSES, [trajectory(range(9))] * 1000)
    assert trials.looked_up.nbytes == 4 * 9000
    assert np.shares_memory(trials.table_losses, LOSSES)


def test_short_descriptions():
    long = trajectory(range(9), "bad \x1b[31m <b>")
    assert repr(long) == r"Trajectory(9 look-ups: 0, 1, 2, 3, 4, ..., failed: bad \x1b[31m <b>)"
    assert repr(trajectory(range(6))) == "Trajectory(6 look-ups: 0, 1, 2, 3, 4, ...)"
    assert repr(trajectory(range(5))) == "Trajectory(5 look-ups: 0, 1, 2, 3, 4)"
    assert repr(trajectory([3], "x" * 300)) == f"Trajectory(1 look-up: 3, failed: {'x' * 200})"
    assert repr(Trials.of(LOSSES, [long, trajectory([1])])) == "Trials(2 trials, 10 look-ups, 1 failed)"
    assert repr(Trials.of(LOSSES, [trajectory([1])] * 1000)) == "Trials(1,000 trials, 1,000 look-ups)"
    targets = np.array([True, False, True])
    assert repr(Goal(targets, 1, name="ftb")) == "Goal('ftb': 1 of 2 rows)"
    assert repr(Goal(targets, 2, 20)) == "Goal('': 2 of 2 rows, at 20)"
    on_a_clock = Goal(targets, 2, 2.5, resources=np.ones(2))
    assert repr(on_a_clock) == "Goal('': 2 of 2 rows, at 2.5)"


def test_a_trajectory_in_a_notebook():
    assert trajectory([4, 3], "a < b")._repr_html_() == (
        "<p>Trajectory(2 look-ups: 4, 3, failed: a &lt; b)</p><table>"
        "<tr><th>step</th><th>row</th><th>loss_1</th><th>loss_2</th></tr>"
        "<tr><td>1</td><td>4</td><td>4</td><td>nan</td></tr>"
        "<tr><td>2</td><td>3</td><td>3</td><td>-3</td></tr></table>"
    )


def timed(rows, failure=""):
    count = len(rows)
    numbers = np.arange(count, dtype=float)
    timing = Timeline(
        numbers + 1, numbers + 2, numbers, 2 * numbers + 2, np.arange(count, dtype=np.int32) % 3
    )
    return Trajectory(np.array(rows, dtype=np.int64), -numbers[:, None], failure, timing)


COLUMNS = ("resources", "costs", "starts", "finishes", "workers")


def test_trials_on_a_clock_keep_their_times_and_losses():
    found = [timed([4, 4, 1]), timed([]), timed([2, 0], "broke")]
    trials = Trials.of(np.zeros((5, 1)), found)
    again = Trials.joined([trials.part(0, 1), trials.part(1, 3)])
    for held in (trials, again):
        assert [t.failure for t in held] == ["", "", "broke"]
        for one, other in zip(held, found, strict=True):
            assert one.rows.tolist() == other.rows.tolist()
            assert one.losses.tolist() == other.losses.tolist()
            for column in COLUMNS:
                np.testing.assert_array_equal(getattr(one.timeline, column), getattr(other.timeline, column))
    assert trials.part(2, 3)[0].timeline.finishes.tolist() == [2.0, 4.0]
    # One whose process was killed has none; the others keep theirs.
    killed = Trajectory(np.array([2, 3]), np.zeros((2, 1)), "killed")
    for mixed in (
        Trials.of(trials.table_losses, [killed, *found]),
        Trials.joined([Trials.of(np.zeros((5, 1)), [killed]), trials]),
    ):
        assert mixed[0].timeline.finishes.tolist() == [1.0, 2.0]
        assert mixed[1].timeline.finishes.tolist() == [2.0, 4.0, 6.0]
        assert mixed[3].losses.tolist() == [[0.0], [-1.0]]


def test_time_is_the_number_of_look_ups_where_nothing_else_is_said():
    trajectory = Trajectory(np.array([7, 3, 5]), np.zeros((3, 1)))
    assert trajectory.timing is None
    assert trajectory.timeline.starts.tolist() == [0.0, 1.0, 2.0]
    assert trajectory.timeline.finishes.tolist() == [1.0, 2.0, 3.0]
    assert trajectory.timeline.costs.tolist() == trajectory.timeline.resources.tolist() == [1.0] * 3
    assert trajectory.timeline.workers.tolist() == [0, 0, 0]
    assert Trials.of(np.zeros((9, 1)), [trajectory]).timing is None
