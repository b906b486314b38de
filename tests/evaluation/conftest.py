"""Trials on a clock, of trainings that several files measure."""

import numpy as np
import pytest

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.methods.early.successive_halving import ASHA


@pytest.fixture
def made():
    """Makes trainings of 30 rows with m losses, of which some checkpoints lack them."""

    def make(m):
        rng = np.random.default_rng(0)
        lengths = rng.integers(1, 6, 30)
        steps = np.concatenate([np.arange(1.0, n + 1) for n in lengths])
        losses = rng.normal(size=(len(steps), m))
        losses[(np.cumsum(lengths) - 1)[::6]] = np.nan
        return Trainings(np.cumsum([0, *lengths]), steps, steps * 1.5, losses)

    return make


@pytest.fixture
def trials_on():
    """Runs four trials of ASHA on them with three workers."""

    def run(given, n_initial=0, m=1, lookups=30):
        rules = {"workers": 3, "resources": np.arange(1.0, 6), "clock": "cost"}
        problem = Problem(np.zeros((30, 1)), m, lookups, n_initial, **rules)
        initial = range(n_initial)
        return [run_trial(problem, given, ASHA, np.random.default_rng(seed), initial) for seed in range(4)]

    return run
