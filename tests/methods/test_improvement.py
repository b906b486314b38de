"""The logarithms of expected improvement and of expected hypervolume improvement, against integrals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymoo.indicators.hv import HV
from scipy.integrate import quad
from scipy.special import erfcx, ndtr

from hpobench_nmt.methods.acquisitions.improvement import (
    _gain,
    _strips,
    log_ehvi_of_contenders,
    log_ei_of_all,
    log_ei_of_contenders,
    log_mean_ei_of_contenders,
)

LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)


def log_h_by_quadrature(u):
    """log of E[max(u + Z, 0)]: the integral of t phi(t - u) over t > 0, scaled so that nothing underflows."""
    if u >= 0.0:
        return (
            np.log(quad(lambda t: t * np.exp(-0.5 * (t - u) ** 2), max(u - 12.0, 0.0), u + 12.0)[0])
            - LOG_SQRT_2PI
        )
    scale = max(1.0, -u)
    tail = quad(
        lambda s: s * np.exp(u * s / scale - 0.5 * (s / scale) ** 2), 0.0, 60.0, epsabs=0, epsrel=1e-12
    )[0]
    return -0.5 * u * u - LOG_SQRT_2PI + np.log(tail / scale**2)


def log_h(u):
    """log(phi(u) + u Phi(u)) with the common factor phi(u) taken out, for u < 0."""
    u = np.asarray(u, dtype=float)
    below = np.minimum(u, 0.0)
    mills = np.sqrt(0.5 * np.pi) * erfcx(-below / np.sqrt(2.0))
    far = -0.5 * below**2 - LOG_SQRT_2PI + np.log1p(below * mills)
    above = np.maximum(u, 0.0)
    near = np.log(above * ndtr(above) + np.exp(-0.5 * above**2 - LOG_SQRT_2PI))
    return np.where(u < 0.0, far, near)


def log_expected_improvement(mean, sd, best):
    """Of every candidate: one alone is never left out."""
    alone = np.ones(1, dtype=bool)
    return np.array(
        [
            log_ei_of_contenders(m, v, best, alone)[0]
            for m, v in zip(mean[:, None], (sd**2)[:, None], strict=True)
        ]
    )


def log_ei_at(u):
    u = np.asarray(u, dtype=float)
    return log_expected_improvement(-u, np.ones_like(u), 0.0)


# --- expected improvement --------------------------------------------------------------------------


@pytest.mark.parametrize("u", [*range(-60, 21), -38.01, -37.99, -30.01, -30.0, -29.99, -0.5, 0.5, 8.49, 8.51])
def test_log_ei_is_the_integral(u):
    np.testing.assert_allclose(log_ei_at([u])[0], log_h_by_quadrature(float(u)), rtol=1e-12, atol=3e-10)


@settings(max_examples=100, deadline=None)
@given(
    u=st.floats(-60.0, 20.0),
    sd=st.floats(1e-6, 1e6),
    best=st.floats(-100.0, 100.0),
)
def test_log_ei_scales_with_the_standard_deviation(u, sd, best):
    mean = best - u * sd
    ei = log_expected_improvement(np.array([mean]), np.array([sd]), best)[0]
    # Rounding in best - u sd moves u where sd is small.
    np.testing.assert_allclose(ei, np.log(sd) + log_h((best - mean) / sd), rtol=1e-9, atol=1e-9)


def test_log_ei_grows_with_the_gap_and_the_standard_deviation():
    assert (np.diff(log_ei_at(np.arange(-60.0, 20.0, 0.01))) > 0).all()
    sds = np.geomspace(0.02, 100.0, 5000)
    for mean in (-1.0, 0.0, 1.0):
        ei = log_expected_improvement(np.full_like(sds, mean), sds, 0.0)
        assert np.isfinite(ei).all()
        # Far below the threshold, the spread adds nothing that a double can hold.
        assert (np.diff(ei) > -1e-14).all()
        assert (np.diff(ei[sds > 0.2]) > 0).all()


def test_log_ei_without_spread():
    ei = log_expected_improvement(np.array([1.0, 2.0, 3.0]), np.zeros(3), 2.0)
    np.testing.assert_array_equal(ei, [0.0, -np.inf, -np.inf])


@pytest.mark.parametrize("seed", range(20))
def test_log_ei_has_the_maximiser_of_ei(seed):
    rng = np.random.default_rng(seed)
    mean, sd = rng.normal(size=200), rng.uniform(0.01, 2.0, size=200)
    u = (-1.0 - mean) / sd
    ei = sd * (u * ndtr(u) + np.exp(-0.5 * u * u) / np.sqrt(2 * np.pi))
    log_ei = log_expected_improvement(mean, sd, -1.0)
    assert log_ei.argmax() == ei.argmax()
    np.testing.assert_allclose(np.exp(log_ei), ei, rtol=1e-8, atol=1e-15)


def test_log_ei_tells_candidates_apart_where_ei_underflows():
    u = np.array([-100.0, -45.0, -50.0])
    assert log_ei_at(u).argmax() == 1
    np.testing.assert_allclose(log_ei_at(u), log_h(u), rtol=1e-9)


@pytest.mark.parametrize("kind", ["any", "late", "early", "no spread", "some spread", "equals"])
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_ei_contenders_hold_the_maximum(kind, seed):
    rng = np.random.default_rng(seed)
    n_candidates = int(rng.integers(1, 60))
    low, high = {"late": (0.5, 3.0), "early": (-3.0, -1.0)}.get(kind, (-1.0, 1.0))
    mean, sd = rng.uniform(low, high, n_candidates), rng.uniform(0.01, 1.0, n_candidates)
    if kind == "late":
        sd *= 0.05
    if kind in ("no spread", "some spread"):
        sd[rng.uniform(size=n_candidates) < (1.0 if kind == "no spread" else 0.5)] = 0.0
    if kind == "equals":
        mean[:], sd[:] = mean[0], sd[0]
    unseen = rng.uniform(size=n_candidates) < 0.8
    values = log_ei_of_contenders(mean, sd**2, 0.0, unseen)
    assert (values[~unseen] == -np.inf).all()
    if not unseen.any():
        return
    exact = log_expected_improvement(mean[unseen], sd[unseen], 0.0)
    assert values[unseen].argmax() == exact.argmax()
    assert values.max() == exact.max()
    computed = values[unseen] > -np.inf
    np.testing.assert_array_equal(values[unseen][computed], exact[computed])


def test_ei_contenders_without_spread_differ_by_their_gaps():
    gaps = np.array([1.0, 3.0, 2.0])
    assert log_ei_of_contenders(-gaps, np.zeros(3), 0.0, np.ones(3, dtype=bool)).argmax() == 1
    # However little.
    gaps = np.array([1.0, 1.0 + 1e-10, 1.0])
    assert log_ei_of_contenders(-gaps, np.zeros(3), 0.0, np.ones(3, dtype=bool)).argmax() == 1


@pytest.mark.parametrize(
    ("leader", "other"),
    [
        # Each a gap and a standard deviation. Less in both u and sd: 0.499 + 0.4 * 0.5 would not rule it out.
        ((0.5, 0.5), (0.499, 0.5)),
        # 0.45 + 0.4 * 0.1 < 0.5 h(1) = 0.5417, though u = 4.5.
        ((0.5, 0.5), (0.45, 0.1)),
        # 0.2 phi(-2.5) = 0.0035 < 0.1 h(-1) = 0.0083 < 0.4 * 0.2.
        ((-0.1, 0.1), (-0.5, 0.2)),
    ],
    ids=["dominated", "first bound", "second bound"],
)
def test_each_bound_of_ei_rules_a_candidate_out(leader, other):
    gaps, sd = np.array([leader, other]).T
    values = log_ei_of_contenders(1.0 - gaps, sd**2, 1.0, np.ones(2, dtype=bool))
    assert np.isfinite(values[0])
    assert values[1] == -np.inf


@pytest.mark.parametrize(
    ("other", "winner"),
    [
        # 0.2 h(-1.2) = 0.0112 > 0.1 h(-1) = 0.0083, though its mean is further from an improvement.
        ((-0.1, 0.1), (-0.24, 0.2)),
        # The expected improvement grows with the gap, however little.
        ((0.0, 1.0), (5e-7, 1.0)),
    ],
)
def test_the_bounds_of_ei_do_not_rule_the_winner_out(other, winner):
    for pair, best in (((other, winner), 1), ((winner, other), 0)):
        gaps, sd = np.array(pair).T
        values = log_ei_of_contenders(1.0 - gaps, sd**2, 1.0, np.ones(2, dtype=bool))
        assert values.argmax() == best


@pytest.mark.parametrize("best", [-3.0, -1.0, 0.0, 2.0])
@pytest.mark.parametrize("seed", range(3))
def test_few_contenders_are_left_among_many(seed, best):
    rng = np.random.default_rng(seed)
    mean, sd = rng.normal(size=5000), rng.uniform(0.05, 1.0, size=5000)
    values = log_ei_of_contenders(mean, sd**2, best, np.ones(5000, dtype=bool))
    u = (best - mean) / sd
    expected = np.log(sd) + log_h(u)
    assert values.argmax() == expected.argmax()
    assert values.max() == pytest.approx(expected.max(), rel=1e-9)
    assert np.isfinite(values).sum() < 1500


# --- expected hypervolume improvement --------------------------------------------------------------


def random_front(rng, size):
    return np.column_stack([np.sort(rng.uniform(size=size)), -np.sort(-rng.uniform(size=size))])


def gains_of_points(points, front, reference):
    """Area that each point adds to the front's, shape (n,): column by column below the front's staircase."""
    front = front[(front < reference).all(axis=1)]
    left = np.concatenate([[-np.inf], front[:, 0]])
    right = np.concatenate([front[:, 0], [reference[0]]])
    top = np.concatenate([[reference[1]], front[:, 1]])
    width = np.maximum(right - np.maximum(left, points[:, :1]), 0.0)
    return (width * np.maximum(top - points[:, 1:], 0.0)).sum(axis=1)


def gain_by_pymoo(point, front, reference):
    hypervolume = HV(ref_point=reference)
    return hypervolume(np.vstack([front, point])) - (hypervolume(front) if len(front) else 0.0)


def ehvi_by_area(mean, sd, front, reference, steps=1200):
    """The chance that a point is dominated by Y, over the area that the front leaves (midpoints)."""
    low = np.minimum(mean - 7 * sd, reference)
    axes = [a + (b - a) * (np.arange(steps) + 0.5) / steps for a, b in zip(low, reference, strict=True)]
    x, y = np.meshgrid(*axes, indexing="ij")
    free = np.ones(x.shape, dtype=bool)
    for a, b in front:
        free &= ~((x >= a) & (y >= b))
    chance = ndtr((axes[0] - mean[0]) / sd[0])[:, None] * ndtr((axes[1] - mean[1]) / sd[1])[None, :]
    return (chance * free).sum() * np.prod((reference - low) / steps)


def log_expected_hypervolume_improvement(mean, sd, front, reference):
    """Of every candidate, where log_ehvi_of_contenders leaves most of them out."""
    right, top = _strips(front, reference)
    gains = [_gain(*mean[:, k], *sd[:, k], right, top) for k in range(mean.shape[1])]
    if max(gains) > 0.0:
        return np.array([math.log(gain) if gain > 0.0 else -np.inf for gain in gains])
    beyond = [
        np.maximum(mean[t][:, None] - ends, 0.0) * (1.0 / np.maximum(sd[t], 1e-150))[:, None]
        for t, ends in enumerate((right, top))
    ]
    return -0.5 * (beyond[0] ** 2 + beyond[1] ** 2).min(axis=1)


@pytest.mark.parametrize("size", [0, 1, 4, 12])
@pytest.mark.parametrize("seed", range(3))
def test_ehvi_against_monte_carlo(seed, size):
    rng = np.random.default_rng([seed, size])
    front, reference = random_front(rng, size), np.array([1.1, 1.2])
    mean, sd = rng.uniform(-0.2, 0.9, size=(2, 8)), rng.uniform(0.2, 0.6, size=(2, 8))
    exact = np.exp(log_expected_hypervolume_improvement(mean, sd, front, reference))
    n_samples = 100_000
    for k in range(8):
        points = mean[:, k] + sd[:, k] * rng.normal(size=(n_samples, 2))
        gains = gains_of_points(points, front, reference)
        assert (gains > 0).sum() > 1000  # enough for a standard error
        assert abs(exact[k] - gains.mean()) < 4.5 * gains.std() / np.sqrt(n_samples)


@pytest.mark.parametrize("spread", [0.0, 1e-9])
@pytest.mark.parametrize("size", [0, 1, 2, 7, 30])
def test_ehvi_without_spread_is_the_leave_one_out_hypervolume(size, spread):
    rng = np.random.default_rng(size)
    front, reference = random_front(rng, size), np.array([0.9, 0.8])  # some of the front lies beyond it
    points = rng.uniform(-0.3, 1.1, size=(60, 2))
    sd = np.full((2, 60), spread)
    values = np.exp(log_expected_hypervolume_improvement(points.T.copy(), sd, front, reference))
    expected = [gain_by_pymoo(point, front, reference) for point in points]
    assert max(expected) > 0.0
    np.testing.assert_allclose(values, expected, atol=1e-8)
    np.testing.assert_allclose(gains_of_points(points, front, reference), expected, atol=1e-12)


@pytest.mark.parametrize(
    "front",
    [
        np.empty((0, 2)),
        np.array([[0.2, 0.7], [0.5, 0.4]]),
        np.array([[-0.5, 1.5], [0.3, 0.3], [1.5, -0.5]]),  # two of three beyond the reference
        np.array([[1.2, 0.5]]),
    ],
    ids=["empty", "two", "partly beyond", "all beyond"],
)
def test_ehvi_against_numerical_integration(front):
    reference = np.array([1.0, 0.9])
    mean = np.array([[0.1, 0.6, 1.2, -0.3], [0.5, 0.2, 1.1, 0.8]])
    sd = np.array([[0.2, 0.3, 0.4, 0.05], [0.1, 0.3, 0.5, 0.2]])
    values = np.exp(log_expected_hypervolume_improvement(mean, sd, front, reference))
    expected = [ehvi_by_area(mean[:, k], sd[:, k], front, reference) for k in range(4)]
    np.testing.assert_allclose(values, expected, rtol=4e-3)


def test_ehvi_over_an_empty_front_is_a_product_of_improvements():
    rng = np.random.default_rng(0)
    mean, sd = rng.normal(size=(2, 50)), rng.uniform(0.1, 1.0, size=(2, 50))
    reference = np.array([0.5, -0.5])
    expected = sum(log_expected_improvement(mean[t], sd[t], reference[t]) for t in range(2))
    values = log_expected_hypervolume_improvement(mean, sd, np.empty((0, 2)), reference)
    np.testing.assert_allclose(values, expected, rtol=1e-9)


def test_ehvi_does_not_depend_on_which_loss_comes_first():
    rng = np.random.default_rng(1)
    front, reference = random_front(rng, 6), np.array([1.1, 1.1])
    mean, sd = rng.uniform(size=(2, 50)), rng.uniform(0.1, 1.0, size=(2, 50))
    values = log_expected_hypervolume_improvement(mean, sd, front, reference)
    swapped = log_expected_hypervolume_improvement(
        mean[::-1].copy(), sd[::-1].copy(), front[::-1, ::-1].copy(), reference[::-1].copy()
    )
    np.testing.assert_allclose(swapped, values, rtol=1e-9, atol=1e-9)


def log_ehvi_in_logarithms(mean, sd, front, reference):
    """The sum over strips with every factor as its logarithm, for one candidate far from the region."""
    edges = [*front[:, 0], reference[0]]
    tops = [reference[1], *front[:, 1]]
    logs, before = [], -np.inf
    for edge, top in zip(edges, tops, strict=True):
        here = np.log(sd[0]) + log_h((edge - mean[0]) / sd[0])
        strip = here + np.log1p(-np.exp(before - here)) if before > -np.inf else here
        logs.append(strip + np.log(sd[1]) + log_h((top - mean[1]) / sd[1]))
        before = here
    return np.logaddexp.reduce(logs)


@pytest.mark.parametrize("seed", range(5))
def test_ehvi_ranks_candidates_where_it_underflows(seed):
    rng = np.random.default_rng(seed)
    front, reference = random_front(rng, 5), np.array([1.1, 1.1])
    mean, sd = rng.uniform(2.0, 4.0, size=(2, 40)), rng.uniform(0.005, 0.03, size=(2, 40))
    values = log_ehvi_of_contenders(mean, sd, front, reference, np.ones(40, dtype=bool))
    exact = np.array([log_ehvi_in_logarithms(mean[:, k], sd[:, k], front, reference) for k in range(40)])
    assert exact.max() < -746  # or EHVI would not underflow
    # Only the leading term is asked for; what it leaves out is a few logarithms of the distance.
    np.testing.assert_allclose(values, exact, rtol=0.02, atol=40.0)
    clear = np.subtract.outer(exact, exact) > 40.0
    assert (np.subtract.outer(values, values)[clear] > 0).all()


@pytest.mark.parametrize("kind", ["close", "far", "all underflows", "no spread", "sharp", "equals"])
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), size=st.integers(0, 15))
def test_contenders_hold_the_maximum(kind, seed, size):
    rng = np.random.default_rng(seed)
    n_candidates = int(rng.integers(1, 60))
    front, reference = random_front(rng, size), rng.uniform(0.7, 1.3, size=2)
    low, high = {"close": (-0.2, 1.2), "far": (1.0, 3.0), "all underflows": (50.0, 60.0)}.get(
        kind, (0.0, 2.0)
    )
    mean = rng.uniform(low, high, size=(2, n_candidates))
    sd = {"no spread": 0.0, "sharp": 1e-3}.get(kind, 0.3) * rng.uniform(0.01, 2.0, size=(2, n_candidates))
    if kind == "equals":
        mean, sd = mean[:, :1].repeat(n_candidates, axis=1), sd[:, :1].repeat(n_candidates, axis=1)
    unseen = rng.uniform(size=n_candidates) < 0.8
    values = log_ehvi_of_contenders(mean, sd, front, reference, unseen)
    assert (values[~unseen] == -np.inf).all()
    if not unseen.any():
        return
    exact = log_expected_hypervolume_improvement(mean[:, unseen], sd[:, unseen], front, reference)
    assert values[unseen].argmax() == exact.argmax()
    # Libraries' logarithms differ in the last bit.
    assert values.max() == pytest.approx(exact.max(), rel=1e-14, abs=1e-14)
    computed = (values[unseen] > -np.inf) | (kind == "equals")
    np.testing.assert_allclose(values[unseen][computed], exact[computed], rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize(
    ("front", "leader", "other"),
    [
        # Each a mean and a standard deviation. Its area, 0.75 squared, is less than the leader's gain, 0.99,
        # even though there are two strips.
        ([[0.9, 0.9]], ([0.0, 0.0], 0.01), ([0.25, 0.25], 0.01)),
        # 0.2 * 1.2 exp(-2) < 0.5 * 0.2, two standard deviations beyond the reference.
        (np.empty((0, 2)), ([0.5, 0.8], 0.01), ([2.0, 0.0], 0.5)),
    ],
    ids=["area", "distance"],
)
def test_each_bound_of_ehvi_rules_a_candidate_out(front, leader, other):
    mean, sd = np.array([leader[0], other[0]]).T.copy(), np.array([[leader[1], other[1]]] * 2)
    values = log_ehvi_of_contenders(mean, sd, np.array(front), np.ones(2), np.ones(2, dtype=bool))
    assert np.isfinite(values[0])
    assert values[1] == -np.inf


def test_contenders_ignore_seen_candidates():
    front, reference = np.array([[0.5, 0.5]]), np.array([1.0, 1.0])
    mean, sd = np.array([[-5.0, 0.4], [-5.0, 0.4]]), np.full((2, 2), 0.1)
    both = np.ones(2, dtype=bool)
    assert log_ehvi_of_contenders(mean, sd, front, reference, both).argmax() == 0
    assert log_ehvi_of_contenders(mean, sd, front, reference, np.array([False, True])).argmax() == 1
    assert (log_ehvi_of_contenders(mean, sd, front, reference, ~both) == -np.inf).all()


@pytest.mark.parametrize("seed", range(20))
def test_the_mean_of_improvements_is_that_of_the_models_where_it_could_be_the_largest(seed):
    rng = np.random.default_rng(seed)
    mean, var = rng.normal(size=(4, 50)), rng.uniform(0.0, 2.0, size=(4, 50))
    var[1, :10] = 0.0
    weights, offsets = rng.dirichlet(np.ones(4)), rng.choice([0.0, -1.0, -np.inf], size=50)
    best = rng.choice([-0.5, -4.0])
    singles = [np.exp(log_ei_of_all(mean[b], var[b], best)) for b in range(4)]
    expected = weights @ np.array(singles) * np.exp(offsets)
    found = np.exp(log_mean_ei_of_contenders(mean, var, best, np.log(weights), offsets))
    assert found.argmax() == expected.argmax() and (found > 0).any()
    np.testing.assert_allclose(found[found > 0], expected[found > 0], rtol=1e-10)


@pytest.mark.parametrize("best", [-0.5, -4.0, -20.0])
def test_few_contenders_are_left_for_the_largest_mean_of_improvements(best):
    """Their bound is within a tenth of what it bounds."""
    rng = np.random.default_rng(0)
    mean, var = rng.normal(size=(3, 3000)), rng.uniform(0.1, 2.0, size=(3, 3000))
    weights = np.array([0.5, 0.3, 0.2])
    found = np.exp(log_mean_ei_of_contenders(mean, var, best, np.log(weights), np.zeros(3000)))
    every = weights @ np.exp([log_ei_of_all(mean[b], var[b], best) for b in range(3)])
    assert found.argmax() == every.argmax()
    assert 0 < (found > 0).sum() <= (every > every.max() / 1.11).sum()


def test_means_of_improvements_that_underflow_are_told_apart():
    mean, var, offsets = np.array([[60.0, 50.0, 70.0]] * 2), np.full((2, 3), 1.0), np.zeros(3)
    found = log_mean_ei_of_contenders(mean, var, 0.0, np.log([0.5, 0.5]), offsets)
    assert found.argmax() == 1
    np.testing.assert_allclose(found[1], log_ei_of_all(mean[0], var[0], 0.0)[1], rtol=1e-10)
    assert log_mean_ei_of_contenders(mean, var * 0.0, 0.0, np.log([0.5, 0.5]), offsets).max() == -np.inf


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), least=st.sampled_from([-3.0, -300.0, -700.0, -2000.0]))
def test_means_of_improvements_under_improbable_constraints(seed, least):
    rng = np.random.default_rng(seed)
    mean, var = rng.normal(0, 3, (2, 12)), rng.uniform(0.01, 4, (2, 12))
    offsets = least + rng.uniform(-20, 0, 12)
    offsets[rng.uniform(size=12) < 0.3] = -np.inf
    offsets[0] = least
    found = log_mean_ei_of_contenders(mean, var, 0.0, np.log([0.3, 0.7]), offsets)
    of_members = [log_ei_of_all(mean[b], var[b], 0.0) for b in (0, 1)]
    every = np.logaddexp(of_members[0] + np.log(0.3), of_members[1] + np.log(0.7))
    assert found.argmax() == (every + offsets).argmax()
    assert found.max() == pytest.approx((every + offsets).max(), abs=1e-9)
