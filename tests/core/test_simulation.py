"""Simulated trainings, event by event, by hand; test_trial_loop_on_a_clock.py has the loop that uses them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hpobench_nmt.core.simulation import Event, SimulatedTrainer
from hpobench_nmt.core.trainings import Trainings

# Row 0 has three checkpoints, row 1 two, row 2 one.
STARTS = [0, 3, 5, 6]
RESOURCES = [1.0, 2.0, 4.0, 1.0, 3.0, 2.0]
COSTS = [10.0, 20.0, 40.0, 5.0, 15.0, 7.0]
LOSSES = [[3.0], [2.0], [2.5], [4.0], [1.0], [9.0]]


def trainer(workers, resume=True):
    return SimulatedTrainer(Trainings(STARTS, RESOURCES, COSTS, LOSSES, resume), workers)


def test_events_one_by_one():
    here = trainer(2)
    assert here.workers == 2
    here.start(0, 0, 1.5)
    here.start(1, 1, 1.0)
    assert here.finish() == [Event(5.0, 2, 1, 1, 1, 0.0, 5.0, False)]
    here.start(1, 1, math.inf)  # 10 more: at 15
    here.start(2, 2, 0.1)  # at 12
    assert here.finish() == [Event(12.0, 4, 2, 2, 1, 5.0, 7.0, True)]
    [event] = here.finish()
    assert event == Event(15.0, 3, 1, 1, 2, 5.0, 10.0, True)
    assert here.progress(event).best.tolist() == [1.0]
    [event] = here.finish()
    assert event == Event(20.0, 1, 0, 0, 2, 0.0, 20.0, False)
    assert (here.resource(event), here.best(event).tolist()) == (2.0, [2.0])
    here.start(1, 0, 3.0)  # paused on worker 0, and goes on here
    [event] = here.finish()
    assert event == Event(40.0, 5, 1, 0, 3, 20.0, 20.0, True)
    progress = here.progress(event)
    assert (progress.row, progress.done, progress.time) == (0, True, 40.0)
    assert progress.resources.tolist() == [1.0, 2.0, 4.0] and progress.costs.tolist() == [10.0, 20.0, 40.0]
    assert progress.losses.tolist() == [[3.0], [2.0], [2.5]] and progress.best.tolist() == [2.0]
    losses, resources = here.reached(np.array([0, 1, 0]), np.array([1, 2, 3]))
    assert losses.tolist() == [[3.0], [1.0], [2.0]] and resources.tolist() == [1.0, 3.0, 4.0]


def test_all_that_finish_at_one_time_come_in_the_order_of_their_requests():
    same = Trainings([0, 1, 2, 3, 4], np.ones(4), [2.0, 1.0, 2.0, 2.0], np.zeros((4, 1)))
    here = SimulatedTrainer(same, 4)
    for worker, row in enumerate((3, 1, 0, 2)):
        here.start(worker, row, math.inf)
    assert [event.row for event in here.finish()] == [1]
    assert [(event.row, event.number) for event in here.finish()] == [(3, 1), (0, 3), (2, 4)]


@pytest.mark.parametrize(
    ("worker", "wait", "cost"),
    [(0, False, 10.0), (1, False, 20.0), (0, True, 20.0)],
    ids=["the same at once", "another", "the same later"],
)
def test_what_cannot_be_paused_goes_on_at_once_and_on_its_worker_alone(worker, wait, cost):
    here = trainer(3, resume=False)
    here.start(0, 0, 1.0)
    here.finish()
    if wait:
        here.start(2, 2, 2.0)
        here.finish()
    here.start(worker, 0, 2.0)
    assert here.finish()[0].cost == cost
