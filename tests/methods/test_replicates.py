import math

import numpy as np
import pytest

from hpobench_nmt.methods.replicates import _posterior, believe


def noisy(seed, n=40, d=3, sd=0.03, growth=0.0, repeated=0, times=4):
    """Trainings of random configurations of a bowl; the best few are trained several times."""
    rng = np.random.default_rng(seed)
    features = rng.random((n, d))
    true = ((features - 0.4) ** 2).sum(axis=1)
    noise = sd * np.exp(growth * (true - true.min()))
    trainings = [true[i] + noise[i] * rng.standard_normal(1) for i in range(n)]
    for i in np.argsort(true)[:repeated]:
        trainings[i] = true[i] + noise[i] * rng.standard_normal(times)
    return features, true, noise, trainings


def test_a_posterior_is_that_of_the_textbook():
    rng = np.random.default_rng(0)
    points = rng.random((6, 2))
    kernel = np.exp(-((points[:, None] - points[None]) ** 2).sum(axis=2))
    y, noise = rng.standard_normal(6), rng.uniform(0.01, 0.2, 6)
    given = _posterior(kernel[None], y, noise)
    whole = np.linalg.inv(kernel + np.diag(noise + 1e-8))
    assert given.mean == pytest.approx(kernel @ whole @ y)
    assert given.covariance == pytest.approx(kernel - kernel @ whole @ kernel, abs=1e-9)
    difference = _posterior(kernel[None], 2 * y, noise).log_p - given.log_p
    assert difference == pytest.approx(-1.5 * y @ whole @ y)


@pytest.mark.parametrize("sd", [0.003, 0.03])
def test_replicates_give_the_noise(sd):
    ratios = []
    for seed in range(10):
        features, _, noise, trainings = noisy(seed, sd=sd, repeated=4)
        belief = believe(features, [1, 1, 1], trainings)
        best = int(belief.mean.argmin())
        ratios.append(belief.noise[best] / noise[best])
        assert 1 < belief.spread < 4
    assert 1 / 1.3 < math.exp(np.log(ratios).mean()) < 1.3


def test_noise_that_grows_with_the_loss_is_seen_to_grow():
    features, true, noise, trainings = noisy(0, sd=0.01, growth=4.0, repeated=40, times=8)
    belief = believe(features, [1, 1, 1], trainings)
    worst, best = int(true.argmax()), int(true.argmin())
    ratio = belief.noise[worst] / belief.noise[best]
    assert 0.4 < ratio / (noise[worst] / noise[best]) < 2.5


def test_an_improvement_far_above_the_median_is_real():
    features, true, _, trainings = noisy(0, sd=0.01, repeated=3)
    worst, second = np.argsort(-true)[:2]
    spread = float(np.median(true) - true.min())
    trainings[worst], trainings[second] = np.array([10 * spread]), np.array([4 * spread])
    belief = believe(features, [1, 1, 1], trainings)
    assert belief.better(int(worst))[second] > 0.95


@pytest.mark.parametrize("seed", range(6))
def test_a_lucky_training_of_a_bad_configuration_is_not_taken_for_an_improvement(seed):
    """Noise that grows to twelve times can lower the loss of a bad configuration below all others."""
    rng = np.random.default_rng(seed)
    features = np.vstack([0.4 + 0.1 * rng.standard_normal((45, 3)), rng.random((30, 3))])
    true = ((features - 0.4) ** 2).sum(axis=1)
    noise = 0.02 * (1 + 22 * true)
    trainings = [true[i] + noise[i] * rng.standard_normal(1 + (i < 8)) for i in range(75)]
    lucky = int(np.argsort(true)[-8])
    trainings[lucky] = np.array([min(map(np.min, trainings)) - 0.1])
    belief = believe(features, [1, 1, 1], trainings)
    assert belief.better(int(true.argmin()))[lucky] < 0.8


def test_the_posterior_mean_is_nearer_to_the_truth_than_the_losses():
    features, true, _, trainings = noisy(1, n=60, sd=0.05, repeated=3)
    belief = believe(features, [1, 1, 1], trainings)
    seen = np.array([each.mean() for each in trainings])
    low = true < np.median(true)
    assert np.abs(belief.mean - true)[low].mean() < 0.7 * np.abs(seen - true)[low].mean()


def test_without_replicates_the_residuals_still_average_noise_out():
    expected, lucky = [], []
    for seed in range(8):
        features, true, _, trainings = noisy(seed, n=60, sd=0.1)
        belief = believe(features, [1, 1, 1], trainings)
        expected.append(true[belief.mean.argmin()])
        lucky.append(true[np.argmin([each[0] for each in trainings])])
    assert np.mean(expected) < 0.8 * np.mean(lucky)


def test_equal_repeats_mean_no_noise():
    features, _, _, trainings = noisy(2, repeated=0)
    trainings[5] = np.repeat(trainings[5], 3)
    belief = believe(features, [1, 1, 1], trainings)
    assert (belief.mean == [each[0] for each in trainings]).all() and not belief.noise.any()
    assert set(belief.better(than=5)) <= {0.0, 0.5, 1.0}


def test_the_unit_of_the_loss_does_not_matter():
    features, _, _, trainings = noisy(3, repeated=3)
    belief = believe(features, [1, 1, 1], trainings)
    for factor in (1e-140, 1e140):
        other = believe(features, [1, 1, 1], [factor * each for each in trainings])
        assert other.mean / factor == pytest.approx(belief.mean)
        assert other.better(than=0) == pytest.approx(belief.better(than=0))


def test_few_or_equal_losses():
    for trainings in ([[1.0]], [[1.0], [1.0]], [[0.0], [0.0]], [[1.0, 2.0]], [[1.0, 1.5], [2.0]]):
        belief = believe(
            np.arange(len(trainings))[:, None] / 2.0, [1], [np.array(each) for each in trainings]
        )
        assert np.isfinite(belief.mean).all() and np.isfinite(belief.better(than=0)).all()


def test_the_knowledge_gradient_is_that_of_a_simulation():
    features, _, _, trainings = noisy(4, n=12, repeated=3)
    belief = believe(features, [1, 1, 1], trainings)
    rng, found = np.random.default_rng(0), belief.knowledge_gradient(range(12))
    noise = belief.noise / belief.unit
    for row in (0, int(belief.mean.argmin())):
        weights = belief.covariance[row] / (belief.covariance[row, row] + noise[row] ** 2)
        told = rng.multivariate_normal(belief.warped, belief.covariance, 40_000)[:, row]
        told += noise[row] * rng.standard_normal(40_000)
        after = belief.warped + (told - belief.warped[row])[:, None] * weights
        gains = belief.warped.min() - after.min(axis=1)
        assert found[row] == pytest.approx(gains.mean(), abs=5 * gains.std() / 200 + 0.03 * found.max())
