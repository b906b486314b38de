"""The kind of a file by its content rather than its name: text, JSON lines, an archive, Parquet."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from hpobench_nmt.core.system.errors import InputError

HEAD = 1 << 16
"""The number of bytes at a file's beginning by which its content is recognised."""

# The name of each kind, for people, and the bytes that it begins with. Some magic numbers are letters, with
# which a text might begin. Their patterns have further bytes.
_KINDS = {
    "gz": ("a gzip archive", rb"\x1f\x8b"),
    "xz": ("an xz archive", rb"\xfd7zXZ\x00"),
    "zst": ("a Zstandard archive", rb"\x28\xb5\x2f\xfd"),
    "bz2": ("a bzip2 archive", rb"BZh[1-9]1AY&SY"),
    "zip": ("a zip archive", rb"PK\x03\x04"),
    "parquet": ("Parquet", rb"PAR1\x15"),
    "arrow": ("Arrow", rb"ARROW1\x00\x00"),
    "jsonl": ("JSON lines", None),
    "text": ("plain text", None),
    "tsv": ("tab-separated columns", None),
}
PACKED = ("gz", "xz", "zst")
_JSON_LINES = 3


def content_of(head: bytes) -> str:
    """The kind of a file, by its first bytes: a key of `_KINDS`. An unknown file counts as text."""
    for kind, (_, magic) in _KINDS.items():
        if magic and re.match(magic, head, re.DOTALL):
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
    usual = "Unpack it first" if archive else f"Convert it to {_KINDS[wanted][0]} first"
    holds = f"holds {_KINDS[found][0]}, not {_KINDS[wanted][0]}"
    raise InputError(f"{path}: {holds}. {advice.get(found, usual)}.")


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
