"""A suite on one table: the objectives, the losses, and the goal of each score."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.benchmarking.suite import INSTALLED, Suite
from hpobench_nmt.core.errors import InputError
from hpobench_nmt.core.objectives import Objective
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.trajectory import Goal
from hpobench_nmt.evaluation.scores import SCORES, make_goal
from hpobench_nmt.lookup.catalogue import installed, load_table, members
from hpobench_nmt.lookup.collections import COLLECTIONS
from hpobench_nmt.lookup.table import Table


@dataclass(frozen=True, eq=False, repr=False)
class Instance:
    """A suite on one table.

    Attributes:
        table: the table.
        objectives: the metrics to optimise, with their directions.
        losses: shape (N, m), minimised, NaN where missing.
        problem: what methods are given.
        goals: one for each score, in the suite's order.
        stop_when_settled: whether trials end once all goals are settled.
    """

    table: Table
    objectives: tuple[Objective, ...]
    losses: NDArray[np.float64]
    problem: Problem
    goals: tuple[Goal, ...]
    stop_when_settled: bool

    def __repr__(self) -> str:
        """The table, its size, the objectives and the scores."""
        objectives, scores = (", ".join(map(str, x)) for x in (self.objectives, [g.name for g in self.goals]))
        return f"Instance({self.table.name}: {len(self.table)} rows, {objectives}; {scores})"


def make_instance(suite: Suite, table: Table) -> Instance:
    """The suite on the table.

    Raises:
        InputError: the table is too small, lacks an objective, or gives nothing to optimise.
    """
    where = f"table {table.name!r}"
    specs = suite.objectives or table.objectives[: suite.n_objectives]
    if len(specs) < suite.n_objectives:
        raise InputError(
            f"{where} names {len(specs)} objective(s) of its own, {', '.join(suite.scores)} need "
            f"{suite.n_objectives}: choose some with --objectives."
        )
    objectives = tuple(table.objective(spec) for spec in specs)
    losses = table.losses(objectives)
    if len(table) < suite.n_initial:
        raise InputError(f"{where} has {len(table)} row(s), fewer than the {suite.n_initial} initial ones.")
    for objective, loss in zip(objectives, losses.T, strict=True):
        known = loss[~np.isnan(loss)]
        if len(known) == 0:
            raise InputError(f"{where}: objective {objective.metric!r} is missing in every row.")
        if (known == known[0]).all():
            value = np.nanmax(table.column(objective.metric))
            raise InputError(f"{where}: objective {objective.metric!r} is {value:g} in every row.")
    if np.isnan(losses).any(axis=1).all():
        raise InputError(f"{where}: no row has all of {', '.join(o.metric for o in objectives)}.")
    goals = tuple(_goal(suite, score, table, objectives, losses) for score in suite.scores)
    n_rows = len(table)
    lookups = n_rows if suite.lookups is None else min(suite.lookups, n_rows)
    problem = Problem(table.features, len(objectives), lookups, suite.n_initial, table.space, table.configs)
    return Instance(table, objectives, losses, problem, goals, suite.stop == "settled")


def suite_instances(
    suite: Suite, skipped: Callable[[str], None] = lambda reason: None
) -> dict[str, Instance]:
    """The suite on each of its tables, by name.

    "installed" leaves out tables that cannot be used or that name too few objectives of their own; `skipped`
    is called with the reason. A collection stands for its members.
    """
    instances: dict[str, Instance] = {}
    if suite.tables != (INSTALLED,):
        for name in (member for spec in suite.tables for member in members(spec)):
            table = load_table(name)
            if table.name.casefold() in {known.casefold() for known in instances}:
                raise InputError(f"table {table.name!r} is asked for twice.")
            instances[table.name] = make_instance(suite, table)
        return instances
    reasons = []
    for name in installed():
        try:
            instances[name] = make_instance(suite, load_table(name))
        except InputError as error:
            reasons.append(str(error))
            skipped(reasons[-1])
    if not instances:
        fetched = " or ".join(f"'hpobench-nmt tables fetch {name}'" for name in COLLECTIONS)
        advice = reasons[0] if reasons else f"Published ones are got by {fetched}."
        raise InputError(f"no installed table can be used. {advice}")
    return instances


def _goal(
    suite: Suite, score: str, table: Table, objectives: Sequence[Objective], losses: NDArray[np.float64]
) -> Goal:
    where = f"suite {suite.name!r}, table {table.name!r}"
    tolerance = suite.tolerance_for(table.name)
    if tolerance is None:
        tolerance = table.tolerance(objectives[0])
    score_at = suite.score_at_for(table.name) if SCORES[score].needs_score_at else None
    if SCORES[score].needs_score_at and score_at is None:
        raise InputError(f"{where}: score {score!r} needs score_at, a number of look-ups.")
    if score_at is not None and suite.lookups is not None and score_at > suite.lookups:
        raise InputError(
            f"{where}: {score} is taken after {score_at} look-ups, but a trial may make only {suite.lookups}."
        )
    goal = make_goal(score, losses, tolerance=tolerance, score_at=score_at, ties=suite.ties)
    if SCORES[score].needs_tolerance and goal.targets[~np.isnan(losses[:, 0])].all():
        raise InputError(
            f"{where}: every row is within the tolerance of {tolerance:g}. "
            "Set a smaller one, in the suite's [tolerance] or for the metric in the datasheet."
        )
    return goal
