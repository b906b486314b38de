"""What a table of a sweep will hold, with reasons: a pure function of the sweep and the user's choices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from hpobench_nmt.core.arrays import Bools, Floats, Rows
from hpobench_nmt.core.hyperparameter import label
from hpobench_nmt.core.objectives import Direction, Metric, measured
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.files import check_column
from hpobench_nmt.core.system.text import counted, free_name
from hpobench_nmt.lookup.imports import names
from hpobench_nmt.lookup.imports.axes import Axis, Left, axis_of, none_for_holes, with_conditions
from hpobench_nmt.lookup.imports.cells import as_numbers, text_of
from hpobench_nmt.lookup.imports.roles import Given, chosen_metrics, column_called, objective_of, roles_of
from hpobench_nmt.lookup.imports.sweep import Choices, Sweep

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
        rows: the trainings of the sweep that are used, shape (T,).
        axes: hyperparameters by name, with cells of shape (T,).
        metrics, columns: the M metrics, and the column of each in the sweep.
        values: raw metrics, shape (T, M).
        objectives: names of the objectives.
        seeds: the seed of each training, shape (T,), NaN where unknown.
        failed, pruned: which trainings failed, and which were pruned, both of shape (T,).
        decisions: all decisions, for display.
        aside: columns of the sweep in which trainings of one configuration must agree, although they are left
            out: neither seeds, metrics and times nor identifiers.
        doubts: why a role or direction is only a guess, by column.
    """

    rows: Rows
    axes: Mapping[str, Axis]
    metrics: tuple[Metric, ...]
    columns: tuple[str, ...]
    values: Floats
    objectives: tuple[str, ...]
    seeds: Floats
    failed: Bools
    pruned: Bools
    decisions: tuple[Decision, ...]
    aside: tuple[str, ...]
    doubts: Mapping[str, str]


def decide(sweep: Sweep, choices: Choices) -> Plan:
    """What a table of the sweep will hold. O(cells).

    Raises InputError if the sweep cannot become a table, or a choice names a column that does not exist.
    """
    roles = roles_of(sweep, choices)
    rows, failed, pruned, told = _rows(sweep)
    decisions: list[Decision] = []
    left = {column: given.why for column, given in roles.items() if given.role in ("aside", "identity")}
    doubts = {column: given.doubt for column, given in roles.items() if given.doubt}
    axes, kept, dropped = _axes(sweep, choices, roles, rows, failed, left)
    rows, failed, pruned = rows[kept], failed[kept], pruned[kept]
    told += dropped
    directions = _directions(sweep, choices, roles, rows, left, doubts)
    objectives = _objectives(sweep, choices, directions, doubts)
    ordered = [*objectives, *(column for column in directions if column not in objectives)]
    values = np.column_stack([_measured(sweep, column, rows) for column in ordered])
    values[failed | pruned] = np.nan
    used = _table_names(sweep, [*axes, *ordered])
    for column, axis in axes.items():
        scale = "log scale, " if axis.scale == "log" else "" if axis.kind == "numeric" else "labels "
        active = " and ".join(
            f"where {used[p]} is {' or '.join(map(label, v))}" for p, v in axis.active_if.items()
        )
        text = f"{scale}{axis.why}{active and ', active ' + active}"
        decisions.append(Decision("hyperparameter", used[column], text))
    for column in ordered:
        what = "objective" if column in objectives else "metric"
        text = f"{directions[column]}, {_why(sweep, choices, roles, column)}"
        decisions.append(Decision(what, used[column], text))
    seeds, column = _seeds(sweep, roles, rows, left)
    if column:
        decisions.append(Decision("seed", column, roles[column].why))
    decisions += [Decision("left out", column, why) for column, why in left.items()]
    decisions += [Decision("rows", "", text) for text in told]
    renamed = {
        used[column]: replace(
            axis, active_if={used[parent]: given for parent, given in axis.active_if.items()}
        )
        for column, axis in axes.items()
    }
    return Plan(
        rows,
        renamed,
        tuple(
            Metric(used[c], directions[c], "s" if sweep.roles.get(c) == "seconds" else "") for c in ordered
        ),
        tuple(ordered),
        values,
        tuple(used[column] for column in objectives),
        seeds,
        failed,
        pruned,
        tuple(decisions),
        tuple(column for column, given in roles.items() if column in left and given.may_be_setting),
        {used.get(column, column): doubt for column, doubt in doubts.items()},
    )


def _rows(sweep: Sweep) -> tuple[Rows, Bools, Bools, list[str]]:
    """The trainings that are used, which of them failed, which were pruned, and messages about them."""
    n_rows = len(sweep)
    if sweep.states is None:
        return np.arange(n_rows), np.zeros(n_rows, bool), np.zeros(n_rows, bool), []
    failed, pruned = sweep.states == "failed", sweep.states == "pruned"
    curved = np.zeros(n_rows, dtype=bool)
    if sweep.points is not None:
        curved[sweep.points.rows] = True
    unfinished, bare = sweep.states == "unfinished", pruned & ~curved
    told = []
    if failed.any():
        told.append(f"{counted(int(failed.sum()), 'training')} failed (metrics missing)")
    if (kept := pruned & curved).any():
        told.append(f"{counted(int(kept.sum()), 'training')} pruned (metrics missing, learning curves kept)")
    if bare.any():
        told.append(
            f"{counted(int(bare.sum()), 'training')} pruned, without intermediate values here (left out)"
        )
    if unfinished.any():
        told.append(f"{counted(int(unfinished.sum()), 'training')} not finished (left out)")
    rows = np.flatnonzero(~unfinished & ~bare)
    if not (sweep.states[rows] == "finished").any():
        raise InputError(f"{sweep.path}: none of its {counted(n_rows, 'training')} is finished.")
    return rows, failed[rows], pruned[rows], told


def _axes(
    sweep: Sweep,
    choices: Choices,
    roles: Mapping[str, Given],
    rows: Rows,
    failed: Bools,
    left: dict[str, str],
) -> tuple[dict[str, Axis], Rows, list[str]]:
    """The hyperparameters by column, the places of the rows that are kept, and messages about other rows.

    Columns that are not hyperparameters are added to `left`, with reasons.
    """
    axes: dict[str, Axis] = {}
    scales = {**sweep.scales, **{column_called(sweep, name): s for name, s in choices.scales.items()}}
    whole = rows[~failed]
    for column, given in roles.items():
        if given.role != "hyperparameter":
            continue
        try:
            known = given.why == "as you say" or column in sweep.roles
            axes[column] = axis_of(
                sweep.name(column), sweep.columns[column][rows], scales.get(column), str(sweep.path),
                lambda row: sweep.place(int(rows[row])), known, sweep.typed,
            )  # fmt: skip
        except Left as why:
            left[column] = str(why)
    # A training that failed early may lack values, which does not explain missing values of other trainings.
    sound = ~failed
    axes = _with_conditions(axes, sound)
    for column, axis in axes.items():  # None as a label may explain other holes
        if axis.kind != "numeric" and not axis.active_if and (axis.holes & sound).any():
            axes[column] = none_for_holes(axis) or axis
    axes = _with_conditions(axes, sound)
    kept = np.ones(len(rows), dtype=bool)
    for column, axis in list(axes.items()):
        if axis.active_if:
            continue
        holes = axis.holes
        if not (holes & sound).any():
            kept &= ~holes
        elif (filled := none_for_holes(axis)) is not None:
            axes[column] = filled
        elif 2 * (holes & sound).sum() <= len(whole):
            kept &= ~holes
        else:
            left[column] = f"no value in {int(holes.sum()):,} of {len(rows):,} rows"
            del axes[column]
    kept &= _rightly_active(axes, len(rows))
    for column, axis in list(axes.items()):  # axes that are constant in the kept rows
        there = axis.cells[kept & ~axis.holes]
        if (
            len(there)
            and (there == there[0]).all()
            and not (axis.holes & kept).any()
            and not _is_parent(column, axes)
        ):
            left[column] = f"always {text_of(there[0])[:40]}"
            del axes[column]
    if not axes:
        raise InputError(
            f"{sweep.path}: no column that varies is a hyperparameter. Name one: --hyperparameter COLUMN."
        )
    lost = int((~kept).sum())
    if not kept.any() or not (kept & sound).any():
        raise InputError(f"{sweep.path}: no finished training has a value of every hyperparameter.")
    told = [f"{counted(lost, 'training')} without a value of a hyperparameter (left out)"] if lost else []
    places = np.flatnonzero(kept)
    return {column: replace(axis, cells=axis.cells[places]) for column, axis in axes.items()}, places, told


def _is_parent(column: str, axes: Mapping[str, Axis]) -> bool:
    return any(column in axis.active_if for axis in axes.values())


def _with_conditions(axes: Mapping[str, Axis], sound: Bools) -> dict[str, Axis]:
    """The axes with the conditions that hold in the sound rows."""
    found = with_conditions({column: replace(axis, cells=axis.cells[sound]) for column, axis in axes.items()})
    return {column: replace(axis, active_if=found[column].active_if) for column, axis in axes.items()}


def _rightly_active(axes: Mapping[str, Axis], n_rows: int) -> Bools:
    """Which rows have values exactly where the conditions require them, shape (n_rows,)."""
    right = np.ones(n_rows, dtype=bool)
    for axis in axes.values():
        for parent, values in axis.active_if.items():
            wanted = values if axes[parent].kind == "numeric" else list(map(label, values))
            right &= np.isin(axes[parent].cells, np.array(wanted)) == ~axis.holes
    return right


def _measured(sweep: Sweep, column: str, rows: Rows) -> Floats:
    numbers, wrong = as_numbers(sweep.columns[column][rows])
    if wrong is not None:
        cell = str(sweep.columns[column][rows][wrong])[:40]
        raise InputError(
            f"{sweep.path}, {sweep.place(int(rows[wrong]))}: {sweep.name(column)!r} is {cell!r}, not a "
            f"number. Correct it, or leave the column out: --ignore {sweep.name(column)}."
        )
    return measured(numbers)


def _seeds(sweep: Sweep, roles: Mapping[str, Given], rows: Rows, left: dict[str, str]) -> tuple[Floats, str]:
    """The seed of each training, NaN where unknown, and the column of the seeds, "" if there is none.

    It is the column that the user names, else the first whose numbers vary. Other columns of seeds are added
    to `left`, with reasons.
    """
    columns = [column for column, given in roles.items() if given.role == "seed"]
    found, chosen = np.full(len(rows), np.nan), ""
    for column in sorted(columns, key=lambda column: roles[column].why != "as you say"):
        if chosen:
            left[column] = f"the seeds come from {chosen}"
            continue
        named = roles[column].why == "as you say"
        if not named and as_numbers(sweep.columns[column][rows])[1] is not None:
            left[column] = "texts"
            continue
        seeds = _measured(sweep, column, rows)
        if len(np.unique(seeds)) == 1 and not named:
            left[column] = f"always {seeds[0]:g}"
        else:
            found, chosen = seeds, column
    return found, chosen


def _directions(
    sweep: Sweep,
    choices: Choices,
    roles: Mapping[str, Given],
    rows: Rows,
    left: dict[str, str],
    doubts: dict[str, str],
) -> dict[str, Direction]:
    """The directions of the metrics by column. Other columns are added to `left`, with reasons."""
    chosen = chosen_metrics(sweep, choices)
    found: dict[str, Direction] = {}
    unknown: list[str] = []
    for column in _varying(sweep, {*chosen, *sweep.objectives}, roles, rows, left):
        name = sweep.name(column)
        known = "min" if roles[column].role == "seconds" else names.direction(name)
        direction = chosen.get(column) or sweep.directions.get(column) or known
        if direction is not None:
            found[column] = direction
        elif column in chosen or column in sweep.objectives:
            found[column], doubts[column] = "min", _WAY
        else:
            unknown.append(column)
    quality = [column for column in found if roles[column].role != "seconds"]
    if not quality:
        unknown.sort(key=lambda column: roles[column].role != "metric")
        if not unknown:
            raise InputError(
                f"{sweep.path}: no column is a metric. Name one: --metric COLUMN:min or --metric COLUMN:max."
            )
        found[unknown[0]], doubts[unknown[0]] = "min", _WAY
        unknown = unknown[1:]
    for column in unknown:
        left[column] = f"its direction is not known: use --metric {sweep.name(column)}:min or :max"
    return found


def _varying(
    sweep: Sweep, wanted: Set[str], roles: Mapping[str, Given], rows: Rows, left: dict[str, str]
) -> list[str]:
    """The columns that may be metrics: the wanted columns, and other columns whose numbers vary.

    If none of these measures quality, columns whose numbers do not vary are included. Columns that cannot be
    metrics are added to `left`, with reasons.
    """
    found: list[str] = []
    constant: dict[str, str] = {}
    for column, given in roles.items():
        if given.role not in ("metric", "extra", "seconds"):
            continue
        numbers, wrong = as_numbers(sweep.columns[column][rows])
        distinct = np.unique(measured(numbers[~np.isnan(numbers)]))
        slip = wrong is not None and len(distinct) > 0 and given.role == "metric"  # a typo, refused later
        if column in wanted or slip:
            found.append(column)
        elif wrong is not None:
            left[column] = "texts"
        elif np.isnan(distinct).all():
            left[column] = "empty"
        elif len(distinct) == 1:
            constant[column] = f"always {distinct[0]:g}"
        else:
            found.append(column)
    if all(roles[column].role == "seconds" for column in found):
        return found + [column for column in constant if roles[column].role != "seconds"]
    left.update(constant)
    return found


def _objectives(
    sweep: Sweep, choices: Choices, directions: dict[str, Direction], doubts: dict[str, str]
) -> list[str]:
    """The objectives by column, the main objective first.

    If the first metric that the user names is not an objective of the study, it is the only objective. If it
    is one, the study's other objectives follow.
    """
    chosen = [column for column in chosen_metrics(sweep, choices) if column in directions]
    if sweep.objectives and all(column in directions for column in sweep.objectives):
        if chosen and chosen[0] not in sweep.objectives:
            return chosen[:1]
        first = [column for column in chosen if column in sweep.objectives]
        return first + [column for column in sweep.objectives if column not in first]
    if chosen:
        return chosen[:1]
    found, doubt = objective_of(sweep, directions)
    if doubt:
        doubts[found[0]] = doubt
    return found


def _why(sweep: Sweep, choices: Choices, roles: Mapping[str, Given], column: str) -> str:
    if chosen_metrics(sweep, choices).get(column):
        return "as you say"
    if column in sweep.directions:
        return "as the study says"
    return roles[column].why if roles[column].role == "seconds" else "by its name"


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
