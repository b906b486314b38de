"""Each adapter asks for what its library proposes when it is driven by hand, on a small table."""

from __future__ import annotations

import logging
import warnings

import numpy as np
import pytest

from hpobench_nmt.core.loop import run_trial
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.space import Hyperparameter, Space
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
    trial = run_trial(problem, losses.__getitem__, make, np.random.default_rng(SEED), INITIAL)
    assert not trial.failure
    return trial.rows[3:].tolist()


def first_seed():
    return int(np.random.default_rng(SEED).integers(2**31 - 1))


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
    left = [row for row in range(72) if row not in INITIAL]
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
