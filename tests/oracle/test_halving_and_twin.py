"""ASHA, successive halving and Hyperband against twins that sort everything anew at every call."""

from __future__ import annotations

import math

import numpy as np
import pytest
from twins.halving import NaiveASHA, NaiveBrackets, NaiveMOASHA, training_levels
from twins.made import curves

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.methods.early.multi_objective_halving import MOASHA
from hpobench_nmt.methods.early.successive_halving import ASHA, Hyperband, SuccessiveHalving


def halving(problem, rng, eta):
    top = len(training_levels(problem, eta)) - 1
    return NaiveBrackets(problem, rng, [(0, eta**top)], eta)


def hyperband(problem, rng, eta):
    """Li et al. 2018, Algorithm 1: n = ceil((s_max + 1) / (s + 1) eta^s)."""
    top = len(training_levels(problem, eta)) - 1
    sizes = [(top - s, math.ceil((top + 1) * eta**s / (s + 1))) for s in range(top, -1, -1)]
    return NaiveBrackets(problem, rng, sizes, eta)


TWINS = {ASHA: NaiveASHA, MOASHA: NaiveMOASHA, SuccessiveHalving: halving, Hyperband: hyperband}


@pytest.mark.parametrize("method", TWINS)
@pytest.mark.parametrize("eta", [2, 3, 4])
@pytest.mark.parametrize("workers", [1, 3, 8])
def test_every_request(method, eta, workers):
    for seed in range(8):
        given = curves(
            seed,
            n_rows=40,
            longest=(27, 16, 5)[seed % 3],
            resume=seed % 2 == 0,
            failing=0.15,
            ties=seed % 4 > 1,
            shortest=1,
            others=seed % 3,
        )
        initial = (3, 7)[: seed % 3]
        problem = Problem(
            np.zeros((40, 1)),
            given.losses.shape[1],
            40 if seed % 3 else 25,
            len(initial),
            workers=workers,
            resources=np.unique(given.resources),
            resume=given.resume,
            clock="cost",
        )
        ours, twin = (
            run_trial(
                problem, given, lambda p, r, made=made: made(p, r, eta), np.random.default_rng(seed), initial
            )
            for made in (method, TWINS[method])
        )
        assert ours.failure == twin.failure == ""
        assert ours.rows.tolist() == twin.rows.tolist()
        assert ours.timeline.resources.tolist() == twin.timeline.resources.tolist()
        assert ours.timeline.finishes.tolist() == twin.timeline.finishes.tolist()
