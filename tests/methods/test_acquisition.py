"""Expected influence, and the acquisitions of a belief."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr

from hpobench_nmt.methods.acquisitions.acquisition import (
    Belief,
    by_expected_hypervolume,
    by_expected_improvement,
    by_expected_influence,
    expected_influence,
    usual_acquisition,
)
from hpobench_nmt.methods.acquisitions.optimistic_hypervolume import by_optimistic_hypervolume

# --- expected influence ----------------------------------------------------------------------------


def random_laplacian(rng, n_rows):
    weights = np.triu(rng.uniform(size=(n_rows, n_rows)) * (rng.uniform(size=(n_rows, n_rows)) < 0.5), 1)
    weights[np.arange(n_rows - 1), np.arange(1, n_rows)] += 0.1  # a path keeps it connected
    weights += weights.T
    return np.diag(weights.sum(axis=1)) - weights


def propagated(laplacian, labels):
    """Harmonic labels of all rows: those in labels as they are, the others by one dense solve."""
    n_rows = len(laplacian)
    seen = np.array(sorted(labels))
    unseen = np.setdiff1d(np.arange(n_rows), seen)
    result = np.zeros(n_rows)
    result[seen] = [labels[row] for row in seen]
    if len(unseen):
        flow = laplacian[np.ix_(unseen, seen)] @ result[seen]
        result[unseen] = -np.linalg.solve(laplacian[np.ix_(unseen, unseen)], flow)
    return result


def influence_by_two_futures(laplacian, labels):
    """EIF of each unseen row: its label's weight on the future where it turns out 1, the rest on 0."""
    f = propagated(laplacian, labels)
    unseen = [row for row in range(len(laplacian)) if row not in labels]
    values = {}
    for k in unseen:
        good = propagated(laplacian, labels | {k: 1.0})[unseen]
        bad = propagated(laplacian, labels | {k: 0.0})[unseen]
        values[k] = f[k] * good.sum() + (1.0 - f[k]) * (1.0 - bad).sum()
    return f, values


@pytest.mark.parametrize("n_seen", [1, 3, 12, 17])
@pytest.mark.parametrize("seed", range(5))
def test_influence_is_that_of_two_propagations(seed, n_seen):
    rng = np.random.default_rng(seed)
    n_rows = 18
    laplacian = random_laplacian(rng, n_rows)
    labels = {int(row): rng.uniform() for row in rng.choice(n_rows, n_seen, replace=False)}
    f, expected = influence_by_two_futures(laplacian, labels)
    unseen = ~np.isin(np.arange(n_rows), list(labels))
    green = np.linalg.inv(laplacian[np.ix_(unseen, unseen)])
    # What stands in the columns of seen rows must not matter.
    variance, row_sums = np.full(n_rows, np.nan), np.full(n_rows, np.nan)
    variance[unseen], row_sums[unseen] = np.diag(green), green.sum(axis=1)
    f[~unseen] = 1e6
    values = expected_influence(f, variance, row_sums, unseen)
    assert (values[~unseen] == -np.inf).all()
    for row, value in expected.items():
        assert values[row] == pytest.approx(value, rel=1e-9)


def test_influence_does_not_depend_on_the_scale_of_the_covariance():
    labels, unseen = np.array([0.2, 0.7, 0.4]), np.ones(3, dtype=bool)
    variance, row_sums = np.array([1.0, 2.0, 0.5]), np.array([1.5, 2.5, 0.9])
    np.testing.assert_allclose(
        expected_influence(labels, 7 * variance, 7 * row_sums, unseen),
        expected_influence(labels, variance, row_sums, unseen),
    )


def test_influence_of_a_determined_row_is_its_own():
    # Nothing spreads from a row without variance, so only its own label changes.
    values = expected_influence(
        np.array([0.3, 0.5]), np.array([0.0, 1.0]), np.zeros(2), np.ones(2, dtype=bool)
    )
    assert values[0] == pytest.approx(0.3 * (1.0 + 0.5) + 0.7 * (1.0 + 0.5))


# --- from a belief ---------------------------------------------------------------------------------


def random_belief(seed, n_losses, n_candidates=30, row_sums=True):
    rng = np.random.default_rng(seed)
    seen = rng.normal(size=(8, n_losses))
    front = np.array([p for p in seen if not ((seen <= p).all(axis=1) & (seen < p).any(axis=1)).any()])
    return Belief(
        mean=rng.normal(size=(n_losses, n_candidates)),
        var=rng.uniform(0.01, 1.0, size=n_candidates),
        unseen=rng.uniform(size=n_candidates) < 0.7,
        front=front[np.argsort(front[:, 0])],
        best=seen.min(axis=0),
        worst=seen.max(axis=0),
        row_sums=rng.uniform(size=n_candidates) if row_sums else None,
    )


def chance_below(mean, sd, low, high):
    """The chance of a normal variable to lie below a value, integrated over values from low to high."""
    low = min(max(low, mean - 10.0 * sd), high)
    return quad(lambda value: ndtr((value - mean) / sd), low, high, epsabs=0.0, limit=200)[0]


def test_improvement_from_a_belief():
    belief = random_belief(0, 1)
    sd = np.sqrt(belief.var)
    gains = [chance_below(m, s, -np.inf, belief.best[0]) for m, s in zip(belief.mean[0], sd, strict=True)]
    expected = np.where(belief.unseen, gains, 0.0)
    values = np.exp(by_expected_improvement(belief))
    assert values.argmax() == expected.argmax()
    assert values.max() == pytest.approx(expected.max())
    assert (values <= expected * (1.0 + 1e-6)).all()


def test_influence_from_a_belief_scales_labels_to_the_unit_interval():
    belief = random_belief(1, 1)
    best, worst = belief.best[0], belief.worst[0]
    labels = np.array([min(max((worst - m) / (worst - best), 0.0), 1.0) for m in belief.mean[0]])
    expected = expected_influence(labels, belief.var, belief.row_sums, belief.unseen)
    np.testing.assert_allclose(by_expected_influence(belief), expected, rtol=1e-6)


def test_influence_of_equal_losses_calls_every_row_even():
    plain = random_belief(2, 1)
    belief = Belief(
        plain.mean, plain.var, plain.unseen, plain.front, plain.best, plain.best.copy(), plain.row_sums
    )
    labels = np.full(len(plain.var), 0.5)
    expected = expected_influence(labels, plain.var, plain.row_sums, plain.unseen)
    np.testing.assert_array_equal(by_expected_influence(belief), expected)


def test_influence_needs_row_sums():
    with pytest.raises(ValueError, match="row sums"):
        by_expected_influence(random_belief(3, 1, row_sums=False))


def test_hypervolume_from_a_belief_reaches_a_tenth_beyond_the_worst():
    belief = random_belief(4, 2)
    reference = belief.worst + 0.1 * (belief.worst - belief.best)
    values = by_expected_hypervolume(belief)
    k = int(values.argmax())
    assert belief.unseen[k]
    # Below the front and the reference lie columns, each as wide as the gap to the next point of the front.
    (x, y), sd = belief.mean[:, k], np.sqrt(belief.var[k])
    edges = [-np.inf, *belief.front[:, 0], reference[0]]
    tops = [reference[1], *belief.front[:, 1]]
    expected = sum(
        chance_below(x, sd, left, right) * chance_below(y, sd, -np.inf, top)
        for left, right, top in zip(edges, edges[1:], tops, strict=False)
    )
    np.testing.assert_allclose(np.exp(values[k]), expected, rtol=1e-6)


def test_hypervolume_is_for_two_losses():
    with pytest.raises(ValueError, match="two objectives"):
        by_expected_hypervolume(random_belief(5, 3))


def test_the_usual_acquisition_is_ei_for_one_loss_and_ehvi_for_two():
    assert usual_acquisition(1) is by_expected_improvement
    assert usual_acquisition(2) is by_expected_hypervolume
    assert usual_acquisition(3) is usual_acquisition(7) is by_optimistic_hypervolume
    with pytest.raises(ValueError, match="no acquisition for 0 objectives"):
        usual_acquisition(0)
