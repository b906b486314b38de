"""Facts about a table's learning curves that matter to methods that stop trainings early."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from hpobench_nmt.core.arrays import Bools, Floats, Rows
from hpobench_nmt.core.objectives import Objective
from hpobench_nmt.core.system.text import counted, short
from hpobench_nmt.core.trainings import Trainings, owners_of
from hpobench_nmt.lookup.curves import Curves
from hpobench_nmt.lookup.table import Table

Fact = tuple[Literal["ok", "note", "warning"], str, str]
"""The kind of a finding, a fact, and its meaning for a benchmark."""

# A curve has gone back if it was worse than its best value by more than the share _AWAY of that value, and
# one step undid at least the share _UNDONE of the difference.
_AWAY = 0.25
_UNDONE = 0.8
# Two numbers are the same if they differ by this share or less, or agree to the digits that the table has.
_SAME = 1e-9
_MOST_DIGITS = 6
# At most this many row numbers or values are shown.
_MOST_SHOWN = 10
# The metric that states the length of a training, and the resource that it counts.
_UPDATES = ("num_updates", "update")


def curve_facts(table: Table, curves: Curves) -> Iterator[Fact]:
    """All findings on the curves of a table. O(P log P) for P checkpoints."""
    lengths = curves.lengths
    held = np.flatnonzero(lengths)
    none = np.flatnonzero(lengths == 0)
    if len(none):
        yield warning(
            f"{len(none):,} of {counted(len(table), 'row')} {'has' if len(none) == 1 else 'have'} no "
            f"learning curve ({rows_text(none)})",
            "methods that stop early cannot be run on these rows.",
        )
    if not len(held):
        return
    unit = f" in {curves.cost_unit}" if curves.cost_unit else ""
    yield note(
        f"{counted(len(curves.costs), 'checkpoint')} (resource: {curves.resource}): {lengths[held].min():,} "
        f"to {lengths[held].max():,} a row, {np.median(lengths[held]):g} in the median; all trainings cost "
        f"{short(curves.costs[curves.starts[1:][held] - 1].sum(), commas=True)}{unit}",
        "on the cost clock, random search needs about half of that on average to find the best row.",
    )
    some = curves.of_rows(held)
    yield from _lengths(table, some, held)
    for metric, own in zip(curves.metrics, curves.own, strict=True):
        values = some.column(metric.name)
        losses = Objective(metric.name, metric.direction).to_loss(values)
        best = best_places(losses, some.starts)
        if own is not None:
            places = best if own == "best" else some.starts[1:] - 1
            yield from _own(table, metric.name, own, values[places], held)
        elif any(metric.name == known.name for known in table.metrics):
            yield from _elsewhere(table, some, metric.name, values, values[best], held)
        yield from _shapes(metric.name, losses, best, some.starts, held)


def best_places(losses: Floats, starts: Rows) -> Rows:
    """The place of each row's best checkpoint, or of the earliest if several are equally good.

    Every row must have a checkpoint.
    """
    order = np.lexsort((losses, owners_of(starts)))  # stable; NaN last
    return order[starts[:-1]]


def _lengths(table: Table, some: Curves, held: Rows) -> Iterator[Fact]:
    """Whether the curves are as long as the trainings were."""
    name, resource = _UPDATES
    if some.resource != resource or all(metric.name != name for metric in table.metrics):
        return
    updates = table.column(name)[held]
    wrong = held[~np.isnan(updates) & (some.resources[some.starts[1:] - 1] != updates)]
    if len(wrong):
        yield warning(
            f"the curves of {counted(len(wrong), 'row')} do not end at "
            f"{'its' if len(wrong) == 1 else 'their'} {name} ({rows_text(wrong)})",
            "they were cut short, or have checkpoints of another training.",
        )
    else:
        meaning = "the curves belong to these trainings and are complete."
        yield ok(f"every curve ends at its row's {name}", meaning)


def _own(table: Table, name: str, own: str, found: Floats, held: Rows) -> Iterator[Fact]:
    """Whether the rows' own values are the best or last values of their curves, as the datasheet states."""
    values = table.column(name)[held]
    known = ~np.isnan(values)
    if own == "last":  # not if it is "best": a failed training may have been good before its last checkpoint
        known |= ~np.isnan(found)
    wrong = held[known & ~_same(values, found)]
    if len(wrong):
        fact = f"{name} of {counted(len(wrong), 'row')} is not the {own} of its curve ({rows_text(wrong)})"
        yield warning(fact, "these curves come from other trainings, or the datasheet is wrong.")
    elif known.any():
        yield _sound(name, own, known)


def _sound(name: str, own: str, known: Bools) -> Fact:
    fact = f"{name} of {_every_row(known)} is the {own} of its curve"
    return ok(fact, "a training to its end gives the table's value.")


def _every_row(known: Bools) -> str:
    return "every row" if known.all() else "every row that has it"


def _same(values: Floats, found: Floats) -> Bools:
    """Which of a table's values are equal to those of the curves, to the digits that the table has."""
    there = values[~np.isnan(values)]
    digits = next((d for d in range(_MOST_DIGITS + 1) if (np.round(there, d) == there).all()), None)
    slack = _SAME * np.abs(found) + (0.0 if digits is None else 0.6 * 10.0**-digits)
    return np.asarray(np.abs(values - found) <= slack)


def _elsewhere(
    table: Table, some: Curves, name: str, values: Floats, best: Floats, held: Rows
) -> Iterator[Fact]:
    """Where the rows' own values lie on their curves, if the datasheet does not state it."""
    own = table.column(name)[held]
    known = ~np.isnan(own)
    if not known.any():
        return
    last = values[some.starts[1:] - 1]
    other = {which: held[known & ~_same(own, found)] for which, found in (("last", last), ("best", best))}
    for which, rows in other.items():
        if not len(rows):
            yield _sound(name, which, known)
            return
    on_curve = np.logical_or.reduceat(_same(np.repeat(own, some.lengths), values), some.starts[:-1])
    away = held[known & ~on_curve]
    if len(away):
        yield note(
            f"{name} of {counted(len(away), 'row')} is not on the row's curve ({rows_text(away)})",
            "it was measured in another way or in another training: compare rows by only one of the two.",
        )
    else:
        best_text, last_text = (
            f"{len(other[which])} of {known.sum()} ({rows_text(other[which])})" for which in ("best", "last")
        )
        yield note(
            f"{name} of {_every_row(known)} is on its curve, but not the best of it in {best_text}, and not "
            f"the last in {last_text}",
            "the checkpoints were chosen in another way, such as by another metric, so rows and curves may "
            "differ in their order.",
        )


def _shapes(name: str, losses: Floats, best: Rows, starts: Rows, held: Rows) -> Iterator[Fact]:
    several = (np.diff(starts) > 1) & ~np.isnan(losses[best])  # a curve may have no value at all
    rising = held[several & (best == starts[:-1])]
    if len(rising):
        yield warning(
            f"{name} is never better than at the first checkpoint in {len(rising)} of "
            f"{counted(len(held), 'curve')} ({rows_text(rising)})",
            "stopping after the first checkpoint loses nothing there, so early stopping looks easy.",
        )
    cut = held[several & (best == starts[1:] - 1)]
    if len(cut):
        fact = f"{name} is best at the end in {len(cut)} of {counted(len(held), 'curve')} ({rows_text(cut)})"
        yield note(fact, "the trainings may have been too short: longer trainings might have been better.")
    back = held[_gone_back(losses, starts)]
    if len(back):
        yield warning(
            f"{name} returns to its best value in one step in {len(back)} of {counted(len(held), 'curve')} "
            f"({rows_text(back)})",
            "the trainings returned to their best checkpoint, as Sockeye's do when they lower the learning "
            "rate, or each curve consists of two trainings: a checkpoint predicts little about the next one.",
        )


def _gone_back(losses: Floats, starts: Rows) -> Bools:
    """Which rows have a loss that rose far above its best so far and came back in one step, shape (N,)."""
    owners = owners_of(starts)
    follows = np.diff(owners, prepend=-1) == 0
    numbers = np.arange(1.0, len(losses) + 1)
    best = Trainings(starts, numbers, numbers, losses[:, None]).best
    away = np.concatenate([[0.0], (losses - best[:, 0])[:-1]])
    step = np.concatenate([[0.0], losses[:-1] - losses[1:]])
    before = np.abs(np.concatenate([[0.0], best[:-1, 0]]))
    with np.errstate(invalid="ignore"):
        back = follows & (away > _AWAY * before) & (step >= _UNDONE * away)
    return np.bincount(owners[back], minlength=len(starts) - 1) > 0


def rows_text(rows: Rows) -> str:
    """The numbers of rows as text, such as "row 3" or "rows 3, 5"."""
    return f"row{'s' * (len(rows) != 1)} {listed(rows)}"


def listed(items: Sequence[object] | Rows) -> str:
    """Row numbers or values as text, at most _MOST_SHOWN of them."""
    return ", ".join(map(str, items[:_MOST_SHOWN])) + (", …" if len(items) > _MOST_SHOWN else "")


def ok(fact: str, meaning: str) -> Fact:
    """A claim that was verified."""
    return "ok", fact, meaning


def note(fact: str, meaning: str) -> Fact:
    """A fact that is worth knowing."""
    return "note", fact, meaning


def warning(fact: str, meaning: str) -> Fact:
    """A fact that distorts a benchmark if it is ignored."""
    return "warning", fact, meaning
