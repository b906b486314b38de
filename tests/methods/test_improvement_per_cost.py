"""Expected improvement per cost, by hand and against plain expected improvement."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from hpobench_nmt.core.problem import Problem, Progress
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.methods import BUILT_IN
from hpobench_nmt.methods.improvement_per_cost import ImprovementPerCost
from hpobench_nmt.methods.surrogates.pending import Given
from hpobench_nmt.testing import checks_for


@pytest.mark.parametrize("check", checks_for(ImprovementPerCost), ids=lambda check: check.__name__)
def test_conformance(check):
    check(ImprovementPerCost)


def observed(method, row, loss, cost):
    """A training that has ended, with one checkpoint."""
    losses = np.array([[loss]])
    method.observe(Progress(row, np.ones(1), np.array([cost]), losses, losses[0], True, 0.0))


def test_by_hand():
    """Two rows seen, at 0 and 1, with losses 3 and 1 and costs e^2 and e^4: what of 0.25 and 0.9?"""
    features = np.array([[0.0], [1.0], [0.25], [0.9]])
    method = ImprovementPerCost(Problem(features, 1, 4, 2), np.random.default_rng(0))
    observed(method, 0, 3.0, math.exp(2))
    observed(method, 1, 1.0, math.exp(4))

    def k(d):
        d = abs(d) * math.sqrt(5)
        return (1 + d + d * d / 3) * math.exp(-d)

    ones, off = 1 + 1e-6, k(1.0)
    found = method.scores(Given(method.posterior.var, method.posterior.unseen, None))
    for row, x in ((2, 0.25), (3, 0.9)):
        # The inverse of [[ones, off], [off, ones]] is [[ones, -off], [-off, ones]] / (ones^2 - off^2).
        a, b, det = k(x), k(1 - x), ones**2 - off**2
        first, second = (ones * a - off * b) / det, (ones * b - off * a) / det
        mean = first - second  # standardised losses are 1 and -1
        sd = math.sqrt(1 - first * a - second * b)
        u = (-1 - mean) / sd
        improvement = sd * (u * norm.cdf(u) + norm.pdf(u))
        # Logarithms of cost are 3 ± 1, so that standardised ones are -1 and 1.
        cost = math.exp(3 - mean + sd**2 / 2)
        assert found[row] == pytest.approx(math.log(improvement / cost), rel=1e-9)
    assert method.ask() == 2 + int(found[3] > found[2])


def test_of_two_rows_alike_in_loss_the_cheaper_region_is_asked_for():
    axis = np.linspace(-1.0, 1.0, 21)[:, None]
    for cheap in (-1, 1):
        method = ImprovementPerCost(Problem(axis, 1, 21, 3), np.random.default_rng(0))
        for row in (0, 10, 20):  # losses are symmetric, costs rise from one end to the other
            observed(method, row, abs(float(axis[row, 0])), math.exp(-2 * cheap * axis[row, 0]))
        assert np.sign(axis[method.ask(), 0]) == cheap


@pytest.mark.parametrize("costs", ["none", "equal"])
def test_where_all_costs_are_equal_it_is_expected_improvement(costs):
    rng = np.random.default_rng(2)
    features = rng.uniform(size=(60, 3))
    losses = np.sin(4 * features.sum(axis=1))[:, None]
    problem = Problem(features, 1, 30, 3)
    rows = []
    for method in (ImprovementPerCost, BUILT_IN["BO_EI_M_std"].load()):
        if costs == "none":
            done = run_trial(problem, Trainings.whole(losses), method, np.random.default_rng(0), [0, 1, 2])
        else:
            given = Trainings.whole(losses, np.full(60, 7.0))
            done = run_trial(problem, given, method, np.random.default_rng(0), [0, 1, 2])
        assert done.failure == ""
        rows.append(done.rows.tolist())
    assert rows[0] == rows[1]


def test_a_training_that_costs_nothing_is_no_trouble():
    features = np.random.default_rng(1).uniform(size=(20, 2))
    costs = np.arange(20.0) % 3
    given = Trainings.whole(features[:, :1], costs)
    problem = Problem(features, 1, 20, 3, workers=3, clock="cost")
    done = run_trial(problem, given, ImprovementPerCost, np.random.default_rng(0), [0, 3, 6])
    assert done.failure == "" and sorted(done.rows) == list(range(20))
