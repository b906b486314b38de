"""Errors meant for people, and the nearest valid name for a wrong one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Wrong input. The message says what, where, and what to do; the command line exits with 2."""


class RunError(RuntimeError):
    """A run that could not be finished. The command line exits with 1."""


def one_line(error: BaseException) -> str:
    """Type and message of any error, at most 200 characters."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def unknown(kind: str, name: str, valid: Iterable[str], hint: str = "") -> InputError:
    """The error for a name that does not exist, with the nearest one that does."""
    known = sorted(valid)
    lowered = {k.lower(): k for k in known}
    close = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.5)
    message = f"unknown {kind} {name!r}."
    if close:
        message += f" Did you mean {lowered[close[0]]!r}?"
    elif known:
        message += f" Known: {', '.join(known)}."
    return InputError(f"{message} {hint}".rstrip())
