"""`hb.minimize` in a space of whole numbers, labels and conditions, against Optuna's TPE and SMAC's forests.

    pip install -e '.[optuna,smac]'
    python benchmarks/methods/mixed_space.py [--trials 10] [--evaluations 50]

The space has eight hyperparameters of a training: an optimiser with a setting of its own each, a rate over
five decades, layers, a width, an activation and a dropout. The loss is a quadratic in their scales, with
interactions of rate and width, and of optimiser and rate. Its minimum, which is 0, differs in each trial.
Each library runs its own loop in the ranges themselves, not among rows. Regret is the smallest loss. The
programs run in turns.
"""

from __future__ import annotations

import argparse
import logging
import math
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from ConfigSpace import Categorical, ConfigurationSpace, EqualsCondition, Float, Integer

import hpobench_nmt as hb

Loss = Callable[[Mapping[str, Any]], float]
LABELS = {"optimizer": ["sgd", "adam"], "activation": ["relu", "gelu", "tanh"]}
# Ends, whether on a log scale, and whether whole.
RANGES = {
    "rate": (1e-5, 1.0, True, False),
    "layers": (1, 8, False, True),
    "width": (16, 1024, True, True),
    "dropout": (0.0, 0.7, False, False),
    "momentum": (0.0, 0.99, False, False),
    "one_minus_beta2": (1e-4, 0.5, True, False),
}
OF_OPTIMIZER = {"momentum": "sgd", "one_minus_beta2": "adam"}


def loss_of_trial(trial: int) -> Loss:
    """The function of a trial."""
    rng = np.random.default_rng(trial)
    centre = dict(zip(RANGES, rng.uniform(0.2, 0.8, len(RANGES)), strict=True))
    worse = {name: labels[rng.integers(len(labels))] for name, labels in LABELS.items()}

    def place(name: str, value: float) -> float:
        low, high, log, _ = RANGES[name]
        return math.log(value / low) / math.log(high / low) if log else (value - low) / (high - low)

    def loss(config: Mapping[str, Any]) -> float:
        gaps = {name: place(name, config[name]) - centre[name] for name in RANGES if name in config}
        wrong = sum(0.1 for name, label in worse.items() if config[name] == label)
        gaps["rate"] += 0.5 * gaps["width"] + (0.15 if config["optimizer"] == "sgd" else 0.0)
        of_whole = {name: max(abs(gap) - 0.04, 0.0) for name, gap in gaps.items() if RANGES[name][3]}
        return float(wrong + sum(gap * gap for gap in (gaps | of_whole).values()))

    return loss


def of_default(loss: Loss, evaluations: int, trial: int) -> None:
    """Minimise with `hb.minimize`."""
    hb.minimize(loss, configuration_space(trial), budget=evaluations, seed=trial)


def of_tpe(loss: Loss, evaluations: int, trial: int) -> None:
    """Minimise with Optuna's TPE, whose parameters may depend on each other."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def objective(asked: Any) -> float:
        config = {name: asked.suggest_categorical(name, labels) for name, labels in LABELS.items()}
        for name, (low, high, log, whole) in RANGES.items():
            if OF_OPTIMIZER.get(name, config["optimizer"]) == config["optimizer"]:
                config[name] = (asked.suggest_int if whole else asked.suggest_float)(name, low, high, log=log)
        return loss(config)

    sampler = optuna.samplers.TPESampler(multivariate=True, group=True, seed=trial)
    optuna.create_study(sampler=sampler).optimize(objective, evaluations)


def of_smac(loss: Loss, evaluations: int, trial: int) -> None:
    """Minimise with SMAC's facade for hyperparameters, a random forest."""
    from smac import HyperparameterOptimizationFacade, Scenario

    with tempfile.TemporaryDirectory() as folder:
        scenario = Scenario(
            configuration_space(trial),
            deterministic=True,
            n_trials=evaluations,
            seed=trial,
            output_directory=Path(folder),
        )
        HyperparameterOptimizationFacade(
            scenario, lambda config, seed: loss(dict(config)), logging_level=logging.ERROR
        ).optimize()


def configuration_space(seed: int) -> ConfigurationSpace:
    """The space as ConfigSpace describes it."""
    space = ConfigurationSpace(seed=seed)
    made: dict[str, Any] = {name: Categorical(name, labels) for name, labels in LABELS.items()}
    for name, (low, high, log, whole) in RANGES.items():
        made[name] = (Integer if whole else Float)(name, (low, high), log=log)
    space.add(list(made.values()))
    space.add([EqualsCondition(made[name], made["optimizer"], label) for name, label in OF_OPTIMIZER.items()])
    return space


def main() -> None:
    """Print a line per program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--evaluations", type=int, default=50)
    options = parser.parse_args()
    programs = {"hb.minimize": of_default, "optuna.TPE": of_tpe, "smac.RF": of_smac}
    of_default(loss_of_trial(0), 8, 0)  # compiles
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in programs}
    for trial in range(options.trials):
        for name, program in programs.items():
            function = loss_of_trial(trial)
            losses: list[float] = []

            def recorded(
                config: Mapping[str, Any], function: Loss = function, losses: list[float] = losses
            ) -> float:
                losses.append(function(config))
                return losses[-1]

            start = time.process_time()
            program(recorded, options.evaluations, trial)
            found[name].append((min(losses), time.process_time() - start))
    for name, rows in found.items():
        regrets, seconds = np.array(rows).T
        error = float(regrets.std(ddof=1)) / math.sqrt(len(rows))
        print(
            f"{name:12} mean regret {regrets.mean():.4f} ± {error:.4f}, median {np.median(regrets):.4f}, "
            f"{seconds.mean():.1f} s a trial"
        )


if __name__ == "__main__":
    main()
