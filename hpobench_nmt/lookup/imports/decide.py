"""What a table of a sweep will hold, with reasons: a pure function of the sweep and the user's choices."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from hpobench_nmt.core.arrays import Bools, Floats, Ints, Rows
from hpobench_nmt.core.hyperparameter import label
from hpobench_nmt.core.system.errors import InputError, prefixed
from hpobench_nmt.core.system.files import check_column
from hpobench_nmt.core.system.text import counted, free_name, some_of
from hpobench_nmt.lookup.groups import group_ids
from hpobench_nmt.lookup.imports.axes import Axis, Left, axis_of, none_for_holes, with_conditions
from hpobench_nmt.lookup.imports.cells import distinct_of, text_of
from hpobench_nmt.lookup.imports.metrics import numbers_of, with_metrics, with_seed
from hpobench_nmt.lookup.imports.roles import roles_of
from hpobench_nmt.lookup.imports.sweep import About, Choices, Sweep

# The names of other columns in a table's files.
_TAKEN = ("row", "checkpoint", "cost", "replicate", "seed")


class Decision(NamedTuple):
    """A decision on a part of a sweep ("hyperparameter", "metric", "rows", …), with its name and reason."""

    part: str
    name: str
    text: str


@dataclass(frozen=True, eq=False)
class Plan:
    """What a table of a sweep will hold.

    Attributes:
        about: the roles of all columns, with the reasons that were found here.
        rows: the trainings of the sweep that are used, shape (T,).
        axes: hyperparameters by column, with cells of shape (T,).
        values: raw metrics, shape (T, M).
        lost: which trainings failed or were pruned, shape (T,).
        names: the name in the table of each column that it has.
        told: what became of the other rows.
    """

    about: Mapping[str, About]
    rows: Rows
    axes: Mapping[str, Axis]
    values: Floats
    lost: Bools
    names: Mapping[str, str]
    told: tuple[str, ...]

    @property
    def metrics(self) -> list[str]:
        """The columns of the M metrics, the objectives first."""
        return [column for column, about in self.about.items() if about.direction is not None]

    @property
    def seed(self) -> str:
        """The column of the seeds, "" if there is none."""
        return next((column for column, about in self.about.items() if about.role == "seed"), "")

    def of(self, places: Rows) -> Plan:
        """The plan with only these of its trainings."""
        return replace(
            self,
            rows=self.rows[places],
            axes={column: replace(axis, cells=axis.cells[places]) for column, axis in self.axes.items()},
            values=self.values[places],
            lost=self.lost[places],
        )

    @property
    def configurations(self) -> Ints:
        """A number for each training, the same for those of one configuration, shape (T,)."""
        return group_ids([np.unique(a.cells, return_inverse=True)[1] for a in self.axes.values()])


def decide(sweep: Sweep, choices: Choices) -> Plan:
    """What a table of the sweep will hold. O(cells).

    Two trainings of one configuration agree in every column that is neither a seed, a metric, a time nor an
    identifier: a column that was left out, and in which they differ, becomes a guess at a hyperparameter.

    Raises InputError if the sweep cannot become a table, or a choice names a column that does not exist.
    """
    about = roles_of(sweep, choices)
    plan = _plan(sweep, about)
    if differing := _differing(sweep, plan):
        doubt = "trainings that agree otherwise differ in it"
        guesses = {c: replace(about[c], role="hyperparameter", doubt=doubt, why="") for c in differing}
        plan = _plan(sweep, {**about, **guesses})
    if differing := _differing(sweep, plan):
        raise InputError(
            f"{sweep.path}: trainings of the same configuration differ in {some_of(differing)}, which is not "
            "a seed, metric, time or identifier. If they are repetitions, leave it out: --ignore "
            f"{shlex.quote(','.join(differing))}."
        )
    return plan


def _differing(sweep: Sweep, plan: Plan) -> list[str]:
    """The columns left out that may be settings, and in which trainings of one configuration differ."""
    ids = plan.configurations
    left = [column for column, each in plan.about.items() if each.role in ("aside", "hyperparameter")]
    left = [column for column in left if column not in plan.names]
    pairs = {column: group_ids([ids, distinct_of(sweep.columns[column][plan.rows])[1]]) for column in left}
    return [column for column, both in pairs.items() if len(np.unique(both)) > len(np.unique(ids))]


def _plan(sweep: Sweep, about: Mapping[str, About]) -> Plan:
    rows, lost, told = _rows(sweep)
    found = with_seed(sweep, with_metrics(sweep, about, rows), rows)
    metrics = [column for column, each in found.items() if each.direction is not None]
    values = np.column_stack([numbers_of(sweep, column, rows) for column in metrics])
    failed = sweep.states[rows] == "failed" if sweep.states is not None else lost
    axes, kept = _axes(sweep, found, rows, ~failed & ~np.isnan(values).all(axis=1), told)
    for column, axis in axes.items():
        found[column] = replace(found[column], scale=axis.scale, why=axis.why)
    values[lost] = np.nan
    seed = {column: column for column, each in found.items() if each.role == "seed"}
    named = {**_table_names(sweep, [*axes, *metrics]), **seed}
    return _without_retries(sweep, Plan(found, rows, axes, values, lost, named, tuple(told)).of(kept))


def seeds_of(sweep: Sweep, plan: Plan) -> Floats:
    """The seed of each training, NaN where unknown, shape (T,)."""
    return numbers_of(sweep, plan.seed, plan.rows) if plan.seed else np.full(len(plan.rows), np.nan)


def _without_retries(sweep: Sweep, plan: Plan) -> Plan:
    """The plan without trainings that did not finish, if another of their configuration and seed did."""
    seeds = np.unique(np.nan_to_num(seeds_of(sweep, plan), nan=-1.0), return_inverse=True)[1]
    ids = np.unique(group_ids([plan.configurations, seeds]), return_inverse=True)[1]
    kept = np.flatnonzero(~plan.lost | ~(np.bincount(ids, ~plan.lost) > 0)[ids])
    again = counted(len(ids) - len(kept), "training")
    text = f"{again} failed or pruned, and repeated with the same configuration (left out)"
    return replace(plan.of(kept), told=(*plan.told, text)) if len(kept) < len(ids) else plan


def decisions_of(plan: Plan) -> list[Decision]:
    """The decisions of a plan, for display."""
    found = []
    for column, about in plan.about.items():
        name, why = plan.names.get(column, column), about.why
        why = f"a guess: {about.doubt}" + f"; {why}" * bool(why) if about.doubt else why
        if column in plan.axes:
            rules = plan.axes[column].active_if.items()
            active = [f"where {plan.names[p]} is {' or '.join(map(label, values))}" for p, values in rules]
            told = f", active {' and '.join(active)}" if active else ""
            found.append(Decision("hyperparameter", name, why + told))
        elif column in plan.metrics:
            part = "objective" if about.objective else "metric"
            found.append(Decision(part, name, f"{about.direction}, {why}"))
        elif column in plan.names:
            found.append(Decision("seed", name, why))
        else:
            found.append(Decision("left out", column, why))
    return found + [Decision("rows", "", text) for text in plan.told]


def _rows(sweep: Sweep) -> tuple[Rows, Bools, list[str]]:
    """The trainings that are used, which of them failed or were pruned, and messages about them."""
    n_rows = len(sweep)
    states = np.full(n_rows, "finished") if sweep.states is None else sweep.states
    failed, pruned, unfinished = states == "failed", states == "pruned", states == "unfinished"
    curved = np.isin(np.arange(n_rows), sweep.points.rows if sweep.points is not None else [])
    what = {
        "failed (metrics missing)": failed,
        "pruned (metrics missing, learning curves kept)": pruned & curved,
        "pruned, without intermediate values here (left out)": pruned & ~curved,
        "not finished (left out)": unfinished,
    }
    told = [f"{counted(int(mask.sum()), 'training')} {text}" for text, mask in what.items() if mask.any()]
    if not (states == "finished").any():
        raise InputError(f"{sweep.path}: none of its {counted(n_rows, 'training')} is finished.")
    rows = np.flatnonzero(~unfinished & ~(pruned & ~curved))
    return rows, (failed | pruned)[rows], told


def _axes(
    sweep: Sweep, about: dict[str, About], rows: Rows, sound: Bools, told: list[str]
) -> tuple[dict[str, Axis], Rows]:
    """The hyperparameters by column, and the places of those rows that are kept.

    Trainings that are not sound have failed, and may lack any value. In `about`, the reasons of columns that
    are not hyperparameters after all are replaced. Messages about other rows are added to `told`.
    """
    axes: dict[str, Axis] = {}

    def leave(column: str, why: str) -> None:
        about[column] = replace(about[column], why=why, doubt="")
        axes.pop(column, None)

    for column, each in about.items():
        if each.role == "hyperparameter":
            try:
                axes[column] = axis_of(
                    sweep.name(column), sweep.columns[column][rows], each, sweep.typed,
                    lambda row: f"{sweep.path}, {sweep.place(int(rows[row]))}",
                )  # fmt: skip
            except Left as why:
                leave(column, str(why))
    axes = with_conditions(axes, sound)
    kept = np.ones(len(rows), dtype=bool)
    for column, axis in list(axes.items()):
        holes = axis.holes
        for parent, values in axis.active_if.items():
            wanted = values if axes[parent].kind == "numeric" else list(map(label, values))
            kept &= np.isin(axes[parent].cells, np.array(wanted)) == ~holes
        if axis.active_if or not holes.any():
            continue
        if (holes & sound).any() and (filled := none_for_holes(axis)) is not None:
            axes[column] = filled
        elif 2 * (holes & sound).sum() <= sound.sum():
            kept &= ~holes
        else:
            leave(column, f"no value in {int(holes.sum()):,} of {len(rows):,} rows")
    parents = {parent for axis in axes.values() for parent in axis.active_if}
    for column, axis in list(axes.items()):  # axes that are empty or constant in the kept rows
        there = axis.cells[kept]
        if axis.holes[kept].all():
            leave(column, "empty")
        elif not axis.active_if and (there == there[0]).all() and column not in parents:
            leave(column, f"always {text_of(there[0])[:40]}")
    if not axes:
        found = [f"{column} ({each.why})" for column, each in about.items() if each.role == "hyperparameter"]
        instead = f"These are not: {some_of(found)}." if found else "Name one: --hyperparameter COLUMN."
        raise InputError(f"{sweep.path}: no column that varies is a hyperparameter. {instead}")
    if not (kept & sound).any():
        raise InputError(f"{sweep.path}: no finished training has a value of every hyperparameter.")
    if lost := int((~kept).sum()):
        told.append(f"{counted(lost, 'training')} without a value of a hyperparameter (left out)")
    return axes, np.flatnonzero(kept)


def _table_names(sweep: Sweep, columns: list[str]) -> dict[str, str]:
    """The names of columns in the table: the short names, where they are distinct and not taken."""
    times = Counter(map(sweep.name, columns))
    found: dict[str, str] = {}
    for column in columns:
        name = sweep.name(column) if times[sweep.name(column)] == 1 else column
        found[column] = free_name(name, {*_TAKEN, *found.values()})
        with prefixed(sweep.path):
            check_column("column", found[column], "")
    return found
