"""Files: written whole or not at all, names that work everywhere, and TOML files read."""

from __future__ import annotations

import os
import re
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from hpobench_nmt.core.errors import InputError

_RESERVED = {"CON", "PRN", "AUX", "NUL"} | {f"{port}{n}" for port in ("COM", "LPT") for n in range(10)}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")


def check_name(kind: str, name: str) -> str:
    """Return name if it can be a file name everywhere; tables and methods name their files."""
    reserved = isinstance(name, str) and (name.endswith(".") or name.split(".")[0].upper() in _RESERVED)
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > 100 or reserved:
        raise InputError(
            f"{kind} name {name!r} cannot be used: take letters, digits, '_', '.', '+' and '-' (100 at "
            "most), no dot at the end, and no name that Windows reserves."
        )
    return name


def write_whole(path: Path, content: bytes) -> None:
    """Write a file in one step: it is there whole or not at all, even after a crash."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_toml(path: Path) -> dict[str, Any]:
    """A parsed TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not valid TOML: {error}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}.") from None
