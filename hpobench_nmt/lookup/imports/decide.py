"""What a table of a sweep will hold, with reasons: a pure function of the sweep and the user's choices."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from hpobench_nmt.core.arrays import Bools, Floats, Ints, Rows
from hpobench_nmt.core.hyperparameter import label
from hpobench_nmt.core.objectives import measured
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.files import check_column
from hpobench_nmt.core.system.text import counted, free_name, some_of
from hpobench_nmt.lookup.groups import group_ids
from hpobench_nmt.lookup.imports import names
from hpobench_nmt.lookup.imports.axes import Axis, Left, axis_of, none_for_holes, with_conditions
from hpobench_nmt.lookup.imports.cells import as_numbers, distinct_of, text_of
from hpobench_nmt.lookup.imports.roles import may_be_setting, roles_of
from hpobench_nmt.lookup.imports.sweep import STATED, About, Choices, Sweep

_WAY = "it is not known whether smaller or larger is better"
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
        metrics: columns of the M metrics, the objectives first.
        values: raw metrics, shape (T, M).
        seeds: the seed of each training, shape (T,), NaN where unknown.
        failed, pruned: which trainings failed, and which were pruned, both of shape (T,).
        names: the name in the table of each column that it has.
        told: what became of the other rows.
    """

    about: Mapping[str, About]
    rows: Rows
    axes: Mapping[str, Axis]
    metrics: tuple[str, ...]
    values: Floats
    seeds: Floats
    failed: Bools
    pruned: Bools
    names: Mapping[str, str]
    told: tuple[str, ...]

    @property
    def doubts(self) -> dict[str, str]:
        """Why roles are only guesses, by column."""
        return {column: about.doubt for column, about in self.about.items() if about.doubt}


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
    ids = _configurations(plan)
    found = []
    for column, about in plan.about.items():
        if column not in plan.names and may_be_setting(about):
            places = distinct_of(sweep.columns[column][plan.rows])[1].astype(np.int64)
            if len(np.unique(group_ids([ids, places]))) > len(np.unique(ids)):
                found.append(column)
    return found


def _configurations(plan: Plan) -> Ints:
    """A number for each training, the same for those of one configuration, shape (T,)."""
    return group_ids(
        [np.unique(a.cells, return_inverse=True)[1].astype(np.int64) for a in plan.axes.values()]
    )


def _plan(sweep: Sweep, about: Mapping[str, About]) -> Plan:
    rows, failed, pruned, told = _rows(sweep)
    about = _with_metrics(sweep, dict(about), rows)
    metrics = [column for column, each in about.items() if each.direction is not None]
    values = np.column_stack([_measured(sweep, column, rows) for column in metrics])
    axes, kept = _axes(sweep, about, rows, ~failed & ~np.isnan(values).all(axis=1), told)
    rows, failed, pruned = rows[kept], failed[kept], pruned[kept]
    seeds, seed = _seeds(sweep, about, rows)
    about |= {
        column: replace(each, scale=axes[column].scale, why=axes[column].why)
        for column, each in about.items()
        if column in axes
    }
    order = sorted(range(len(metrics)), key=lambda place: not about[metrics[place]].objective)
    metrics, values = [metrics[place] for place in order], values[kept][:, order]
    values[failed | pruned] = np.nan
    named = _table_names(sweep, [*axes, *metrics])
    plan = Plan(
        about, rows, axes, tuple(metrics), values, seeds, failed, pruned,
        {**named, **({seed: seed} if seed else {})}, tuple(told),
    )  # fmt: skip
    return _without_retries(plan)


def _without_retries(plan: Plan) -> Plan:
    """The plan without trainings that did not finish, if another of their configuration and seed did."""
    seeds = np.unique(np.nan_to_num(plan.seeds, nan=-1.0), return_inverse=True)[1].astype(np.int64)
    ids = np.unique(group_ids([_configurations(plan), seeds]), return_inverse=True)[1]
    lost = plan.failed | plan.pruned
    kept = np.flatnonzero(~lost | ~(np.bincount(ids, ~lost) > 0)[ids])
    if len(kept) == len(ids):
        return plan
    again = counted(len(ids) - len(kept), "training")
    text = f"{again} failed or pruned, and repeated with the same configuration (left out)"
    return replace(
        plan, rows=plan.rows[kept], values=plan.values[kept], seeds=plan.seeds[kept],
        failed=plan.failed[kept], pruned=plan.pruned[kept], told=(*plan.told, text),
        axes={column: replace(axis, cells=axis.cells[kept]) for column, axis in plan.axes.items()},
    )  # fmt: skip


def decisions_of(plan: Plan) -> list[Decision]:
    """The decisions of a plan, for display."""
    found = []
    for column, about in plan.about.items():
        name, why = plan.names.get(column, column), about.why
        why = f"a guess: {about.doubt}" + f"; {why}" * bool(why) if about.doubt else why
        if column in plan.axes:
            active = " and ".join(
                f"where {plan.names[parent]} is {' or '.join(map(label, values))}"
                for parent, values in plan.axes[column].active_if.items()
            )
            found.append(Decision("hyperparameter", name, why + (f", active {active}" if active else "")))
        elif column in plan.metrics:
            part = "objective" if about.objective else "metric"
            found.append(Decision(part, name, f"{about.direction}, {why}"))
        elif column in plan.names:
            found.append(Decision("seed", name, why))
        else:
            found.append(Decision("left out", column, why))
    return found + [Decision("rows", "", text) for text in plan.told]


def _rows(sweep: Sweep) -> tuple[Rows, Bools, Bools, list[str]]:
    """The trainings that are used, which of them failed, which were pruned, and messages about them."""
    n_rows = len(sweep)
    states = np.full(n_rows, "finished") if sweep.states is None else sweep.states
    failed, pruned, unfinished = states == "failed", states == "pruned", states == "unfinished"
    curved = np.zeros(n_rows, dtype=bool)
    if sweep.points is not None:
        curved[sweep.points.rows] = True
    told = [
        f"{counted(int(mask.sum()), 'training')} {text}"
        for mask, text in (
            (failed, "failed (metrics missing)"),
            (pruned & curved, "pruned (metrics missing, learning curves kept)"),
            (pruned & ~curved, "pruned, without intermediate values here (left out)"),
            (unfinished, "not finished (left out)"),
        )
        if mask.any()
    ]
    if not (states == "finished").any():
        raise InputError(f"{sweep.path}: none of its {counted(n_rows, 'training')} is finished.")
    rows = np.flatnonzero(~unfinished & ~(pruned & ~curved))
    return rows, failed[rows], pruned[rows], told


def _axes(
    sweep: Sweep, about: dict[str, About], rows: Rows, sound: Bools, told: list[str]
) -> tuple[dict[str, Axis], Rows]:
    """The hyperparameters by column, and the places of the rows that are kept.

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
    for column, axis in axes.items():  # None as a label may explain other holes
        if axis.kind != "numeric" and not axis.active_if and (axis.holes & sound).any():
            axes[column] = none_for_holes(axis) or axis
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
        found = [
            f"{column} ({about[column].why})" for column in about if about[column].role == "hyperparameter"
        ]
        instead = f" These are not: {', '.join(found[:5])}." if found else ""
        raise InputError(
            f"{sweep.path}: no column that varies is a hyperparameter.{instead} Name one: "
            "--hyperparameter COLUMN."
        )
    if not (kept & sound).any():
        raise InputError(f"{sweep.path}: no finished training has a value of every hyperparameter.")
    if lost := int((~kept).sum()):
        told.append(f"{counted(lost, 'training')} without a value of a hyperparameter (left out)")
    places = np.flatnonzero(kept)
    return {column: replace(axis, cells=axis.cells[places]) for column, axis in axes.items()}, places


def _measured(sweep: Sweep, column: str, rows: Rows) -> Floats:
    numbers, wrong = as_numbers(sweep.columns[column][rows])
    if wrong is not None:
        cell = str(sweep.columns[column][rows][wrong])[:40]
        raise InputError(
            f"{sweep.path}, {sweep.place(int(rows[wrong]))}: {sweep.name(column)!r} is {cell!r}, not a "
            f"number. Correct it, or leave the column out: --ignore {sweep.name(column)}."
        )
    return measured(numbers)


def _seeds(sweep: Sweep, about: dict[str, About], rows: Rows) -> tuple[Floats, str]:
    """The seed of each training, NaN where unknown, and the column of the seeds, "" if there is none.

    It is the column that the user names, else the first whose numbers vary. In `about`, other columns of
    seeds get reasons why they are left out.
    """
    found, chosen = np.full(len(rows), np.nan), ""
    columns = [column for column, each in about.items() if each.role == "seed"]
    for column in sorted(columns, key=lambda column: about[column].why != STATED):
        why = f"the seeds come from {chosen}" if chosen else ""
        if (
            not chosen
            and about[column].why != STATED
            and as_numbers(sweep.columns[column][rows])[1] is not None
        ):
            why = "texts"
        if not why:
            seeds = _measured(sweep, column, rows)
            why = f"always {seeds[0]:g}" if len(np.unique(seeds)) == 1 and about[column].why != STATED else ""
        if why:
            about[column] = replace(about[column], role="identity", why=why)
        else:
            found, chosen = seeds, column
    return found, chosen


def _with_metrics(sweep: Sweep, about: dict[str, About], rows: Rows) -> dict[str, About]:
    """The columns, where exactly the metrics have a direction, with reasons for those that are left out."""
    unknown: list[str] = []
    for column, each in about.items():
        if each.role not in ("metric", "extra", "seconds"):
            about[column] = replace(each, direction=None)
            continue
        numbers, wrong = as_numbers(sweep.columns[column][rows])
        distinct = np.unique(measured(numbers[~np.isnan(numbers)]))
        wanted = each.why == STATED or each.objective
        by_name = "min" if each.role == "seconds" else names.direction(sweep.name(column))
        way, why, doubt = each.direction or by_name, each.why, each.doubt
        if wrong is not None and (wanted or (len(distinct) and each.role == "metric")):
            _measured(sweep, column, rows)  # a typo: raises InputError
        if wanted or doubt:
            way, doubt = (way, doubt) if way else ("min", _WAY)
        elif wrong is not None or not len(distinct):
            way, why = None, "texts" if wrong is not None else "empty"
        elif len(distinct) == 1:
            way, why = None, f"always {distinct[0]:g}"
            unknown += [column] if each.role == "metric" else []
        elif way is None:
            why = f"its direction is not known: use --metric {sweep.name(column)}:min or :max"
            unknown.append(column)
        elif each.role != "seconds" and why != STATED:
            why = "by its name" if each.direction is None else "as the study says"
        about[column] = replace(each, direction=way, why=why, doubt=doubt)
    if all(each.direction is None or each.role == "seconds" for each in about.values()):
        column = (unknown or _last_guess(sweep, about))[-1]
        way = names.direction(sweep.name(column))
        about[column] = replace(
            about[column],
            role="metric",
            why="",
            direction=way or "min",
            doubt=about[column].doubt if way else _WAY,
        )
    return _with_objective(sweep, about)


def _last_guess(sweep: Sweep, about: Mapping[str, About]) -> list[str]:
    """The columns of numbers that may be metrics, where no other column is one."""
    found = [
        column
        for column, each in about.items()
        if (each.doubt or each.why.startswith("its numbers differ"))
        and as_numbers(sweep.columns[column])[1] is None
    ]
    if not found:
        raise InputError(
            f"{sweep.path}: no column is a metric. Name one: --metric COLUMN:min or --metric COLUMN:max."
        )
    return found


def _with_objective(sweep: Sweep, about: dict[str, About]) -> dict[str, About]:
    """The columns in their order, but the user's metrics in the user's order; the objectives are marked.

    The first metric that the user names is the objective. If it is one of the study's objectives, the others
    follow. Without either, it is the only metric that is not a cost, else the only one of these on held-out
    data, else the only one of these that is neither on test nor on training data. If several remain, it is
    the first, in doubt.
    """
    metrics = [column for column, each in about.items() if each.direction is not None]
    stated = [column for column in metrics if about[column].why == STATED]
    study = [column for column in metrics if column in sweep.about and sweep.about[column].objective]
    doubt = ""
    if stated and stated[0] not in study:
        chosen: Sequence[str] = stated[:1]
    elif study:
        chosen = [column for column in stated if column in study]
        chosen = [*chosen, *(column for column in study if column not in chosen)]
    else:
        quality = [column for column in metrics if not names.is_cost(sweep.name(column))] or metrics
        parts = {column: names.part_of_data(sweep.name(column)) for column in quality}
        held_out = [column for column in quality if parts[column] == "held out"]
        plain = [column for column in quality if not parts[column]]
        single = next((some for some in (quality, held_out, plain) if len(some) == 1), None)
        some = held_out or plain or quality
        chosen = single or [next((column for column in some if not about[column].doubt), some[0])]
        if single is None:
            doubt = f"it is one of {counted(len(some), 'metric')} that may be the objective"
    ordered = {column: about[column] for column in (*chosen, *about)}
    return {
        column: replace(
            each, objective=column in chosen, doubt=each.doubt or (doubt if column in chosen else "")
        )
        for column, each in ordered.items()
    }


def _table_names(sweep: Sweep, columns: list[str]) -> dict[str, str]:
    """The names of columns in the table: the short names, where they are distinct and not taken."""
    times = Counter(map(sweep.name, columns))
    found: dict[str, str] = {}
    for column in columns:
        name = sweep.name(column) if times[sweep.name(column)] == 1 else column
        found[column] = free_name(name, {*_TAKEN, *found.values()})
        try:
            check_column("column", found[column], "")
        except InputError as error:
            raise InputError(f"{sweep.path}: {error}") from None
    return found
