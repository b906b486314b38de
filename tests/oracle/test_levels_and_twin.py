"""BO_levels against a twin with one dense covariance matrix."""

from __future__ import annotations

import numpy as np
import pytest
from twins.levels import DenseLevels
from twins.made import smooth_curves

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.methods.level_gaussian_process import LevelBO


@pytest.mark.parametrize("workers", [1, 3, 6])
@pytest.mark.parametrize("seed", range(4))
def test_every_step(workers, seed):
    features, given = smooth_curves(seed, n_rows=40, longest=(27, 12)[seed % 2], failing=(3, 14, 15))
    resources = np.unique(given.resources)
    time = 300 / workers
    problem = Problem(features, 1, 40, 2, workers=workers, resources=resources, clock="cost", time=time)
    both = (LevelBO, DenseLevels)
    ours, twin = (run_trial(problem, given, made, np.random.default_rng(seed), [0, 3]) for made in both)
    assert ours.failure == twin.failure == ""
    assert ours.rows.tolist() == twin.rows.tolist()
    assert ours.timeline.resources.tolist() == twin.timeline.resources.tolist()
    assert len(ours.rows) > 20
