"""Trials that look up the rows of a small table, and methods that answer as a test says."""

from __future__ import annotations

import numpy as np

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial

N_ROWS = 8
INITIAL = [6, 1, 3]
LOSSES = np.linspace([0.0, 5.0], [7.0, -5.0], N_ROWS)


class FromBelow:
    """The lowest row that was not told."""

    def __init__(self, problem, rng):
        self.left = list(range(len(problem.features)))
        self.told = []

    def ask(self):
        return self.left[0]

    def tell(self, index, losses):
        self.left.remove(index)
        self.told.append((index, losses.tolist()))


def run(make_method, losses=LOSSES, goals=(), budget=N_ROWS, initial=INITIAL):
    """One worker that looks up rows of these losses."""
    problem = Problem(np.zeros((len(losses), 1)), 2, budget, len(initial))
    rng = np.random.default_rng(0)
    return run_trial(problem, Trainings.whole(losses), make_method, rng, initial, goals)


def answering(*answers):
    """A method that gives these answers, one each time it is asked, then behaves."""

    class Answering(FromBelow):
        def __init__(self, problem, rng):
            super().__init__(problem, rng)
            self.answers = list(answers)

        def ask(self):
            return self.answers.pop(0) if self.answers else super().ask()

    return Answering
