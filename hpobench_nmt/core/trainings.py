"""Trainings that can be stopped early: the cost of training a row to each checkpoint, and the losses there.

symbol      shape     meaning
starts      (N + 1,)  where each row's checkpoints begin in the arrays below, and their number P at the end
resources   (P,)      how far the training is at a checkpoint (updates, epochs), increasing within a row
costs       (P,)      the cost of the training up to there, on the clock of the trial, increasing within a row
losses      (P, m)    to be minimised, NaN if missing
best        (P, m)    losses of the best checkpoint up to there, which has the smallest first loss; the
                      earliest of these if there are several

A row that can only be looked up whole has one checkpoint, with resource 1.

Every checkpoint is a model that could be used. With one loss, only a row's best checkpoint counts, so that a
row stands for one model, in the end its best. With several losses, a checkpoint that is worse in one loss may
be better in another, so every checkpoint counts, and a front is computed over checkpoints.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.arrays import Bools, Floats, Rows, frozen
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.text import counted


def places_of(starts: Rows, rows: Rows) -> tuple[Rows, Rows]:
    """Where the entries of some rows begin among their own, shape (n + 1,), and their places in all entries.

    `starts` are where each row's entries begin, and their number at the end, shape (N + 1,).
    """
    lengths = np.diff(starts)[rows]
    found = np.append(0, np.cumsum(lengths))
    return found, np.arange(found[-1]) + np.repeat(starts[rows] - found[:-1], lengths)


class RowsThenResources:
    """P entries in the order of their rows, and of their resources within a row."""

    def __init__(self, rows: Rows, resources: Floats) -> None:
        """From the row and the resource of each entry, shape (P,)."""
        self._levels, level = np.unique(resources, return_inverse=True)
        self._keys = np.sort(self._key(rows, level))

    def _key(self, rows: Rows, level: Rows) -> Rows:
        """A number for each row and level of resources that has this order."""
        return rows * (len(self._levels) + 1) + level

    def places(self, rows: Rows, resources: Floats, side: Literal["left", "right"] = "left") -> Rows:
        """How many entries come before each of n rows' resources; with these, if "right". O(n log P)."""
        return self._keys.searchsorted(self._key(rows, self._levels.searchsorted(resources, side)))


@dataclass(frozen=True, eq=False, repr=False)
class Trainings:
    """The trainings of N rows. The symbols are explained at the top of this file; the arrays are frozen.

    With `resume`, any worker can resume a paused training later. Otherwise only the same worker can continue
    it, and only at once. Later, the training restarts at its whole cost.
    """

    starts: Rows
    resources: Floats
    costs: Floats
    losses: Floats
    resume: bool = True

    def __post_init__(self) -> None:
        """Check the arrays against one another, and freeze them."""
        for name, kind in (("starts", np.int64), ("resources", float), ("costs", float), ("losses", float)):
            object.__setattr__(self, name, frozen(np.array(getattr(self, name), dtype=kind)))
        if self.losses.ndim != 2 or not len(self.resources) == len(self.costs) == len(self.losses):
            raise InputError(
                f"trainings: {len(self.resources)} resources, {len(self.costs)} costs, and losses of shape "
                f"{self.losses.shape}; there must be one of each for every checkpoint."
            )
        lengths = np.diff(self.starts)
        if len(lengths) == 0 or self.starts[0] != 0 or self.starts[-1] != len(self.costs):
            raise InputError(f"trainings: starts must go from 0 to the {len(self.costs)} checkpoints' end.")
        if (lengths < 1).any():
            raise InputError(f"trainings: row {int(np.argmin(lengths))} has no checkpoint.")
        for name in ("resources", "costs"):
            self._check_increasing(name)
        if not self.costs.any():
            raise InputError("trainings: the cost is 0 everywhere, so time would not pass.")

    def _check_increasing(self, name: str) -> None:
        values = getattr(self, name)
        wrong = ~np.isfinite(values) | (values < 0) | not_increasing(self.starts, values)
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            raise InputError(
                f"trainings, {checkpoint_text(self.starts, at)}: {name} must be finite, 0 or more, and "
                f"increase from one checkpoint to the next; there it is {values[at]:g}."
            )

    @classmethod
    def whole(cls, losses: Floats, costs: Floats | None = None) -> Trainings:
        """Rows that are looked up whole, from losses of shape (N, m), with one checkpoint each.

        Costs have shape (N,). By default, each row costs 1, so that one worker's clock counts look-ups.
        """
        n_rows = len(losses)
        known = np.ones(n_rows) if costs is None else costs
        return cls(np.arange(n_rows + 1), np.ones(n_rows), known, losses)

    def of_rows(self, rows: Rows) -> Trainings:
        """The trainings of some rows, in this order."""
        starts, places = places_of(self.starts, rows)
        found = (self.resources[places], self.costs[places], self.losses[places])
        return Trainings(starts, *found, self.resume)

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.starts) - 1

    def __repr__(self) -> str:
        """How many rows and checkpoints."""
        pausing = "can be resumed" if self.resume else "cannot be resumed"
        return f"Trainings({counted(len(self), 'row')}, {counted(len(self.costs), 'checkpoint')}, {pausing})"

    @cached_property
    def are_lookups(self) -> bool:
        """Whether every training is a look-up: one checkpoint that takes one unit of time."""
        return len(self.costs) == len(self) and bool((self.costs == 1.0).all())

    @property
    def arrays(self) -> list[NDArray[Any]]:
        """All arrays that a method could be shown."""
        return [self.starts, self.resources, self.costs, self.losses, self.best]

    @property
    def whole_costs(self) -> Floats:
        """What it costs to train each row to its end, shape (N,)."""
        return self.costs[self.starts[1:] - 1]

    @cached_property
    def final(self) -> Floats:
        """Losses of each row's best checkpoint, shape (N, m), read-only: what a whole training finds."""
        if len(self.losses) == len(self):
            return self.losses
        return frozen(self.best[self.starts[1:] - 1])

    @property
    def checkpoints_count(self) -> bool:
        """Whether each checkpoint is a model of its own, because there are several losses and checkpoints."""
        return self.losses.shape[1] > 1 and len(self.losses) > len(self)

    @property
    def models(self) -> Floats:
        """Losses of all K models that count: of each checkpoint, or of each row's best one, shape (K, m)."""
        return self.losses if self.checkpoints_count else self.final

    def place_of(self, rows: Rows, resources: Floats) -> Rows:
        """Where n rows' checkpoints at these resources are in the arrays, shape (n,). O(n log P).

        For a row without such a checkpoint, this is the place of its next larger checkpoint or, if there is
        none, a place that is not its own.
        """
        return self._order.places(rows, resources)

    @cached_property
    def _order(self) -> RowsThenResources:
        return RowsThenResources(self.owners, self.resources)

    @cached_property
    def owners(self) -> Rows:
        """The row of each of P checkpoints, shape (P,)."""
        return owners_of(self.starts)

    @cached_property
    def best(self) -> Floats:
        """Losses of the best checkpoint so far, shape (P, m), read-only. O(P log P), once."""
        lengths = np.diff(self.starts)
        if (lengths == 1).all():
            return self.losses
        count = len(self.losses)
        # Smaller losses rank first, then earlier checkpoints; NaN ranks last. The ranks of each row are
        # shifted below all ranks of the row before, so that a running minimum never reaches back into it.
        order = np.argsort(self.losses[:, 0], kind="stable")
        rank = np.empty(count, dtype=np.int64)
        rank[order] = np.arange(count)
        shift = self.owners * count
        return frozen(self.losses[order[np.minimum.accumulate(rank - shift) + shift]])


def owners_of(starts: Rows) -> Rows:
    """The row of each of P checkpoints, shape (P,), from where N rows' checkpoints begin, shape (N + 1,)."""
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def not_increasing(starts: Rows, values: Floats) -> Bools:
    """Which values at checkpoints do not exceed the value at the row's checkpoint before, shape (P,)."""
    wrong: Bools = np.diff(owners_of(starts), prepend=-1) == 0
    wrong[1:] &= values[1:] <= values[:-1]
    return wrong


def checkpoint_text(starts: Rows, at: int) -> str:
    """The row, and its checkpoint counted from 1, at a place in the arrays, for messages."""
    row = int(np.searchsorted(starts, at, side="right")) - 1
    return f"row {row}, checkpoint {at - int(starts[row]) + 1}"
