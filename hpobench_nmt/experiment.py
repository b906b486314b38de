"""Run methods on tables: what a suite means for each table, and the trials in worker processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.catalog import installed, load_table, members
from hpobench_nmt.errors import InputError
from hpobench_nmt.evaluation.scores import MULTI, Question, Summary, question, summarise
from hpobench_nmt.execution import Backend, Block, run_blocks
from hpobench_nmt.plugins import NamedMethod, resolve_methods
from hpobench_nmt.problem import MethodFactory, Problem
from hpobench_nmt.suite import INSTALLED, Suite
from hpobench_nmt.table import Objective, Table
from hpobench_nmt.trajectory import Trajectory

if TYPE_CHECKING:
    import pandas as pd

_BLOCK = 25


@dataclass(frozen=True, eq=False)
class Instance:
    """A suite on one table.

    Attributes:
        table: the table.
        objectives: what is optimised.
        losses: shape (N, m), minimised, NaN where missing.
        problem: what methods see.
        questions: one a score, in the suite's order.
        stop_when_settled: whether trials end once all questions are answered.
    """

    table: Table
    objectives: tuple[Objective, ...]
    losses: NDArray[np.float64]
    problem: Problem
    questions: tuple[Question, ...]
    stop_when_settled: bool


@dataclass(frozen=True, eq=False)
class Results:
    """Trajectories of a benchmark, and what was asked of them.

    Attributes:
        suite: its settings.
        seed: root seed.
        instances: by table name.
        methods: in order.
        trials: trajectories by (table, method), in the order of the trials.
    """

    suite: Suite
    seed: int
    instances: Mapping[str, Instance]
    methods: tuple[str, ...]
    trials: Mapping[tuple[str, str], Sequence[Trajectory]]

    def summary(self, table: str, method: str) -> list[Summary]:
        """Each score of a method on a table, in the suite's order."""
        asked = self.instances[table].questions
        return [summarise(q, self.trials[table, method], self.suite.n_initial) for q in asked]

    def scores(self) -> pd.DataFrame:
        """A row a table, method and score: mean, std, trials, unanswered, failed, at_least."""
        import pandas as pd

        rows = [
            {"table": table, "method": method, "score": score, **vars(summary)}
            for table, method in self.trials
            for score, summary in zip(self.suite.scores, self.summary(table, method), strict=True)
        ]
        return pd.DataFrame(rows)

    def failures(self) -> list[tuple[str, str, int, str]]:
        """(table, method, trial, reason) of every failed trial."""
        return [
            (table, method, trial, trajectory.failure)
            for (table, method), trajectories in self.trials.items()
            for trial, trajectory in enumerate(trajectories)
            if trajectory.failure
        ]


def make_instance(suite: Suite, table: Table) -> Instance:
    """What the suite means for the table.

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
    questions = tuple(_question(suite, score, table, objectives, losses) for score in suite.scores)
    n_rows = len(table)
    budget = n_rows if suite.lookups is None else min(suite.lookups, n_rows)
    problem = Problem(table.features, len(objectives), budget, suite.n_initial)
    return Instance(table, objectives, losses, problem, questions, suite.stop == "settled")


def suite_instances(
    suite: Suite, skipped: Callable[[str], None] = lambda reason: None
) -> dict[str, Instance]:
    """What the suite means for each of its tables, by name.

    "installed" leaves out tables that cannot be used or name too few objectives of their own, for a reason
    that `skipped` is told. A collection stands for its members.
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
        advice = reasons[0] if reasons else "'hpobench-nmt tables fetch nmthpo' gets six."
        raise InputError(f"no installed table can be used. {advice}")
    return instances


def run_suite(
    suite: Suite,
    instances: Mapping[str, Instance],
    methods: Sequence[NamedMethod],
    *,
    seed: int = 0,
    jobs: int = 1,
    backend: Backend = "loky",
    finished: Mapping[tuple[str, str, int], Sequence[Trajectory]] | None = None,
    on_block: Callable[[Block, Sequence[Trajectory], float], None] = lambda block, trials, seconds: None,
) -> Results:
    """Run every method on every table.

    Args:
        suite: settings.
        instances: by table name, from make_instance.
        methods: from resolve_methods.
        seed: root seed; the same seed gives the same bytes for any jobs and backend.
        jobs: worker processes.
        backend: joblib's.
        finished: trajectories of blocks that need not run again, by (table, method, first trial).
        on_block: called as each block of trials ends, in any order, with its trajectories and seconds.
    """
    finished = finished or {}
    check_methods(suite, methods)
    blocks = plan(suite, instances, methods, seed)
    todo = [block for block in blocks if block.key not in finished]
    done: dict[tuple[str, str, int], Sequence[Trajectory]] = dict(finished)
    for block, trials, seconds in run_blocks(todo, jobs, backend):
        done[block.key] = trials
        on_block(block, trials, seconds)
    collected: dict[tuple[str, str], list[Trajectory]] = {(t, m.name): [] for t in instances for m in methods}
    for block in blocks:
        collected[block.table, block.method.name].extend(done[block.key])
    return Results(suite, seed, dict(instances), tuple(m.name for m in methods), collected)


def plan(
    suite: Suite, instances: Mapping[str, Instance], methods: Iterable[NamedMethod], seed: int
) -> list[Block]:
    """All blocks of trials, in order of table, method and trial."""
    methods = list(methods)
    return [
        Block(
            table=name,
            table_sha256=instance.table.sha256,
            problem=instance.problem,
            losses=instance.losses,
            goals=tuple(q.goal for q in instance.questions) if instance.stop_when_settled else (),
            method=method,
            seed=seed,
            first=first,
            stop=min(first + _BLOCK, suite.trials),
        )
        for name, instance in instances.items()
        for method in methods
        for first in range(0, suite.trials, _BLOCK)
    ]


def check_methods(suite: Suite, methods: Iterable[NamedMethod]) -> None:
    """Refuse methods that are known not to optimise the suite's number of objectives."""
    for method in methods:
        if method.objectives and suite.n_objectives not in method.objectives:
            raise InputError(
                f"method {method.name!r} is for {method.objectives[0]} objective(s); "
                f"{', '.join(suite.scores)} need {suite.n_objectives}. See 'hpobench-nmt methods'."
            )


def benchmark(
    tables: Table | str | Path | Sequence[Table | str | Path],
    methods: Sequence[str | MethodFactory],
    *,
    scores: Sequence[str] = (),
    objectives: Sequence[str] = (),
    trials: int = 100,
    seed: int = 0,
    budget: int = 20,
    tolerance: float | None = None,
    jobs: int = 1,
    **settings: Any,
) -> Results:
    """Run methods on tables and keep the results in memory: the whole benchmark as one call.

    Args:
        tables: tables, names or folders; one or several.
        methods: names, "file.py:Class", or classes.
        scores: some of ftb, ftc, fb (the default) or of fto, fta, fbp (the default for two objectives).
        objectives: "metric" or "metric:min|max"; each table's own where left out.
        trials: seeded trials a method and table.
        seed: root seed.
        budget: look-ups after which fb and fbp are taken; it ends no trial.
        tolerance: of ftc, in the metric's unit; left out: Table.tolerance.
        jobs: worker processes; 1 runs in this one, but for methods given as a file or module, which have
            processes of their own. A class given as an object has none: if it ends its process, it ends this.
        settings: further fields of Suite, such as lookups (the most that a trial may make: a method sees it
            as problem.budget) and stop.
    """
    several = [tables] if isinstance(tables, Table | str | Path) else list(tables)
    loaded = [t if isinstance(t, Table) else load_table(t) for t in several]
    default_scores = MULTI if len(objectives) > 1 else ("ftb", "ftc", "fb")
    suite = Suite(
        name="benchmark",
        scores=tuple(scores) or default_scores,
        objectives=tuple(objectives),
        trials=trials,
        budget={"default": budget} if {"fb", "fbp"} & set(tuple(scores) or default_scores) else {},
        tolerance={} if tolerance is None else {"default": tolerance},
        **settings,
    )
    suite = replace(suite, tables=tuple(t.name for t in loaded))
    instances = {t.name: make_instance(suite, t) for t in loaded}
    return run_suite(suite, instances, resolve_methods(methods), seed=seed, jobs=jobs)


def _question(
    suite: Suite, score: str, table: Table, objectives: Sequence[Objective], losses: NDArray[np.float64]
) -> Question:
    where = f"suite {suite.name!r}, table {table.name!r}"
    tolerance = suite.tolerance_for(table.name)
    if tolerance is None:
        tolerance = table.tolerance(objectives[0])
    budget = suite.budget_for(table.name) if score in ("fb", "fbp") else None
    if score in ("fb", "fbp") and budget is None:
        raise InputError(f"{where}: score {score!r} needs a budget.")
    if budget is not None and suite.lookups is not None and budget > suite.lookups:
        raise InputError(
            f"{where}: {score} asks for {budget} look-ups, but a trial may make only {suite.lookups}."
        )
    asked = question(score, losses, tolerance=tolerance, budget=budget, ties=suite.ties)
    if score == "ftc" and asked.targets[~np.isnan(losses[:, 0])].all():
        raise InputError(
            f"{where}: every row is within the tolerance of {tolerance:g}. "
            "Set a smaller one, in the suite's [tolerance] or for the metric in the datasheet."
        )
    return asked
