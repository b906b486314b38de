"""A suite on one table: the objectives, the losses, and the goal of each score."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from types import MappingProxyType

import numpy as np

from hpobench_nmt.benchmarking.task.clock import Clock, clocked_rows, own_objectives, rows_with_curve
from hpobench_nmt.benchmarking.task.feasibility import feasible_trainings, table_violations, why_infeasible
from hpobench_nmt.benchmarking.task.goals import TARGET, check_goals, goals_of, target_goal, tolerance_of
from hpobench_nmt.benchmarking.task.noise import borrowed_note, noisy, rows_trained_again
from hpobench_nmt.benchmarking.task.priors import suite_prior
from hpobench_nmt.benchmarking.task.suite import INSTALLED, Suite
from hpobench_nmt.benchmarking.task.transfer import only_rows, shared_rows, transfer_table, transfer_tables
from hpobench_nmt.core.arrays import Bools, Floats, Rows
from hpobench_nmt.core.constraints import Constraint, is_feasible
from hpobench_nmt.core.objectives import Objective
from hpobench_nmt.core.problem import Problem, Source
from hpobench_nmt.core.replicates import ReplicateLosses
from hpobench_nmt.core.seeds import initial_rows, sampled_rows
from hpobench_nmt.core.system.errors import InputError, Notify
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trajectory import Goal, Trajectory
from hpobench_nmt.evaluation.scores import make_goal
from hpobench_nmt.lookup.catalogue import installed, load_table, members
from hpobench_nmt.lookup.collections import COLLECTIONS
from hpobench_nmt.lookup.table import Table

FEWEST_SAMPLED = 40
"""A trial sees at least this many rows, or all of a smaller table."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Instance:
    """A suite on one table.

    Attributes:
        table: the table; in suites with curves, only its rows that have one.
        objectives: the metrics to optimise, with their directions.
        clock: the unit of time, and the trainings of all rows with their losses and costs.
        problem: what methods see.
        goals: a goal for each score, in the suite's order.
        violations: by how much each row misses each constraint, shape (N, c), NaN if the metric is missing;
            None without constraints.
        all_rows: the installed table, if `table` lacks some of its rows or has metrics of its curves.
        numbers: the row number in the installed table of each row; None if they are the same. A trajectory's
            `rows` are these numbers, and its `candidates` are rows of `table`.
        replicates: the trainings of each row, if look-ups draw one of them; `trainings` has their means.
        tolerance: the tolerance of ftc, in the first objective's unit.
        suite: the suite.
        rows: in a sample, the rows of the whole instance that a trial sees, in its order, shape (n,); None
            in the whole instance.
    """

    table: Table
    objectives: tuple[Objective, ...]
    clock: Clock
    problem: Problem
    goals: tuple[Goal, ...]
    violations: Floats | None
    all_rows: Table | None
    numbers: Rows | None
    replicates: ReplicateLosses | None
    tolerance: float
    suite: Suite
    rows: Rows | None = None

    def of_trial(self, seed: int, trial: int) -> Instance:
        """What a trial sees: a sample of the rows if the suite draws one, else this instance.

        The best row, the goals and the budget are those of the sample. A sample without a row that has all
        losses and keeps the constraints is drawn again. O(P) for P checkpoints; the last samples are kept.
        """
        return self if self.suite.sample is None else _sample_of(self, seed, trial)

    def own(self, trial: Trajectory) -> Trajectory:
        """A trial of results, whose candidates are rows of the whole instance, in the sample's numbers.

        Raises InputError if it looked up a row that is not in the sample.
        """
        if self.rows is None:
            return trial
        order = np.argsort(self.rows)
        places = order[np.searchsorted(self.rows, trial.candidates, sorter=order).clip(max=len(order) - 1)]
        wrong = np.flatnonzero(self.rows[places] != trial.candidates)
        if len(wrong):
            row = trial.rows[wrong[0]]
            raise InputError(
                f"table {self.table.name!r}: a trial looked up row {row}, which is not in its sample."
            )
        return replace(trial, problem_rows=places)

    @cached_property
    def target(self) -> Goal:
        """The target of "times fewer": a row among the best 2%, or a row of the front.

        Trials of a frozen suite without samples, as in version 1.1, ended when ftc was met. So in these the
        target is a row within the tolerance of ftc.
        """
        if self.suite.on_whole_tables and len(self.objectives) == 1:
            return replace(make_goal("ftc", self.scored_trainings, tolerance=self.tolerance), name=TARGET)
        return target_goal(self.scored_trainings)

    def initial(self, seed: int, trial: int) -> list[int]:
        """The initial design of a trial, as rows of what it sees."""
        return initial_rows(seed, self.table.name, trial, len(self.table), self.problem.n_initial)

    @property
    def stopping_goals(self) -> tuple[Goal, ...]:
        """The goals that end a trial once all of them are settled; empty if trials do not end early."""
        if self.suite.stop != "settled" or self.suite.again:
            return ()
        goals = self.goals
        if self.replicates is not None:
            # With noise, the row that a trial would choose (fbr) can change after the best mean was looked
            # up. So a gap (fb) is settled only when it is measured.
            goals = tuple(
                goal if goal.gaps is None else replace(goal, needed=len(goal.targets) + 1) for goal in goals
            )
        # The trials of version 1.1, which the archive has, ended without regard to the target.
        return (*goals, self.target) if self.has_target and not self.suite.on_whole_tables else goals

    @property
    def has_target(self) -> bool:
        """Whether "times fewer" is defined: with several objectives, it is so on a clock of look-ups."""
        return len(self.objectives) == 1 or self.problem.clock == "lookups"

    @property
    def trainings(self) -> Trainings:
        """The cost of training each row to each checkpoint, and the losses there, NaN if missing."""
        return self.clock.trainings

    @property
    def time_unit(self) -> str:
        """The unit of time, in the plural."""
        return self.clock.unit

    @property
    def losses(self) -> Floats:
        """The losses of each row's best checkpoint, minimised, shape (N, m), read-only; NaN if missing."""
        return self.trainings.final

    @property
    def scored(self) -> Floats:
        """The losses of feasible rows, NaN elsewhere, shape (N, m), for scores and figures."""
        return self.scored_trainings.final

    @cached_property
    def scored_trainings(self) -> Trainings:
        """The trainings, with NaN losses at all checkpoints of rows that miss a constraint."""
        return feasible_trainings(self.trainings, self.violations)

    @property
    def n_feasible(self) -> int:
        """Number of rows that satisfy all constraints, whether or not they have all losses."""
        return len(self.table) if self.violations is None else int(is_feasible(self.violations).sum())

    @property
    def installed(self) -> Table:
        """The table as it is installed."""
        return self.all_rows or self.table

    @property
    def curves_sha256(self) -> str:
        """Hash of the learning curves; empty if nothing depends on them."""
        known = self.installed.curves
        return known.sha256 if known and self.clock.along_curves else ""

    @property
    def left_out(self) -> str:
        """The rows that are left out, in words; empty if none are."""
        if self.all_rows is None or len(self.all_rows) == len(self.table):
            return ""
        count = len(self.all_rows) - len(self.table)
        why = "no learning curve" if self.clock.along_curves else "their configurations are not in its source"
        why = "trained only once" if self.suite.noise else why
        return f"{count} of the {len(self.all_rows)} rows of table {self.table.name!r}: {why}"

    def __repr__(self) -> str:
        objectives, scores = (", ".join(map(str, x)) for x in (self.objectives, [g.name for g in self.goals]))
        rules = "".join(f", {text}" for text in self.problem.constraints)
        return (
            f"Instance({self.table.name}: {counted(len(self.table), 'row')}, {objectives}{rules}; {scores})"
        )


def make_instance(suite: Suite, table: Table) -> Instance:
    """The suite on the table, which has the curves and replicates that the suite needs.

    Raises:
        InputError: the table is too small, lacks an objective, or gives nothing to optimise.
    """
    rows, numbers, source = clocked_rows(suite, table), None, None
    if rows is not table:
        numbers = rows_with_curve(table)
    elif table.name in suite.source_of:
        rows, numbers, source = _shared(suite, table)
    if suite.noise and len(again := rows_trained_again(rows)) < len(rows) and not suite.again:
        rows, numbers = rows.of_rows(again), again if numbers is None else numbers[again]
    objectives = _objectives(suite, rows)
    # If look-ups draw one of a row's trainings, their mean is scored.
    replicates, measured = _noisy(suite, rows, objectives) if suite.noise else (None, rows)
    clock = Clock.of(suite, measured, objectives)
    violations = table_violations(measured, suite.constraints)
    scored = feasible_trainings(clock.trainings, violations)
    _check_rows(suite, rows)
    _check_losses(rows, objectives, clock.trainings.models)
    if np.isnan(scored.final).any(axis=1).all():
        raise InputError(f"table {rows.name!r}: {why_infeasible(measured, suite.constraints)}")
    if violations is not None:
        violations.setflags(write=False)  # results share them
    known = scored.final
    if suite.prior == "source":
        known = np.full_like(scored.final, np.nan) if source is None else source.losses(objectives)
    tolerance = tolerance_of(suite, rows, objectives, clock.trainings.final)
    goals = goals_of(suite, rows.name, clock, scored, tolerance)
    check_goals(suite, rows.name, goals, clock, tolerance)
    return Instance(
        table=rows,
        objectives=objectives,
        clock=clock,
        problem=_problem(suite, rows, clock, len(objectives), suite_prior(suite.prior, rows, known)),
        goals=goals,
        violations=violations,
        all_rows=None if rows is table else table,
        numbers=numbers,
        replicates=replicates,
        tolerance=tolerance,
        suite=suite,
    )


@lru_cache(maxsize=128)  # scores of all methods use the same samples
def _sample_of(instance: Instance, seed: int, trial: int) -> Instance:
    """The rows that a trial sees, as an instance."""
    suite, name, n_rows = instance.suite, instance.table.name, len(instance.table)
    known: Bools = np.asarray(~np.isnan(instance.scored).any(axis=1))
    size = sample_size(suite.sample or 1.0, n_rows)
    draws = (sampled_rows(seed, name, trial, n_rows, size, attempt) for attempt in itertools.count())
    rows = next(drawn for drawn in draws if known[drawn].any())
    clock = instance.clock.sampled(suite, instance.trainings.of_rows(rows))
    violations = None if instance.violations is None else instance.violations[rows]
    scored = feasible_trainings(clock.trainings, violations)
    return replace(
        instance,
        table=instance.table.of_rows(rows),
        clock=clock,
        problem=instance.problem.of_rows(rows, clock.resources, clock.lookups, clock.time),
        goals=goals_of(suite, name, clock, scored, instance.tolerance),
        violations=violations,
        all_rows=instance.installed,
        numbers=rows if instance.numbers is None else instance.numbers[rows],
        replicates=instance.replicates and instance.replicates.of_rows(rows),
        rows=rows,
    )


def sample_size(share: float, n_rows: int) -> int:
    """The number of rows that a trial sees: the share, rounded down, but at least 40 if there are as many."""
    return max(math.floor(Fraction(str(share)) * n_rows), min(FEWEST_SAMPLED, n_rows))


def _shared(suite: Suite, table: Table) -> tuple[Table, Rows | None, Table]:
    """The rows of a table that its source has, their numbers (None if all), and the source's same rows."""
    source = load_table(suite.source_of[table.name])
    ours, theirs = shared_rows(table, source)
    if len(ours) == len(table):
        return table, None, only_rows(source, theirs)
    return only_rows(table, ours), ours, only_rows(source, theirs)


def _objectives(suite: Suite, table: Table) -> tuple[Objective, ...]:
    where = f"table {table.name!r}"
    specs = suite.objectives or own_objectives(suite, table)
    if len(specs) < suite.n_objectives:
        raise InputError(
            f"{where} names {counted(len(specs), 'objective') if specs else 'no objective'} of its own, but "
            f"{', '.join(suite.scores)} need{'s' * (len(suite.scores) == 1)} {suite.n_objectives}. Choose "
            f"from its metrics with --objectives: {', '.join(metric.name for metric in table.metrics)}."
        )
    objectives = tuple(table.objective(spec) for spec in specs)
    if len({objective.metric for objective in objectives}) < len(objectives):
        raise InputError(f"{where}: the same objective twice.")
    return objectives


def _noisy(suite: Suite, table: Table, objectives: Sequence[Objective]) -> tuple[ReplicateLosses, Table]:
    """The trainings from which look-ups draw, and the table of their means."""
    others = [Constraint.parse(text).metric for text in suite.constraints]
    others += [suite.cost] if suite.cost else []
    for name in others:
        table.metric(name)
    return noisy(table, objectives, others, suite.clock == "cost" and not suite.cost)


def _check_rows(suite: Suite, table: Table) -> None:
    """Refuse a table that is too small for the initial design or the workers."""
    for needed, what in ((suite.n_initial, "initial ones"), (suite.workers, "workers")):
        if len(table) < needed:
            raise InputError(
                f"table {table.name!r} has {counted(len(table), 'row')}, fewer than the {needed} {what}."
            )


def _check_losses(table: Table, objectives: Sequence[Objective], losses: Floats) -> None:
    """Refuse objectives that give nothing to optimise; the losses are of shape (N, m)."""
    where = f"table {table.name!r}"
    for objective, loss in zip(objectives, losses.T, strict=True):
        known = loss[~np.isnan(loss)]
        if len(known) == 0:
            raise InputError(f"{where}: objective {objective.metric!r} is missing in every row.")
        if (known == known[0]).all():
            fact = f"objective {objective.metric!r} is {objective.to_raw(known[0]):g} in"
            if len(known) == len(loss):
                raise InputError(f"{where}: {fact} every row.")
            raise InputError(f"{where}: {fact} each row that has it, {len(known)} of {len(loss)}.")
    if np.isnan(losses).any(axis=1).all():
        raise InputError(f"{where}: no row has all of {', '.join(o.metric for o in objectives)}.")


def _problem(suite: Suite, table: Table, clock: Clock, n_objectives: int, prior: Floats | None) -> Problem:
    return Problem(
        table.features,
        n_objectives,
        clock.lookups,
        suite.n_initial,
        table.space,
        table.configs,
        workers=suite.workers,
        resources=clock.resources,
        resume=suite.resume,
        clock=suite.clock,
        time=clock.time,
        constraints=suite.constraints,
        prior=prior,
        again=suite.again,
    )


def with_transfer_tables(suite: Suite, instance: Instance) -> Instance:
    """The instance with the tables that its methods may learn from. Results can be read without them."""
    name = instance.table.name
    if name in suite.source_of:
        _, _, source = _shared(suite, instance.installed)
        sources: tuple[Source, ...] = (transfer_table(source, instance.table, instance.objectives),)
    elif suite.sources:
        sources = transfer_tables(suite.sources, instance.installed, instance.objectives)
    else:
        return instance
    return replace(instance, problem=replace(instance.problem, sources=sources))


def suite_instances(
    suite: Suite, note: Notify = lambda text: None, loaded: Mapping[str, Table] = MappingProxyType({})
) -> dict[str, Instance]:
    """The suite on each of its tables, by name; a collection stands for its members.

    "installed" leaves out tables that cannot be used or that name too few objectives of their own; `note`
    is called with what is left out and why, and with what rows borrow. Tables in `loaded` are used as they
    are, by name.
    """
    instances: dict[str, Instance] = {}

    def add(table: Table) -> None:
        instance = instances[table.name] = with_transfer_tables(suite, make_instance(suite, table))
        if instance.left_out:
            note(f"Left out: {instance.left_out}.")
        if instance.replicates is not None and instance.replicates.borrowed:
            note(f"table {table.name!r}: {borrowed_note(instance.replicates.borrowed, len(instance.table))}.")

    if suite.tables != (INSTALLED,):
        for name in (m for spec in suite.tables for m in ([spec] if spec in loaded else members(spec))):
            table = loaded[name] if name in loaded else load_table(name)
            if table.name.casefold() in {known.casefold() for known in instances}:
                raise InputError(f"table {table.name!r} is asked for twice.")
            add(table)
        return instances
    reasons = []
    for name in installed():
        try:
            add(load_table(name))
        except InputError as error:
            reasons.append(str(error))
            note(f"Left out: {reasons[-1]}")
    if not instances:
        published = f"'hpobench-nmt tables fetch NAME' downloads published tables: {', '.join(COLLECTIONS)}."
        raise InputError(f"no installed table can be used. {reasons[0] if reasons else published}")
    return instances
