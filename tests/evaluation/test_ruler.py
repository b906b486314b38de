"""The figure of a method whose true figure is known, from trials of the loop itself."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from ruler import peeking, ruler_given_start

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trajectory import Goal
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.evaluation.figure import times_fewer
from hpobench_nmt.evaluation.given_start import random_search_given_start
from hpobench_nmt.evaluation.restricted import runtime_within
from hpobench_nmt.evaluation.verdicts import on_these_tables

N_INITIAL, TRIALS = 3, 250


def trials_on(n_rows, n_targets, share, seed):
    """Runtimes of the ruler, those of random search given the start, and the ruler's true ones."""
    losses = np.random.default_rng(seed).permutation(n_rows).astype(float)
    goal, tau = Goal(losses < n_targets, 1), min(n_rows, 50)
    problem = Problem(np.zeros((n_rows, 1)), 1, tau, N_INITIAL)
    runtimes, references, true = [], [], []
    for trial in range(TRIALS):
        rng = np.random.default_rng([seed, trial])
        start = rng.permutation(n_rows)[:N_INITIAL]
        hits = int(goal.targets[start].sum())
        given = (n_rows - N_INITIAL, n_targets - hits, hits > 0, N_INITIAL, tau)
        told = run_trial(
            problem, Trainings.whole(losses[:, None]), peeking(losses, share), rng, start, [goal]
        )
        runtimes.append(min(runtime_within(goal, told, tau, N_INITIAL, tau), tau))
        references.append(random_search_given_start(*given))
        true.append(ruler_given_start(*given, share))
    return np.array([runtimes]), np.array(references), np.array(true)


@pytest.mark.parametrize("share", [Fraction(1), Fraction(13, 10), Fraction(2)])
def test_the_figure_of_the_ruler(share):
    made = [trials_on(n, k, share, seed) for seed, (n, k) in enumerate([(60, 2), (40, 1), (90, 4)])]
    runtimes, references, true = zip(*made, strict=True)
    for t, expected in zip(runtimes, true, strict=True):
        assert t.mean() == pytest.approx(expected.mean(), abs=3 * (t - expected).std() / TRIALS**0.5)
    figure = times_fewer(runtimes, references, ["one", "two", "one"])
    logs = [np.log(g.mean() / r.mean()) for g, r in zip(references, true, strict=True)]
    expected = np.exp(((logs[0] + logs[2]) / 2 + logs[1]) / 2)
    found = on_these_tables(figure, 0)
    assert found.low < expected < found.high
    assert (found.p < 0.05) == (share > 1)
