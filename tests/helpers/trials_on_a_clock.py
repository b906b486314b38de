"""Trials of three trainings on a clock, and a method that fails after some look-ups."""

from __future__ import annotations

import numpy as np

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.methods.random_search import RandomSearch

# Three rows: row 0 has three checkpoints, row 1 two, row 2 one.
STARTS = [0, 3, 5, 6]
RESOURCES = [1.0, 2.0, 4.0, 1.0, 3.0, 2.0]
COSTS = [10.0, 20.0, 40.0, 5.0, 15.0, 7.0]
LOSSES = np.array([[3.0], [2.0], [2.5], [4.0], [1.0], [np.nan]])


def trainings(resume=True):
    return Trainings(STARTS, RESOURCES, COSTS, LOSSES, resume)


def problem_of(given, workers=1, **options):
    n_rows = len(given)
    rules = {"n_objectives": given.losses.shape[1], "lookups": n_rows, "n_initial": 0, "clock": "cost"}
    return Problem(np.zeros((n_rows, 1)), **(rules | options), workers=workers, resume=given.resume)


def run(method, given=None, workers=1, initial=(), goals=(), **options):
    given = trainings() if given is None else given
    problem = problem_of(given, workers, n_initial=len(initial), **options)
    return run_trial(problem, given, method, np.random.default_rng(0), initial, goals)


class Fails:
    """Fails after some look-ups."""

    def __init__(self, problem, rng):
        self.search = RandomSearch(problem, rng)
        self.told = 0

    def ask(self):
        if self.told == 6:
            raise ValueError("enough")
        return self.search.ask()

    def tell(self, index, losses):
        self.told += 1
        self.search.tell(index, losses)
