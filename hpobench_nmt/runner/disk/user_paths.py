"""Paths that a spec names, which are checked because the spec may come from somebody else."""

from __future__ import annotations

from pathlib import Path

from hpobench_nmt.core.system.errors import InputError, shortened


def user_path(base: Path, text: str, option: str) -> Path:
    """A path that a spec names, relative to a folder unless it is absolute; "~" is the user's home.

    Raises InputError if no file can have that name.
    """
    try:
        if "\0" in text:
            raise RuntimeError("it holds a null character")
        return base / Path(text).expanduser()
    except RuntimeError as error:  # from expanduser: the user does not exist
        raise InputError(f"{option}: {shortened(text)} is not a path: {error}.") from None
