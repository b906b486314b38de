"""Suites: which tables, methods, trials and scores make up a benchmark. Data files in TOML.

Keys of a suite file, all but `scores` with a default:

    description   one line
    scores        ftb, ftc, fb for one objective; fto, fta, fbp for two
    tables        names of tables or collections, folders, or "installed" (the default)
    methods       as on the command line
    objectives    "metric" or "metric:min|max"; left out: each table's own first, or first two
    trials        seeded trials a method and table
    n_initial     rows of the initial design
    ties          "any" row of best value meets ftb, or only the "first"
    stop          "settled": a trial ends when no score can change; "exhausted": at the last row
    lookups       the most that a trial may look up; left out: no limit
    tolerance     of ftc, by table, with a `default`; left out: the metric's own, or else
                  5% of the way from the best value to the median one
    budget        of fb and fbp, by table, with a `default`
    published     a CSV file beside the suite with figures to compare with: method, table, metric, mean, std
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from hpobench_nmt.core.errors import InputError, unknown
from hpobench_nmt.core.files import read_toml
from hpobench_nmt.evaluation.scores import SCORES, Ties, score_names
from hpobench_nmt.lookup.catalogue import collections
from hpobench_nmt.lookup.collections import COLLECTIONS

INSTALLED = "installed"
_DEFAULT = "default"
_FOLDER = Path(__file__).parent / "suites"


@dataclass(frozen=True)
class Suite:
    """A benchmark's settings; see the module's docstring for the fields."""

    name: str
    scores: tuple[str, ...]
    description: str = ""
    tables: tuple[str, ...] = (INSTALLED,)
    methods: tuple[str, ...] = ("RS",)
    objectives: tuple[str, ...] = ()
    trials: int = 100
    n_initial: int = 3
    ties: Ties = "any"
    stop: Literal["settled", "exhausted"] = "settled"
    lookups: int | None = None
    tolerance: Mapping[str, float] = field(default_factory=dict)
    budget: Mapping[str, int] = field(default_factory=dict)
    published: str = ""

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        where = f"suite {self.name!r}"
        for score in self.scores:
            if score not in SCORES:
                raise unknown("score", score, SCORES, f"({where})")
        if len({SCORES[score].n_objectives for score in self.scores}) != 1:
            one, several = (", ".join(score_names(n)) for n in (1, 2))
            raise InputError(f"{where}: scores must be some of {one}, or of {several}.")
        for key in ("scores", "tables", "methods"):
            values = getattr(self, key)
            if not values:
                raise InputError(f"{where}: {key} must name at least one.")
            if len(set(values)) < len(values):
                raise InputError(f"{where}: {key} has the same name twice.")
        if self.objectives and len(self.objectives) != self.n_objectives:
            raise InputError(
                f"{where}: {', '.join(self.scores)} need {self.n_objectives} objective(s), not "
                f"{len(self.objectives)}."
            )
        if len(set(self.objectives)) < len(self.objectives):
            raise InputError(f"{where}: the same objective twice.")
        for key in ("trials", "n_initial"):
            if getattr(self, key) < 1:
                raise InputError(f"{where}: {key} must be at least 1, not {getattr(self, key)}.")
        if self.lookups is not None and self.lookups < self.n_initial:
            raise InputError(
                f"{where}: {self.lookups} look-ups are fewer than the {self.n_initial} initial rows."
            )
        for table, tolerance in self.tolerance.items():
            if not 0 <= tolerance < float("inf"):
                raise InputError(f"{where}: the tolerance of {table!r} must be 0 or more, not {tolerance!r}.")
        for table, budget in self.budget.items():
            if budget < self.n_initial:
                least = f"less than the {self.n_initial} initial rows"
                raise InputError(f"{where}: the budget of {table!r} is {budget!r}, {least}.")
        for key, valid in (("ties", ("any", "first")), ("stop", ("settled", "exhausted"))):
            if getattr(self, key) not in valid:
                raise InputError(
                    f"{where}: {key} must be {' or '.join(map(repr, valid))}, not {getattr(self, key)!r}."
                )

    @property
    def n_objectives(self) -> int:
        """Number of objectives that its scores need."""
        return SCORES[self.scores[0]].n_objectives

    def tolerance_for(self, table: str) -> float | None:
        """Tolerance of ftc, None where the suite leaves it to the table."""
        return self.tolerance.get(table, self.tolerance.get(_DEFAULT))

    def budget_for(self, table: str) -> int | None:
        """Budget of fb and fbp."""
        return self.budget.get(table, self.budget.get(_DEFAULT))

    def settings(self) -> dict[str, Any]:
        """All that a trajectory or score depends on but tables and methods, as plain values."""
        settings = asdict(self)
        for key in ("tables", "methods", "description"):
            del settings[key]
        return {k: list(v) if isinstance(v, tuple) else v for k, v in settings.items()}


def suite_files() -> dict[str, Path]:
    """The suites that come with the package, by name."""
    return {path.stem: path for path in sorted(_FOLDER.glob("*.toml"))}


def load_suite(name_or_file: str) -> Suite:
    """A suite by name, or from a TOML file given as a path.

    Raises:
        InputError: no such suite (with the nearest name), or a wrong key or value in it.
    """
    files = suite_files()
    if name_or_file.endswith(".toml"):
        path = Path(name_or_file)
    elif name_or_file in files:
        path = files[name_or_file]
    else:
        raise unknown("suite", name_or_file, files, "A suite of your own is given as FILE.toml.")
    content = read_toml(path)
    for key, value in content.items():
        if key not in _TYPES:
            raise unknown("key", key, _TYPES, f"({path})")
        if not _fits(value, _TYPES[key]):
            raise InputError(f"{path}: {key} must be {_TYPES[key]}, not {value!r}.")
    if "scores" not in content:
        raise InputError(f"{path}: needs scores.")
    if content.get("tables") == INSTALLED:
        content["tables"] = [INSTALLED]
    if "published" in content and path.parent != _FOLDER:
        own = (path.parent / content["published"]).resolve()
        if not own.is_file():
            raise InputError(f"{path}: published names {own}, which is no file.")
        content["published"] = str(own)
    lists = {k: tuple(v) for k, v in content.items() if isinstance(v, list)}
    suite = Suite(name=path.stem, **(content | lists))
    if INSTALLED not in suite.tables and not any(map(_stands_for_others, suite.tables)):
        for key in ("tolerance", "budget"):
            for table in getattr(suite, key):
                if table not in (*suite.tables, _DEFAULT):
                    raise unknown("table", table, (*suite.tables, _DEFAULT), f"({path}, [{key}])")
    return suite


def _stands_for_others(table: str) -> bool:
    """Whether a table is named as a folder or with its collection, and so not by its own name."""
    return os.sep in table or "/" in table or table in (*collections(), *COLLECTIONS)


def published_file(suite: Suite) -> Path | None:
    """The file with figures to compare with."""
    # Of a suite that ships the name in its own folder, of a user's the whole path.
    return _FOLDER / suite.published if suite.published else None


_TYPES = {
    "description": "a string",
    "scores": "a list of strings",
    "tables": "a list of strings",
    "methods": "a list of strings",
    "objectives": "a list of strings",
    "trials": "a whole number",
    "n_initial": "a whole number",
    "ties": "a string",
    "stop": "a string",
    "lookups": "a whole number",
    "tolerance": "a section of numbers",
    "budget": "a section of whole numbers",
    "published": "a string",
}


def _fits(value: object, kind: str) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool)
    match kind:
        case "a string":
            return isinstance(value, str)
        case "a whole number":
            return whole
        case "a list of strings":
            return value == INSTALLED or (isinstance(value, list) and all(isinstance(v, str) for v in value))
        case "a section of whole numbers":
            return isinstance(value, dict) and all(_fits(v, "a whole number") for v in value.values())
        case _:
            return isinstance(value, dict) and all(
                isinstance(v, int | float) and not isinstance(v, bool) for v in value.values()
            )
