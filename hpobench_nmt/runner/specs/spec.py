"""A training spec in memory: the models to train, and what to measure. spec_file.py reads it."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.hyperparameter import is_number, key_of
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.seeds import generator
from hpobench_nmt.core.space import Hyperparameter, Space, Value, config_key, label, row_index, short_label
from hpobench_nmt.core.system.errors import InputError, unknown
from hpobench_nmt.core.system.files import write_whole
from hpobench_nmt.core.system.text import number_of
from hpobench_nmt.core.system.validation import Natural, Strict
from hpobench_nmt.lookup.baselines import Baseline
from hpobench_nmt.lookup.disk.file_names import SPEC
from hpobench_nmt.runner.family import Family
from hpobench_nmt.runner.settings import settings_of

_POINTS = 1024  # points of the sequence that are drawn at once: a power of 2
SAME_SEED = 1_000_000
"""Replicates from SAME_SEED + 1 on repeat a training with the seed of the row itself."""

Configuration = Mapping[str, Value]
"""Values on the grid by hyperparameter."""


class Replicates(Strict, frozen=True):
    """The section [replicates].

    Attributes:
        configurations: how many configurations, drawn at random, are trained again.
        trainings: how often each of them is trained again with other seeds.
        best: how many of the best rows are trained again as well.
        same_seed: how often all of these rows are also trained again with the seed of the row itself.
    """

    configurations: Natural = 0
    trainings: Natural = 0
    best: Natural = 0
    same_seed: Natural = 0


@dataclass(frozen=True, eq=False)
class Spec:
    """A checked spec: the models to train and what to measure. spec_file.py describes the keys of its file.

    Attributes:
        seed: determines the order of the trainings, the points or candidates, and the rows that are trained
            again. It also determines every training's seed, unless the family does (Family.seed).
        metrics: columns of the table.
        axes: the grid, one axis per hyperparameter, with the condition under which it is active.
        replicates: which rows are trained again, and how often.
        base: folder that relative paths of the corpus start from.
        keep: whether the best model of each training is kept. Rows do not depend on it.
        points: how many rows of the grid are trained, spread evenly; 0: all.
        neighbours: how many of the best of these rows have their neighbours on the grid trained as well.
        baseline: a simpler model that rows should beat, for the datasheet.
        ranges: if the grid has ranges, each hyperparameter's ends or list, and its scale; else empty.
        drawn: if the grid has ranges, the candidates drawn from it, shape (N, H), instead of a grid.
        start: a row that `tune` trains first.
        curve: for a program with learning curves, the resource of the first checkpoint at which a training
            may be stopped, and that of a whole training.
        heading: lines that a copy of the file begins with, because they were given elsewhere.
    """

    name: str
    note: str
    family: Family[Any]
    seed: int
    objectives: tuple[str, ...]
    metrics: tuple[Metric, ...]
    axes: tuple[Hyperparameter, ...]
    fixed: Mapping[str, Any]
    base: Path
    path: Path
    title: str = ""
    corpus: Mapping[str, Any] = field(default_factory=dict)
    replicates: Replicates = field(default_factory=Replicates)
    keep: bool = False
    points: int = 0
    neighbours: int = 0
    baseline: Baseline | None = None
    ranges: Mapping[str, Any] = field(default_factory=dict)
    drawn: Floats | None = None
    start: int | None = None
    curve: tuple[int, int] | None = None
    heading: str = ""

    @property
    def size(self) -> int:
        """N, the number of configurations."""
        return len(self._points) if self.drawn is None else len(self.drawn)

    @cached_property
    def configs(self) -> Floats:
        """The codes of all configurations, shape (N, H). The last axis varies fastest."""
        if self.drawn is not None:
            return self.drawn
        codes = self._codes(self._places_at(self._points))
        return np.where(self.space.active(codes), codes, np.nan) if self._has_conditions else codes

    @cached_property
    def _points(self) -> NDArray[np.intp]:
        """The point of each configuration on the full grid, ascending."""
        points = np.arange(math.prod(self._lengths))
        return np.asarray(points[self._settled(points) == points])

    def _settled(self, points: NDArray[np.intp]) -> NDArray[np.intp]:
        """Points of the full grid, with the first value of each hyperparameter that is inactive there."""
        if not self._has_conditions:
            return points
        places = self._places_at(points)
        places[~self.space.active(self._codes(places))] = 0
        return np.asarray(np.ravel_multi_index(tuple(places.T), self._lengths))

    def _rows_at(self, points: NDArray[np.intp]) -> NDArray[np.intp]:
        """The rows of points of the full grid, in which values of inactive hyperparameters do not matter."""
        return np.asarray(np.searchsorted(self._points, self._settled(points)))

    def _places_at(self, points: NDArray[np.intp]) -> NDArray[np.intp]:
        """For each point of the full grid, the place of its value on each axis, shape (N, H)."""
        return np.array(np.unravel_index(points, self._lengths)).T

    def _codes(self, places: NDArray[np.intp]) -> Floats:
        return np.column_stack([np.array(a.numbers)[p] for a, p in zip(self.axes, places.T, strict=True)])

    @cached_property
    def _lengths(self) -> tuple[int, ...]:
        return tuple(len(axis.values) for axis in self.axes)

    @cached_property
    def _has_conditions(self) -> bool:
        return any(axis.active_if for axis in self.axes)

    def inactive(self, configuration: Configuration) -> set[str]:
        """Names of the inactive hyperparameters, whether or not the configuration has a value of them."""
        found: set[str] = set()
        for axis in self.space.parents_first:
            if any(p in found or configuration.get(p) not in values for p, values in axis.active_if):
                found.add(axis.name)
        return found

    @property
    def grid(self) -> dict[str, tuple[Value, ...]]:
        """The values of each hyperparameter."""
        return {axis.name: axis.values for axis in self.axes}

    @cached_property
    def space(self) -> Space:
        """The grid as a search space."""
        return Space(self.axes)

    def configuration(self, row: int) -> dict[str, Value]:
        """The configuration of a row of the grid, with whole numbers as int."""
        if self.drawn is not None:
            codes = self.drawn[row]
        else:
            (codes,) = self._codes(self._places_at(self._points[row : row + 1]))
        values = self.space.decode(codes).items()
        return self._active({k: int(v) if isinstance(v, float) and v == int(v) else v for k, v in values})

    def _active(self, configuration: Configuration) -> dict[str, Value]:
        """A configuration without the values of inactive hyperparameters."""
        inactive = self.inactive(configuration)
        return {name: value for name, value in configuration.items() if name not in inactive}

    def row(self, configuration: Configuration) -> int | None:
        """The row of a configuration, or None if it is not on the grid. Costs O(H)."""
        if self.drawn is not None:
            try:
                return self._drawn_rows.get(config_key(self.space.encode(configuration)))
            except InputError:
                return None
        point, inactive = 0, self.inactive(configuration)
        if inactive & configuration.keys():
            return None
        for axis, places in zip(self.axes, self._places, strict=True):
            place = 0 if axis.name in inactive else places.get(key_of(configuration.get(axis.name)))
            if place is None:
                return None
            point = point * len(places) + place
        return int(np.searchsorted(self._points, point))

    @cached_property
    def _drawn_rows(self) -> dict[bytes, int]:
        """The row of each candidate."""
        return row_index(self.configs)

    @cached_property
    def _places(self) -> list[dict[tuple[bool, Any], int]]:
        """For each axis, the place of each value."""
        return [{key_of(value): place for place, value in enumerate(axis.values)} for axis in self.axes]

    def settings(self, configuration: Configuration) -> Any:
        """The family's settings for a configuration."""
        if self.family.program:
            return self._active(configuration)
        known, where = settings_of(self.family.settings), str(self.path)
        given = {**self.fixed, **self._active(configuration)}
        return self.family.settings(**{name: known[name].check(v, where) for name, v in given.items()})

    def training_seed(self, configuration: Configuration, replicate: int) -> int:
        """The seed of a training: the family's, or one of its own, so that noise is independent."""
        replicate = 0 if replicate > SAME_SEED else replicate
        if self.family.seed:
            return self.family.seed(self.settings(configuration), replicate)
        rng = generator(self.seed, "training", configuration_key(configuration), replicate)
        return int(rng.integers(2**31))

    @cached_property
    def sample(self) -> NDArray[np.intp]:
        """Rows that are trained regardless of results: all rows, or points of a scrambled Sobol sequence.

        Specs with the same seed and the same number of values on each axis have the same points. A spec that
        asks for more points has the same points and further ones.
        """
        if not self.points or self.points >= self.size:
            return np.arange(self.size)
        from scipy.stats import qmc  # the import takes half a second, and few specs need it

        sequence = qmc.Sobol(len(self.axes), rng=generator(self.seed, "points"))
        rows = np.zeros(0, dtype=np.intp)
        while len(np.unique(rows)) < self.points:  # several points of the sequence may fall on one row
            places = (sequence.random(_POINTS) * self._lengths).astype(np.intp)
            rows = np.append(rows, self._rows_at(np.ravel_multi_index(tuple(places.T), self._lengths)))
        _, first = np.unique(rows, return_index=True)
        return rows[np.sort(first)[: self.points]]

    def neighbours_of(self, row: int) -> list[int]:
        """The rows one step away on one axis of the grid."""
        lengths = self._lengths
        (places,) = self._places_at(self._points[row : row + 1])
        steps = (places + sign * step for step in np.eye(len(lengths), dtype=np.intp) for sign in (-1, 1))
        inside = [p for p in steps if (p >= 0).all() and (p < lengths).all()]
        rows = self._rows_at(np.array([np.ravel_multi_index(tuple(p), lengths) for p in inside], np.intp))
        # A step on an inactive axis leads back to the row.
        return [found for found in dict.fromkeys(rows.tolist()) if found != row]

    @cached_property
    def replicate_rows(self) -> tuple[int, ...]:
        """Rows that are trained again, drawn before any result is known, so that the choice is fair."""
        count = min(self.replicates.configurations, len(self.sample))
        if not count:  # saves the import of numpy.random, which takes time
            return ()
        rng = generator(self.seed, "replicates")
        chosen = rng.choice(len(self.sample), size=count, replace=False)
        return tuple(sorted(self.sample[chosen].tolist()))

    @cached_property
    def identity(self) -> dict[str, Any]:
        """Everything that a ledger's rows depend on. The grid's values are left out, so that it can grow."""
        return {
            "name": self.name,
            "family": self.family.name,
            "seed": self.seed,
            "corpus": dict(self.corpus),
            "hyperparameters": sorted(axis.name for axis in self.axes),
            "fixed": dict(sorted(self.fixed.items())),
            "defaults": {
                name: default
                for name, default in self.family.defaults.items()
                if name not in self.fixed and name not in self.grid
            },
            **({"ranges": dict(self.ranges)} if self.ranges else {}),
        }


def configuration_key(configuration: Configuration) -> str:
    """A canonical text of a configuration. The order of names and the types of numbers do not matter."""
    return json.dumps({k: float(v) if is_number(v) else v for k, v in sorted(configuration.items())})


def short_key(configuration: Configuration, replicate: int) -> str:
    """A file name for one training."""
    return hashlib.sha256(f"{configuration_key(configuration)} {replicate}".encode()).hexdigest()[:20]


def write_copy(spec: Spec, folder: Path) -> None:
    """Write a copy of the spec's file into a folder, unless the file lies there."""
    copy, text = folder / SPEC, copy_for(spec, folder)
    if copy.resolve() != spec.path.resolve():
        write_whole(copy, text.encode())


def copy_for(spec: Spec, folder: Path) -> str:
    """The spec's text for a copy in a folder. The copy still finds the corpus's files."""
    text = spec.heading + spec.path.read_text(encoding="utf-8-sig")
    values = [value for key, value in spec.corpus.items() if key != "name"]
    names = [name for v in values for name in (v if isinstance(v, list) else [v]) if isinstance(name, str)]
    if not any((spec.base / name).exists() for name in names if not Path(name).is_absolute()):
        return text
    try:
        base = os.path.relpath(spec.base, folder.resolve())
    except ValueError:  # on another drive
        base = str(spec.base)
    return f"base = {json.dumps(Path(base).as_posix(), ensure_ascii=False)}\n" + _without_base(text)


def _without_base(text: str) -> str:
    """A spec's text without its key `base`. A line of its note that only looks like the key is kept."""
    wanted = tomllib.loads(text)
    if "base" not in wanted:
        return text
    del wanted["base"]
    lines = text.splitlines(keepends=True)
    for i in (i for i, line in enumerate(lines) if "base" in line):
        rest = "".join(lines[:i] + lines[i + 1 :])
        with suppress(tomllib.TOMLDecodeError):
            if tomllib.loads(rest) == wanted:
                return rest
    return text


def describe(configuration: Configuration) -> str:
    """A configuration for people."""
    return " ".join(f"{name}={short_label(value)}" for name, value in configuration.items())


def among(spec: Spec, drawn: Floats) -> Spec:
    """A spec of ranges with the configurations that were drawn from them."""
    about = {axis.name: [*axis.values, axis.scale] for axis in spec.axes}
    values = [tuple(np.unique(column[~np.isnan(column)]).tolist()) for column in drawn.T]
    axes = tuple(
        replace(axis, values=own, continuous=False) if axis.is_numeric else axis
        for axis, own in zip(spec.axes, values, strict=True)
    )
    return replace(spec, drawn=drawn, ranges=about, axes=axes)


def select(spec: Spec, only: Sequence[str]) -> NDArray[np.intp]:
    """Rows of the grid that have all the given values, such as "layers=2"."""
    names = [axis.name for axis in spec.axes]
    rows = np.arange(spec.size)
    for condition in only:
        name, equals, text = condition.partition("=")
        if name not in names:
            raise unknown("hyperparameter", name, names, "(--only takes NAME=VALUE)")
        axis = spec.axes[names.index(name)]
        wanted = _as_label(text, axis)
        if not equals or wanted not in axis.labels:
            known = ", ".join(map(short_label, axis.values))
            raise InputError(f"--only {condition!r}: {name} has the values {known}.")
        code = axis.numbers[axis.labels.index(wanted)]
        rows = rows[spec.configs[rows, names.index(name)] == code]
    return rows


def _as_label(text: str, axis: Hyperparameter) -> str:
    """A text from the command line as the label of a value. 1e-2 becomes 0.01."""
    try:
        return label(number_of(text)) if axis.is_numeric else text
    except (ValueError, OverflowError):
        return text
