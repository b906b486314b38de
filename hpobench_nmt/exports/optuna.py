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

from hpobench_nmt.core.objectives import Objective
from hpobench_nmt.core.problem import MethodFactory
from hpobench_nmt.core.seeds import generator
from hpobench_nmt.core.space import Space, Value
from hpobench_nmt.core.space_exchange import library, suggested_by_optuna
from hpobench_nmt.core.system.errors import InputError, RunError
from hpobench_nmt.exports.optimizer import N_INITIAL, Optimizer
from hpobench_nmt.lookup.table import Otherwise, Table
from hpobench_nmt.lookup.table_function import row_finder

optuna: Any = library("optuna", "optuna")


# System attributes of a trial: the configuration that its sampler chose, and the one that Optuna enqueued.
_CLAIM, _FIXED = "hpobench_nmt:config", "fixed_params"
# How long a trial waits for a later trial with the same configuration to choose another, in seconds.
_WAITS = (0.0, 0.02, 0.05, 0.1, 0.2)
_MOST_CHOICES = 100


class _SharedOptimizer(Optimizer):
    """The optimizer of one process. Other processes may search in the same study with their own methods.

    All have the same initial design. A method's generator also depends on the number of the first trial that
    its process started, unless that is 0.
    """

    def __init__(self, first_trial: int, *arguments: Any, **options: Any) -> None:
        self._first_trial = first_trial
        super().__init__(*arguments, **options)

    def _generator(self) -> np.random.Generator:
        if not self._first_trial:
            return super()._generator()
        return generator(self._seed, "method", "optimizer", self._method.name, self._first_trial)

    def share(self, running: Iterable[Mapping[str, Value]]) -> None:
        """Replace the pending configurations by these. Configurations outside of the space are left out."""
        rows: dict[int, None] = {}
        for config in running:
            with contextlib.suppress(InputError):
                rows[self._candidates.row(config)] = None
        self._known.pending[:] = [row for row in rows if row not in self._known.losses]

    def is_same(self, config: Mapping[str, Value], other: Mapping[str, Value]) -> bool:
        """Whether two configurations are the same configuration of the space."""
        with contextlib.suppress(InputError):
            return self._candidates.row(config) == self._candidates.row(other)
        return False


class MethodSampler(optuna.samplers.BaseSampler):  # type: ignore[misc]  # Optuna may be absent
    """One of our methods as a sampler of a study.

    The study's objective must suggest every active hyperparameter of the space, with the distribution of
    `space.to_optuna()`; `suggest` does that. The method receives all trials of the study that have ended,
    wherever they ran. Completed trials have their values, negated if they are maximised. Trials that failed,
    were pruned, or have an infinite value are failures. Running trials are pending, whoever runs them.
    `n_jobs` may therefore be more than 1, and several processes may share a study by its storage, each with a
    sampler of its own and all with the same seed. No configuration is tried twice. Trials are the same in
    every run only with one job in one process.

    A process that was killed leaves its trial running. Its configuration is not tried again, unless the
    storage has a heartbeat (`optuna.storages.RDBStorage`).

    Args:
        space: the search space of the study, as for `hb.Optimizer`.
        method: as for `hb.Optimizer`. By default, BO_auto.
        seed, n_initial: as for `hb.Optimizer`.
    """

    def __init__(
        self,
        space: Space | Mapping[str, object],
        method: str | MethodFactory | None = None,
        *,
        seed: int = 0,
        n_initial: int = N_INITIAL,
    ) -> None:
        self._space = space if isinstance(space, Space) else Space.of(space)
        self._method, self._seed, self._n_initial = method, seed, n_initial
        self._optimizer: _SharedOptimizer | None = None
        self._seen: set[int] = set()
        self._lock = threading.Lock()

    def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
        """The space's distributions."""
        return dict(self._space.to_optuna())

    def sample_relative(self, study: Any, trial: Any, search_space: Mapping[str, Any]) -> dict[str, Any]:
        """The next configuration, without inactive hyperparameters.

        It is written to the storage at once, so that other processes see it.
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
                if self._optimizer.exhausted:  # `ask` is going to raise, and the trial must not stay running
                    study._storage.set_trial_state_values(trial._trial_id, optuna.trial.TrialState.FAIL)
                config = self._optimizer.ask()
                study._storage.set_trial_system_attr(trial._trial_id, _CLAIM, config)
                if trial.system_attrs.get(_FIXED) or self._is_alone(study, self._optimizer, trial, config):
                    return dict(config)
        raise RunError("other processes of the study chose the same configuration again and again.")

    def sample_independent(self, study: Any, trial: Any, param_name: str, param_distribution: Any) -> Any:
        """Refuse a hyperparameter that is not in the space, or has another distribution there."""
        known = ", ".join(self._space.names)
        raise InputError(
            f"the objective suggests {param_name!r}, which is not in the space ({known}), is inactive in "
            "this configuration, or has another distribution than `space.to_optuna()` gives."
        )

    def after_trial(self, study: Any, trial: Any, state: Any, values: Any) -> None:
        """Stop the study when every configuration has been tried or is being tried."""
        with self._lock:
            if self._optimizer is not None:
                self._read(study, self._optimizer)
                if self._optimizer.exhausted:
                    with contextlib.suppress(RuntimeError):  # the study is driven by ask and tell
                        study.stop()

    def reseed_rng(self) -> None:
        """Does nothing: the sampler's seed is the same in all threads."""

    def _read(self, study: Any, optimizer: _SharedOptimizer, but: int | None = None) -> None:
        """Pass newly ended trials, and all running trials except `but`, to the optimizer."""
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
                _tell(optimizer, trial, losses)
        optimizer.share(running)

    def _is_alone(
        self, study: Any, optimizer: _SharedOptimizer, mine: Any, config: Mapping[str, Value]
    ) -> bool:
        """Whether no other trial has the configuration that this trial has just written to the storage.

        Every trial writes its configuration before it reads those of others. If two trials chose the same
        configuration, at least the one that reads last sees the other, and it gives way. If both see each
        other, the later trial gives way, and the earlier one waits a little for that.
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


def _tell(optimizer: Optimizer, trial: Any, losses: list[float] | None) -> None:
    """Tell the losses of a trial. They are ignored if its configuration is outside of the space, or known.

    An objective may end before it suggests every hyperparameter. The sampler's choice then has the others.
    """
    for config in (trial.params, _config(trial)):
        with contextlib.suppress(InputError):
            optimizer.tell(config, losses)
            return


def _config(trial: Any) -> dict[str, Value]:
    """The configuration of a trial: its sampler's choice, overridden by enqueued and suggested values."""
    attributes = trial.system_attrs
    return {**attributes.get(_CLAIM, {}), **attributes.get(_FIXED, {}), **trial.params}


def suggest(trial: Any, space: Space) -> dict[str, Value]:
    """A configuration of the space from an Optuna trial, without inactive hyperparameters."""
    return suggested_by_optuna(trial, space.parents_first, space.to_optuna())


def table_objective(
    table: Table, objectives: Sequence[str | Objective] = (), otherwise: Otherwise = "none"
) -> Callable[[Any], float | tuple[float, ...]]:
    """A table as an Optuna objective, which suggests a configuration and returns metrics in raw units.

    Without `objectives`, it returns the table's first objective. The caller chooses the study's directions.
    If a configuration of the grid has no row, or lacks a metric, the trial fails (NaN), and its user
    attribute "missing" has the reason. With `otherwise="nearest"` the trial gets the metrics of the nearest
    row instead, and with "error" the study ends.
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
