"""How alike random halves of the families order the methods."""

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import kendalltau

from hpobench_nmt.analysis.paired import Paired
from hpobench_nmt.benchmarking.task.target import Aims

METHODS = ("RS", "BO_EI_M", "BO_auto", "GB_EI_M", "corner")


def paired(runtimes):
    """Trials on tables of a family each; runtimes have shape (tables, methods, trials)."""
    tables = [f"t{i}" for i in range(len(runtimes))]
    values = [np.full(runtimes.shape[2], value) for value in (60.0, 2.0, 100.0, 20.0, 4.0)]
    return Paired(
        METHODS,
        dict(zip(tables, tables, strict=True)),
        dict(zip(tables, runtimes, strict=True)),
        dict.fromkeys(tables, Aims(*values)),
        dict.fromkeys(tables, [False] * len(METHODS)),
    )


def test_the_agreement_of_halves_is_kendalls_tau_without_controls_and_random_search():
    found = paired(np.random.default_rng(1).uniform(5, 60, (6, len(METHODS), 4)))
    logs = found.figure().family_logs[:, 1:4]
    taus = [
        kendalltau(logs[list(half)].mean(axis=0), np.delete(logs, half, axis=0).mean(axis=0)).statistic
        for half in combinations(range(6), 3)
    ]
    mean, low = found.agreement()
    assert len(set(taus)) > 2
    assert mean == pytest.approx(np.mean(taus), abs=0.06)
    assert low == pytest.approx(np.quantile(taus, 0.1), abs=1e-9)


def test_the_same_order_everywhere_agrees_and_few_families_say_nothing():
    same = np.random.default_rng(4).uniform(10, 11, (5, len(METHODS), 4)) * np.arange(1, 6)[:, None]
    assert paired(same).agreement() == (1.0, 1.0)
    assert np.isnan(paired(same[:3]).agreement()).all()
