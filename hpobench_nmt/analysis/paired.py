"""When trials reached their targets. They are paired: all methods share a trial's sample and its start."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hpobench_nmt.benchmarking.task.target import Aims
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.seeds import generator
from hpobench_nmt.evaluation.figure import Figure, times_fewer
from hpobench_nmt.evaluation.intervals import CONFIDENCE
from hpobench_nmt.evaluation.verdicts import on_these_tables
from hpobench_nmt.methods import CONTROLS

SIMULATED = "RS"
_SPLITS, _FEWEST_OF_A_HALF, _FEWEST_METHODS = 1000, 2, 3


@dataclass(frozen=True, eq=False)
class Paired:
    """The trials of k methods on the tables of a run, of which trials of one number are paired.

    Attributes:
        methods: their names.
        families: by table, the name of its family.
        runtimes: by table, min(T, tau) of each trial, shape (k, trials); NaN if the trial failed, or was
            stopped before tau.
        aims: by table, what trials aim at, and how long random search takes.
        copies: by table, whether all trials of a method are the same run, shape (k,).
    """

    methods: tuple[str, ...]
    families: Mapping[str, str]
    runtimes: Mapping[str, Floats]
    aims: Mapping[str, Aims]
    copies: Mapping[str, Sequence[bool]]

    def figure(self, method: str = "", other: str = "") -> Figure:
        """The figure of all methods, or of one, against random search, or against another method."""
        own = [self.methods.index(method)] if method else [*range(len(self.methods))]
        runtimes = [values[own] for values in self.runtimes.values()]
        copies = np.array([[same[i] for i in own] for same in self.copies.values()])
        return times_fewer(runtimes, self._references(other), list(self.families.values()), copies)

    def best_possible(self, other: str = "") -> Floats:
        """The log ratio of a method that knows the targets, mean of each family's tables, shape (F,)."""
        least = [aims.least[None] for aims in self.aims.values()]
        families = [self.families[table] for table in self.runtimes]
        return times_fewer(least, self._references(other), families).family_logs[:, 0]

    def places(self) -> dict[str, tuple[int, int]]:
        """The best and the worst place of each method when one family is left out; empty for one family.

        Methods without a figure, and controls, have no place.
        """
        figure = self.figure()
        logs, known = figure.family_logs, ~np.isnan(figure.log)
        ranked = [i for i, m in enumerate(self.methods) if m not in CONTROLS and known[i]]
        if len(logs) < 2:
            return {}
        places = []
        for left_out in range(len(logs)):
            means = np.delete(logs, left_out, axis=0).mean(axis=0)[ranked]
            places.append([1 + int((means > mean).sum()) for mean in means])
        ends = np.min(places, axis=0).tolist(), np.max(places, axis=0).tolist()
        return {self.methods[i]: (low, high) for i, low, high in zip(ranked, *ends, strict=True)}

    def agreement(self) -> tuple[float, float]:
        """How alike two random halves of the families order the methods: the mean of Kendall's tau over
        `_SPLITS` splits, and its 10% quantile. NaN for fewer than four families or three methods.

        Random search, controls, and methods without a figure are left out.
        """
        figure, left_out = self.figure(), (SIMULATED, *CONTROLS)
        known = [i for i in np.flatnonzero(~np.isnan(figure.log)) if self.methods[i] not in left_out]
        logs = figure.family_logs[:, known]
        if len(logs) < 2 * _FEWEST_OF_A_HALF or len(known) < _FEWEST_METHODS:
            return math.nan, math.nan
        rng, half = generator(0, "halves of the families"), len(logs) // 2
        a, b = np.triu_indices(len(known), 1)
        taus = []
        for _ in range(_SPLITS):
            order = rng.permutation(len(logs))
            first, second = (logs[part].mean(axis=0) for part in (order[:half], order[half:]))
            taus.append(np.mean(np.sign(first[a] - first[b]) * np.sign(second[a] - second[b])))
        return float(np.mean(taus)), float(np.quantile(taus, 0.1))

    def ranked_on(self, table: str) -> list[str]:
        """The methods that have a value on a table, without controls, the fastest first."""
        means = self.runtimes[table].mean(axis=1)
        order = np.argsort(means, kind="stable")
        return [self.methods[i] for i in order if means[i] == means[i] and self.methods[i] not in CONTROLS]

    def as_fast_on(self, table: str) -> list[str]:
        """The methods that a t test over paired trials does not show to be slower than the fastest, at 5%."""
        first, *others = self.ranked_on(table)
        runtimes = self.runtimes[table]
        found = []
        for method in others:
            pair = [self.methods.index(name) for name in (first, method)]
            figure = times_fewer([runtimes[pair[:1]]], [runtimes[pair[1:]]], [table])
            if not on_these_tables(figure, 0).p < 1 - CONFIDENCE:
                found.append(method)
        return found

    def _references(self, other: str) -> list[Floats]:
        """By table, how long random search takes given each trial's start, or another method."""
        if not other:
            return [aims.random_search for aims in self.aims.values()]
        place = self.methods.index(other)
        return [values[[place]] for values in self.runtimes.values()]
