"""Our methods as samplers of Optuna, and tables as its objectives, with the real library."""

import math

import numpy as np
import pytest

pytest.importorskip("optuna", reason="needs: pip install 'hpobench-nmt[optuna]'")

import optuna

from hpobench_nmt.core.space import Hyperparameter, Space
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.exports.optimizer import Optimizer
from hpobench_nmt.exports.optuna import MethodSampler, suggest, table_objective
from hpobench_nmt.lookup.table import Table

SPACE = Space(
    (
        Hyperparameter("layers", (1, 2, 3)),
        Hyperparameter("rate", (0.1, 0.2, 0.4), "log"),
        Hyperparameter("decay", (0.5, 0.9), active_if=(("rule", ("adam",)),)),
        Hyperparameter("rule", ("sgd", "adam"), kind="categorical"),
    )
)


def loss(config):
    return abs(config["layers"] - 2) + config["rate"] + (config["rule"] == "sgd") + config.get("decay", 0.0)


@pytest.fixture(autouse=True)
def _quiet():
    optuna.logging.set_verbosity(optuna.logging.ERROR)


@pytest.mark.parametrize(("direction", "method"), [("minimize", "BO_EI_M_std"), ("maximize", "BO_EI_M")])
def test_a_study_tries_what_the_optimizer_asks_for(direction, method):
    sign = 1 if direction == "minimize" else -1
    study = optuna.create_study(sampler=MethodSampler(SPACE, method, seed=4), direction=direction)
    study.optimize(lambda trial: sign * loss(suggest(trial, SPACE)), n_trials=15)
    optimizer = Optimizer(SPACE, method, seed=4)
    for trial in study.trials:
        config = optimizer.ask()
        assert trial.params == config
        optimizer.tell(config, loss(config))
    assert study.best_params == {"layers": 2, "rate": 0.1, "rule": "adam", "decay": 0.5}


def test_the_space_may_be_a_short_description_as_for_the_optimizer():
    axes = {"x": (0.0, 1.0), "layers": [1, 2, 4]}
    study = optuna.create_study(sampler=MethodSampler(axes, "RS", seed=2))
    study.optimize(lambda trial: suggest(trial, Space.of(axes))["x"], n_trials=3)
    optimizer = Optimizer(axes, "RS", seed=2)
    assert [t.params for t in study.trials] == optimizer.ask(3)
    with pytest.raises(InputError, match="a search space must be a Space, or hyperparameters by name"):
        MethodSampler(5)


def test_a_study_ends_with_the_grid_and_failures_are_told():
    study = optuna.create_study(sampler=MethodSampler(SPACE, "GB_EI_M"))
    study.optimize(
        lambda t: float("nan") if suggest(t, SPACE)["layers"] == 1 else loss(t.params), n_trials=99
    )
    assert len(study.trials) == 27
    assert sum(t.state == optuna.trial.TrialState.FAIL for t in study.trials) == 9


def test_an_infinite_value_is_a_failure():
    study = optuna.create_study(sampler=MethodSampler(SPACE, "RS"))
    study.optimize(lambda t: math.inf if suggest(t, SPACE)["layers"] == 1 else 0.0, n_trials=27)
    told = study.sampler._optimizer.told
    assert len(told) == 26  # all but the last one
    assert all(np.isnan(losses).all() == (config["layers"] == 1) for config, losses in told)


def raised(trial):
    raise ValueError("out of memory")


def pruned(trial):
    raise optuna.TrialPruned


@pytest.mark.parametrize("end", [raised, pruned, lambda trial: trial.params["x"] / 2])
def test_a_trial_that_ends_before_it_suggests_everything_is_told_as_what_the_sampler_chose(end):
    space = Space.of({"x": (0.0, 1.0), "y": [1, 2, 3], "kind": ["a", "b"]})

    def ends_early(trial):
        trial.suggest_float("x", 0.0, 1.0)
        return end(trial)

    study = optuna.create_study(sampler=MethodSampler(space, "RS"))
    study.optimize(ends_early, n_trials=6, catch=ValueError)
    study.sampler.after_trial(study, study.trials[-1], None, None)
    told = study.sampler._optimizer.told
    assert [config["x"] for config, _ in told] == [t.params["x"] for t in study.trials]
    assert len({config["x"] for config, _ in told}) == 6 and all(len(config) == 3 for config, _ in told)
    expected = [c["x"] / 2 if t.value else math.nan for (c, _), t in zip(told, study.trials, strict=True)]
    np.testing.assert_array_equal([losses[0] for _, losses in told], expected)


def test_a_failed_trial_with_enqueued_values_is_told_as_what_it_tried():
    study = optuna.create_study(sampler=MethodSampler(SPACE, "RS"))
    study.enqueue_trial({"layers": 3, "rate": 0.1, "rule": "sgd"})  # `decay` is inactive
    study.optimize(lambda trial: raised(suggest(trial, SPACE)), n_trials=4, catch=ValueError)
    study.sampler.after_trial(study, study.trials[-1], None, None)
    assert [config for config, _ in study.sampler._optimizer.told] == [t.params for t in study.trials]


def test_several_jobs_try_nothing_twice():
    study = optuna.create_study(sampler=MethodSampler(SPACE, "BO_EI_M_std"))
    study.optimize(lambda trial: loss(suggest(trial, SPACE)), n_trials=20, n_jobs=4)
    assert len({tuple(sorted(t.params.items())) for t in study.trials}) == 20


def test_a_study_goes_on_with_a_new_sampler():
    study = optuna.create_study(sampler=MethodSampler(SPACE, "BO_EI_M_std"))
    study.optimize(lambda trial: loss(suggest(trial, SPACE)), n_trials=10)
    study.sampler = MethodSampler(SPACE, "BO_EI_M_std")
    again = study.trials[3].params
    study.enqueue_trial(again)  # somebody tries one a second time
    study.optimize(lambda trial: loss(suggest(trial, SPACE)), n_trials=9)
    configs = [tuple(sorted(t.params.items())) for t in study.trials]
    assert configs[10] == configs[3] and len(set(configs)) == 18


def test_losses_are_of_what_a_trial_tried_where_some_of_its_values_were_enqueued():
    study = optuna.create_study(sampler=MethodSampler(SPACE, "BO_EI_M_std", seed=1))
    asked = Optimizer(SPACE, "BO_EI_M_std", seed=1).ask()
    enqueued = {"layers": asked["layers"] % 3 + 1, "rule": "sgd"}
    study.enqueue_trial(enqueued)
    study.optimize(lambda trial: loss(suggest(trial, SPACE)), n_trials=99)
    assert study.trials[0].params == {"rate": asked["rate"], **enqueued}
    assert study.trials[1].params == asked  # its turn, as nobody has tried it
    configs = [tuple(sorted(t.params.items())) for t in study.trials]
    assert len(configs) == len(set(configs)) == 27
    assert all(losses == loss(config) for config, losses in study.sampler._optimizer.told)


def test_what_is_not_in_the_space_is_refused():
    study = optuna.create_study(sampler=MethodSampler(SPACE))
    with pytest.raises(InputError, match="suggests 'momentum', which is not in the space"):
        study.optimize(lambda trial: trial.suggest_float("momentum", 0, 1), n_trials=1)


def test_a_table_is_an_objective(toy):
    study = optuna.create_study(
        sampler=MethodSampler(toy.space, "BO_M_std"), directions=["maximize", "minimize"]
    )
    study.optimize(table_objective(toy, ["bleu", "seconds"]), n_trials=len(toy))
    rows = {toy.row(trial.params): trial.values for trial in study.trials}
    assert sorted(rows) == list(range(len(toy)))
    assert all(rows[row] == toy.values[row, :2].tolist() for row in rows)
    assert {toy.row(trial.params) for trial in study.best_trials} == set(
        toy.front(["bleu", "seconds"]).tolist()
    )


def test_an_objective_returns_a_number_or_one_for_each_metric(toy):
    trial = optuna.trial.FixedTrial(toy.config(3))
    bleu, seconds, _ = toy.values[3].tolist()
    assert table_objective(toy)(trial) == bleu
    assert table_objective(toy, ["seconds", "bleu"])(trial) == (seconds, bleu)


def test_a_configuration_that_was_not_trained_is_a_failed_trial_with_its_reason(toy):
    half = Table("half", toy.hyperparameters, toy.metrics, toy.configs[::2], toy.values[::2], toy.objectives)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(table_objective(half), n_trials=40)
    failed = [t for t in study.trials if t.state == optuna.trial.TrialState.FAIL]
    assert 10 < len(failed) < 30
    assert all("no row has layers=" in t.user_attrs["missing"] for t in failed)
    values = toy.values.copy()
    values[3, :2] = np.nan
    holed = Table("holed", toy.hyperparameters, toy.metrics, toy.configs, values, toy.objectives)
    for objectives, lacking in (([], "bleu"), (["memory", "bleu", "seconds"], "bleu and no seconds")):
        trial = optuna.trial.FixedTrial(toy.config(3))
        assert np.isnan(table_objective(holed, objectives)(trial)).any()
        reason = f"table 'holed': this row has no {lacking}."
        assert trial.user_attrs == {"missing": reason}
    with pytest.raises(InputError, match="was not trained, or its training failed"):
        half.lookup(toy.config(1))
    trial = optuna.trial.FixedTrial(toy.config(1))
    with pytest.raises(InputError, match="was not trained, or its training failed"):
        table_objective(half, otherwise="error")(trial)
    assert table_objective(half, otherwise="nearest")(trial) in half.column("bleu")
    np.testing.assert_equal(half.lookup(toy.config(2))["bleu"], toy.values[2, 0])
