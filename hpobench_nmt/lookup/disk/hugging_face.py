"""A table as a folder for a dataset on the Hugging Face Hub: Parquet files, a card, and Croissant metadata.

    README.md        the card: licence, what the table is, its columns, and how to load it
    table.parquet    the rows; curves.parquet, replicates.parquet and replicate_curves.parquet, if the table
                     has them
    croissant.json   the metadata of these files
    datasheet.toml   the table's datasheet, with which `tables add` turns the rows into a table again

Nothing is uploaded. A table whose authors state no licence is refused.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path

from hpobench_nmt.core.hyperparameter import is_number
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.system.errors import InputError, shortened
from hpobench_nmt.core.system.files import parquet_bytes, read_bytes, write_folder
from hpobench_nmt.core.system.text import counted, printable
from hpobench_nmt.lookup.disk.card import croissant_of, file_contents
from hpobench_nmt.lookup.disk.file_names import DATASHEET, ROWS
from hpobench_nmt.lookup.disk.folder import described_files, load_folder
from hpobench_nmt.lookup.disk.rows import arrow_table
from hpobench_nmt.lookup.table import Table

# Licences that the Hub calls by the first word of the licence in the datasheet.
_LICENCES = ("mit", "apache-2.0", "mpl-2.0", "cc-by-4.0", "cc0-1.0", "bsd-3-clause")
# How datasheets say that there is no licence. "Nonexclusive" and "Unlicense" are licences.
_NO_LICENCE = re.compile(
    r"\W*($|(none|unknown|unspecified|unstated|unlicensed|unclear|undefined|n/?a|tb[ad])\b"
    r"|(no|without)( \w+)? licen[cs]e|(licen[cs]e )?(is )?not (stated|specified|given|known|licensed))",
    re.IGNORECASE,
)
_SIZES = {"n<1K": 1e3, "1K<n<10K": 1e4, "10K<n<100K": 1e5, "100K<n<1M": 1e6, "n>1M": math.inf}


def write_data_set(folder: Path, out: Path) -> list[Path]:
    """Write a table's folder as a dataset into a new or empty folder, and return the files.

    Raises InputError if the table has no licence, or `out` is not an empty folder.
    """
    table = load_folder(folder)
    licence = _licence(table)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out}: is not an empty folder.")
    described = {Path(name).with_suffix(".parquet").name: c for name, c in described_files(folder).items()}
    texts = _text_columns(table)
    files = {name: _parquet(content, texts) for name, content in described.items()}
    card = json.dumps(croissant_of(table, files), indent=1, ensure_ascii=False) + "\n"
    contents = {name: content for name, (content, _) in files.items()}
    contents["croissant.json"] = card.encode()
    contents[DATASHEET] = read_bytes(folder / DATASHEET)
    contents["README.md"] = _readme(table, licence, list(files)).encode()
    write_folder(out, contents)
    return [out / name for name in contents]


def _licence(table: Table) -> str:
    """The Hub's name of the licence; InputError if the table has no licence."""
    told = table.provenance.get("licence", "").strip()
    if _NO_LICENCE.match(told):
        found = f"there it is {shortened(told)}." if told else "the key is licence."
        raise InputError(
            f"table {table.name!r} has no licence, so it must not be shared: ask its authors, and write the "
            f"licence into [provenance] of the datasheet; {found}"
        )
    first = re.split(r"[,;\s]", told.lower(), maxsplit=1)[0]
    return first if first in _LICENCES else "other"


def _text_columns(table: Table) -> list[str]:
    """The columns of labels, except those whose labels are all numbers or all booleans."""
    axes = [*table.hyperparameters, *(table.descriptors.axes if table.descriptors else ())]
    plain = [all(map(is_number, h.values)) or all(isinstance(v, bool) for v in h.values) for h in axes]
    return [h.name for h, is_plain in zip(axes, plain, strict=True) if not is_plain]


def _parquet(content: bytes, texts: Sequence[str]) -> tuple[bytes, list[str]]:
    """A CSV file as Parquet, and the names of its columns.

    The columns `texts` stay texts, so that a label such as "01" or "2024-01-31" is not changed. Arrow infers
    the types of the others from the cells.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow

    options = arrow.ConvertOptions(strings_can_be_null=False, column_types=dict.fromkeys(texts, pa.string()))
    table = arrow_table(content, convert_options=options)
    return parquet_bytes(table), table.column_names


def _readme(table: Table, licence: str, files: list[str]) -> str:
    """The card. Its head is YAML with values written as JSON, so that no text can end a value."""
    told = table.provenance
    names = {name: "rows" if Path(name).stem == Path(ROWS).stem else Path(name).stem for name in files}
    size = next(text for text, most in _SIZES.items() if len(table) < most)
    head = {
        "license": licence,
        **({"license_name": told["licence"]} if licence == "other" else {}),
        "pretty_name": told.get("title", table.name),
        "tags": ["hyperparameter-optimization", "lookup-table", "benchmark"],
        "size_categories": [size],
        "configs": [
            {"config_name": config, "data_files": name, **({"default": True} if config == "rows" else {})}
            for name, config in names.items()
        ],
    }
    front = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in head.items()]
    lines = ["---", *front, "---", "", f"# {_plain(told.get('title', table.name))}", ""]
    axes_of = counted(len(table.hyperparameters), "hyperparameter")
    sizes = f"{counted(len(table), 'configuration')} of {axes_of}"
    lines += [f"{sizes}. Methods of hyperparameter optimization are compared by looking up rows.", ""]
    lines += [f"- `{name}`: {file_contents(table, name)}" for name in names]
    lines += ["", "| column | what it is |", "|---|---|"]
    features = table.descriptors.axes if table.descriptors else ()
    for kind, axes in (("hyperparameter", table.hyperparameters), ("feature", features)):
        lines += [f"| {_plain(h.name)} | {kind}{_unit(h.unit)} |" for h in axes]
    lines += [
        f"| {_plain(m.name)} | {_plain(m.description) or 'metric'}{_unit(m.unit)}, {_direction(m)} |"
        for m in table.metrics
    ]
    lines += ["", "An empty cell of a metric is a missing value."]
    lines += ["", "## Where it is from", ""]
    lines += [f"- {_plain(key)}: {_plain(value)}" for key, value in told.items()]
    lines += ["", "## Loading", "", "```python", "import pandas as pd", ""]
    lines += [f'{config} = pd.read_parquet("{name}")' for name, config in names.items()]
    lines += ["```", "", "`croissant.json` has the columns and hashes for readers of Croissant.", ""]
    return "\n".join(lines)


def _direction(metric: Metric) -> str:
    if metric.missing is None:
        return metric.direction
    # Only the file of rows has a number for a missing value.
    rows = Path(ROWS).with_suffix(".parquet")
    return f"{metric.direction}; {metric.missing:.15g} in `{rows}` means missing"


def _unit(text: str) -> str:
    return f" ({_plain(text)})" if text else ""


def _plain(text: str) -> str:
    """A text on one line of Markdown, with all markup escaped."""
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", " ".join(printable(str(text)).split()))
