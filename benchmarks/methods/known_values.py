"""What known values of hyperparameters gain: regret of `BO_known` with and without them, and with wrong ones.

    python benchmarks/methods/known_values.py [--trials 10] [SETTING ...]
    python benchmarks/methods/known_values.py --tables TABLE,... --trials 200 BO_auto BO_known

Lines are BO_auto, BO_known with different known values or weights, and BO_known whose centres are mirrored in
the middle of each range. The columns show mean regret after 10, 20, 30 and 50 look-ups. Without --tables, the
tables are those of `development_tables.py` on which BO_known is not BO_auto, because a range encloses a known
value. The last columns are the differences from the first setting after 20 and 30 look-ups, with their
standard errors over trials.

The last lines are a bowl of four hyperparameters, in `minimize`: a learning rate from 1e-6 to 1 (log), whose
best value is 0.0016, and three numbers from 0 to 1. Regret is the squared distance to the best point in the
unit cube, after 10, 20 and 30 evaluations.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from development_tables import N_INITIAL, families, loaded, scaled

import hpobench_nmt as hb
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.known_values import KnownValue, known_of, known_prior
from hpobench_nmt.core.seeds import initial_rows, method_generator
from hpobench_nmt.core.space import Config, Space
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.methods.user_priors import BETA_OF_KNOWN, KnownBO

AFTER = (10, 20, 30, 50)
RATE = ("learning_rate",)
BETAS = (*RATE, "one_minus_beta1", "one_minus_beta2")
PENALTIES = ("l1", "l2")
ALL = (*BETAS, "epsilon", *PENALTIES)
SETTINGS: dict[str, tuple[tuple[str, ...], float, bool]] = {
    "BO_auto": ((), BETA_OF_KNOWN, False),
    "BO_known": (ALL, BETA_OF_KNOWN, False),
    "mirrored": (ALL, BETA_OF_KNOWN, True),
    "learning-rate": (RATE, BETA_OF_KNOWN, False),
    "and-betas": (BETAS, BETA_OF_KNOWN, False),
    "and-penalties": ((*RATE, *PENALTIES), BETA_OF_KNOWN, False),
    "weight-1": (ALL, 1.0, False),
    "weight-6": (ALL, 6.0, False),
    "weight-10": (ALL, 10.0, False),
}
"""By label: the names whose known values are used, the weight, and whether these are mirrored."""


def mirrored(space: Space, name: str, known: KnownValue) -> KnownValue:
    """What is known, with its centre mirrored in the middle of the range."""
    low, high = np.log10(known.x(np.array(space[name].ends)))
    return msgspec.structs.replace(known, centre=float(low + high - known.centre))


def regrets(table: str, setting: str, trials: int) -> Floats:
    """Regret of each trial after each number of look-ups, shape (trials, 4)."""
    names, beta, wrong = SETTINGS[setting]
    problem, losses = loaded(table)
    space = problem.space
    known = {name: value for name, value in known_of(space).items() if name in names}
    if wrong:
        known = {name: mirrored(space, name, value) for name, value in known.items()}
    prior = known_prior(space, problem.configs, known)
    problem = replace(problem, prior=prior, lookups=min(max(AFTER), len(losses)))
    found = []
    for trial in range(trials):
        first = initial_rows(0, table, trial, len(losses), N_INITIAL)
        rng = method_generator(0, table, "BO_known", trial)
        trajectory = run_trial(
            problem, Trainings.whole(losses[:, None]), partial(KnownBO, beta=beta), rng, first
        )
        best = np.minimum.accumulate(scaled(losses)[trajectory.rows])
        found.append([best[min(after, len(best)) - 1] for after in AFTER])
    return np.array(found)


def bowl(method: str, seed: int) -> Floats:
    """Regret of `minimize` after 10, 20 and 30 evaluations, shape (3,)."""
    centre = np.random.default_rng(seed).uniform(0.2, 0.8, size=3)
    names = [f"x{i}" for i in range(len(centre))]

    def loss(config: Config) -> float:
        rate, *rest = (float(config[name]) for name in ("learning_rate", *names))  # type: ignore[arg-type]
        return float((math.log10(rate / 0.0016) / 6) ** 2 + ((np.array(rest) - centre) ** 2).sum())

    space: dict[str, object] = {"learning_rate": (1e-6, 1.0, "log")} | dict.fromkeys(names, (0.0, 1.0))
    found = hb.minimize(loss, space, method, budget=30, seed=seed).losses[:, 0]
    return np.minimum.accumulate(found)[[9, 19, 29]]


def line(label: str, values: Floats, rest: str = "") -> None:
    """Print a line."""
    print(f"{label:34s}" + " ".join(f"{value:.3f}" for value in values), rest, flush=True)


def report(settings: Sequence[str], trials: int, of: dict[str, list[str]]) -> None:
    """Print the lines of tables, by family, and of their mean."""
    for family, tables in of.items():
        print(f"{family}: {', '.join(tables)}")
    before: dict[str, Floats] = {}
    for setting in settings:
        means = []
        for family, tables in of.items():
            found = np.mean([regrets(table, setting, trials) for table in tables], axis=0)
            before.setdefault(family, found)
            gains = (found - before[family])[:, 1:3]
            errors = gains.std(axis=0, ddof=1) / math.sqrt(trials)
            pairs = zip(gains.mean(axis=0), errors, strict=True)
            line(
                f"{setting}, {family}", found.mean(axis=0), " ".join(f"{g:+.3f} ({e:.3f})" for g, e in pairs)
            )
            means.append(found.mean(axis=0))
        if len(of) > 1:
            line(f"{setting}, mean of families", np.mean(means, axis=0))


def bowls(trials: int) -> None:
    """Print the lines of the bowl."""
    for method in ("BO_auto", "BO_known"):
        line(f"bowl, {method}", np.mean([bowl(method, seed) for seed in range(trials)], axis=0))


def main() -> None:
    """Print lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("settings", nargs="*", default=list(SETTINGS), metavar="SETTING")
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--tables", type=lambda names: names.split(","), default=[])
    options = parser.parse_args()
    of = {table: [table] for table in options.tables} or families()
    known = {f: [t for t in tables if known_of(loaded(t)[0].space)] for f, tables in of.items()}
    report(options.settings, options.trials, {f: tables for f, tables in known.items() if tables})
    if not options.tables:
        bowls(options.trials)


if __name__ == "__main__":
    main()
