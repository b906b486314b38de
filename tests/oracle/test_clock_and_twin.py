"""The trial loop against a naive event loop."""

from __future__ import annotations

import numpy as np
import pytest
from twins.clock import Erratic, naive
from twins.made import curves

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("resume", [True, False])
def test_any_requests_on_curves_that_end_early_and_fail(workers, resume):
    for seed in range(30):
        made = curves(seed, 12, 9, resume=resume, failing=0.2, ties=True, shortest=1, others=seed % 3)
        # Whole costs make many trainings finish at one time.
        costs = np.ceil(made.costs) if seed % 2 else made.costs
        given = Trainings(made.starts, made.resources, costs, made.losses, resume)
        initial = list(range(seed % 4))
        resources = np.unique(given.resources)
        m = given.losses.shape[1]
        problem = Problem(
            np.zeros((12, 1)), m, 12, len(initial), workers=workers, resources=resources, clock="cost"
        )
        trial = run_trial(problem, given, Erratic, np.random.default_rng(seed), initial)
        past = naive(problem, given, Erratic(problem, np.random.default_rng(seed)), initial)
        assert trial.failure == ""
        assert trial.rows.tolist() == [p["row"] for p in past]
        for column, key in [("starts", "start"), ("finishes", "finish"), ("workers", "worker")]:
            assert getattr(trial.timeline, column).tolist() == [p[key] for p in past]
        for p, losses in zip(past, trial.losses, strict=True):
            first = given.starts[p["row"]]
            curve = given.losses[first : first + p["checkpoint"]]
            known = [place for place in range(len(curve)) if not np.isnan(curve[place, 0])]
            if known:  # every loss is that of the checkpoint with the best first loss
                np.testing.assert_array_equal(losses, curve[min(known, key=lambda i: (curve[i, 0], i))])
            else:
                assert np.isnan(losses[0])
