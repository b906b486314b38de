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
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hpobench_nmt.core.errors import InputError
from hpobench_nmt.core.objectives import Objective
from hpobench_nmt.core.problem import MethodFactory
from hpobench_nmt.core.space import Space, Value
from hpobench_nmt.core.space_exchange import library, suggested_by_optuna
from hpobench_nmt.exports.optimizer import N_INITIAL, Optimizer
from hpobench_nmt.lookup.table import Table

optuna: Any = library("optuna", "optuna")


class MethodSampler(optuna.samplers.BaseSampler):  # type: ignore[misc]  # Optuna may be absent
    """One of our methods as a sampler of a study over a grid.

    The study's objective must suggest every hyperparameter of the space that is active, with the distribution
    of `space.to_optuna()`; `suggest` does that. Trials of the study that ended are told to the method:
    completed ones with their values (maximised ones negated); failed and pruned ones, and those of infinite
    value, as failures. Running ones are pending, so `n_jobs` may be more than 1; only with one job are the
    trials the same in every run.

    Args:
        space: the grid.
        method: as for `hb.Optimizer`; left out: BO_EI_M_std for one objective, BO_M_std for two.
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
        self._optimizer: Optimizer | None = None
        self._seen: set[int] = set()
        self._asked: dict[int, dict[str, Value]] = {}
        # Asked for, but the trial had other values: some were enqueued.
        self._spare: list[dict[str, Value]] = []
        self._lock = threading.Lock()

    def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
        """The space's distributions."""
        return dict(self._space.to_optuna())

    def sample_relative(self, study: Any, trial: Any, search_space: Mapping[str, Any]) -> dict[str, Any]:
        """The next configuration; hyperparameters that are inactive in it are left out."""
        with self._lock:
            if self._optimizer is None:
                self._optimizer = Optimizer(
                    self._space,
                    self._method,
                    objectives=len(study.directions),
                    seed=self._seed,
                    n_initial=self._n_initial,
                )
            self._tell_ended(study, self._optimizer)
            self._spare = [config for config in self._spare if config in self._optimizer.pending]
            config = self._spare.pop(0) if self._spare else self._optimizer.ask()
            self._asked[trial.number] = config
            return dict(config)

    def sample_independent(self, study: Any, trial: Any, param_name: str, param_distribution: Any) -> Any:
        """Refuse what is not in the space, or has another distribution there."""
        known = ", ".join(self._space.names)
        raise InputError(
            f"the objective suggests {param_name!r}, which is not in the space ({known}), is inactive in "
            "this configuration, or has another distribution than `space.to_optuna()` gives."
        )

    def after_trial(self, study: Any, trial: Any, state: Any, values: Any) -> None:
        """Stop the study once every configuration of the grid was tried."""
        if self._optimizer is not None and trial.number in self._asked:
            left = self._optimizer.n_candidates - len(self._optimizer.told) - len(self._optimizer.pending)
            if left == 0 and not self._spare:
                with contextlib.suppress(RuntimeError):  # the study is driven by ask and tell
                    study.stop()

    def reseed_rng(self) -> None:
        """Nothing: the seed is the sampler's, whatever thread it is in."""

    def _tell_ended(self, study: Any, optimizer: Optimizer) -> None:
        signs = [-1.0 if d == optuna.study.StudyDirection.MAXIMIZE else 1.0 for d in study.directions]
        known = {tuple(sorted(config.items())) for config, _ in optimizer.told}
        for ended in study.get_trials(deepcopy=False):
            if ended.number in self._seen or not ended.state.is_finished():
                continue
            self._seen.add(ended.number)
            config = self._asked.pop(ended.number, ended.params)
            if not ended.params.items() <= config.items():
                self._spare.append(config)
                config = ended.params
            losses = None
            if ended.state == optuna.trial.TrialState.COMPLETE:
                losses = [s * v for s, v in zip(signs, ended.values, strict=True)]
            # Trials of another origin (enqueued ones, say) may repeat a configuration, or be off the grid.
            if tuple(sorted(config.items())) not in known:
                with contextlib.suppress(InputError):
                    optimizer.tell(config, losses)
                    known.add(tuple(sorted(config.items())))


def suggest(trial: Any, space: Space) -> dict[str, Value]:
    """A configuration of the space from an Optuna trial; inactive hyperparameters are left out."""
    return suggested_by_optuna(trial, space.parents_first, space.to_optuna())


def table_objective(
    table: Table, objectives: Sequence[str | Objective] = ()
) -> Callable[[Any], float | tuple[float, ...]]:
    """A table as an Optuna objective: suggests a configuration, and returns metrics in raw units.

    Without `objectives`, it returns the table's first one. The study's directions are the caller's to choose.
    A configuration of the grid that has no row, or lacks a metric, makes a failed trial (NaN), with the
    reason in its user attribute "missing".
    """
    metrics = [table.objective(o).metric for o in objectives] or [table.objective(table.main_metric).metric]

    def objective(trial: Any) -> float | tuple[float, ...]:
        config = suggest(trial, table.space)
        try:
            row = table.lookup(config)
            lacking = " and no ".join(metric for metric in metrics if math.isnan(row[metric]))
            reason = f"table {table.name!r}: this row has no {lacking}." if lacking else ""
        except InputError as error:
            row, reason = dict.fromkeys(metrics, math.nan), str(error)
        if reason:
            trial.set_user_attr("missing", reason)
        values = tuple(row[metric] for metric in metrics)
        return values[0] if len(values) == 1 else values

    return objective
