"""The kind of a file by its content rather than its name: text, JSON lines, an archive, Parquet."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from hpobench_nmt.core.system.errors import InputError

HEAD = 1 << 16
"""The number of bytes at a file's beginning by which its content is recognised."""

# Some magic numbers are letters, with which a text might begin. Their patterns have further bytes.
_MAGIC = {
    "gz": rb"\x1f\x8b",
    "xz": rb"\xfd7zXZ\x00",
    "zst": rb"\x28\xb5\x2f\xfd",
    "bz2": rb"BZh[1-9]1AY&SY",
    "zip": rb"PK\x03\x04",
    "parquet": rb"PAR1\x15",
    "arrow": rb"ARROW1\x00\x00",
}
_NAMES = {
    "gz": "a gzip archive",
    "xz": "an xz archive",
    "zst": "a Zstandard archive",
    "bz2": "a bzip2 archive",
    "zip": "a zip archive",
    "parquet": "Parquet",
    "arrow": "Arrow",
    "jsonl": "JSON lines",
    "text": "plain text",
    "tsv": "tab-separated columns",
}
PACKED = ("gz", "xz", "zst")
_JSON_LINES = 3


def content_of(head: bytes) -> str:
    """The kind of a file, by its first bytes: a key of `_NAMES`. An unknown file counts as text."""
    for kind, magic in _MAGIC.items():
        if re.match(magic, head, re.DOTALL):
            return kind
    return "jsonl" if _is_json_lines(head) else "text"


def refuse_content(head: bytes, path: Path, wanted: str, advice: Mapping[str, str]) -> None:
    """Raise InputError if a file does not hold what is wanted: text, tsv, jsonl or parquet.

    `advice` has an instruction for some kinds of file. For all others, the message advises to unpack or
    convert the file.
    """
    found = content_of(head)
    if found == wanted or (found == "text" and wanted != "parquet"):
        return
    archive = found in (*PACKED, "bz2", "zip")
    usual = "Unpack it first" if archive else f"Convert it to {_NAMES[wanted]} first"
    raise InputError(f"{path}: holds {_NAMES[found]}, not {_NAMES[wanted]}. {advice.get(found, usual)}.")


def _is_json_lines(head: bytes) -> bool:
    """Whether the first lines are JSON objects. Blank lines, and a line that is cut off, do not count."""
    *lines, last = head.removeprefix(b"\xef\xbb\xbf")[:HEAD].split(b"\n")
    if len(head) < HEAD:
        lines.append(last)
    found = [line for line in lines if line.strip()]
    if not found:  # one long line: an object with a key begins like this, and text does not
        return bool(re.match(rb'\{\s*"[^"\n]{1,100}"\s*:\s*["\[{\dtfn-]', last))
    return all(map(_is_object, found[:_JSON_LINES]))


def _is_object(line: bytes) -> bool:
    if not line.lstrip().startswith(b"{"):
        return False
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
