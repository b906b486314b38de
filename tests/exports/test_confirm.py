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


@pytest.mark.parametrize(("spread", "failing"), [(1.0, 0.0), (2.0, 0.0), (0.1, 0.0), (1.0, 0.34)])
def test_the_best_is_eliminated_in_at_most_5_percent(spread, failing):
    """All are nearly as good. The noise of the best may be another one, and trainings may fail."""
    rng, wrong = np.random.default_rng(1), 0
    for _ in range(400):
        means = np.array([0.0, *rng.uniform(0, 0.2, 4)])
        noise = np.array([1.0, *(spread * np.ones(4))])

        def loss(config, means=means, noise=noise):
            if rng.random() < failing:
                return None
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


def called_with(result, function_of, **arguments):
    """The configurations and seeds that `confirm` calls a function with."""
    calls = []
    hb.confirm(
        function_of(lambda config, seed: calls.append((tuple(config.values()), seed))), result, **arguments
    )
    return calls


def plain(note):
    rng = np.random.default_rng(0)

    def loss(config, seed):
        note(config, seed)
        return config["x"] + 0.1 * rng.standard_normal()

    return loss


def test_no_training_of_the_search_counts():
    """Seeds are new: also where a frame has its own, trainings failed, or the default was used."""
    own = pd.DataFrame({"x": [0.1, 0.2, 0.3], "seed": [1, 5, 0], "value": [1.0, 2.0, np.nan]})
    calls = called_with(own, plain, k=2, runs=4)
    assert calls == [((0.1,), 2), ((0.2,), 6), ((0.1,), 3), ((0.2,), 7)]
    failed = pd.DataFrame({"x": [0.1, 0.1, 0.2], "value": [1.0, np.nan, 2.0]})
    assert called_with(failed, plain, k=2, runs=4)[0] == ((0.1,), 2)

    def usual(note):
        def loss(config, seed=2):
            note(config, seed)
            return config["x"] + seed

        return loss

    found = hb.minimize(usual(lambda config, seed: None), {"x": [1.0, 2.0]}, budget=2)
    assert [seed for _, seed in called_with(found, usual, k=2, runs=6)] == [1, 1, 3, 3, 4, 4]


def test_no_repeat_of_a_search_counts():
    calls = []
    loss = plain(lambda config, seed: calls.append((config["x"], seed)))
    found = hb.minimize(loss, {"x": (0.0, 1.0)}, budget=20, repeats="auto", candidates=100)
    assert len(found.configs) > len({config["x"] for config in found.configs})  # some were repeated
    hb.confirm(loss, found, k=3, runs=9)
    assert len(calls) == len(set(calls)) == 29


def test_what_a_function_may_return_is_that_of_minimize():
    def bounded(config):
        return config["x"], {"seconds": 1.0}

    found = hb.minimize(bounded, {"x": [1.0, 2.0, 3.0]}, budget=3, constraints=["seconds<=5"])
    assert hb.confirm(bounded, found, k=2, runs=4).remaining == [{"x": 1.0}]
    known = frame({0: [0.1], 1: [0.2]})
    listed = hb.confirm(lambda config: np.array([0.5 + config["x"]]), known, k=2, runs=4)
    assert listed.losses[0].tolist() == [0.5, 0.5]

    def raises(config):
        raise MemoryError

    failed = hb.confirm(raises, known, k=2, runs=4, catch=MemoryError)
    assert str(failed) == "All trainings of 2 configurations failed."
    with pytest.raises(MemoryError):
        hb.confirm(raises, known, k=2, runs=4)


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
    pruned, bounded = optuna.trial.TrialState.PRUNED, {"constraints": [1.0]}
    floats = {"x": optuna.distributions.FloatDistribution(-9, 9)}
    study.add_trial(
        optuna.trial.create_trial(
            state=pruned, params={"x": -9}, distributions=floats, intermediate_values={0: -9}
        )
    )
    study.add_trial(
        optuna.trial.create_trial(value=-8, params={"x": -8}, distributions=floats, system_attrs=bounded)
    )
    again = hb.confirm(lambda config: config["x"], study, k=2, runs=4)
    assert again.configs == confirmed.configs
    with pytest.raises(InputError, match="minimises one value"):
        hb.confirm(None, optuna.create_study(direction="maximize"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, pd.DataFrame({"x": [1]})), "'value'"),
        ((None, frame({0: [float("nan")]})), "no configuration has a loss"),
        ((lambda config: 1.0, frame({0: [1.0], 1: [1.0]}), 2, 3), "runs"),
        ((3, frame({0: [1.0], 1: [1.0]})), "a function of a configuration, not 3"),
        ((lambda config: "a", frame({0: [1.0], 1: [1.0]}), 2, 4), "1 loss expected, as a number, not 'a'"),
        ((None, pd.DataFrame({"x": [1], "value": ["a"]})), "'value' has 'a', which is not a number"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(InputError, match=message):
        hb.confirm(*arguments)
