"""A table's metadata in the Croissant format (MLCommons, version 1.1), which dataset catalogues read.

A card lies beside the table's files and lists each file with its SHA-256, so that a reader of Croissant can
load and check the rows without this package.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.lookup.disk.file_names import CURVES, REPLICATE_CURVES, REPLICATES, ROWS
from hpobench_nmt.lookup.disk.folder import described_files, load_folder
from hpobench_nmt.lookup.table import Table

_CROISSANT = "http://mlcommons.org/croissant/"
_MEDIA_TYPES = {".csv": "text/csv", ".parquet": "application/x-parquet"}
_FILES = {
    ROWS: "one row for each configuration of the hyperparameters, with its metrics",
    REPLICATES: "further trainings of configurations of {rows}",
    CURVES: "learning curves: the checkpoints of each row of {rows}",
    REPLICATE_CURVES: "learning curves of the trainings in {replicates}",
}
_FILES_OF_MEANS = _FILES | {
    ROWS: _FILES[ROWS] + ", which are means of its trainings in {replicates}",
    REPLICATES: "the trainings whose means are the metrics of {rows}",
}
# Every card of this version of Croissant has this context, and readers compare it.
_CONTEXT = Path(__file__).with_name("croissant_context.json")
_NUMBERS = ("row", "checkpoint", "replicate", "seed")


def croissant(folder: Path) -> dict[str, Any]:
    """The card of a table folder, to be saved as JSON in that folder. O(size of its files).

    Keys that the datasheet does not provide are left out, although Croissant expects a licence, a date and a
    creator. Raises InputError if the folder is not a table, or if its files do not match their hashes.
    """
    contents = described_files(folder)
    heads = {name: content[: content.index(b"\n")].decode() for name, content in contents.items()}
    files = {name: (contents[name], next(csv.reader(io.StringIO(heads[name])))) for name in contents}
    return croissant_of(load_folder(folder), files)


def croissant_of(table: Table, files: Mapping[str, tuple[bytes, Sequence[str]]]) -> dict[str, Any]:
    """The card of a table. `files` has the content and the columns of each file by name."""
    told = table.provenance
    card = {
        "@context": json.loads(_CONTEXT.read_text("utf-8")),
        "@type": "sc:Dataset",
        "conformsTo": _CROISSANT + "1.1",
        "name": table.name,
        "description": _description(table),
        "license": told.get("licence", ""),
        "url": told.get("url", ""),
        "creator": {"@type": "sc:Person", "name": told["creator"]} if told.get("creator") else "",
        "citeAs": told.get("citation", ""),
        "datePublished": _date(told.get("last", "")),
        "version": told.get("version", ""),
        "distribution": [_file(name, content) for name, (content, _) in files.items()],
        "recordSet": [_records(table, name, columns) for name, (_, columns) in files.items()],
    }
    return {key: value for key, value in card.items() if value != ""}


def _description(table: Table) -> str:
    goals = " and ".join(str(table.objective(goal)) for goal in table.objectives)
    axes = ", ".join(h.name for h in table.hyperparameters)
    facts = f"Lookup table for hyperparameter optimization: {counted(len(table), 'configuration')} of {axes}"
    facts += f", optimised for {goals}." if goals else "."
    title, note = (table.provenance.get(key, "").rstrip(".") for key in ("title", "note"))
    return " ".join([f"{title}." if title else "", facts, f"{note}." if note else ""]).strip()


def _date(text: str) -> str:
    """The date of a time in ISO 8601; empty if the text is not a time."""
    try:
        return datetime.fromisoformat(text).date().isoformat()
    except ValueError:
        return ""


def _file(name: str, content: bytes) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": name,
        "name": name,
        "contentUrl": name,
        "contentSize": f"{len(content)} B",
        "encodingFormat": _MEDIA_TYPES[Path(name).suffix],
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def _records(table: Table, file: str, columns: Sequence[str]) -> dict[str, Any]:
    about = Path(file).with_suffix(".csv").name
    records = "rows" if about == ROWS else Path(file).stem
    known = {h.name: _axis(h) for h in table.hyperparameters}
    if table.descriptors:
        known |= {h.name: _axis(h, "feature") for h in table.descriptors.axes}
    for m in table.metrics:
        # Only the file of rows writes a number for a missing value. The other files leave the cell empty.
        missing = "" if m.missing is None or about != ROWS else f"{m.missing:g} where missing"
        known[m.name] = "sc:Float", _words(m.description, m.unit, m.direction, missing)
    fields = []
    for column in columns:
        kind, words = known.get(column, ("sc:Integer" if column in _NUMBERS else "sc:Float", ""))
        field = {
            "@type": "cr:Field",
            "@id": f"{records}/{column}",
            "name": column,
            "description": words,
            "dataType": kind,
            "source": {"fileObject": {"@id": file}, "extract": {"column": column}},
        }
        fields.append({key: value for key, value in field.items() if value})
    return {
        "@type": "cr:RecordSet",
        "@id": records,
        "name": records,
        "description": file_contents(table, file),
        "field": fields,
    }


def file_contents(table: Table, file: str) -> str:
    """The contents of one of a table's files, whose names may end in .csv or .parquet."""
    averaged = table.replicates is not None and table.replicates.averaged
    rows, replicates = (Path(name).with_suffix(Path(file).suffix).name for name in (ROWS, REPLICATES))
    about = (_FILES_OF_MEANS if averaged else _FILES)[Path(file).with_suffix(".csv").name]
    return about.format(rows=rows, replicates=replicates)


def _axis(h: Hyperparameter, what: str = "hyperparameter") -> tuple[str, str]:
    kind, shown = "sc:Text", list(h.labels[:20])
    if h.is_numeric:
        whole = all(map(float.is_integer, h.numbers)) and not h.active_if
        kind = "sc:Integer" if whole else "sc:Float"
        shown = [f"{value:.0f}" for value in h.numbers[:20]] if whole else shown
    values = ", ".join(shown) + (", …" if len(h.values) > 20 else "")
    return kind, f"{what}, {_words(h.scale if h.is_numeric else h.kind, h.unit)}: {values}"


def _words(*parts: str) -> str:
    return ", ".join(part for part in parts if part)
