from __future__ import annotations

from statistics import mean, stdev

import numpy as np
import pytest
from scipy.stats import t as student

from hpobench_nmt.evaluation.figure import log_ratio, times_fewer


def boards(seed=0, trials=(12, 20, 2)):
    """Runtimes of two methods on three tables in two families, and those of random search."""
    rng = np.random.default_rng(seed)
    runtimes = [rng.integers(3, 40, (2, n)).astype(float) for n in trials]
    references = [rng.choice([3.0, 21.5, 24.25], n) for n in trials]
    return runtimes, references, ["one", "two", "one"]


def naive_log_ratio(t, g):
    """The formula, on plain lists."""
    cv_t, cv_g = stdev(t) / mean(t), stdev(g) / mean(g)
    log = np.log(mean(g) / mean(t)) - (cv_t**2 - cv_g**2) / (2 * len(t))
    return log, stdev([b / mean(g) - a / mean(t) for a, b in zip(t, g, strict=True)]) ** 2 / len(t)


def test_by_the_formulas_one_by_one():
    runtimes, references, families = boards()
    found = times_fewer(runtimes, references, families)
    for method in range(2):
        cells = [naive_log_ratio(t[method], g) for t, g in zip(runtimes, references, strict=True)]
        (a, va), (b, vb), (c, vc) = cells
        log, squared = ((a + c) / 2 + b) / 2, va / 16 + vb / 4 + vc / 16
        degrees = squared**2 / ((va / 16) ** 2 / 11 + (vb / 4) ** 2 / 19 + (vc / 16) ** 2 / 1)
        reach = student.ppf(0.975, degrees) * squared**0.5
        np.testing.assert_allclose(found.logs[:, method], [a, b, c], rtol=1e-10)
        np.testing.assert_allclose(found.variances[:, method], [va, vb, vc], rtol=1e-10)
        np.testing.assert_allclose(found.family_logs[:, method], [(a + c) / 2, b], rtol=1e-10)
        assert found.figure[method] == pytest.approx(np.exp(log), rel=1e-10)
        assert found.degrees[method] == pytest.approx(degrees, rel=1e-10)
        limits = np.array(found.interval)[:, method]
        np.testing.assert_allclose(limits, np.exp([log - reach, log + reach]), rtol=1e-9)
    assert found.families == ("one", "two")


def test_the_standard_error_agrees_with_the_jackknife():
    rng = np.random.default_rng(1)
    t, g = rng.gamma(3.0, size=400), rng.gamma(9.0, size=400)
    without = [np.log(np.delete(g, i).mean() / np.delete(t, i).mean()) for i in range(400)]
    jackknife = 399 * np.var(without)
    assert log_ratio(t[None], g)[1][0] == pytest.approx(jackknife, rel=0.01)


def test_two_methods_against_each_other():
    """The ratio is the quotient of the figures; what both have in common takes variance away."""
    runtimes, references, families = boards()
    figures = times_fewer(runtimes, references, families).figure
    pairs = times_fewer(runtimes, [t[::-1] for t in runtimes], families)
    np.testing.assert_allclose(pairs.figure, figures / figures[::-1], rtol=1e-12)
    luck = [np.linspace(1, 9, t.shape[1]) for t in runtimes]
    together = times_fewer(luck_of(luck, 2.0), luck_of(luck, 1.0), families)
    apart = times_fewer(luck_of(luck, 2.0), [g[..., ::-1] for g in luck_of(luck, 1.0)], families)
    assert together.se[0] < 1e-2 * apart.se[0]


def luck_of(luck, factor):
    return [factor * x[None] + 0.01 * np.cos(17 * x[None]) for x in luck]


def test_few_trials_are_not_biased_and_the_interval_covers():
    """20,000 boards at once, as methods of one table whose true ratio is 1.25."""
    rng = np.random.default_rng(2)
    luck = rng.choice([0.5, 1.5], (20_000, 20))
    t, g = 10 * luck * rng.gamma(2.0, size=luck.shape), 25 * luck
    found = times_fewer([t], [g], ["one"])
    bias = found.log.mean() - np.log(1.25)
    assert abs(bias) < 0.003
    assert np.log(g.mean(axis=1) / t.mean(axis=1)).mean() - np.log(1.25) > 0.01
    low, high = found.interval
    assert 0.92 < np.mean((low <= 1.25) & (high >= 1.25)) < 0.97


def test_a_method_that_lacks_a_value():
    runtimes, references, families = boards()
    runtimes[1][0, 3] = np.nan
    found = times_fewer(runtimes, references, families)
    assert np.isnan(found.figure).tolist() == [True, False]
    assert np.isnan(found.family_logs).tolist() == [[False, False], [True, False]]
    assert np.isnan(found.interval).tolist() == [[True, False]] * 2


def test_without_an_interval():
    runtimes, references, families = boards()
    copies = np.array([[False, False], [False, True], [False, False]])
    found = times_fewer(runtimes, references, families, copies)
    assert np.isfinite(found.figure).all()
    assert np.isnan(found.interval).tolist() == [[False, True]] * 2
    # One trial on one of the tables.
    runtimes[0], references[0] = runtimes[0][:, :1], references[0][:1]
    found = times_fewer(runtimes, references, families)
    assert found.logs[0, 0] == pytest.approx(np.log(references[0][0] / runtimes[0][0, 0]))
    assert np.isfinite(found.figure).all()
    assert np.isnan(found.interval).all()


def test_runtimes_that_do_not_vary():
    """On one table this is fine; on all tables there is nothing to base an interval on."""
    runtimes, references, families = boards()
    runtimes[0][:], references[0][:] = 7.3, 21.9
    found = times_fewer(runtimes, references, families)
    assert found.logs[0].tolist() == pytest.approx([np.log(3)] * 2)
    assert np.isfinite(found.interval).all()
    same = times_fewer(runtimes[:1], references[:1], families[:1])
    assert same.figure.tolist() == pytest.approx([3.0, 3.0])
    assert np.isnan(same.interval).all()
