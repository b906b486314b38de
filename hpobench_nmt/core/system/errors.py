"""Errors meant for people, and the nearest valid name for a wrong one."""

from __future__ import annotations

import difflib
import errno
import math
import numbers
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hpobench_nmt.core.system.text import brief, printable, split_names

# The longest name in a message, in characters, and the largest number of valid names that it lists.
_LONGEST = 100
_MOST_NAMES = 30
# The start and the end that are left of a message with names or values that are longer than any real one.
_START, _END = 700, 250

Notify = Callable[[str], None]
"""A function that receives a message for the user."""


class InputError(ValueError):
    """Wrong input. The message states what is wrong, where, and what to do. The command line exits with 2."""

    def __init__(self, message: str) -> None:
        """Keep the message as one line, whatever was in the file or name that it quotes."""
        line = printable(message)
        super().__init__(line if len(line) <= _START + _END else f"{line[:_START]}…{line[-_END:]}")


class RunError(RuntimeError):
    """A run failed. The command line exits with 1."""


def not_written(path: str | Path, error: OSError, then: str = "") -> InputError | RunError:
    """The error for a file that cannot be written. A name that is too long is the user's error."""
    kind = InputError if error.errno == errno.ENAMETOOLONG else RunError
    return kind(f"{path}: cannot be written: {error.strerror}. {then}".rstrip())


def one_line(error: BaseException) -> str:
    """Type and message of any error, in at most 200 characters that can be shown and saved."""
    name = type(error).__name__
    try:
        message = str(error)
    except Exception:  # a plug-in's error, whose message comes from the plug-in's code
        message = "(its message cannot be read)"
    return printable(" ".join(f"{name}: {message[:2000]}".split()))[:200]


@contextmanager
def prefixed(where: object) -> Iterator[None]:
    """Inside, an InputError whose message does not say where it happened gets this prefix, such as a path."""
    try:
        yield
    except InputError as error:
        if str(where) in str(error):
            raise
        raise InputError(f"{where}: {error}") from error.__cause__


@contextmanager
def foreign(path: object, told: str) -> Iterator[None]:
    """Inside, somebody else's file is read. Whatever goes wrong is an InputError that names its path.

    Libraries raise many kinds of errors for damaged files: the message then says that the file is `told`.
    """
    try:
        with prefixed(path):
            yield
    except (InputError, RunError):
        raise
    except RecursionError:
        raise InputError(f"{path}: has values that are nested too deeply.") from None
    except Exception as error:
        raise InputError(f"{path}: {told} ({one_line(error)}).") from error


def unknown(
    kind: str, name: str, valid: Iterable[str], hint: str = "", prefix: str = "", usual: str = ""
) -> InputError:
    """The error for an unknown name, with the nearest valid name.

    `kind` is the kind of thing that is named, such as "table". `usual` is the name that people usually mean
    by this name, if that is known. Names are shown with the prefix, such as a key's section.
    """
    known = sorted(filter(None, valid))
    lowered = {k.lower(): k for k in known}
    close = difflib.get_close_matches(name[:_LONGEST].lower(), lowered, n=1, cutoff=0.5)
    close = [usual.lower()] if usual in known else close
    message = f"unknown {kind} {shortened(prefix + name)}."
    if close:
        message += f" Did you mean {shortened(prefix + lowered[close[0]])}?"
    elif known:
        message += f" Known: {printable(', '.join(known[:_MOST_NAMES]))}"
        message += f" and {len(known) - _MOST_NAMES:,} more." if len(known) > _MOST_NAMES else "."
    return InputError(f"{message} {hint}".rstrip())


def check_known(kind: str, names: Iterable[str], valid: Collection[str], hint: str = "") -> None:
    """Raise the error of `unknown` for the first of the names that is not valid."""
    for name in names:
        if name not in valid:
            raise unknown(kind, name, valid, hint)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn the user, at the line of their program that called this package."""
    own = __name__.partition(".")[0]
    depth, frame = 1, sys._getframe()
    while frame.f_back and str(frame.f_globals.get("__name__")).partition(".")[0] == own:
        depth, frame = depth + 1, frame.f_back
    warnings.warn(message, category, stacklevel=depth)


def check_whole(name: str, given: object, low: int, high: float = math.inf) -> None:
    """Raise InputError if a value is not a whole number (of Python or NumPy) within these bounds."""
    if isinstance(given, bool) or not isinstance(given, numbers.Integral) or not low <= int(given) <= high:
        bounds = f"of {low} or more" if high == math.inf else f"from {low} to {high:,}"
        raise InputError(f"{name} must be a whole number {bounds}, not {brief(given)}.")


def as_list(name: str, given: Any) -> list[Any]:
    """The values as a list, in Python's own types. A text has comma-separated values, as on the command line.

    Raises InputError for a dictionary, whose values would be lost, and for a set, which has no order.
    """
    if isinstance(given, str):
        return split_names(given)
    if not isinstance(given, Iterable) or isinstance(given, bytes | Mapping | Set):
        raise InputError(f"{name} must be a list, not {brief(given)}.")
    numpy = sys.modules.get("numpy")  # importing it here would slow down every command
    return [value.item() if numpy and isinstance(value, numpy.generic) else value for value in given]


def shortened(text: str) -> str:
    """A text in quotes for a message, shortened if it is long."""
    return repr(text) if len(text) <= _LONGEST else f"{text[:_LONGEST]!r}…"
