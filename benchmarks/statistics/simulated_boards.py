"""Simulated leaderboards of random search and of a ruler, whose true figures are known.

A trial sees 60% of a table's rows in a random order, starts with the first three of them, and ends after 100
look-ups at the latest. The target is a row among the best 2% of the sample. All methods of a leaderboard
share samples and starts. Rows are permuted with numpy: neither the package's loop nor its formulas are used.

The ruler is random search that has peeked at floor(c j) of the rows that are left when it makes its j-th
look-up after the start, and looks up the best of them. With c = 1 it is random search.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hpobench_nmt.core.arrays import Bools, Floats, Ints
from hpobench_nmt.evaluation.given_start import random_search_given_start
from hpobench_nmt.evaluation.random_search import none_drawn
from hpobench_nmt.lookup.catalogue import load_table

FAMILIES = {
    "lohelp-alignment": "alignment",
    "lohelp-de-en": "translation",
    "sotu-awd-lstm": "awd-lstm",
    "sotu-dyneval": "dyneval",
    "sotu-dyneval-short": "dyneval",
    "sotu-gpt-30k": "gpt",
    "sotu-gpt-80k": "gpt",
    "sotu-ngram": "ngram",
    "sotu-ngram-curves": "ngram",
}
"""Tables that ship, at most two of a family."""
START, MOST, BEST = 3, 100, 50
_AT_ONCE = 2**24  # the most numbers in memory


@dataclass(frozen=True, eq=False)
class Starts:
    """What boards share on a table: trials have shape (boards, trials).

    `left` is the number of rows after the start, `targets` that of targets among them, `hit` whether the
    start has a target, and `budget` the most look-ups.
    """

    left: int
    targets: Ints
    hit: Bools
    budget: int

    def by_start(self, value: dict[tuple[int, bool], float]) -> Floats:
        """A value that depends on the start, by the number of targets left and whether the start hits."""
        found = np.empty(self.targets.shape)
        for (targets, hit), number in value.items():
            found[(self.targets == targets) & (self.hit == hit)] = number
        return found

    def kinds(self) -> list[tuple[int, bool]]:
        """All (targets left, hit) that occur."""
        pairs = np.unique(np.stack([self.targets.ravel(), self.hit.ravel()]), axis=1)
        return [(int(k), bool(hit)) for k, hit in pairs.T]

    def random_search(self) -> Floats:
        """The exact restricted mean of random search given each start."""
        return self.by_start(
            {
                (k, hit): random_search_given_start(self.left, k, hit, START, self.budget)
                for k, hit in self.kinds()
            }
        )

    def ruler(self, share: Fraction) -> Floats:
        """The exact restricted mean of the ruler given each start."""
        peeked = [min(math.floor(share * s), self.left) for s in range(self.budget - START)]
        return self.by_start(
            {
                (k, hit): START + (0.0 if hit else float(none_drawn(self.left, k)[peeked].sum()))
                for k, hit in self.kinds()
            }
        )

    def runtimes(self, rng: np.random.Generator, copies: int, share: Fraction = Fraction(1)) -> Floats:
        """Runtimes of independent copies of the ruler, at most the budget: shape (copies, boards, trials)."""
        most = int(self.targets.max())
        found = np.empty((copies, self.targets.size))
        targets, hit = self.targets.ravel(), self.hit.ravel()
        for part in parts(targets.size, copies * self.left):
            # Where each row comes in the order of a copy; the targets are the first rows.
            place = rng.random((copies, len(targets[part]), self.left), dtype=np.float32)
            first = np.where(np.arange(most) < targets[part, None], place[..., :most], np.inf).min(axis=2)
            place_of_first = 1 + (place < first[..., None]).sum(axis=2)
            # The first look-up j with floor(share j) >= the place.
            looked = -(-place_of_first * share.denominator // share.numerator)
            found[:, part] = np.where(hit[part], START, np.minimum(START + looked, self.budget))
        return found.reshape(copies, *self.targets.shape)


def losses_of(table: str) -> Floats:
    """The first objective of a table's rows; missing values are infinite."""
    loaded = load_table(table)
    return np.nan_to_num(loaded.losses(loaded.objectives[:1])[:, 0], nan=np.inf)


def starts_on(losses: Floats, boards: int, trials: int, rng: np.random.Generator) -> Starts:
    """Random samples and starts on a table of these losses."""
    n_rows = len(losses)
    n = max(3 * n_rows // 5, min(40, n_rows))
    rank = math.ceil(n / BEST)
    left, hit = np.empty(boards * trials, np.int64), np.empty(boards * trials, bool)
    for part in parts(len(left), n_rows):
        sample = rng.permuted(np.tile(losses, (len(left[part]), 1)), axis=1)[:, :n]
        targets = sample <= np.partition(sample, rank - 1, axis=1)[:, rank - 1 : rank]
        hit[part], left[part] = targets[:, :START].any(axis=1), targets[:, START:].sum(axis=1)
    return Starts(n - START, left.reshape(boards, trials), hit.reshape(boards, trials), min(n, MOST))


def parts(count: int, numbers: int) -> Iterator[slice]:
    """Slices of `count` lines of this many numbers that fit into memory."""
    size = max(_AT_ONCE // numbers, 1)
    for first in range(0, count, size):
        yield slice(first, first + size)
