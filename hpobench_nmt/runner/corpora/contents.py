"""What a file holds, told from its content rather than its name: text, JSON lines, an archive, Parquet."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from hpobench_nmt.core.errors import InputError

HEAD = 1 << 16
"""How many bytes of a file's beginning tell what it holds."""

# No UTF-8 text begins like any of these, except for letters by themselves: so there are more bytes than the
# magic number.
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
    """What a file holds, by its first bytes: a key of `_NAMES`. Whatever is not known is text."""
    for kind, magic in _MAGIC.items():
        if re.match(magic, head, re.DOTALL):
            return kind
    return "jsonl" if _is_json_lines(head) else "text"


def refuse_content(head: bytes, path: Path, wanted: str, advice: Mapping[str, str]) -> None:
    """Raise InputError if a file holds something else than `wanted`: text, tsv, jsonl or parquet.

    `advice` says what to do, by what the file holds. Without it, the file is to be unpacked or converted.
    """
    found = content_of(head)
    if found == wanted or (found == "text" and wanted != "parquet"):
        return
    archive = found in (*PACKED, "bz2", "zip")
    usual = "Unpack it first" if archive else f"Convert it to {_NAMES[wanted]} first"
    raise InputError(f"{path}: holds {_NAMES[found]}, not {_NAMES[wanted]}. {advice.get(found, usual)}.")


def _is_json_lines(head: bytes) -> bool:
    """Whether the first lines are JSON objects. Blank lines do not count, nor does one that is cut off."""
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
