"""JSON lines with one training, or one report of a training, per line; also a JSON list of trainings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpobench_nmt.core.system.errors import InputError, shortened
from hpobench_nmt.lookup.imports.cells import columns_of, flattened
from hpobench_nmt.lookup.imports.csv_files import text_of
from hpobench_nmt.lookup.imports.headings import headed
from hpobench_nmt.lookup.imports.sweep import Sweep

Line = tuple[str, dict[str, Any]]
"""The place of an object, such as "line 3", and the object."""
_DEEPEST = 100


def json_lines(content: bytes, path: Path) -> tuple[list[Line], str]:
    """The objects of a file of JSON lines, or of a JSON list, and a note if the last line is cut short.

    A file with a single object over several lines has one object. Raises InputError, with the line, if there
    is anything else.
    """
    text = text_of(content, path)
    if (whole := _parsed(text, str(path))) is not None:
        listed = whole if isinstance(whole, list) else [whole]
        if not listed or not all(isinstance(record, dict) for record in listed):
            raise InputError(f"{path}: not a list of objects, one for each training.")
        return [(f"line {place}", record) for place, record in enumerate(listed, start=1)], ""
    found: list[Line] = []
    lines = [(place, line) for place, line in enumerate(text.split("\n"), start=1) if line.strip()]
    for place, line in lines:
        record = _parsed(line, f"{path}, line {place}")
        if record is None and (place, line) == lines[-1] and found and not text.endswith("\n"):
            return found, f"line {place}, the last one, is cut short and was left out"
        if record is None:
            raise InputError(f"{path}, line {place}: not valid JSON.")
        if not isinstance(record, dict):
            raise InputError(f'{path}, line {place}: not a JSON object, such as {{"lr": 0.1}}.')
        found.append((f"line {place}", record))
    return found, ""


def _parsed(text: str, where: str) -> Any:
    """A text as JSON; None if it is not. Raises InputError if it is nested too deeply."""
    try:
        found = json.loads(text)
        if _is_deep(found, _DEEPEST):
            raise RecursionError
    except RecursionError:
        raise InputError(f"{where}: nested too deeply.") from None
    except ValueError:
        return None
    return found


def _is_deep(value: Any, most: int) -> bool:
    """Whether lists and objects are nested more than `most` times."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return most < 0 or any(_is_deep(each, most - 1) for each in inner)


def read_json_lines(lines: Sequence[Line], path: Path) -> Sweep:
    """The sweep of objects, one for each training or report. O(cells).

    The names of sections such as "config" and "metrics" state what they hold.
    """
    if len(lines) == 1:
        keys = ", ".join(map(shortened, list(lines[0][1])[:5]))
        raise InputError(
            f"{path}: is one JSON object (with {keys}), not lines of JSON. Write one object for each "
            "training, as a list or one on each line."
        )
    columns = columns_of([flattened(record) for _, record in lines])
    if not columns:
        raise InputError(f"{path}: its lines are empty.")
    sweep = headed(columns, path, path.stem, lambda row: lines[row][0])
    return replace(sweep, kind="JSON lines" if sweep.plain else sweep.kind, typed=True)
