from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, Matern

from hpobench_nmt.methods.kernels import DensePrior, KernelPrior, matern52, rbf
from hpobench_nmt.methods.surrogates import posterior as posterior_module
from hpobench_nmt.methods.surrogates.posterior import Posterior

N_ROWS, N_FEATURES = 140, 4
# Around the size of the first memory (64), several drops of columns, and the very end.
CHECKPOINTS = (1, 2, 7, 30, 64, 65, 105, 139)
OURS = {"matern52": matern52, "rbf": rbf}
SKLEARNS = {"matern52": Matern(1.0, nu=2.5), "rbf": RBF(1.0)}


def random_trial(seed, n_targets, n_rows=N_ROWS):
    rng = np.random.default_rng(seed)
    features = rng.uniform(size=(n_rows, N_FEATURES))
    targets = 5.0 * np.sin(3.0 * features @ rng.normal(size=(N_FEATURES, n_targets))) - 3.0
    return features, targets, rng.permutation(n_rows)


def random_covariance(seed, n_rows):
    factor = np.random.default_rng(seed).normal(size=(n_rows, n_rows))
    return factor @ factor.T / n_rows + 0.1 * np.eye(n_rows)


def by_row(posterior):
    """The unseen rows with the mean, shape (m, U), and variance, shape (U,), of each."""
    unseen = posterior.unseen
    return posterior.rows[unseen], posterior.mean[:, unseen], posterior.var[unseen]


def dense_posterior(covariance, noise_sd, seen, targets):
    """Rows U not in seen, their mean (m, U) and covariance (U, U), by one solve."""
    unseen = np.setdiff1d(np.arange(len(covariance)), seen)
    inner = covariance[np.ix_(seen, seen)] + noise_sd**2 * np.eye(len(seen))
    cross = covariance[np.ix_(unseen, seen)]
    gain = np.linalg.solve(inner, cross.T).T
    return unseen, (gain @ targets[seen]).T, covariance[np.ix_(unseen, unseen)] - gain @ cross.T


def george_posterior(kernel, noise_sd, features, targets, seen, unseen):
    george = pytest.importorskip("george", reason="it has no wheel for this Python")
    made = {"matern52": george.kernels.Matern52Kernel, "rbf": george.kernels.ExpSquaredKernel}[kernel]
    process = george.GP(made(1.0, ndim=N_FEATURES))
    process.compute(features[seen], yerr=noise_sd)
    predicted = [
        process.predict(t, features[unseen], return_cov=False, return_var=True) for t in targets[seen].T
    ]
    return np.array([mean for mean, _ in predicted]), predicted[0][1]


def sklearn_posterior(kernel, noise_sd, features, targets, seen, unseen):
    process = GaussianProcessRegressor(SKLEARNS[kernel], alpha=noise_sd**2, optimizer=None)
    mean, sd = process.fit(features[seen], targets[seen]).predict(features[unseen], return_std=True)
    return mean.reshape(len(unseen), -1).T, sd.reshape(len(unseen), -1)[:, 0] ** 2


@pytest.mark.parametrize("oracle", [george_posterior, sklearn_posterior])
@pytest.mark.parametrize("n_targets", [1, 3])
@pytest.mark.parametrize("noise_sd", [1e-3, 0.5])
@pytest.mark.parametrize("kernel", ["matern52", "rbf"])
@pytest.mark.parametrize("seed", [0, 1])
def test_whole_trial_agrees_with_other_libraries(seed, kernel, noise_sd, n_targets, oracle):
    features, targets, order = random_trial(seed, n_targets)
    posterior = Posterior(KernelPrior(OURS[kernel], features), n_targets, noise_sd)
    for step, row in enumerate(order, start=1):
        posterior.observe(int(row), targets[row])
        if step not in CHECKPOINTS:
            continue
        rows, mean, var = by_row(posterior)
        assert rows.tolist() == sorted(set(range(N_ROWS)) - set(order[:step].tolist()))
        expected_mean, expected_var = oracle(kernel, noise_sd, features, targets, order[:step], rows)
        np.testing.assert_allclose(mean, expected_mean, rtol=1e-6, atol=1e-5)
        np.testing.assert_allclose(var, expected_var, rtol=1e-6, atol=1e-8)
    assert len(by_row(posterior)[0]) == 0


def test_before_any_observation_it_is_the_prior():
    covariance = random_covariance(0, 10)
    rows, mean, var = by_row(Posterior(DensePrior(covariance), n_targets=2))
    assert rows.tolist() == list(range(10))
    assert not mean.any()
    assert mean.shape == (2, 10)
    np.testing.assert_array_equal(var, np.diag(covariance))
    assert Posterior(DensePrior(covariance)).mean.shape == (1, 10)


@pytest.mark.parametrize("noise_sd", [0.0, 1e-2])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_any_covariance_matrix_will_do(seed, noise_sd):
    covariance = random_covariance(seed, 120)
    untouched = covariance.copy()
    rng = np.random.default_rng(seed)
    targets = rng.normal(size=(120, 2))
    order = rng.permutation(120)
    posterior = Posterior(DensePrior(covariance), 2, noise_sd)
    for step, row in enumerate(order[:-1], start=1):
        posterior.observe(int(row), targets[row])
        if step % 7 not in (1, 2):
            continue
        unseen, expected_mean, expected_cov = dense_posterior(covariance, noise_sd, order[:step], targets)
        rows, mean, var = by_row(posterior)
        np.testing.assert_array_equal(rows, unseen)
        np.testing.assert_allclose(mean, expected_mean, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(var, np.diag(expected_cov), rtol=1e-8, atol=1e-9)
    np.testing.assert_array_equal(covariance, untouched)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_row_sums_are_those_of_the_posterior_covariance(seed):
    covariance = random_covariance(seed, 120)
    rng = np.random.default_rng(seed)
    order = rng.permutation(120)
    targets = rng.normal(size=(120, 1))
    posterior = Posterior(DensePrior(covariance), row_sums=covariance.sum(axis=1))
    for step, row in enumerate(order[:-1], start=1):
        posterior.observe(int(row), targets[row])
        if step % 7 not in (1, 2):
            continue
        _, _, expected_cov = dense_posterior(covariance, 0.0, order[:step], targets)
        row_sums = posterior.row_sums[posterior.unseen]
        np.testing.assert_allclose(row_sums, expected_cov.sum(axis=1), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("n_discarded", [1, 30])
def test_row_sums_leave_out_discarded_rows(n_discarded):
    covariance = random_covariance(5, 60)
    targets = np.random.default_rng(5).normal(size=(60, 1))
    posterior = Posterior(DensePrior(covariance), row_sums=covariance.sum(axis=1))
    discarded = list(range(10, 10 + n_discarded))
    posterior.observe(0, targets[0])
    for row in discarded:
        posterior.discard(row)
    posterior.observe(1, targets[1])
    unseen, _, cov = dense_posterior(covariance, 0.0, np.array([0, 1]), targets)
    left = ~np.isin(unseen, discarded)
    np.testing.assert_array_equal(posterior.rows[posterior.unseen], unseen[left])
    expected = cov[np.ix_(left, left)].sum(axis=1)
    np.testing.assert_allclose(posterior.row_sums[posterior.unseen], expected, rtol=1e-8, atol=1e-8)


def test_discard_leaves_the_posterior_of_the_others_unchanged():
    features, targets, order = random_trial(3, 2)
    observed, discarded = order[:60], order[60:110]
    prior = KernelPrior(matern52, features)
    plain, thinned = Posterior(prior, 2, 1e-3), Posterior(prior, 2, 1e-3)
    for i, row in enumerate(observed):
        plain.observe(int(row), targets[row])
        thinned.observe(int(row), targets[row])
        if i < len(discarded):
            thinned.discard(int(discarded[i]))
    rows, mean, var = by_row(plain)
    left, left_mean, left_var = by_row(thinned)
    assert left.tolist() == sorted(order[110:].tolist())
    same = np.isin(rows, left)
    np.testing.assert_allclose(left_mean, mean[:, same], rtol=1e-12)
    np.testing.assert_allclose(left_var, var[same], rtol=1e-12)


@pytest.mark.parametrize("row", [3, 29])
def test_a_row_whose_column_was_dropped_cannot_be_told_again(row):
    found = Posterior(DensePrior(np.eye(30)))
    for each in range(row - 2, row + 1):
        found.observe(each, np.ones(1))
    for each in range(10, 22):
        found.discard(each)
    assert row not in found.rows
    for tell in (lambda: found.observe(row, np.ones(1)), lambda: found.discard(row)):
        with pytest.raises(ValueError, match=f"row {row} is not a candidate any more"):
            tell()


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(30)))
def test_row_order_does_not_matter(shuffled):
    features, targets, order = random_trial(4, 2, n_rows=30)
    plain = Posterior(KernelPrior(matern52, features), 2, 1e-2)
    moved = Posterior(KernelPrior(matern52, features[shuffled]), 2, 1e-2)
    place = np.argsort(shuffled)
    for row in order[:20]:
        plain.observe(int(row), targets[row])
        moved.observe(int(place[row]), targets[row])
    rows, mean, var = by_row(plain)
    moved_rows, moved_mean, moved_var = by_row(moved)
    back = np.argsort(np.array(shuffled)[moved_rows])
    np.testing.assert_array_equal(np.array(shuffled)[moved_rows][back], rows)
    np.testing.assert_allclose(moved_mean[:, back], mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(moved_var[back], var, rtol=1e-8, atol=1e-12)


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(25)))
def test_order_of_observing_does_not_matter(order):
    features, targets, _ = random_trial(5, 1, n_rows=40)
    prior = KernelPrior(rbf, features)
    forward, shuffled = Posterior(prior, 1, 1e-2), Posterior(prior, 1, 1e-2)
    for row in range(25):
        forward.observe(row, targets[row])
        shuffled.observe(order[row], targets[order[row]])
    rows, mean, var = by_row(forward)
    again, again_mean, again_var = by_row(shuffled)
    np.testing.assert_array_equal(again, rows)
    np.testing.assert_allclose(again_mean, mean, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(again_var, var, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("kernel", [matern52, rbf])
def test_row_that_is_determined_already_teaches_nothing(kernel):
    features, targets, _ = random_trial(6, 1, n_rows=12)
    doubled = np.vstack([features, features])
    covariance = kernel(doubled, doubled)
    posterior = Posterior(DensePrior(covariance), row_sums=covariance.sum(axis=1))
    for row in range(4):
        posterior.observe(row, targets[row])
    twins = np.isin(posterior.rows, range(12, 16))
    np.testing.assert_allclose(posterior.mean[0, twins], targets[:4, 0], rtol=1e-6)
    np.testing.assert_allclose(posterior.var[twins], 0.0, atol=1e-8)
    before = [part.copy() for part in (posterior.mean, posterior.var, posterior.row_sums)]
    for row in range(12, 16):
        posterior.observe(row, targets[row - 12] + 100.0)
    after = [posterior.mean, posterior.var, posterior.row_sums]
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)
    # It goes on as if the twins had never been told.
    posterior.observe(4, targets[4])
    unseen, mean, cov = dense_posterior(covariance[:12, :12], 0.0, np.arange(5), targets)
    originals = posterior.unseen & (posterior.rows < 12)
    np.testing.assert_array_equal(posterior.rows[originals], unseen)
    np.testing.assert_allclose(posterior.mean[0, originals], mean[0], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(posterior.var[originals], np.diag(cov), rtol=1e-6, atol=1e-8)


def test_ill_conditioned_trial_stays_finite():
    # 150 rows on a line under an RBF kernel without noise: K has numerical rank of about 10.
    features = np.linspace(0.0, 1.0, 150)[:, None]
    covariance = rbf(features, features)
    posterior = Posterior(DensePrior(covariance), row_sums=covariance.sum(axis=1))
    for row in np.random.default_rng(0).permutation(150)[:-1]:
        posterior.observe(int(row), np.sin(4.0 * features[row]))
        assert np.isfinite(posterior.mean).all()
        assert np.isfinite(posterior.row_sums).all()
        assert (posterior.var >= 0.0).all()
    assert np.abs(posterior.mean).max() < 2.0


def history(covariance, targets, order, discarded):
    """Everything that a posterior says along a trial in which some rows are discarded."""
    found = Posterior(DensePrior(covariance), targets.shape[1], 1e-3, row_sums=covariance.sum(axis=1))
    said = []
    for row in order:
        if row in discarded:
            found.discard(int(row))
        else:
            found.observe(int(row), targets[row])
        said.append([part.copy() for part in (found.rows, found.mean, found.var, found.row_sums)])
    return said


def test_bits_do_not_depend_on_when_memory_is_enlarged(monkeypatch):
    """The memory of V, from which columns are dropped, as allocated first, and enlarged often."""
    covariance = random_covariance(8, 170)
    rng = np.random.default_rng(8)
    targets, order = rng.normal(size=(170, 2)), rng.permutation(170)
    discarded = set(order[20:160:12].tolist())
    first = history(covariance, targets, order, discarded)
    monkeypatch.setattr(posterior_module, "_FIRST_BYTES", 0)
    monkeypatch.setattr(posterior_module, "_MORE_ROWS", 5)
    enlarged = history(covariance, targets, order, discarded)
    for a, b in zip(first, enlarged, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)


def test_more_columns_than_a_tile_holds():
    n_rows = 2 * posterior_module._TILE + 100
    rng = np.random.default_rng(9)
    features, seen = rng.uniform(size=(n_rows, 3)), rng.choice(n_rows, 11, replace=False)
    targets = np.sin(5.0 * features[:, :1])
    posterior = Posterior(KernelPrior(matern52, features), 1, 1e-2)
    for row in seen:
        posterior.observe(int(row), targets[row])
    rows, mean, var = by_row(posterior)
    cross, inner = matern52(features[rows], features[seen]), matern52(features[seen], features[seen])
    gain = np.linalg.solve(inner + 1e-4 * np.eye(11), cross.T).T
    np.testing.assert_allclose(mean[0], (gain @ targets[seen])[:, 0], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(var, 1.0 - (gain * cross).sum(axis=1), rtol=1e-6, atol=1e-8)


def test_memory_grows_by_the_rows_observed_and_nothing_is_copied():
    """70 rows of V over 100,000 candidates are 56 MB, of which 51 are allocated first."""
    features = np.random.default_rng(10).uniform(size=(100_000, 2))
    posterior = Posterior(KernelPrior(rbf, features), 1, 1e-2)
    tracemalloc.start()
    try:
        for row in range(70):
            posterior.observe(row, np.zeros(1))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # 128 rows of V as allocated, the rows that the prior keeps, and a few rows besides.
    assert peak < 2 * 51.2e6 + 64 * 2**20 + 10 * 0.8e6
