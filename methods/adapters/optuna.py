"""Optuna's samplers (Akiba et al. 2019).

Translated: grids of numbers become ranges on their scale, labels become categories, and a hyperparameter is
suggested only if it is active. Optuna receives the rows of the initial design as finished trials. They count
among the random trials that TPE and GP start with (10 by Optuna's default). A failed training is a failed
trial.

Lost: Optuna does not know the grid, the rows that are left, or the order of ordinal labels. Its configuration
is moved to the nearest row that is left (`common.Adapter.nearest`). TPE and GP receive the row that was
looked up, with its losses. If their own configuration was a different one, they receive it as a failed trial.
CMA-ES and NSGA-II need losses of their own configurations, so they receive the row's losses as those of the
configuration that they proposed. CMA-ES learns nothing from the initial design, and draws categories at
random.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import optuna
from optuna.samplers import CmaEsSampler, GPSampler, NSGAIISampler, TPESampler
from optuna.trial import TrialState, create_trial

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.space import Config
from hpobench_nmt.core.space_exchange import suggested_by_optuna
from hpobench_nmt.methods.adapters.common import Adapter, has_failed, ranges

POPULATION = 20
"""The population of NSGA-II. With Optuna's default of 50, it would be random for most of a usual budget."""


class _Optuna(Adapter):
    """Asks a study for configurations, and passes it the rows that were looked up."""

    logger = "optuna"
    # Whether the sampler receives the losses of the nearest row as those of its own configuration.
    keeps_its_own = False

    sampler: Callable[..., Any]

    def start(self) -> None:
        """Start a study in memory."""
        self.space = ranges(self.problem.space)
        self.axes = self.space.to_optuna()
        directions = ["minimize"] * self.problem.n_objectives
        self.study = optuna.create_study(directions=directions, sampler=self.sampler(seed=self.seed()))
        self.trial: Any = None

    def propose(self) -> Config:
        """The next trial's parameters."""
        self.trial = self.study.ask()
        return suggested_by_optuna(self.trial, self.space.parents_first, self.axes)

    def learn(self, row: int, losses: Floats) -> None:
        """End the trial. If the row is not the trial's own, add a trial of the row."""
        failed = has_failed(losses)
        config = self.problem.config(row)
        own = self.asked and (self.keeps_its_own or self.trial.params == config)
        if self.asked:
            told = own and not failed
            state = TrialState.COMPLETE if told else TrialState.FAIL
            self.study.tell(self.trial, losses.tolist() if told else None, state)
        if not own and not failed:
            axes = {name: self.axes[name] for name in config}
            self.study.add_trial(create_trial(params=config, distributions=axes, values=losses.tolist()))


class TPE(_Optuna):
    """Tree-structured Parzen estimators (Bergstra et al. 2011; for several objectives Ozaki et al. 2022)."""

    sampler = TPESampler


class GP(_Optuna):
    """Optuna's Gaussian process, with logEI (one objective) or logEHVI (several)."""

    sampler = staticmethod(partial(GPSampler, deterministic_objective=True))


class CMAES(_Optuna):
    """CMA-ES (Hansen & Ostermeier 2001)."""

    keeps_its_own = True

    sampler = staticmethod(partial(CmaEsSampler, warn_independent_sampling=False))


class NSGAII(_Optuna):
    """NSGA-II (Deb et al. 2002)."""

    keeps_its_own = True

    sampler = staticmethod(partial(NSGAIISampler, population_size=POPULATION))
