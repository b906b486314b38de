"""Training specs: which models to train, on what, and what to measure.

Keys of a spec file, of which name, family, [corpus] and [grid] must be there:

    name          of the table
    title         one line for people
    note          what whoever uses the table should know; goes into its datasheet
    family        a file of runner/families/ says which settings and metrics it has
    seed          a whole number; the same gives the same models
    objectives    the table's own, the single objective first; left out: the first metric
    metrics       columns of the table; left out: all that the family measures
    base          folder that files of the corpus are relative to; left out: the spec's own
    [corpus]      name, and what its file in runner/corpora/ says
    [grid]        lists of numbers: settings that make up the search space
    [scale]       "linear" or "log" for settings of the grid; left out: the setting's own
    [fixed]       settings that are the same in every configuration
    [replicates]  configurations: how many are trained again; trainings: how often, each with another seed
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.errors import InputError, unknown
from hpobench_nmt.core.files import check_name, read_toml
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.seeds import generator
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.runner.families import load_family
from hpobench_nmt.runner.family import Family

_SECTIONS = ("corpus", "grid", "scale", "fixed", "replicates")
_KEYS = ("name", "title", "note", "family", "seed", "objectives", "metrics", "base", *_SECTIONS)
_REPLICATE_KEYS = ("configurations", "trainings")
_MAX_CONFIGURATIONS = 100_000

Configuration = Mapping[str, float]
"""Values on the grid by hyperparameter."""


@dataclass(frozen=True, eq=False)
class Spec:
    """What to train.

    Attributes:
        name: of the table.
        title: one line for people.
        note: what whoever uses the table should know.
        family: the model family.
        seed: of the order of the trainings, of what is trained again, and root of every training's seed but
            where the family has its own (Family.seed).
        objectives: what to optimise by default, the single objective first.
        metrics: columns of the table.
        corpus: the [corpus] section, checked.
        axes: the grid, one hyperparameter an axis.
        fixed: settings that are the same in every configuration.
        replicated: how many configurations are trained again with other seeds, and how often.
        base: folder that relative paths of the corpus are relative to: the spec's own, or what it says.
        path: where it was read from.
    """

    name: str
    title: str
    note: str
    family: Family
    seed: int
    objectives: tuple[str, ...]
    metrics: tuple[Metric, ...]
    corpus: Mapping[str, Any]
    axes: tuple[Hyperparameter, ...]
    fixed: Mapping[str, Any]
    replicated: tuple[int, int]
    base: Path
    path: Path

    @cached_property
    def configs(self) -> NDArray[np.float64]:
        """Every configuration of the grid, shape (N, H), the last axis fastest."""
        return np.array(list(itertools.product(*(axis.values for axis in self.axes))))

    def configuration(self, row: int) -> dict[str, float]:
        """A row of the grid by name, whole numbers as int."""
        values = self.configs[row].tolist()
        return {a.name: int(v) if v == int(v) else v for a, v in zip(self.axes, values, strict=True)}

    def settings(self, configuration: Configuration) -> dict[str, Any]:
        """Every setting of the family for a configuration, in the settings' own types."""
        given = {**self.fixed, **configuration}
        return {
            s.name: s.check(given[s.name], str(self.path)) if s.name in given else s.default
            for s in self.family.settings
        }

    def training_seed(self, configuration: Configuration, replicate: int) -> int:
        """The seed of one training: its own, so that the noise of rows is independent, or the family's."""
        if self.family.seed:
            return self.family.seed(self.settings(configuration), replicate)
        rng = generator(self.seed, "training", configuration_key(configuration), replicate)
        return int(rng.integers(2**31))

    @cached_property
    def replicate_rows(self) -> tuple[int, ...]:
        """Rows that are trained again: drawn before any result is known, so that none was a lucky pick."""
        count = min(self.replicated[0], len(self.configs))
        rng = generator(self.seed, "replicates")
        return tuple(sorted(int(r) for r in rng.choice(len(self.configs), size=count, replace=False)))

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What a ledger's rows depend on. A grid may get further values, so its values are not in it."""
        return {
            "name": self.name,
            "family": self.family.name,
            "seed": self.seed,
            "corpus": dict(self.corpus),
            "hyperparameters": sorted(axis.name for axis in self.axes),
            "fixed": dict(sorted(self.fixed.items())),
            "defaults": {
                s.name: s.default
                for s in self.family.settings
                if s.name not in self.fixed and s.name not in self.configuration(0)
            },
        }


def configuration_key(configuration: Configuration) -> str:
    """A canonical text of a configuration, the same whatever the order and types of its numbers."""
    return json.dumps({k: float(v) for k, v in sorted(configuration.items())})


def short_key(configuration: Configuration, replicate: int) -> str:
    """A file name for one training."""
    text = f"{configuration_key(configuration)} {replicate}"
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def load_spec(path: Path) -> Spec:
    """Read a spec and check all of it: keys, settings, ranges, the corpus section, every configuration.

    Raises:
        InputError: what is wrong, with the nearest valid name.
    """
    content = read_toml(path)
    try:
        return _checked(content, path)
    except InputError as error:
        if str(path) in str(error):
            raise
        raise InputError(f"{path}: {error}") from None


def _checked(content: Mapping[str, Any], path: Path) -> Spec:
    from hpobench_nmt.runner.corpora import check_section, corpus_kind

    for key in content:
        if key not in _KEYS:
            raise unknown("key", key, _KEYS, f"({path})")
    for key in ("name", "family", "corpus", "grid"):
        if key not in content:
            raise InputError(f"{path}: needs {key}.")
    sections = {
        key: _section(content, key, path) for key in ("corpus", "grid", "scale", "fixed", "replicates")
    }
    family = load_family(_text(content, "family", path))
    axes = _axes(family, sections["grid"], sections["scale"], path)
    fixed = {
        k: family.setting(k, str(path)).check(v, f"{path}, [fixed]") for k, v in sections["fixed"].items()
    }
    for axis in axes:
        if axis.name in fixed:
            raise InputError(f"{path}: {axis.name} is both in [grid] and in [fixed].")
    for setting in family.settings:
        if setting.default is None and setting.name not in fixed and setting.name not in sections["grid"]:
            raise InputError(f"{path}: family {family.name!r} needs {setting.name}, in [grid] or in [fixed].")
    check_section(sections["corpus"])
    kind = corpus_kind(sections["corpus"])
    if kind != family.corpus:
        raise InputError(
            f"{path}: family {family.name!r} trains on a {family.corpus} corpus, and "
            f"{sections['corpus']['name']!r} is a {kind} corpus."
        )
    metrics = _metrics(family, _texts(content, "metrics", path), path)
    objectives = _texts(content, "objectives", path) or (metrics[0].name,)
    for objective in objectives:
        if objective not in [m.name for m in metrics]:
            raise unknown("objective", objective, [m.name for m in metrics], f"({path})")
    seed = content.get("seed", 0)
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise InputError(f"{path}: seed must be a whole number of 0 or more, not {seed!r}.")
    spec = Spec(
        name=check_name("table", _text(content, "name", path)),
        title=_text({"title": "", **content}, "title", path),
        note=_text({"note": "", **content}, "note", path),
        family=family,
        seed=seed,
        objectives=objectives,
        metrics=metrics,
        corpus=sections["corpus"],
        axes=axes,
        fixed=fixed,
        replicated=_replicated(sections["replicates"], path),
        base=path.resolve().parent / _text({"base": "", **content}, "base", path),
        path=path,
    )
    for row in range(len(spec.configs)):
        configuration = spec.configuration(row)
        try:
            family.check(spec.settings(configuration))
        except InputError as error:
            raise InputError(f"{path}: {describe(configuration)}: {error}") from None
    return spec


def copy_for(spec: Spec, folder: Path) -> str:
    """The spec's text for a copy in a folder, from where it finds the corpus's files too."""
    text = spec.path.read_text(encoding="utf-8")
    names = [value for key, value in spec.corpus.items() if key != "name" and isinstance(value, str)]
    if not any((spec.base / name).exists() for name in names if not Path(name).is_absolute()):
        return text
    try:
        base = os.path.relpath(spec.base, folder.resolve())
    except ValueError:  # on another drive
        base = str(spec.base)
    head, *sections = re.split(r"^(?=\s*\[)", text, maxsplit=1, flags=re.MULTILINE)
    head = re.sub(r"^\s*base\s*=.*\n", "", head, flags=re.MULTILINE)
    line = f"base = {json.dumps(Path(base).as_posix(), ensure_ascii=False)}\n"
    return "".join([line, head, *sections])


def describe(configuration: Configuration) -> str:
    """A configuration for people."""
    return " ".join(f"{name}={value:g}" for name, value in configuration.items())


def select(spec: Spec, only: Sequence[str]) -> list[int]:
    """Rows of the grid that have all the values named, such as "layers=2"."""
    rows = np.ones(len(spec.configs), dtype=bool)
    names = [axis.name for axis in spec.axes]
    for condition in only:
        name, equals, text = condition.partition("=")
        if name not in names:
            raise unknown("hyperparameter", name, names, "(--only takes NAME=VALUE)")
        try:
            value = float(text)
        except ValueError:
            raise InputError(f"--only {condition!r}: takes NAME=VALUE, the value a number.") from None
        axis = spec.axes[names.index(name)]
        if not equals or value not in axis.values:
            known = ", ".join(f"{v:g}" for v in axis.values)
            raise InputError(f"--only {condition!r}: {name} has the values {known}.")
        rows &= spec.configs[:, names.index(name)] == value
    return [int(r) for r in np.flatnonzero(rows)]


def _axes(
    family: Family, grid: Mapping[str, Any], scale: Mapping[str, Any], path: Path
) -> tuple[Hyperparameter, ...]:
    if not grid:
        raise InputError(f"{path}: [grid] needs at least one hyperparameter, such as layers = [1, 2].")
    axes = []
    size = 1
    for name, values in grid.items():
        setting = family.setting(name, f"{path}, [grid]")
        if not setting.on_grid:
            raise InputError(
                f"{path}: {name} ({setting.description}) cannot be on the grid: put it in [fixed]."
            )
        if setting.kind not in (int, float):
            raise InputError(f"{path}: {name} is a {setting.kind.__name__}; only numbers can be on the grid.")
        if not isinstance(values, list) or not values:
            raise InputError(f"{path}: [grid] {name} must be a list of numbers.")
        checked = [float(setting.check(v, f"{path}, [grid]")) for v in values]
        if len(set(checked)) < len(checked):
            raise InputError(f"{path}: [grid] {name} has a value twice.")
        kind = scale.get(name, setting.scale)
        axes.append(Hyperparameter(name, tuple(sorted(checked)), kind, setting.unit))
        size *= len(values)
    for name in scale:
        if name not in grid:
            raise unknown("hyperparameter", name, grid, f"({path}, [scale])")
    if size > _MAX_CONFIGURATIONS:
        raise InputError(
            f"{path}: the grid has {size:,} configurations, at most {_MAX_CONFIGURATIONS:,} can be."
        )
    return tuple(axes)


def _metrics(family: Family, names: Sequence[str], path: Path) -> tuple[Metric, ...]:
    known = {metric.name: metric for metric in family.metrics}
    for name in names:
        if name not in known:
            raise unknown("metric", name, known, f"({path}, family {family.name!r})")
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InputError(f"{path}: metric {twice[0]!r} is there twice.")
    return tuple(known[name] for name in names) or family.metrics


def _replicated(section: Mapping[str, Any], path: Path) -> tuple[int, int]:
    for key, value in section.items():
        if key not in _REPLICATE_KEYS:
            raise unknown("key", key, _REPLICATE_KEYS, f"({path}, [replicates])")
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InputError(
                f"{path}: [replicates] {key} must be a whole number of 1 or more, not {value!r}."
            )
    if not section:
        return 0, 0
    for key in _REPLICATE_KEYS:
        if key not in section:
            raise InputError(f"{path}: [replicates] needs {key}.")
    return section["configurations"], section["trainings"]


def _section(content: Mapping[str, Any], key: str, path: Path) -> dict[str, Any]:
    section = content.get(key, {})
    if not isinstance(section, dict):
        raise InputError(f"{path}: [{key}] must be a section, not {section!r}.")
    return section


def _text(content: Mapping[str, Any], key: str, path: Path) -> str:
    if not isinstance(content[key], str):
        raise InputError(f"{path}: {key} must be a text, not {content[key]!r}.")
    return str(content[key])


def _texts(content: Mapping[str, Any], key: str, path: Path) -> tuple[str, ...]:
    value = content.get(key, [])
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise InputError(f"{path}: {key} must be a list of texts.")
    return tuple(value)
