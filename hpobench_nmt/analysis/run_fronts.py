"""Fronts of a run: how the front of one trial moves, and what the trials of each method attain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from hpobench_nmt.analysis.selection import (
    EXACT,
    failure_notes,
    instance_of,
    methods_on,
    scored_trials,
    sound_trials,
)
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.benchmarking.task.instance import Instance
from hpobench_nmt.core.arrays import Floats, Rows
from hpobench_nmt.core.pareto import FrontScale, pareto_front
from hpobench_nmt.core.system.errors import InputError, unknown
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.core.trajectory import Trajectory
from hpobench_nmt.evaluation.curves import hypervolume_shares
from hpobench_nmt.evaluation.hypervolume import attainment_surface, table_scale
from hpobench_nmt.evaluation.random_search import random_search_attainment

Pair = tuple[int, int]

# Three objectives have three pairs, and four have six. More figures would be too many to look at.
_MOST_PAIRED = 4


def pairs_of_objectives(n_objectives: int) -> list[Pair]:
    """Places of the two objectives of each figure: all pairs, or from five objectives on the first's."""
    if n_objectives > _MOST_PAIRED:
        return [(0, j) for j in range(1, n_objectives)]
    return list(combinations(range(n_objectives), 2))


@dataclass(frozen=True, eq=False)
class Fronts:
    """The Pareto front of one trial as it moves.

    Attributes:
        table, method, trial: the table, the method and the number of the trial.
        labels: labels of the two axes.
        maximised: by axis, whether the largest value is the best.
        points: raw values of these two objectives in every candidate, shape (N, 2): the table's rows, or in a
            run along learning curves the rows that have a curve.
        front: the front of all candidates, as indices into `points`, in the order of the first of the two
            objectives. It is the front in all objectives: if there are more than two, it is not a staircase.
        n_objectives: the number of objectives.
        lookups: after how many look-ups each of the fronts was taken; the last may be the trial's end.
        fronts: the indices of each front, in the same order.
    """

    table: str
    method: str
    trial: int
    labels: tuple[str, str]
    maximised: tuple[bool, bool]
    points: Floats
    front: Rows
    n_objectives: int
    lookups: tuple[int, ...]
    fronts: tuple[Rows, ...]


def moving_front(
    results: Results,
    table: str,
    method: str,
    lookups: Sequence[int] = (10, 20, 50, 100),
    trial: int | None = None,
    pair: Pair = (0, 1),
) -> Fronts:
    """Fronts of a trial in all objectives after these numbers of look-ups, or at its end if that came before.

    `pair` has the places of the two objectives to show. By default, the trial is the typical one: its mean
    hypervolume, over look-ups up to the last number, is the median.
    """
    instance = instance_of(results, table, 2)
    if (table, method) not in results.trials:
        raise unknown("method", method, methods_on(results, table), f"(table {table!r})")
    if not lookups or min(lookups) < 1:
        raise InputError("the fronts need numbers of look-ups of 1 or more.")
    trials = scored_trials(results, table, method)
    if trial is None:
        trial = typical_trial(trials, table_scale(instance.scored), max(lookups))
    if not 0 <= trial < len(trials):
        raise InputError(
            f"trial {trial} of {method} on {table} does not exist: there are trials 0 to {len(trials) - 1}."
        )
    chosen = trials[trial]
    steps = sorted({min(n, len(chosen.rows)) for n in lookups})
    fronts = [chosen.candidates[:n][pareto_front(chosen.losses[:n])] for n in steps]
    labels, maximised = axes_of(instance, pair)
    return Fronts(
        table=table,
        method=method,
        trial=trial,
        labels=labels,
        maximised=maximised,
        points=raw_points(instance, pair),
        front=_in_order(instance, pareto_front(instance.scored), pair),
        n_objectives=len(instance.objectives),
        lookups=tuple(steps),
        fronts=tuple(_in_order(instance, rows, pair) for rows in fronts),
    )


@dataclass(frozen=True, eq=False)
class Attainment:
    """The points that a share of the trials, `level`, attain in two objectives after some look-ups.

    `points` are raw values of these objectives in every row of the table, shape (N, 2), for axes with these
    labels. `maximised` states for each whether larger values are better. The frame has method, x, y: vertices
    of each method's staircase in raw values, in drawing order. The notes state what is missing, in words.
    """

    table: str
    lookups: int
    level: float
    labels: tuple[str, str]
    maximised: tuple[bool, bool]
    points: Floats
    frame: pd.DataFrame
    notes: tuple[str, ...]


def attainment(
    results: Results, table: str, lookups: int, level: float = 0.5, pair: Pair = (0, 1)
) -> Attainment:
    """Attainment surfaces of all methods, and random search, in two objectives after some look-ups."""
    instance = instance_of(results, table, 2)
    scored = instance.scored[:, pair]
    if lookups < 1:
        raise InputError(f"the number of look-ups must be at least 1, not {lookups}.")
    front = pareto_front(instance.scored)
    surfaces, notes = {}, failure_notes(results, table)
    for method in methods_on(results, table):
        trials = sound_trials(results, table, method)
        # A trial that has found the whole front has nothing more to find.
        known = [len(t.rows) >= lookups or bool(np.isin(front, t.candidates).all()) for t in trials]
        if not all(known):
            notes.append(
                f"{method}: left out, because {counted(known.count(False), 'trial')} stopped before look-up "
                f"{lookups}."
            )
        elif trials:
            surfaces[method] = attainment_surface([t.losses[:lookups, pair] for t in trials], level)
    surfaces[EXACT] = random_search_attainment(scored, lookups, level)
    worst = np.nanmax(scored, axis=0)
    frames = []
    for method, corners in surfaces.items():
        if len(corners):
            raw = _raw(instance, _staircase(corners, worst), pair)
            frames.append(pd.DataFrame({"method": method, "x": raw[:, 0], "y": raw[:, 1]}))
        else:
            notes.append(f"{method}: no point of the front has been attained in {level:.0%} of the trials.")
    frame = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=["method", "x", "y"])
    labels, maximised = axes_of(instance, pair)
    points = raw_points(instance, pair)
    return Attainment(table, lookups, level, labels, maximised, points, frame, tuple(notes))


def typical_trial(trials: Sequence[Trajectory], scale: FrontScale, lookups: int) -> int:
    """The trial whose mean hypervolume over its look-ups is the median; InputError if every trial failed."""
    shares = hypervolume_shares(trials, scale, np.arange(1.0, lookups + 1))
    sound = np.array([not t.failure and len(t.rows) > 0 for t in trials])
    if not sound.any():
        raise InputError("every trial failed, so there is no trial to show.")
    mean = np.where(sound, np.nan_to_num(shares).mean(axis=1), np.inf)
    return int(np.argsort(mean, kind="stable")[(sound.sum() - 1) // 2])


def axes_of(instance: Instance, pair: Pair) -> tuple[tuple[str, str], tuple[bool, bool]]:
    """Labels of two objectives, and whether larger values of each are better."""
    first, second = (instance.objectives[j] for j in pair)
    labels = (instance.table.metric(first.metric).label, instance.table.metric(second.metric).label)
    return labels, (first.direction == "max", second.direction == "max")


def raw_points(instance: Instance, pair: Pair) -> Floats:
    """The values of two objectives in every row, as in the table, shape (N, 2)."""
    return _raw(instance, instance.losses[:, pair], pair)


def _raw(instance: Instance, losses: Floats, pair: Pair) -> Floats:
    """Losses of two objectives, shape (n, 2), as values in the table."""
    columns = zip(pair, losses.T, strict=True)
    return np.column_stack([instance.objectives[j].to_raw(column) for j, column in columns])


def _in_order(instance: Instance, rows: Rows, pair: Pair) -> Rows:
    return rows[np.argsort(instance.losses[rows, pair[0]], kind="stable")]


def _staircase(corners: Floats, worst: Floats) -> Floats:
    """Vertices of a staircase through its corners, extended to the worst of both losses."""
    xs, ys = corners.T
    return np.column_stack(
        [np.repeat(np.append(xs, worst[0]), 2)[:-1], np.repeat(np.append(worst[1], ys), 2)[1:]]
    )
