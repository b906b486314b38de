"""Exact values of random search against all orders of seven rows."""

from __future__ import annotations

import numpy as np
import pytest
from twins.permutations import over_all_permutations

from hpobench_nmt.evaluation.random_search import exact_random_search
from hpobench_nmt.evaluation.scores import SCORES, make_goal


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("seed", range(3))
def test_all_orders_of_seven_rows(score, seed):
    rng = np.random.default_rng(seed)
    m = 1 if SCORES[score].n_objectives == 1 else 2
    losses = rng.integers(0, 5, (7, m)).astype(float)
    losses[rng.choice(7, seed, replace=False), rng.integers(m)] = np.nan
    goal = make_goal(score, losses, tolerance=float(seed), score_at=3 + seed)
    for n_initial in (1, 4):
        np.testing.assert_allclose(
            exact_random_search(goal, n_initial), over_all_permutations(goal, n_initial), atol=1e-7
        )
