"""Bayesian optimisation, EI and EHVI, against dense inverses."""

from __future__ import annotations

import numpy as np
import pytest
from twins.gaussian import matern52_matrix, naive_ehvi, naive_ei, naive_trial, random_table, rbf_matrix

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.methods import BUILT_IN

TWINS = {
    (f"BO_{ei}{letter}{std}", m): twin(matrix, standardise=bool(std))
    for m, ei, twin in ((1, "EI_", naive_ei), (2, "", naive_ehvi))
    for letter, matrix in (("M", matern52_matrix), ("R", rbf_matrix))
    for std in ("", "_std")
}


@pytest.mark.parametrize(("name", "m"), TWINS)
@pytest.mark.parametrize("seed", [10, 11])
def test_every_step(name, m, seed):
    missing = np.random.default_rng(seed).choice(np.arange(3, 50), 6, replace=False)
    features, losses = random_table(seed, 50, m, missing.tolist())
    expected = naive_trial(TWINS[name, m], features, losses, [0, 1, 2], 22)
    problem = Problem(features, m, 22, 3)
    rng = np.random.default_rng(0)
    trial = run_trial(problem, Trainings.whole(losses), BUILT_IN[name].load(), rng, [0, 1, 2])
    assert trial.failure == ""
    assert trial.rows.tolist() == expected
