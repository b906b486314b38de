"""The lines that methods on a table are compared with."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_t

import hpobench_nmt as hb
from hpobench_nmt.analysis.fewer_trainings import fewer_trainings
from hpobench_nmt.analysis.limits import _fitted, _matern, _minus_log_evidence, limit_lines, limits


def squares_and_targets():
    rng = np.random.default_rng(0)
    x = rng.random((30, 2))
    squares = [(x[:, None, h] - x[None, :, h]) ** 2 for h in (0, 1)]
    return x, squares, np.sin(6 * x[:, 0]) + 0.05 * rng.standard_normal(30)


def test_the_evidence_is_that_of_a_student_process_and_its_gradient_is_right():
    _, squares, y = squares_and_targets()
    t = np.array([0.7, -0.4, -3.0])

    def density(t):
        scaled = np.exp(t[:2, None, None]) * squares
        kernel = 0.5 * _matern(scaled.sum(axis=0))[0] + 0.25 * sum(_matern(each)[0] for each in scaled)
        return multivariate_t(np.zeros(30), kernel + np.exp(t[2]) * np.eye(30), df=1).logpdf(y)

    above = np.triu_indices(30, 1)
    pairs = [np.unique(each[above], return_inverse=True) for each in squares]
    value, gradient = _minus_log_evidence(t, pairs, y)
    other = t + np.array([0.5, 0.3, 1.0])
    assert _minus_log_evidence(other, pairs, y)[0] - value == pytest.approx(density(t) - density(other))
    steps = 1e-5 * np.eye(3)
    slopes = [(density(t - step) - density(t + step)) / 2e-5 for step in steps]
    assert gradient == pytest.approx(slopes, rel=1e-4)


def test_the_kernel_that_is_fitted_forgets_what_has_no_effect():
    x, _, y = squares_and_targets()
    bank = _fitted(y.tobytes(), x.tobytes(), (1, 1))
    ours, other = bank.inverse_squares[0]
    assert ours > 20 * other
    assert bank.noise[0] < 0.1


def test_the_lines_of_a_table_lie_in_order():
    results = hb.run("quick", tables="lohelp-de-en", methods=["RS", "BO_EI_M", "corner"], trials=6)
    found = fewer_trainings(results)
    frame = limits(results, found, "lohelp-de-en").set_index("line")
    random_search, clairvoyant, best, least = frame["time"]
    assert frame.index.tolist() == [
        "random search, exact",
        "clairvoyant GP",
        "best method, BO_EI_M",
        "least possible",
    ]
    assert least < clairvoyant < random_search and least < best < random_search
    assert frame["times_fewer"].iloc[0] == 1.0
    n_initial = results.instances["lohelp-de-en"].problem.n_initial
    assert n_initial <= least <= n_initial + 1
    cells = found.cells.set_index("method")["times_fewer"]
    assert frame["times_fewer"].iloc[2] == pytest.approx(cells["BO_EI_M"])


def test_without_a_figure_there_are_no_lines():
    results = hb.run("quick", tables="lohelp-de-en", methods="RS", trials=2, lookups=5)
    lacking = fewer_trainings(results)
    assert not len(limits(results, lacking, "another-table"))
    assert limit_lines(results, lacking, "another-table") == []


def test_the_time_is_headed_by_its_unit():
    for track, unit in (("plain", "look-ups"), ("early", "FLOPs")):
        chosen = {"tables": "sotu-gpt-30k", "methods": ["RS", "corner"], "trials": 2}
        results = hb.run("lm-2026", track=track, **chosen)
        heading, *lines = limit_lines(results, fewer_trainings(results), "sotu-gpt-30k")
        assert heading == ("line", unit, "times fewer")
        assert lines[0][0] == "random search, exact"
