"""A ruler: a method whose true ratio to random search is known, and lies between 1 and that of an oracle."""

from __future__ import annotations

from fractions import Fraction
from math import comb, floor


def peeking(losses, share):
    """Random search that has peeked at floor(share * j) of the rows that are left when it makes its j-th
    look-up after the start, and looks up the best of them. The share is a Fraction of 1 or more."""

    class Peeking:
        def __init__(self, problem, rng):
            self.order = rng.permutation(len(problem.features)).tolist()
            self.start, self.told = None, []

        def ask(self):
            if self.start is None:
                self.start = set(self.told)
                self.order = [row for row in self.order if row not in self.start]
            seen = set(self.told)
            peeked = self.order[: floor(share * (len(seen - self.start) + 1))]
            return min((row for row in peeked if row not in seen), key=lambda row: losses[row])

        def tell(self, index, losses):
            self.told.append(index)

    return Peeking


def ruler_given_start(rows_left, targets_left, start_hit, n_initial, tau, share: Fraction):
    """Its restricted mean given the start, for a whole number tau."""
    if start_hit:
        return n_initial
    peeked = [min(floor(share * s), rows_left) for s in range(tau - n_initial)]
    return n_initial + sum(comb(rows_left - targets_left, p) / comb(rows_left, p) for p in peeked)
