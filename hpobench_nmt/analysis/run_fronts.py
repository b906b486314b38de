"""Fronts of a run: how one trial's moves, and what the trials of each method attain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hpobench_nmt.analysis.selection import (
    EXACT,
    failure_notes,
    instance_of,
    methods_on,
    scored_trials,
    sound_trials,
)
from hpobench_nmt.benchmarking.instance import Instance
from hpobench_nmt.benchmarking.results import Results
from hpobench_nmt.core.errors import InputError, unknown
from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.core.trajectory import Trajectory
from hpobench_nmt.evaluation.hypervolume import (
    FrontScale,
    attainment_surface,
    hypervolume_shares,
    table_scale,
)
from hpobench_nmt.evaluation.random_search import random_search_attainment

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Fronts:
    """The Pareto front of one trial as it moves.

    Attributes:
        table, method, trial: which.
        labels: of the two axes.
        maximised: by objective, whether the largest value is the best.
        points: raw values of the two objectives in every row of the table, shape (N, 2).
        front: rows of the table's front, in order of the first objective.
        lookups: after how many each of the fronts was taken; the last may be where the trial ended.
        fronts: rows of each, likewise in order.
    """

    table: str
    method: str
    trial: int
    labels: tuple[str, str]
    maximised: tuple[bool, bool]
    points: Floats
    front: Rows
    lookups: tuple[int, ...]
    fronts: tuple[Rows, ...]


def moving_front(
    results: Results,
    table: str,
    method: str,
    lookups: Sequence[int] = (10, 20, 50, 100),
    trial: int | None = None,
) -> Fronts:
    """Fronts of a trial after so many look-ups, and at its end where that came before.

    Args:
        trial: None takes the typical one: of median hypervolume, on average over its look-ups up to the last.
    """
    instance = instance_of(results, table, 2)
    if (table, method) not in results.trials:
        raise unknown("method", method, methods_on(results, table), f"(table {table!r})")
    if not lookups or min(lookups) < 1:
        raise InputError("the fronts need numbers of look-ups of 1 or more.")
    trials = scored_trials(results, table, method)
    if trial is None:
        trial = _typical(trials, table_scale(instance.scored), max(lookups))
    if not 0 <= trial < len(trials):
        raise InputError(f"trial {trial} of {method} on {table}: there are trials 0 to {len(trials) - 1}.")
    chosen = trials[trial]
    steps = sorted({min(n, len(chosen.rows)) for n in lookups})
    fronts = [chosen.rows[:n][pareto_front(chosen.losses[:n])] for n in steps]
    first, second = (o.direction == "max" for o in instance.objectives)
    return Fronts(
        table=table,
        method=method,
        trial=trial,
        labels=_labels(instance),
        maximised=(first, second),
        points=_raw(instance, instance.losses),
        front=_in_order(instance, pareto_front(instance.scored)),
        lookups=tuple(steps),
        fronts=tuple(_in_order(instance, rows) for rows in fronts),
    )


@dataclass(frozen=True, eq=False)
class Attainment:
    """The points that a share of the trials attain after some look-ups.

    Attributes:
        table: its name.
        lookups: after how many.
        level: share of the trials; 0.5 gives the median front.
        labels: of the two axes.
        points: raw values of the two objectives in every row of the table, shape (N, 2).
        frame: method, x, y: vertices of each method's staircase in raw values, in drawing order.
        notes: what is missing, in words.
    """

    table: str
    lookups: int
    level: float
    labels: tuple[str, str]
    points: Floats
    frame: pd.DataFrame
    notes: tuple[str, ...]


def attainment(results: Results, table: str, lookups: int, level: float = 0.5) -> Attainment:
    """Attainment surfaces of all methods after so many look-ups, and that of random search."""
    instance = instance_of(results, table, 2)
    if lookups < 1:
        raise InputError(f"the number of look-ups must be at least 1, not {lookups}.")
    front = pareto_front(instance.scored)
    surfaces, notes = {}, failure_notes(results, table)
    for method in methods_on(results, table):
        trials = sound_trials(results, table, method)
        # A trial that ended with the whole front has no more to find.
        known = [len(t.rows) >= lookups or bool(np.isin(front, t.rows).all()) for t in trials]
        if not all(known):
            notes.append(
                f"{method}: left out, because {known.count(False)} trials stopped before look-up {lookups}."
            )
        elif trials:
            surfaces[method] = attainment_surface([t.losses[:lookups] for t in trials], level)
    surfaces[EXACT] = random_search_attainment(instance.scored, lookups, level)
    worst = np.nanmax(instance.scored, axis=0)
    frames = []
    for method, corners in surfaces.items():
        if len(corners):
            raw = _raw(instance, _staircase(corners, worst))
            frames.append(pd.DataFrame({"method": method, "x": raw[:, 0], "y": raw[:, 1]}))
        else:
            notes.append(f"{method}: attains nothing yet in {level:.0%} of the trials.")
    frame = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=["method", "x", "y"])
    points = _raw(instance, instance.losses)
    return Attainment(table, lookups, level, _labels(instance), points, frame, tuple(notes))


def _typical(trials: Sequence[Trajectory], scale: FrontScale, lookups: int) -> int:
    shares = hypervolume_shares(trials, scale)[:, :lookups]
    sound = np.array([not t.failure and len(t.rows) > 0 for t in trials])
    if not sound.any():
        raise InputError("every trial failed, so there is none to show.")
    mean = np.where(sound, np.nan_to_num(shares).mean(axis=1), np.inf)
    return int(np.argsort(mean, kind="stable")[(sound.sum() - 1) // 2])


def _labels(instance: Instance) -> tuple[str, str]:
    first, second = (instance.table.metric(objective.metric).label for objective in instance.objectives)
    return first, second


def _raw(instance: Instance, losses: Floats) -> Floats:
    """Losses as the table has them."""
    columns = zip(instance.objectives, losses.T, strict=True)
    return np.column_stack([objective.to_raw(column) for objective, column in columns])


def _in_order(instance: Instance, rows: Rows) -> Rows:
    return rows[np.argsort(instance.losses[rows, 0], kind="stable")]


def _staircase(corners: Floats, worst: Floats) -> Floats:
    """Vertices of a staircase through its corners, out to the worst of both losses."""
    xs, ys = corners.T
    return np.column_stack(
        [np.repeat(np.append(xs, worst[0]), 2)[:-1], np.repeat(np.append(worst[1], ys), 2)[1:]]
    )
