"""Optuna: our methods as samplers of a study, and tables as objectives. Needs the extra `optuna`.

import optuna
from hpobench_nmt.adapters.optuna import MethodSampler, table_objective

study = optuna.create_study(sampler=MethodSampler(), direction="minimize")  # the objective has the space
study.optimize(objective, n_trials=30)

study = optuna.create_study(sampler=MethodSampler(table.space, "BO_EI_M_std"), direction="maximize")
study.optimize(table_objective(table, ["dev_bleu"]), n_trials=30)
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hpobench_nmt.core.objectives import Objectives
from hpobench_nmt.core.problem import MethodFactory
from hpobench_nmt.core.seeds import generator
from hpobench_nmt.core.space import Space, Value
from hpobench_nmt.core.space_exchange import library, prior_of_configspace, suggested_by_optuna
from hpobench_nmt.core.system.errors import InputError, RunError
from hpobench_nmt.exports.optimizer import N_INITIAL, Optimizer
from hpobench_nmt.exports.optimizer_parts import checked_prior
from hpobench_nmt.lookup.table import Otherwise, Table
from hpobench_nmt.lookup.table_function import row_finder

optuna: Any = library("optuna", "optuna")


# System attributes of a trial: the configuration that its sampler chose, and the one that Optuna enqueued.
_CLAIM, _FIXED = "hpobench_nmt:config", "fixed_params"
# The system attribute in which Optuna keeps the values of a `constraints_func`.
_CONSTRAINTS = "constraints"
# How long a trial waits for a later trial with the same configuration to choose another, in seconds.
_WAITS = (0.0, 0.02, 0.05, 0.1, 0.2)
_MOST_CHOICES = 100


class _SharedOptimizer(Optimizer):
    """The optimizer of one process. Other processes may search in the same study with their own methods.

    All have the same initial design. A method's generator also depends on the number of the first trial that
    its process started, unless that is 0.
    """

    def __init__(self, first_trial: int, *arguments: Any, **options: Any) -> None:
        self.first_trial = first_trial
        super().__init__(*arguments, **options)

    def _generator(self) -> np.random.Generator:
        if not self.first_trial:
            return super()._generator()
        return generator(self._seed, "method", "optimizer", self._method.name, self.first_trial)

    def share(self, running: Iterable[Mapping[str, Value]]) -> None:
        """Replace the pending configurations by these. Configurations outside of the space are left out."""
        rows: dict[int, None] = {}
        for config in running:
            with contextlib.suppress(InputError):
                rows[self._candidates.row(self.own_part(config))] = None
        self._known.pending[:] = [row for row in rows if row not in self._known.losses]

    def is_same(self, config: Mapping[str, Value], other: Mapping[str, Value]) -> bool:
        """Whether two configurations are the same configuration of the space."""
        with contextlib.suppress(InputError):
            rows = [self._candidates.row(self.own_part(each)) for each in (config, other)]
            return rows[0] == rows[1]
        return False

    def own_part(self, config: Mapping[str, Value]) -> dict[str, Value]:
        """The values of hyperparameters of the space."""
        return {name: config[name] for name in self.space.names if name in config}


class MethodSampler(optuna.samplers.BaseSampler):  # type: ignore[misc]  # Optuna may be absent
    """One of our methods as a sampler of a study.

    Without a space, the method searches the hyperparameters that all completed trials of the study have
    suggested with the same distributions, as Optuna's GPSampler does. Other hyperparameters are drawn at
    random: those of the first trial, those that only some trials suggest, and all of them when every
    configuration has been tried.

    With a space, the study's objective must suggest every active hyperparameter of the space (`suggest` does
    that), with distributions that contain the values of the space. The method chooses among these values,
    and the study ends when all configurations have been tried.

    The method receives all trials of the study that have ended, wherever they ran. Completed trials have
    their values, negated if they are maximised. Trials that failed, were pruned, or have an infinite value
    are failures. The best trial must satisfy the constraints (`trial.set_constraint`). Running trials are
    pending, whoever runs them. `n_jobs` may therefore be more than 1, and several processes may share a study
    by its storage, each with a sampler of its own and all with the same seed. The method tries no
    configuration twice. Trials are the same in every run only with one job in one process.

    A process that was killed leaves its trial running. Its configuration is not tried again, unless the
    storage has a heartbeat (`optuna.storages.RDBStorage`).

    Args:
        space: the search space of the study, as for `hb.Optimizer`; normal and beta distributions of a
            ConfigSpace are a prior. By default, that of its trials.
        method: as for `hb.Optimizer`. By default, BO_auto.
        seed, n_initial: as for `hb.Optimizer`. Without a space, completed trials count towards n_initial.
        prior: as for `hb.Optimizer`. Without a space, names that the study does not have are ignored.
        constraints_func: from a completed or pruned trial to numbers, which are above 0 where it misses a
            constraint, as for Optuna's samplers.
    """

    def __init__(
        self,
        space: Space | Mapping[str, object] | None = None,
        method: str | MethodFactory | None = None,
        *,
        seed: int = 0,
        n_initial: int = N_INITIAL,
        prior: Mapping[str, Value] | None = None,
        constraints_func: Callable[[Any], Sequence[float]] | None = None,
    ) -> None:
        self._space = space if isinstance(space, Space | None) else Space.of(space)
        self._prior = dict(prior or {})
        if self._space is not None:
            of_space = checked_prior(self._space, prior_of_configspace(space))
            self._prior = of_space | checked_prior(self._space, prior)
        self._method, self._seed, self._n_initial = method, seed, n_initial
        self._constraints_func = constraints_func
        self._optimizer: _SharedOptimizer | None = None
        self._made_for: object = None
        self._rules: list[str] = []
        self._seen: set[int] = set()
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        """All attributes except the lock, which cannot be pickled."""
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
        """The space's distributions, or those of the study's trials."""
        if self._space is not None:
            return dict(self._space.to_optuna())
        found = optuna.search_space.intersection_search_space(study.get_trials(deepcopy=False))
        return {name: distribution for name, distribution in found.items() if not distribution.single()}

    def sample_relative(self, study: Any, trial: Any, search_space: Mapping[str, Any]) -> dict[str, Any]:
        """Choose the next configuration, and write it to the storage at once, so that other processes see it.

        It returns nothing. Optuna then asks `sample_independent` for each value, with the distribution that
        the objective has, which may be another than that of the space.
        """
        with self._lock:
            self._make(study, trial, search_space)
            if self._optimizer is None:
                return {}
            for _ in range(_MOST_CHOICES):
                self._read(study, self._optimizer, but=trial.number)
                if self._optimizer.exhausted:
                    if self._space is None:
                        return {}
                    # `ask` is going to raise, and the trial must not stay running
                    study._storage.set_trial_state_values(trial._trial_id, optuna.trial.TrialState.FAIL)
                config = self._optimizer.ask()
                study._storage.set_trial_system_attr(trial._trial_id, _CLAIM, config)
                if trial.system_attrs.get(_FIXED) or self._is_alone(study, self._optimizer, trial, config):
                    return {}
        raise RunError("other processes of the study chose the same configuration again and again.")

    def _make(self, study: Any, trial: Any, search_space: Mapping[str, Any]) -> None:
        """Make the optimizer of this study, of the space of these names, and of the constraints so far."""
        if not search_space:
            self._optimizer = None
            return
        trials = study.get_trials(deepcopy=False)
        rules = sorted({name for each in trials for name in each.constraints})
        made_for = (study.study_name, search_space, rules)
        if self._optimizer is not None and made_for == self._made_for:
            return
        space, n_initial = self._space, self._n_initial
        if space is None:
            space = Space.from_optuna(search_space)
            n_initial = max(0, n_initial - sum(each.state.is_finished() for each in trials))
        elif len(search_space) < len(space):  # a PartialFixedSampler fixes the others
            space = _part(space, search_space)
        first = trial.number if self._optimizer is None else self._optimizer.first_trial
        self._optimizer = _SharedOptimizer(
            first,
            space,
            self._method,
            objectives=len(study.directions),
            seed=self._seed,
            n_initial=n_initial,
            constraints=[f"{_rule(k)}<=0" for k in range(len(rules))],
            prior={name: value for name, value in self._prior.items() if name in space.names},
        )
        self._made_for, self._rules, self._seen = made_for, rules, set()

    def sample_independent(self, study: Any, trial: Any, param_name: str, param_distribution: Any) -> Any:
        """The value of the chosen configuration, or without a space a random one if there is none.

        Raises InputError if the space has no such hyperparameter, or its value is not in the distribution.
        """
        chosen = trial.system_attrs.get(_CLAIM, {})
        if param_name in chosen and _contains(param_distribution, chosen[param_name]):
            return chosen[param_name]
        if self._space is None:
            seed = int(generator(self._seed, "independent", str(trial.number), param_name).integers(2**32))
            sampler = optuna.samplers.RandomSampler(seed)
            return sampler.sample_independent(study, trial, param_name, param_distribution)
        if param_name in chosen:
            raise InputError(
                f"the objective suggests {param_name!r} from {param_distribution}, which does not contain "
                f"{chosen[param_name]!r}, a value of the space."
            )
        known = ", ".join(self._space.names)
        raise InputError(
            f"the objective suggests {param_name!r}, which is not in the space ({known}), or is inactive in "
            "this configuration."
        )

    def after_trial(self, study: Any, trial: Any, state: Any, values: Any) -> None:
        """Measure the constraints. Stop the study when all of the space has been tried or is being tried."""
        ended = optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED
        if self._constraints_func is not None and state in ended:
            missed = tuple(map(float, self._constraints_func(trial)))
            study._storage.set_trial_system_attr(trial._trial_id, _CONSTRAINTS, missed)
        with self._lock:
            if self._optimizer is not None and self._space is not None:
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
                # What a trial has not set is satisfied, as in Optuna.
                missed = [trial.constraints.get(name, 0.0) for name in self._rules]
                _tell(optimizer, trial, losses, {_rule(k): value for k, value in enumerate(missed)})
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
            seen = self._seen | {mine.number}
            unseen = (trial for trial in study.get_trials(deepcopy=False) if trial.number not in seen)
            others = [trial for trial in unseen if optimizer.is_same(_config(trial), config)]
            if not others:
                return True
            if any(trial.state.is_finished() or trial.number < mine.number for trial in others):
                return False
        return False


def _tell(
    optimizer: _SharedOptimizer, trial: Any, losses: list[float] | None, missed: Mapping[str, float]
) -> None:
    """Tell the losses of a trial. They are ignored if its configuration is outside of the space, or known.

    An objective may end before it suggests every hyperparameter. The sampler's choice then has the others.
    """
    for config in (trial.params, _config(trial)):
        with contextlib.suppress(InputError):
            optimizer.tell(optimizer.own_part(config), losses, missed)
            return


def _rule(number: int) -> str:
    """The name of a constraint here. Optuna's names may be any text."""
    return f"constraint_{number}"


def _contains(distribution: Any, value: Value) -> bool:
    try:
        return bool(distribution._contains(distribution.to_internal_repr(value)))
    except ValueError:
        return False


def _part(space: Space, names: Iterable[str]) -> Space:
    """The hyperparameters with these names, without conditions on others."""
    kept = []
    for axis in space:
        if axis.name in names:
            active_if = tuple(pair for pair in axis.active_if if pair[0] in names)
            kept.append(replace(axis, active_if=active_if, default=axis.default if active_if else None))
    return Space(tuple(kept))


def _config(trial: Any) -> dict[str, Value]:
    """The configuration of a trial: its sampler's choice, overridden by enqueued and suggested values."""
    attributes = trial.system_attrs
    return {**attributes.get(_CLAIM, {}), **attributes.get(_FIXED, {}), **trial.params}


def suggest(trial: Any, space: Space) -> dict[str, Value]:
    """A configuration of the space from an Optuna trial, without inactive hyperparameters."""
    return suggested_by_optuna(trial, space.parents_first, space.to_optuna())


def table_objective(
    table: Table, objectives: Objectives = (), otherwise: Otherwise = "none"
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
