"""Suite files (TOML): how they are found and read, and the files of published figures beside them."""

from __future__ import annotations

import csv
import io
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hpobench_nmt.benchmarking.contestants.method_settings import spec_text
from hpobench_nmt.benchmarking.task.suite import INSTALLED, Suite
from hpobench_nmt.benchmarking.task.suite_tables import spread_tables, unknown_tables
from hpobench_nmt.core.system.deprecated import warn_deprecated
from hpobench_nmt.core.system.errors import InputError, check_known, one_line, shortened, unknown
from hpobench_nmt.core.system.files import is_file, read_bytes, read_toml
from hpobench_nmt.core.system.validation import checked
from hpobench_nmt.lookup.catalogue import groups
from hpobench_nmt.lookup.collections import COLLECTIONS

if TYPE_CHECKING:
    import pandas as pd

FROZEN = "lm-2026"
"""The frozen benchmark. It consists of several suites, its tracks: lm-2026-plain is its track plain."""
_TRACKS = {FROZEN: ("plain", "early", "multi", "noise", "scale")}
_FOLDER = Path(__file__).parents[1] / "suites"
_PUBLISHED_COLUMNS = ("method", "table", "metric", "mean", "std")


def suite_files() -> dict[str, Path]:
    """The suites that come with the package, by name."""
    return {path.stem: path for path in sorted(_FOLDER.glob("*.toml"))}


def tracks(name: str) -> dict[str, str]:
    """The suites that are the tracks of a benchmark, such as lm-2026, by track; empty for another name."""
    return {track: f"{name}-{track}" for track in _TRACKS.get(name, ())}


def track_of(name: str, track: str) -> str:
    """The name of the suite that is a track of a benchmark; InputError if it has no such track."""
    found = tracks(name)
    if not found:
        raise InputError(f"suite {name!r} does not have tracks: leave out the track.")
    check_known("track", [track], found, f"(of {name})")
    return found[track]


def list_suites() -> pd.DataFrame:
    """A data frame of the suites that come with the package: suite, scores, description."""
    import pandas as pd

    found = [load_suite(name) for name in suite_files()]
    rows = [(suite.name, ", ".join(suite.scores), suite.description) for suite in found]
    return pd.DataFrame(rows, columns=["suite", "scores", "description"])


def load_suite(name_or_file: str) -> Suite:
    """A suite by name, or from a TOML file; InputError for a wrong name (with the nearest), key or value."""
    files = suite_files()
    if name_or_file.endswith(".toml"):
        path = Path(name_or_file)
    elif name_or_file in files:
        path = files[name_or_file]
    elif tracks(name_or_file):
        raise InputError(f"{name_or_file} has tracks, choose one: --track {', '.join(tracks(name_or_file))}.")
    else:
        raise unknown("suite", name_or_file, files, "Give a suite of your own as FILE.toml.")
    content = read_toml(path)
    if content.get("tables") == INSTALLED:
        content["tables"] = [INSTALLED]
    if isinstance(content.get("tables"), dict):
        content = spread_tables(path, content)
    if isinstance(content.get("methods"), list):
        content["methods"] = [_method_text(path, each) for each in content["methods"]]
    if "budget" in content:
        if "score_at" in content:
            raise InputError(f"{path}: score_at and budget are the same: remove budget.")
        warn_deprecated(f"budget in {path}", "score_at", since="1.1", removed_in="2.0")
        content["score_at"] = content.pop("budget")
    if "name" in content:
        raise InputError(f"{path}: the name of a suite is the name of its file: remove name.")
    suite = checked({"name": path.stem, **content}, Suite, str(path))
    if suite.published and path.parent != _FOLDER:
        suite = msgspec.structs.replace(suite, published=str(_own_published(path, suite.published)))
    published_figures(suite)  # refused here, not after hours of trials
    if INSTALLED not in suite.tables and not any(map(_stands_for_others, suite.tables)):
        for error in unknown_tables(msgspec.structs.asdict(suite), suite.tables, str(path)):
            raise error
    return suite


def _method_text(path: Path, method: Any) -> Any:
    """A method as on the command line, if the file has it as a table of TOML."""
    if not isinstance(method, dict):
        return method
    settings = {key: value for key, value in method.items() if key != "name"}
    for key, value in settings.items():
        if not key.isidentifier() or not isinstance(value, bool | int | float | str):
            raise InputError(
                f"{path}: setting {shortened(key)} of a method must be a number, a string, true or false."
            )
    if not isinstance(method.get("name"), str):
        raise InputError(f"{path}: a method with settings needs its name, a string.")
    return spec_text(method["name"], settings)


def _own_published(suite: Path, name: str) -> Path:
    """The file of published figures that a user's suite names."""
    if not is_file(suite.parent / name):
        raise InputError(f"{suite}: published names {shortened(name)}, which is not a file beside it.")
    return (suite.parent / name).resolve()


def _stands_for_others(table: str) -> bool:
    """Whether a name stands for a folder or a collection, and so is not a table's own name."""
    return os.sep in table or "/" in table or table in (*groups(), *COLLECTIONS)


def published_figures(suite: Suite) -> dict[tuple[str, str, str], tuple[float, float]]:
    """Published mean and standard deviation by (method, table, score); empty if the suite names no file.

    Raises InputError if the file cannot be read, or is not a table of such figures.
    """
    if not suite.published:
        return {}
    # Suites of the package name a file beside them. In users' suites, the path is absolute by now.
    path = Path(suite.published)
    if not path.is_absolute():
        if path.name != suite.published:
            raise InputError(
                f"suite {suite.name!r}: published must be the name of a file or an absolute path."
            )
        path = _FOLDER / suite.published
    wrong = f"{path}: is not a table of published figures"
    figures: dict[tuple[str, str, str], tuple[float, float]] = {}
    try:
        text = read_bytes(path).decode("utf-8-sig")
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        if missing := {*_PUBLISHED_COLUMNS} - {*(reader.fieldnames or ())}:
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
    """The number in a cell, NaN if it is not a number."""
    try:
        return float(text or "nan")
    except ValueError:
        return math.nan
