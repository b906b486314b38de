"""Suites: the tables, methods, trials and scores that make up a benchmark. Data files in TOML.

Keys of a suite file, all but `scores` with a default:

    description   one line
    scores        ftb, ftc, fb for one objective; fto, fta, fbp, fbh for two and more
    tables        names of tables or collections, folders, or "installed" (the default)
    methods       as on the command line; settings in parentheses, or as a table:
                  ["RS", {name = "BO_EI_M_std", length_scale = 0.5}]
    objectives    "metric" or "metric:min|max", one, or any number from two on; left out: each table's own
                  first, or first two
    constraints   what a row must keep to be of use, such as "dev_gpu_time<=60"; any number; left out: none
    trials        number of seeded trials per method and table
    n_initial     rows of the initial design; 0 is for suites with curves or sources
    ties          "any" row of best value meets ftb, or only the "first"
    stop          "settled": a trial ends when no score can change; "exhausted": at the last row
    lookups       the most that a trial may look up; left out: no limit
    tolerance     of ftc, by table, with a `default`; left out: the metric's own, or else 5% of the way
                  from the best value of all rows to the median one, under constraints, too
    score_at      number of look-ups, or time on the clock, after which fb, fbp and fbh are taken, by table,
                  with a `default`; it ends no trial. (`budget` is its old name, which warns.)
    clock         "lookups" (the default): a look-up takes one unit of time; or "cost": a training takes its
                  cost, in the table's unit
    cost          the metric that says what a training cost; left out: the cost of its learning curve
    curves        whether rows can be trained part of the way, along their learning curves; the objectives are
                  then left out (the curves' first metric) or metrics of the curves
    workers       how many trainings run at a time
    resume        whether a training can be paused and go on later; if not, it then starts anew
    time          the most time that a trial may take on the clock, by table, with a `default`
    sources       tables or collections that methods may learn from; a trial's own table is never among them
    noise         "replicates": every look-up draws one of the row's trainings; scores, constraints and costs
                  are of the row's mean. For tables with several trainings of every row. Left out: none
    published     a CSV file beside the suite with figures to compare with: method, table, metric, mean, std;
                  their standard errors are taken to be those of 100 trials
"""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_type_hints

import msgspec

from hpobench_nmt.benchmarking.method_settings import spec_text
from hpobench_nmt.core.constraints import parse_constraints
from hpobench_nmt.core.deprecated import warn_deprecated
from hpobench_nmt.core.errors import InputError, one_line, shortened, unknown
from hpobench_nmt.core.files import check_label, read_bytes, read_toml
from hpobench_nmt.core.text import counted
from hpobench_nmt.core.validation import Amount, Natural, NonNegative, Positive, Strict, checked
from hpobench_nmt.evaluation.scores import SCORES, Ties, score_names
from hpobench_nmt.lookup.catalogue import collections
from hpobench_nmt.lookup.collections import COLLECTIONS

if TYPE_CHECKING:
    import pandas as pd

INSTALLED = "installed"
_DEFAULT = "default"
# The suite to point to, by the number of objectives: one, or two and more.
_USUAL = {1: "modern-single", 2: "modern-multi"}
_FOLDER = Path(__file__).parent / "suites"
_PUBLISHED_COLUMNS = ("method", "table", "metric", "mean", "std")


@dataclass(frozen=True)
class Suite:
    """A benchmark's settings; see the module's docstring for the fields."""

    name: str
    scores: tuple[str, ...]
    description: str = ""
    tables: tuple[str, ...] = (INSTALLED,)
    methods: tuple[str, ...] = ("RS",)
    objectives: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    trials: Positive = 100
    n_initial: Natural = 3
    ties: Ties = "any"
    stop: Literal["settled", "exhausted"] = "settled"
    lookups: Positive | None = None
    tolerance: Mapping[str, NonNegative] = field(default_factory=dict)
    score_at: Mapping[str, Amount] = field(default_factory=dict)
    published: str = ""
    clock: Literal["lookups", "cost"] = "lookups"
    cost: str = ""
    curves: bool = False
    workers: Positive = 1
    resume: bool = True
    time: Mapping[str, Amount] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    noise: Literal["", "replicates"] = ""

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        where = f"suite {check_label('suite name', self.name)!r}"
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
        needed, given = SCORES[self.scores[0]].n_objectives, min(len(self.objectives), 2)
        if self.objectives and given != needed:
            need = "needs" if len(self.scores) == 1 else "need"
            wanted = "one objective" if needed == 1 else "two or more objectives"
            raise InputError(
                f"{where}: {', '.join(self.scores)} {need} {wanted}, not {len(self.objectives)}. For "
                f"{'one' if given == 1 else 'two or more'} there is the suite {_USUAL[given]}, and the "
                f"scores are {', '.join(score_names(given))}."
            )
        if len(set(self.objectives)) < len(self.objectives):
            raise InputError(f"{where}: the same objective twice.")
        parsed = parse_constraints(self.constraints, where)
        object.__setattr__(self, "constraints", tuple(map(str, parsed)))
        for key in ("trials", "n_initial", "workers"):
            least = 0 if key == "n_initial" and (self.curves or self.sources) else 1
            if getattr(self, key) < least:
                raise InputError(f"{where}: {key} must be at least {least}, not {getattr(self, key)}.")
        if self.lookups is not None and self.lookups < self.n_initial:
            raise InputError(
                f"{where}: {counted(self.lookups, 'look-up')} {'is' if self.lookups == 1 else 'are'} "
                f"fewer than the {self.n_initial} initial rows."
            )
        for table, tolerance in self.tolerance.items():
            if not 0 <= tolerance < float("inf"):
                raise InputError(f"{where}: the tolerance of {table!r} must be 0 or more, not {tolerance!r}.")
        self._check_clock(where)
        for key, valid in (
            ("ties", ("any", "first")),
            ("stop", ("settled", "exhausted")),
            ("clock", ("lookups", "cost")),
            ("noise", ("", "replicates")),
        ):
            if getattr(self, key) not in valid:
                raise InputError(
                    f"{where}: {key} must be {' or '.join(map(repr, valid))}, not {getattr(self, key)!r}."
                )

    def _check_clock(self, where: str) -> None:
        """Refuse times and costs that make no sense."""
        if self.clock == "lookups" and (self.curves or self.cost):
            key = "curves" if self.curves else "cost"
            raise InputError(f'{where}: {key} needs clock = "cost", not "lookups".')
        if self.curves and self.sources:
            raise InputError(f"{where}: sources are for whole trainings: remove curves.")
        if self.curves and self.cost:
            raise InputError(f"{where}: curves have their own cost: remove cost = {self.cost!r}.")
        if self.noise and self.curves:
            raise InputError(
                f"{where}: noise draws whole trainings, and there is one learning curve a row: remove noise, "
                "or remove curves and name with cost what a training costs."
            )
        if not self.resume and not self.curves:
            raise InputError(f"{where}: resume = false needs curves = true: others are never paused.")
        for key in ("score_at", "time"):
            for table, at in getattr(self, key).items():
                if not 0 < at < math.inf:
                    raise InputError(f"{where}: {key} of {table!r} must be above 0, not {at!r}.")
                if self.clock == "lookups" and at % 1:
                    raise InputError(f"{where}: {key} of {table!r} must be a whole number, not {at!r}.")
                if self.clock == "lookups" and at * self.workers < self.n_initial:
                    least = f"less than the {counted(self.n_initial, 'initial row')}"
                    raise InputError(f"{where}: {key} of {table!r} is {at!r}, {least}.")

    @property
    def timed(self) -> bool:
        """Whether time is anything else than the number of look-ups."""
        return self.clock != "lookups" or self.workers > 1

    @property
    def n_objectives(self) -> int:
        """Number of objectives: those that it names, or else the fewest that its scores need."""
        return len(self.objectives) or SCORES[self.scores[0]].n_objectives

    def tolerance_for(self, table: str) -> float | None:
        """Tolerance of ftc, None where the suite leaves it to the table."""
        return self.tolerance.get(table, self.tolerance.get(_DEFAULT))

    def score_at_for(self, table: str) -> float | None:
        """Number of look-ups, or time, after which fb and fbp are taken; None: the suite says nothing."""
        return self.score_at.get(table, self.score_at.get(_DEFAULT))

    def time_for(self, table: str) -> float:
        """The most time that a trial may take on the clock."""
        return self.time.get(table, self.time.get(_DEFAULT, math.inf))

    def settings(self) -> dict[str, Any]:
        """Everything that trajectories and scores depend on, except tables and methods, as plain values."""
        settings = without_defaults(asdict(self))
        for key in ("tables", "methods", "description"):
            del settings[key]
        return {k: list(v) if isinstance(v, tuple) else v for k, v in settings.items()}


def without_defaults(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without keys that format 1 of results folders does not know, if they change nothing."""
    return {
        key: value
        for key, value in settings.items()
        if key not in _LATER or (list(value) if isinstance(value, tuple) else value) != _LATER[key]
    }


_LATER: Mapping[str, Any] = {
    "constraints": [],
    "noise": "",
    "clock": "lookups",
    "cost": "",
    "curves": False,
    "workers": 1,
    "resume": True,
    "time": {},
    "sources": [],
}


def section_of_suite(*without: str, name: str = "Suite", module: str = __name__) -> type[Strict]:
    """A type for `checked`: a section of a file with the fields of a suite but these, in the same types.

    Its values can be pickled if it is known by the name in the module.
    """
    types = get_type_hints(Suite, include_extras=True)
    described: list[Any] = []
    for each in fields(Suite):
        if each.name in without:
            continue
        if each.default is not MISSING:
            described.append((each.name, types[each.name], each.default))
        elif each.default_factory is not MISSING:
            described.append((each.name, types[each.name], msgspec.field(default_factory=dict)))
        else:
            described.append((each.name, types[each.name]))
    made: Any = msgspec.defstruct(
        name, described, bases=(Strict,), module=module, frozen=True, forbid_unknown_fields=True
    )
    kind: type[Strict] = made
    return kind


_FILE = section_of_suite("name")


def suite_files() -> dict[str, Path]:
    """The suites that come with the package, by name."""
    return {path.stem: path for path in sorted(_FOLDER.glob("*.toml"))}


def list_suites() -> pd.DataFrame:
    """The suites that come with the package: suite, scores, description."""
    import pandas as pd

    found = [load_suite(name) for name in suite_files()]
    rows = [(suite.name, ", ".join(suite.scores), suite.description) for suite in found]
    return pd.DataFrame(rows, columns=["suite", "scores", "description"])


def overridden(suite: Suite, settings: Mapping[str, Any]) -> Suite:
    """The suite with other settings.

    A number of look-ups is no time. So scores that are taken after one are left out on another clock, unless
    the settings have `score_at` too, and a suite that limits a trial's time needs a new limit there.

    Raises:
        InputError: no score would be left, or the settings make no sense.
    """
    if settings.get("clock", suite.clock) == suite.clock:
        return replace(suite, **settings)
    changes = {"time": {}, **settings}
    if "score_at" not in settings:
        scores = settings.get("scores", suite.scores)
        early = tuple(name for name in scores if not SCORES[name].needs_score_at)
        if not early:
            need = "needs" if len(scores) == 1 else "need"
            raise InputError(
                f"suite {suite.name!r}: {', '.join(scores)} {need} score_at, a time on the clock."
            )
        changes |= {"scores": early, "score_at": {}}
    found = replace(suite, **changes)
    if suite.time and "time" not in settings:
        raise InputError(
            f"suite {suite.name!r} limits a trial's time on the clock {suite.clock!r}: give a limit on the "
            f"clock {found.clock!r}, with --time."
        )
    return found


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
    if content.get("tables") == INSTALLED:
        content["tables"] = [INSTALLED]
    if isinstance(content.get("methods"), list):
        content["methods"] = [_method_text(path, each) for each in content["methods"]]
    if "budget" in content:
        if "score_at" in content:
            raise InputError(f"{path}: score_at and budget are the same: remove budget.")
        warn_deprecated(f"budget in {path}", "score_at", since="1.1", removed_in="2.0")
        content["score_at"] = content.pop("budget")
    settings = msgspec.structs.asdict(checked(content, _FILE, str(path)))
    if settings["published"] and path.parent != _FOLDER:
        settings["published"] = str(_own_published(path, settings["published"]))
    suite = Suite(name=path.stem, **settings)
    published_figures(suite)  # refused here, not after hours of trials
    if INSTALLED not in suite.tables and not any(map(_stands_for_others, suite.tables)):
        for key in ("tolerance", "score_at", "time"):
            for table in getattr(suite, key):
                if table not in (*suite.tables, _DEFAULT):
                    raise unknown("table", table, (*suite.tables, _DEFAULT), f"({path}, [{key}])")
    return suite


def _method_text(path: Path, method: Any) -> Any:
    """A method that is written as a table, as it is written on the command line."""
    if not isinstance(method, dict):
        return method
    settings = {key: value for key, value in method.items() if key != "name"}
    for key, value in settings.items():
        if not key.isidentifier() or not isinstance(value, bool | int | float | str):
            raise InputError(
                f"{path}: setting {shortened(key)} of a method must be a number, a string, true or false."
            )
    if not isinstance(method.get("name"), str):
        raise InputError(f"{path}: a method that is a table needs its name, a string.")
    return spec_text(method["name"], settings)


def _own_published(suite: Path, name: str) -> Path:
    """The file of published figures that a user's suite names."""
    try:
        found = (suite.parent / name).resolve()
        there = found.is_file()
    except (OSError, ValueError):
        there = False
    if not there:
        raise InputError(f"{suite}: published names {shortened(name)}, which is no file beside it.")
    return found


def _stands_for_others(table: str) -> bool:
    """Whether a table is named as a folder or with its collection, and so not by its own name."""
    return os.sep in table or "/" in table or table in (*collections(), *COLLECTIONS)


def published_figures(suite: Suite) -> dict[tuple[str, str, str], tuple[float, float]]:
    """Published mean and standard deviation by (method, table, score); empty where the suite names no file.

    Raises:
        InputError: the file cannot be read, or is no table of such figures.
    """
    if not suite.published:
        return {}
    # Suites of the package name a file beside them, users' suites the whole path.
    path = Path(suite.published)
    if not path.is_absolute():
        if path.name != suite.published:
            raise InputError(f"suite {suite.name!r}: published must be a file's name or a whole path.")
        path = _FOLDER / suite.published
    wrong = f"{path}: is no table of published figures"
    figures: dict[tuple[str, str, str], tuple[float, float]] = {}
    try:
        text = read_bytes(path).decode("utf-8-sig")
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        missing = {*_PUBLISHED_COLUMNS} - {*(reader.fieldnames or ())}
        if missing:
            columns = "column" if len(missing) == 1 else "columns"
            raise InputError(f"{wrong}: it lacks the {columns} {', '.join(sorted(missing))}.")
        for number, row in enumerate(reader, start=2):
            values = [_number(row["mean"]), _number(row["std"])]
            if not all(math.isfinite(value) for value in values):
                raise InputError(f"{wrong}: row {number} must have finite numbers as mean and std.")
            figures[row["method"], row["table"], row["metric"]] = (values[0], values[1])
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{wrong}: {one_line(error)}.") from None
    return figures


def _number(text: str | None) -> float:
    """A cell's number, NaN where it is none."""
    try:
        return float(text or "nan")
    except ValueError:
        return math.nan
