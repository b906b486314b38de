"""Fronts of a run: how the front of one trial moves, and what the trials of each method attain."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from hpobench_nmt.analysis.selection import EXACT, failure_notes, instance_of, methods_on, sound_trials
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.benchmarking.task.instance import Instance
from hpobench_nmt.core.arrays import Floats, Rows
from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.evaluation.hypervolume import attainment_surface
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
class Plane:
    """Two objectives of a table, in which fronts are shown.

    Attributes:
        table: the table's name.
        labels: labels of the two axes.
        maximised: by axis, whether the largest value is the best.
        points: raw values of these two objectives in every candidate, shape (N, 2): the table's rows, or in a
            run along learning curves the rows that have a curve.
        front: the front of all candidates, as indices into `points`, in the order of the first of the two
            objectives. It is the front in all objectives: if there are more than two, it is not a staircase.
        n_objectives: the number of objectives.
    """

    table: str
    labels: tuple[str, str]
    maximised: tuple[bool, bool]
    points: Floats
    front: Rows
    n_objectives: int


def plane_of(instance: Instance, pair: Pair) -> Plane:
    """The plane of two objectives of a table, by their places."""
    goals = [instance.objectives[j] for j in pair]
    first, second = (instance.table.metric(goal.metric).label for goal in goals)
    maximised = (goals[0].direction == "max", goals[1].direction == "max")
    points = _raw(instance, instance.losses[:, pair], pair)
    front = in_order(instance, pareto_front(instance.scored), pair)
    return Plane(instance.table.name, (first, second), maximised, points, front, len(instance.objectives))


def in_order(instance: Instance, rows: Rows, pair: Pair) -> Rows:
    """Candidates in the order of the first of two objectives, the best first."""
    return rows[np.argsort(instance.losses[rows, pair[0]], kind="stable")]


@dataclass(frozen=True, eq=False)
class Attainment(Plane):
    """The points that a share of the trials, `level`, attain in two objectives after some look-ups.

    The frame has method, x, y: vertices of each method's staircase in raw values, in drawing order. The notes
    state what is missing, in words.
    """

    lookups: int
    level: float
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
    plane = plane_of(instance, pair)
    surfaces, notes = {}, failure_notes(results, table)
    for method in methods_on(results, table):
        trials = sound_trials(results, table, method)
        # A trial that has found the whole front has nothing more to find.
        known = [len(t.rows) >= lookups or bool(np.isin(plane.front, t.candidates).all()) for t in trials]
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
    return Attainment(**vars(plane), lookups=lookups, level=level, frame=frame, notes=tuple(notes))


def _raw(instance: Instance, losses: Floats, pair: Pair) -> Floats:
    """Losses of two objectives, shape (n, 2), as values in the table."""
    columns = zip(pair, losses.T, strict=True)
    return np.column_stack([instance.objectives[j].to_raw(column) for j, column in columns])


def _staircase(corners: Floats, worst: Floats) -> Floats:
    """Vertices of a staircase through its corners, extended to the worst of both losses."""
    xs, ys = np.append(corners[:, 0], worst[0]), np.append(worst[1], corners[:, 1])
    return np.column_stack([np.repeat(xs, 2)[:-1], np.repeat(ys, 2)[1:]])
