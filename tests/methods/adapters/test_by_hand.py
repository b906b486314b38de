"""Each adapter asks for what its library proposes when it is driven by hand, on a small table."""

from __future__ import annotations

import logging
import warnings

import numpy as np
import pytest

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.space import Hyperparameter, Space
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.methods import ADAPTERS

LAYERS, RATES, KINDS = range(1, 7), (0.001, 0.01, 0.1, 1.0), ("rnn", "cnn", "sa")
SPACE = Space(
    (
        Hyperparameter("layers", tuple(LAYERS)),
        Hyperparameter("rate", RATES, "log"),
        Hyperparameter("kind", KINDS, kind="categorical"),
    )
)
CONFIGS = [(layers, rate, kind) for layers in LAYERS for rate in RATES for kind in KINDS]
INITIAL = [4, 40, 63]
SEED = 3


def losses_of(row):
    layers, rate, kind = CONFIGS[row]
    exponent = np.log10(rate)
    first = (layers - 4.2) ** 2 / 5 + (exponent + 2.1) ** 2 + 0.7 * KINDS.index(kind)
    return [first, layers * (1 + KINDS.index(kind)) + abs(exponent)]


def point(layers, rate, kind):
    """By hand: what the space says of its features."""
    return [(layers - 1) / 5, np.log10(rate) / 3 + 1, *(np.sqrt(0.5) * (kind == k) for k in KINDS)]


POINTS = np.array([point(*config) for config in CONFIGS])


def nearest(config, left):
    """The nearest row that is left among those of one category, if one is left there."""
    own = [row for row in left if CONFIGS[row][2] == config[2]] or left
    return min(own, key=lambda row: sum((POINTS[row] - point(*config)) ** 2))


def asked(name, steps, n_objectives=1):
    """The rows that the adapter asks for after the initial design."""
    losses = np.array([losses_of(row)[:n_objectives] for row in range(72)])
    codes = SPACE.encode_all(
        [dict(zip(("layers", "rate", "kind"), config, strict=True)) for config in CONFIGS]
    )
    features = SPACE.features(codes)
    assert np.allclose(features, POINTS)
    problem = Problem(features, n_objectives, 3 + steps, 3, SPACE, codes)
    make = ADAPTERS[name].load()
    trial = run_trial(problem, Trainings.whole(losses), make, np.random.default_rng(SEED), INITIAL)
    assert not trial.failure
    return trial.rows[3:].tolist()


def seeds(n):
    """The first seeds that an adapter gives its library, and the generator after that."""
    rng = np.random.default_rng(SEED)
    return [int(rng.integers(2**31 - 1)) for _ in range(n)], rng


def first_seed():
    return seeds(1)[0][0]


def left_after(rows):
    return [row for row in range(72) if row not in rows]


@pytest.fixture
def quiet():
    """No warnings or logs of a library that is driven by hand."""
    logging.disable(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", ["TPE", "CMAES", "MOTPE", "NSGAII"])
def test_optuna(name, quiet):
    optuna = pytest.importorskip("optuna")
    if name == "CMAES":
        pytest.importorskip("cmaes")
    made = {
        "TPE": lambda seed: optuna.samplers.TPESampler(seed=seed),
        "MOTPE": lambda seed: optuna.samplers.TPESampler(seed=seed),
        "CMAES": lambda seed: optuna.samplers.CmaEsSampler(seed=seed),
        "NSGAII": lambda seed: optuna.samplers.NSGAIISampler(seed=seed, population_size=20),
    }
    n_objectives = 2 if name in ("MOTPE", "NSGAII") else 1
    study = optuna.create_study(sampler=made[name](first_seed()), directions=["minimize"] * n_objectives)
    axes = {
        "layers": optuna.distributions.IntDistribution(1, 6),
        "rate": optuna.distributions.FloatDistribution(0.001, 1.0, log=True),
        "kind": optuna.distributions.CategoricalDistribution(KINDS),
    }

    def add(row):
        params = dict(zip(axes, CONFIGS[row], strict=True))
        values = losses_of(row)[:n_objectives]
        study.add_trial(optuna.create_trial(params=params, distributions=axes, values=values))

    for row in INITIAL:
        add(row)
    left = left_after(INITIAL)
    by_hand = []
    for _ in range(30):
        trial = study.ask()
        layers = trial.suggest_int("layers", 1, 6)
        rate = trial.suggest_float("rate", 0.001, 1.0, log=True)
        kind = trial.suggest_categorical("kind", KINDS)
        row = nearest((layers, rate, kind), left)
        if name in ("CMAES", "NSGAII") or (layers, rate, kind) == CONFIGS[row]:
            study.tell(trial, losses_of(row)[:n_objectives])
        else:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            add(row)
        left.remove(row)
        by_hand.append(row)
    assert asked(f"optuna.{name}", 30, n_objectives) == by_hand


@pytest.mark.parametrize("name", ["TwoPointsDE", "NGOpt", "PortfolioDiscreteOnePlusOne"])
def test_nevergrad(name, quiet):
    ng = pytest.importorskip("nevergrad")
    (outer, inner), _ = seeds(2)
    before = np.random.get_state()  # noqa: NPY002
    np.random.seed(outer)  # noqa: NPY002
    axes = ng.p.Dict(
        layers=ng.p.Scalar(lower=1, upper=6).set_integer_casting(),
        rate=ng.p.Log(lower=0.001, upper=1.0),
        kind=ng.p.Choice(KINDS),
    )
    axes.random_state = np.random.RandomState(inner)
    optimizer = ng.optimizers.registry[name](axes, budget=33)
    assert axes.value["kind"] in KINDS  # draws one, as the adapter does for what a configuration lacks
    for row in INITIAL:
        known = axes.spawn_child(new_value=dict(zip(("layers", "rate", "kind"), CONFIGS[row], strict=True)))
        optimizer.tell(known, losses_of(row)[0])
    by_hand = []
    for _ in range(30):
        point = optimizer.ask()
        row = nearest(
            tuple(point.value[key] for key in ("layers", "rate", "kind")), left_after(INITIAL + by_hand)
        )
        optimizer.tell(point, losses_of(row)[0])
        by_hand.append(row)
    np.random.set_state(before)  # noqa: NPY002
    assert asked(f"nevergrad.{name.removeprefix('PortfolioDiscrete')}", 30) == by_hand


@pytest.mark.parametrize("name", ["NSGA2", "NSGA3"])
def test_pymoo(name):
    from pymoo.algorithms.moo.nsga2 import NSGA2
    from pymoo.algorithms.moo.nsga3 import NSGA3
    from pymoo.core.problem import Problem as Cube
    from pymoo.core.termination import NoTermination

    def row_of(point, left):
        """Categories weigh more than all numbers together; pymoo's points lie between them."""
        weights = np.array([1, 1, 6, 6, 6])
        return min(left, key=lambda row: (weights * (POINTS[row] - point) ** 2).sum())

    rng = np.random.default_rng(SEED)
    rows = [*INITIAL, *rng.permutation(left_after(INITIAL))[:17].tolist()]
    first = POINTS[rows]
    directions = np.array([[i / 19, 1 - i / 19] for i in range(20)])
    made = (
        NSGA2(pop_size=20, sampling=first)
        if name == "NSGA2"
        else NSGA3(directions, pop_size=20, sampling=first)
    )
    made.setup(
        Cube(n_var=5, n_obj=2, xl=0.0, xu=1.0), termination=NoTermination(), seed=int(rng.integers(2**31 - 1))
    )
    for first_one in (True, False):
        generation = made.ask()
        new = rows.copy() if first_one else []
        for point in generation.get("X")[len(new) :]:
            rows.append(row_of(point, left_after(rows)))
            new.append(rows[-1])
        generation.set("X", POINTS[new])
        generation.set("F", np.array([losses_of(row) for row in new]))
        made.tell(infills=generation)
    assert asked(f"pymoo.{name}", 36, 2) == rows[3:39]


def test_smac(quiet):
    pytest.importorskip("smac")
    from ConfigSpace import Categorical, Configuration, ConfigurationSpace, Float, Integer
    from scipy.stats import norm
    from smac.model.random_forest import RandomForest

    space = ConfigurationSpace()
    space.add(Integer("layers", (1, 6)), Float("rate", (0.001, 1.0), log=True), Categorical("kind", KINDS))
    named = [dict(zip(("layers", "rate", "kind"), config, strict=True)) for config in CONFIGS]
    arrays = np.array([Configuration(space, config).get_array() for config in named])
    (seed, other), rng = seeds(2)
    forest = RandomForest(
        space,
        n_trees=10,
        ratio_features=1.0,
        min_samples_split=2,
        min_samples_leaf=1,
        seed=seed,
        max_leaf_nodes=99,
    )
    design = np.random.RandomState(other)
    rows = list(INITIAL)
    while len(rows) < 33:
        left = left_after(rows)
        if design.rand() < 0.2:
            rows.append(int(rng.choice(left)))
            continue
        losses = np.array([losses_of(row)[:1] for row in rows])
        forest.train(arrays[rows], losses)
        mean, variance = forest.predict_marginalized(arrays[left])
        sd = np.sqrt(variance)
        u = (losses.min() - mean) / np.where(sd > 0, sd, 1.0)
        improvement = np.where(sd > 0, sd * (u * norm.cdf(u) + norm.pdf(u)), 0.0)
        rows.append(left[int(improvement.argmax())])
    assert asked("smac.RF", 30) == rows[3:]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["LogEI", "LogEHVI"])
def test_botorch(name, quiet):
    """The fits by BoTorch; the acquisition from the posteriors, by its formula or by sampling."""
    pytest.importorskip("botorch")
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from gpytorch.mlls import ExactMarginalLogLikelihood
    from scipy.stats import norm

    n_objectives = 1 if name == "LogEI" else 2
    found = INITIAL + asked(f"botorch.{name}", 7, n_objectives)
    losses = np.array([losses_of(row)[:n_objectives] for row in found])
    fits = [None] * n_objectives
    for step in range(3, 10):
        told, left = losses[:step], left_after(found[:step])
        y = -(told - told.mean(axis=0)) / told.std(axis=0)
        means, sds = [], []
        for j in range(n_objectives):
            x = torch.from_numpy(POINTS)
            model = SingleTaskGP(x[found[:step]], torch.from_numpy(y[:, [j]]), outcome_transform=None)
            if fits[j]:
                model.load_state_dict(fits[j])
            likelihood = ExactMarginalLogLikelihood(model.likelihood, model)
            fit_gpytorch_mll(likelihood, optimizer_kwargs={"options": {"ftol": 1e-6}})
            fits[j] = model.state_dict()
            posterior = model.posterior(x[left])
            means.append(posterior.mean.detach().numpy()[:, 0])
            sds.append(posterior.variance.detach().numpy()[:, 0] ** 0.5)
        mean, sd = np.array(means).T, np.array(sds).T
        if name == "LogEI":
            u = (mean - y.max()) / sd
            values = (sd * (u * norm.cdf(u) + norm.pdf(u)))[:, 0]
            assert values[left.index(found[step])] >= (1 - 1e-12) * values.max()  # rows may tie
        else:
            values = sampled_improvements(mean, sd, y)
            assert values[left.index(found[step])] > 0.8 * values.max() or values.max() < 1e-3


def sampled_improvements(mean, sd, y, n=4000):
    """Expected hypervolume improvement of each row for values y to be maximised, by sampling."""
    front = y[[not ((y >= p).all(axis=1) & (y > p).any(axis=1)).any() for p in y]]
    front = np.unique(front, axis=0)
    spread = np.ptp(front, axis=0)
    reference = front.min(axis=0) - 0.1 * np.where(spread > 0, spread, 1.0) if len(front) > 1 else None
    if reference is None:
        reference = front[0] - 0.1 * np.maximum(np.abs(front[0]), 1e-9)
    draws = np.random.default_rng(0).normal(size=(n, 2))
    front = front[np.argsort(front[:, 0])]
    edges = np.concatenate([[reference[0]], front[:, 0], [np.inf]])
    heights = np.concatenate([front[:, 1], [reference[1]]])
    values = []
    for m, s in zip(mean, sd, strict=True):
        sample = m + s * draws
        wide = np.clip(sample[:, :1], edges[:-1], edges[1:]) - edges[:-1]
        high = np.maximum(sample[:, 1:] - np.maximum(heights, reference[1]), 0.0)
        values.append((wide * high).sum(axis=1).mean())
    return np.array(values)


def test_syne_tune(quiet):
    pytest.importorskip("syne_tune")
    xgboost = pytest.importorskip("xgboost")
    _, rng = seeds(1)
    rows = list(INITIAL)
    while len(rows) < 33:
        left = rng.permutation(left_after(rows))
        best = 0
        if len(rows) >= 6:
            losses = np.array([losses_of(row)[0] for row in rows])
            model = xgboost.XGBClassifier(n_jobs=1, random_state=0)
            model.fit(POINTS[rows], (losses <= np.quantile(losses, 0.25)).astype(int))
            best = int(model.predict_proba(POINTS[left])[:, 1].argmax())
        rows.append(int(left[best]))
    assert asked("syneTune.BORE", 30) == rows[3:]
