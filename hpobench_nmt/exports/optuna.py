"""Optuna: our methods as samplers of a study, and tables as objectives. Needs the extra `optuna`.

import optuna
from hpobench_nmt.adapters.optuna import MethodSampler, table_objective

study = optuna.create_study(sampler=MethodSampler(table.space, "BO_EI_M_std"), direction="maximize")
study.optimize(table_objective(table, ["dev_bleu"]), n_trials=30)
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hpobench_nmt.core.errors import InputError, RunError
from hpobench_nmt.core.objectives import Objective
from hpobench_nmt.core.problem import MethodFactory
from hpobench_nmt.core.seeds import generator
from hpobench_nmt.core.space import Space, Value
from hpobench_nmt.core.space_exchange import library, suggested_by_optuna
from hpobench_nmt.exports.optimizer import N_INITIAL, Optimizer
from hpobench_nmt.lookup.table import Table
from hpobench_nmt.lookup.table_function import Otherwise, row_finder

optuna: Any = library("optuna", "optuna")


# Of a trial's system attributes: the configuration that its sampler chose, and what Optuna has enqueued.
_CLAIM, _FIXED = "hpobench_nmt:config", "fixed_params"
# How long a trial waits for a later one to choose another configuration than its own, in seconds.
_WAITS = (0.0, 0.02, 0.05, 0.1, 0.2)
_MOST_CHOICES = 100


class _SharedOptimizer(Optimizer):
    """The optimizer of one process. Others may search in the same study, each with a method of its own.

    All have the same initial design. What a method draws besides is also of the number of the first trial
    that its process began, unless that is 0.
    """

    def __init__(self, first_trial: int, *arguments: Any, **options: Any) -> None:
        self._first_trial = first_trial
        super().__init__(*arguments, **options)

    def _generator(self) -> np.random.Generator:
        if not self._first_trial:
            return super()._generator()
        return generator(self._seed, "method", "optimizer", self._method.name, self._first_trial)

    def share(self, running: Iterable[Mapping[str, Value]]) -> None:
        """Take these configurations for the pending ones; those that are not in the space are left out."""
        rows: dict[int, None] = {}
        for config in running:
            with contextlib.suppress(InputError):
                rows[self._candidates.row(config)] = None
        self._known.pending[:] = [row for row in rows if row not in self._known.losses]

    def is_same(self, config: Mapping[str, Value], other: Mapping[str, Value]) -> bool:
        """Whether two are one configuration of the space."""
        with contextlib.suppress(InputError):
            return self._candidates.row(config) == self._candidates.row(other)
        return False


class MethodSampler(optuna.samplers.BaseSampler):  # type: ignore[misc]  # Optuna may be absent
    """One of our methods as a sampler of a study.

    The study's objective must suggest every hyperparameter of the space that is active, with the distribution
    of `space.to_optuna()`; `suggest` does that. Trials of the study that ended are told to the method,
    wherever they are from: completed ones with their values (maximised ones negated); failed and pruned ones,
    and those of infinite value, as failures. Running ones are pending, whoever runs them. So `n_jobs` may be
    more than 1, and several processes may share a study by its storage, each with a sampler of its own and
    all with the same seed: no configuration is tried twice. Only with one job in one process are the trials
    the same in every run.

    A process that was killed leaves its trial running, and nobody tries it again, unless the storage has a
    heartbeat (`optuna.storages.RDBStorage`).

    Args:
        space: of the study.
        method: as for `hb.Optimizer`; left out: BO_auto.
        seed, n_initial: likewise.
    """

    def __init__(
        self,
        space: Space,
        method: str | MethodFactory | None = None,
        *,
        seed: int = 0,
        n_initial: int = N_INITIAL,
    ) -> None:
        self._space, self._method, self._seed, self._n_initial = space, method, seed, n_initial
        self._optimizer: _SharedOptimizer | None = None
        self._seen: set[int] = set()
        self._lock = threading.Lock()

    def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
        """The space's distributions."""
        return dict(self._space.to_optuna())

    def sample_relative(self, study: Any, trial: Any, search_space: Mapping[str, Any]) -> dict[str, Any]:
        """The next configuration; hyperparameters that are inactive in it are left out.

        It is written to the storage at once, where other processes see it.
        """
        with self._lock:
            if self._optimizer is None:
                self._optimizer = _SharedOptimizer(
                    trial.number,
                    self._space,
                    self._method,
                    objectives=len(study.directions),
                    seed=self._seed,
                    n_initial=self._n_initial,
                )
            for _ in range(_MOST_CHOICES):
                self._read(study, self._optimizer, but=trial.number)
                if self._optimizer.exhausted:  # what is asked next raises; the trial does not stay running
                    study._storage.set_trial_state_values(trial._trial_id, optuna.trial.TrialState.FAIL)
                config = self._optimizer.ask()
                study._storage.set_trial_system_attr(trial._trial_id, _CLAIM, config)
                if trial.system_attrs.get(_FIXED) or self._is_alone(study, self._optimizer, trial, config):
                    return dict(config)
        raise RunError("other processes of the study chose the same configuration again and again.")

    def sample_independent(self, study: Any, trial: Any, param_name: str, param_distribution: Any) -> Any:
        """Refuse what is not in the space, or has another distribution there."""
        known = ", ".join(self._space.names)
        raise InputError(
            f"the objective suggests {param_name!r}, which is not in the space ({known}), is inactive in "
            "this configuration, or has another distribution than `space.to_optuna()` gives."
        )

    def after_trial(self, study: Any, trial: Any, state: Any, values: Any) -> None:
        """Stop the study once every configuration was tried or is being tried."""
        with self._lock:
            if self._optimizer is not None:
                self._read(study, self._optimizer)
                if self._optimizer.exhausted:
                    with contextlib.suppress(RuntimeError):  # the study is driven by ask and tell
                        study.stop()

    def reseed_rng(self) -> None:
        """Nothing: the seed is the sampler's, whatever thread it is in."""

    def _read(self, study: Any, optimizer: _SharedOptimizer, but: int | None = None) -> None:
        """Tell the optimizer of trials that ended since, and what is running, but for one trial."""
        signs = [-1.0 if d == optuna.study.StudyDirection.MAXIMIZE else 1.0 for d in study.directions]
        running = []
        for trial in study.get_trials(deepcopy=False):
            if trial.state == optuna.trial.TrialState.RUNNING and trial.number != but:
                running.append(_config(trial))
            elif trial.state.is_finished() and trial.number not in self._seen:
                self._seen.add(trial.number)
                losses = None
                if trial.state == optuna.trial.TrialState.COMPLETE:
                    losses = [s * v for s, v in zip(signs, trial.values, strict=True)]
                # Trials of another origin (enqueued ones, say) may repeat one, or be outside of the space.
                with contextlib.suppress(InputError):
                    optimizer.tell(trial.params, losses)
        optimizer.share(running)

    def _is_alone(
        self, study: Any, optimizer: _SharedOptimizer, mine: Any, config: Mapping[str, Value]
    ) -> bool:
        """Whether no other trial has the configuration that this one has just written to the storage.

        Every trial writes its own before it reads those of others, so of two that chose the same the one that
        reads last sees the other, and gives way. Where both see it, the later trial gives way, and the
        earlier one waits a little for that.
        """
        for seconds in _WAITS:
            time.sleep(seconds)
            others = [
                trial
                for trial in study.get_trials(deepcopy=False)
                if trial.number != mine.number
                and trial.number not in self._seen
                and optimizer.is_same(_config(trial), config)
            ]
            if not others:
                return True
            if any(trial.state.is_finished() or trial.number < mine.number for trial in others):
                return False
        return False


def _config(trial: Any) -> dict[str, Value]:
    """What a trial tries: its sampler's choice, but for what was enqueued or suggested otherwise."""
    attributes = trial.system_attrs
    return {**attributes.get(_CLAIM, {}), **attributes.get(_FIXED, {}), **trial.params}


def suggest(trial: Any, space: Space) -> dict[str, Value]:
    """A configuration of the space from an Optuna trial; inactive hyperparameters are left out."""
    return suggested_by_optuna(trial, space.parents_first, space.to_optuna())


def table_objective(
    table: Table, objectives: Sequence[str | Objective] = (), otherwise: Otherwise = "none"
) -> Callable[[Any], float | tuple[float, ...]]:
    """A table as an Optuna objective: suggests a configuration, and returns metrics in raw units.

    Without `objectives`, it returns the table's first one. The study's directions are the caller's to choose.
    A configuration of the grid that has no row, or lacks a metric, makes a failed trial (NaN), with the
    reason in its user attribute "missing". With `otherwise="nearest"` it has the metrics of the nearest row
    instead, and with "error" it ends the study.
    """
    metrics = [table.objective(o).metric for o in objectives] or [table.objective(table.main_metric).metric]
    find = row_finder(table, metrics, otherwise)

    def objective(trial: Any) -> float | tuple[float, ...]:
        row, reason = find(suggest(trial, table.space))
        if reason:
            trial.set_user_attr("missing", reason)
        values = tuple(math.nan if row is None else float(table.column(m)[row]) for m in metrics)
        return values[0] if len(values) == 1 else values

    return objective
