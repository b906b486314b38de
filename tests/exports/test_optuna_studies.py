"""The sampler in studies as people have them: without a space, with constraints, wrapped, pickled, in Ray."""

import pickle
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("optuna", reason="needs: pip install 'hpobench-nmt[optuna]'")

import optuna

import hpobench_nmt as hb
from hpobench_nmt.core.space import Hyperparameter, Space
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.exports.optimizer import Optimizer
from hpobench_nmt.exports.optuna import MethodSampler, suggest


@pytest.fixture(autouse=True)
def _quiet():
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def objective(trial):
    """One hyperparameter of each kind, of which two are conditional."""
    x = trial.suggest_float("x", 0.0, 1.0)
    step = trial.suggest_float("step", 0.0, 1.0, step=0.1)
    rate = trial.suggest_float("rate", 1e-5, 1e-1, log=True)
    batch = trial.suggest_categorical("batch", [8, 16, 24])
    pair = trial.suggest_categorical("pair", [1, 2])
    units = trial.suggest_int("units", 16, 256, log=True)
    trial.suggest_categorical("only", ["one"])
    loss = (x - 0.3) ** 2 + abs(step - 0.7) + (rate > 1e-3) + batch / 24 + pair + units / 256
    if trial.suggest_categorical("rule", ["sgd", "adam"]) == "sgd":
        return loss + trial.suggest_float("momentum", 0.5, 0.99)
    return loss + trial.suggest_float("epsilon", 1e-9, 1e-3, log=True)


def test_without_a_space_the_study_has_it_and_the_method_finds_better_values_than_random_search():
    found = {}
    for name, sampler in {"ours": MethodSampler(), "random": optuna.samplers.RandomSampler(0)}.items():
        study = optuna.create_study(sampler=sampler)
        study.optimize(objective, n_trials=25)
        found[name] = study.best_value
        assert all(len(trial.params) == 9 for trial in study.trials)
        assert all(type(trial.params["batch"]) is int for trial in study.trials)
    assert found["ours"] < found["random"]


def test_after_the_first_trial_the_method_chooses_in_the_intersection_of_the_trials():
    study = optuna.create_study(sampler=MethodSampler(seed=3))
    study.optimize(objective, n_trials=6)
    assert len({trial.params["rule"] for trial in study.trials[:5]}) == 2
    common = "batch", "pair", "rate", "rule", "step", "units", "x"
    assert study.sampler._optimizer.space.names == common
    told = study.sampler._optimizer.told
    assert [losses[0] for _, losses in told] == [trial.value for trial in study.trials[:5]]
    assert [config for config, _ in told] == [
        pytest.approx({name: trial.params[name] for name in common}) for trial in study.trials[:5]
    ]


def test_a_study_that_existed_before_goes_on_and_its_trials_count_towards_the_initial_design():
    def loss(trial):
        return (trial.suggest_float("x", 0, 1) - 0.9) ** 2

    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(1))
    study.optimize(loss, n_trials=4)
    before, study.sampler = study.best_value, MethodSampler()
    study.optimize(loss, n_trials=1)
    assert len(study.sampler._optimizer.told) == 4 and not study.sampler._optimizer._initial
    study.optimize(loss, n_trials=5)
    assert study.best_value < before / 10


def test_when_everything_was_tried_a_study_without_a_space_goes_on_at_random():
    study = optuna.create_study(sampler=MethodSampler())
    study.optimize(lambda trial: trial.suggest_categorical("x", [3, 1, 2]), n_trials=8)
    assert len(study.trials) == 8
    assert sorted(trial.params["x"] for trial in study.trials[:3]) == [1, 2, 3]


def test_a_distribution_that_changes_is_drawn_at_random():
    study = optuna.create_study(sampler=MethodSampler())
    study.optimize(lambda t: t.suggest_float("x", 0, 1 + t.number) + t.suggest_float("y", 0, 1), n_trials=5)
    assert study.sampler._optimizer.space.names == ("y",)


def test_one_sampler_in_two_studies_keeps_them_apart():
    sampler, found = MethodSampler(), []
    for _ in range(2):
        study = optuna.create_study(sampler=sampler)
        study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=5)
        found.append([trial.params for trial in study.trials])
    assert found[0] == found[1] and len(sampler._optimizer.told) == 4


@pytest.mark.parametrize(
    "axes",
    [
        lambda trial: trial.suggest_float("a", 0.1, 0.3, step=0.1) + trial.suggest_int("b", 8, 24, step=8),
        lambda trial: trial.suggest_float("a", 0.0, 1.0) + trial.suggest_categorical("b", [8, 16, 24]),
        lambda trial: trial.suggest_categorical("a", [0.1, 0.2, 0.3]) + trial.suggest_float("b", 8, 24),
    ],
)
def test_with_a_space_any_distribution_is_right_that_contains_the_value(axes):
    space = {"a": [0.1, 0.2, 0.3], "b": [8, 16, 24]}
    study = optuna.create_study(sampler=MethodSampler(space, "RS", seed=1))
    study.optimize(axes, n_trials=20)
    assert len(study.trials) == 9  # the grid
    optimizer = Optimizer(space, "RS", seed=1)
    assert [trial.params for trial in study.trials] == [pytest.approx(c) for c in optimizer.ask(9)]


def test_with_a_space_a_value_that_the_distribution_lacks_is_named():
    study = optuna.create_study(sampler=MethodSampler({"a": [4, 8]}))
    with pytest.raises(InputError, match=r"suggests 'a' from IntDistribution\(.*does not contain [48]"):
        study.optimize(lambda trial: trial.suggest_int("a", 1, 3), n_trials=1)


AXES = {"x": (0.0, 1.0), "y": (0.0, 1.0)}


def missed(config):
    """By how much x + y misses at least 1.2."""
    return 1.2 - config["x"] - config["y"]


@pytest.mark.filterwarnings("ignore:.*constraints_func:FutureWarning")
@pytest.mark.parametrize("way", ["set_constraint", "constraints_func"])
@pytest.mark.parametrize("space", [None, AXES])
def test_constraints_are_obeyed_as_by_minimize(way, space):
    def loss(trial):
        found = trial.suggest_float("x", 0, 1) + trial.suggest_float("y", 0, 1)
        if way == "set_constraint":
            trial.set_constraint("at least 1.2", missed(trial.params))
        return found

    options = {"constraints_func": lambda trial: [missed(trial.params)]} if way == "constraints_func" else {}
    study = optuna.create_study(sampler=MethodSampler(space, **options))
    study.optimize(loss, n_trials=20)
    assert [max(t.constraints.values()) for t in study.trials] == [missed(t.params) for t in study.trials]
    assert 1.2 <= study.best_value < 1.22
    if space is not None:
        expected = hb.minimize(
            lambda config: (sum(config.values()), {"missed": missed(config)}),
            AXES,
            budget=20,
            constraints=["missed<=0"],
        )
        assert tuple(trial.params for trial in study.trials) == expected.configs


def test_a_constraint_that_a_trial_did_not_set_is_satisfied():
    study = optuna.create_study(sampler=MethodSampler(AXES, "RS"))
    for k in range(4):
        trial = study.ask()
        suggest(trial, Space.of(AXES))  # after which the sampler knows the trials before
        if k == 1:
            trial.set_constraint("late", 1.0)
        study.tell(trial, 0.5)
    np.testing.assert_array_equal(study.sampler._optimizer.violations[:, 0], [0.0, 1.0, 0.0])


@pytest.mark.parametrize("space", [None, {"x": (0.0, 1.0), "rule": ["sgd", "adam"]}])
def test_a_prior_is_taken_as_by_minimize(space):
    def tried(prior, count=12):
        sampler = MethodSampler(space, "piBO_M_std", prior=prior, n_initial=1)
        study = optuna.create_study(sampler=sampler)
        study.optimize(
            lambda t: t.suggest_float("x", 0, 1) * 0 + (t.suggest_categorical("rule", ["sgd", "adam"]) == ""),
            n_trials=count,
        )
        return [trial.params["x"] for trial in study.trials[1:]]

    near = {"x": (0.85, 0.9)}
    assert sum(0.8 < x < 0.95 for x in tried(near)) > 2 * sum(0.8 < x < 0.95 for x in tried(None))


def test_distributions_of_a_configspace_are_a_prior_as_for_minimize():
    cs = pytest.importorskip("ConfigSpace")
    space = cs.ConfigurationSpace()
    space.add(cs.Float("x", (0, 1), distribution=cs.Normal(0.87, 0.02)), cs.Float("y", (0, 1)))
    study = optuna.create_study(sampler=MethodSampler(space, "piBO_M_std", n_initial=1))
    study.optimize(lambda t: t.suggest_float("x", 0, 1) * 0 + t.suggest_float("y", 0, 1) * 0, n_trials=8)
    assert sum(0.8 < trial.params["x"] < 0.95 for trial in study.trials[1:]) > 4
    used = study.sampler._optimizer.state.prior
    assert used == Optimizer(space, "piBO_M_std").state.prior and used.keys() == {"x"}
    of_user = MethodSampler(space, "piBO_M_std", prior={"x": 0.1})  # it has precedence
    assert of_user._prior == {"x": 0.1}


def test_a_prior_for_a_hyperparameter_that_the_space_lacks_is_refused_at_once():
    with pytest.raises(InputError, match="unknown hyperparameter 'y'"):
        MethodSampler({"x": (0.0, 1.0)}, "piBO_M_std", prior={"y": 0.5})


SPACE = Space.of({"x": (0.0, 1.0), "rule": ["sgd", "adam"]})
CONDITIONAL = Space((*SPACE, Hyperparameter("decay", (1, 2, 3), active_if=(("rule", ("adam",)),))))


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize("space", [None, CONDITIONAL])
@pytest.mark.parametrize("fixed", ["sgd", "adam"])
def test_some_hyperparameters_may_be_fixed(space, fixed):
    def loss(trial):
        x, rule = trial.suggest_float("x", 0, 1), trial.suggest_categorical("rule", ["sgd", "adam"])
        return (x - 0.3) ** 2 + (trial.suggest_int("decay", 1, 3) if rule == "adam" else 0)

    sampler = optuna.samplers.PartialFixedSampler({"rule": fixed}, MethodSampler(space))
    study = optuna.create_study(sampler=sampler)
    study.optimize(loss, n_trials=15)
    assert all(trial.params["rule"] == fixed for trial in study.trials)
    assert study.best_value < (0.001 if fixed == "sgd" else 1.001)
    assert len(sampler._base_sampler._optimizer.told) >= 12


def test_a_pickled_sampler_continues_as_if_nothing_had_happened(tmp_path):
    def run(study, count):
        study.optimize(lambda trial: (suggest(trial, SPACE)["x"] - 0.3) ** 2, n_trials=count)

    whole, halves = (optuna.create_study(sampler=MethodSampler(SPACE)) for _ in range(2))
    run(whole, 10)
    run(halves, 5)
    halves = pickle.loads(pickle.dumps(halves))  # noqa: S301
    run(halves, 5)
    assert [trial.params for trial in halves.trials] == [trial.params for trial in whole.trials]


@pytest.mark.hosts
def test_processes_of_joblib_share_a_study(tmp_path):
    joblib = pytest.importorskip("joblib")
    storage = optuna.storages.JournalStorage(
        optuna.storages.journal.JournalFileBackend(str(tmp_path / "study.log"))
    )
    study = optuna.create_study(storage=storage, sampler=MethodSampler())

    def optimize():  # a function of this function: a process cannot import the tests of an installed package
        study.optimize(lambda trial: trial.suggest_float("x", 0, 1) + trial.suggest_int("k", 0, 9), 6)

    joblib.Parallel(n_jobs=2)(joblib.delayed(optimize)() for _ in range(2))
    assert len(study.trials) == 12 == len({tuple(trial.params.items()) for trial in study.trials})


@pytest.mark.hosts
@pytest.mark.filterwarnings("ignore")  # Ray warns of others
def test_the_sampler_in_ray_tune(tmp_path):
    """A searcher of Ray is asked and told as Ray's Tuner does, which takes minutes to start."""
    tune = pytest.importorskip("ray.tune")
    from ray.tune.search.optuna import OptunaSearch

    search = OptunaSearch(sampler=MethodSampler(seed=1))
    search.set_search_properties(
        "loss",
        "min",
        {
            "x": tune.uniform(0.0, 1.0),
            "rule": tune.choice(["sgd", "adam"]),
            "layers": tune.randint(1, 5),
        },
    )
    tried = []
    for number in map(str, range(20)):
        config = search.suggest(number)
        loss = (config["x"] - 0.3) ** 2 + (config["rule"] == "sgd") + config["layers"] / 10
        search.on_trial_complete(number, {"loss": loss})
        tried.append((loss, tuple(config.values())))
        if number == "7":
            search.save(str(tmp_path / "search.pkl"))
            search.restore(str(tmp_path / "search.pkl"))
    assert min(tried)[0] < 0.11 and len(set(tried)) == 20


@pytest.mark.hosts
def test_the_searcher_for_ray_tune_of_the_how_to(tmp_path):
    pytest.importorskip("ray.tune")
    text = (Path(__file__).parents[2] / "docs/how-to/your-own-training.md").read_text()
    (block,) = [b for b in re.findall("```python\n(.*?)```", text, re.DOTALL) if "(Searcher)" in b]
    made: dict[str, object] = {}
    exec(compile(block, "how-to", "exec"), made)  # noqa: S102
    searcher = made["OurSearch"](AXES, "loss", seed=1)
    optimizer = Optimizer(AXES, seed=1)
    for number in map(str, range(6)):
        config = searcher.suggest(number)
        assert config == optimizer.ask()
        loss = None if number == "2" else sum(config.values())
        searcher.on_trial_complete(number, None if loss is None else {"loss": loss}, error=loss is None)
        optimizer.tell(config, loss)
    searcher.save(str(tmp_path / "search.json"))
    searcher.restore(str(tmp_path / "search.json"))
    assert searcher.suggest("6") == optimizer.ask()


def test_what_minimize_found_is_a_study():
    def loss(config):
        if config["rule"] == "sgd":
            return None, {}
        return config["x"] + config["decay"], {"size": config["decay"]}

    found = hb.minimize(loss, CONDITIONAL, budget=8, constraints=["size<=2"])
    study = found.to_study(study_name="exported")
    assert study.study_name == "exported" and len(study.trials) == 8
    assert [trial.params for trial in study.trials] == list(found.configs)
    failed = np.isnan(found.losses[:, 0])
    assert [trial.state.name == "FAIL" for trial in study.trials] == failed.tolist() and failed.any()
    assert study.best_value == found.loss
    assert study.best_params == found.best and study.best_params["decay"] <= 2
