import numpy as np
import pandas as pd
import pytest

import hpobench_nmt as hb
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.exports.confirm import _remaining


def frame(values):
    return pd.DataFrame(
        [{"x": x, "seed": seed, "value": v} for x, own in values.items() for seed, v in enumerate(own)]
    )


def test_the_budget_goes_to_those_that_remain():
    rng, calls = np.random.default_rng(0), []

    def loss(config, seed):
        calls.append((config["x"], seed))
        return config["x"] + 0.01 * rng.standard_normal()

    known = frame({0.0: [0.1], 0.01: [0.0, 0.2], 0.5: [0.3], 0.9: [0.7], 1.5: [9.0]})
    found = hb.confirm(loss, known, k=4, runs=20)
    count = {x: sum(each[0] == x for each in calls) for x, _ in calls}
    assert count == {0.0: 8, 0.01: 8, 0.5: 2, 0.9: 2} and len(set(calls)) == 20
    assert min(seed for x, seed in calls if x == 0.01) == 2  # seeds that were not used before
    assert [config["x"] for config in found.remaining] == [0.0] or len(found.remaining) == 2
    assert "4 configurations" in str(found) and len(found.to_frame()) == 4


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_the_best_is_eliminated_in_at_most_5_percent(spread):
    """All are nearly as good, and the noise of the others may be twice that of the best."""
    rng, wrong = np.random.default_rng(1), 0
    for _ in range(400):
        means = np.array([0.0, *rng.uniform(0, 0.2, 4)])
        noise = np.array([1.0, *(1 + spread * np.ones(4))])

        def loss(config, means=means, noise=noise):
            return means[config["x"]] + noise[config["x"]] * rng.standard_normal()

        found = hb.confirm(loss, frame({x: [0.0] for x in range(5)}), k=5, runs=20)
        wrong += {"x": 0} not in found.remaining
    assert wrong <= 32  # 20 are expected at most; 32 is 2.75 standard deviations more


def test_clearly_worse_configurations_are_eliminated():
    found = hb.confirm(None, frame({0: [1.0, 1.1, 0.9], 1: [2.0, 2.1, 1.9], 2: [1.0, 1.05, 1.1]}), k=3)
    assert [config["x"] for config in found.remaining] == [0, 2]


def test_the_test_is_student_s():
    """At k = 2, the p-value of the only comparison is that of scipy's t test with equal variances."""
    from scipy.stats import ttest_ind

    rng = np.random.default_rng(2)
    for _ in range(50):
        first, second = rng.standard_normal((2, 4)) * 0.5
        second = second + rng.uniform(0, 2)
        if first.mean() < second.mean():
            p = ttest_ind(second, first, alternative="greater").pvalue
            assert _remaining([first, second], [True, True], 0.05) == [True, p >= 0.05]


def test_failed_trainings_are_left_out():
    found = hb.confirm(
        lambda config: None if config["x"] == 0 else 1.0, frame({0: [0.1], 1: [0.2]}), k=2, runs=6
    )
    assert found.remaining == [{"x": 1}]


def test_a_result_of_minimize_is_confirmed():
    rng = np.random.default_rng(3)

    def loss(config):
        return (config["x"] - 0.5) ** 2 + 0.01 * rng.standard_normal()

    found = hb.minimize(loss, {"x": (0.0, 1.0)}, budget=15)
    confirmed = hb.confirm(loss, found, k=3, runs=12)
    assert len(confirmed.configs) == 3 and all(config in found.configs for config in confirmed.configs)
    with pytest.raises(InputError, match="cannot confirm"):
        hb.confirm(None, found)


def test_a_study_of_optuna_is_confirmed():
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0), n_trials=6)
    confirmed = hb.confirm(lambda config: config["x"], study, k=2, runs=4)
    assert sorted(config["x"] for config in confirmed.configs) == sorted(t.value for t in study.trials)[:2]
    with pytest.raises(InputError, match="minimises one value"):
        hb.confirm(None, optuna.create_study(direction="maximize"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, pd.DataFrame({"x": [1]})), "'value'"),
        ((None, frame({0: [float("nan")]})), "no value"),
        ((lambda config: 1.0, frame({0: [1.0], 1: [1.0]}), 2, 3), "runs"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(InputError, match=message):
        hb.confirm(*arguments)
