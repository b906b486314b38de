import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'hpobench-nmt[train]'")

from hpobench_nmt.runner.lm.plateau_adam import PlateauAdam  # noqa: E402
from hpobench_nmt.runner.lm.settings import PlateauSettings  # noqa: E402


def optimiser(parameters, **changes):
    given = {
        "learning_rate": 0.01,
        "beta1": 0.0,
        "beta2": 0.999,
        "epsilon": 1e-9,
        "weight_decay": 0.0,
        "patience": 30,
        "drop": 0.1,
        "drops": 2,
    }
    return PlateauAdam(parameters, PlateauSettings(**{**given, **changes}))


@pytest.mark.parametrize("beta1", [0.0, 0.9])
def test_a_step_is_kingma_and_bas(beta1):
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(4, 3))
    parameter = torch.nn.Parameter(torch.from_numpy(theta.copy()))
    adam = optimiser([parameter], beta1=beta1, weight_decay=0.1)
    m, v = np.zeros_like(theta), np.zeros_like(theta)
    for step in range(1, 6):
        gradient = rng.normal(size=theta.shape)
        parameter.grad = torch.from_numpy(gradient.copy())
        adam.step(1.0)
        gradient = gradient + 0.1 * theta
        m = beta1 * m + (1 - beta1) * gradient
        v = 0.999 * v + 0.001 * gradient**2
        m_hat, v_hat = m / (1 - beta1**step), v / (1 - 0.999**step)
        theta = theta - 0.01 * m_hat / (np.sqrt(v_hat) + 1e-9)
        np.testing.assert_allclose(parameter.detach(), theta, rtol=1e-6)


def rates(losses, **changes):
    """The learning rate after each check, until training ends."""
    adam = optimiser([torch.nn.Parameter(torch.zeros(1))], **changes)
    found = []
    for loss in losses:
        ended = adam.checked(loss)
        found.append(adam.learning_rate)
        if ended:
            break
    return found


def test_the_rate_drops_after_thirty_checks_without_the_best_loss_so_far():
    # One improvement on the check before, but never on the best: it does not count.
    losses = [5.0, *[6.0] * 15, 5.5, *[6.0] * 14]
    assert rates(losses) == pytest.approx([0.01] * 30 + [0.001])
    assert rates([5.0, *[6.0] * 29, 4.0, *[6.0] * 29]) == pytest.approx([0.01] * 60)


def test_training_ends_when_the_rate_would_drop_once_more():
    found = rates([3.0] * 1000, patience=4, drops=2)
    assert found == pytest.approx([0.01] * 4 + [0.001] * 4 + [0.0001] * 5)
    assert len(rates([3.0] * 1000, patience=4, drops=0)) == 5


def test_a_loss_that_keeps_falling_is_trained_on():
    assert len(rates([1 / n for n in range(1, 400)], patience=1, drops=0)) == 399


def test_the_step_has_the_dropped_rate():
    parameter = torch.nn.Parameter(torch.zeros(1))
    adam = optimiser([parameter], patience=1, drops=5)
    parameter.grad = torch.ones(1)
    adam.step(1.0)
    assert parameter.item() == pytest.approx(-0.01)
    adam.checked(1.0)
    adam.checked(1.0)
    adam.step(1.0)
    assert parameter.item() == pytest.approx(-0.011)
    assert math.isclose(adam.learning_rate, 0.001)
