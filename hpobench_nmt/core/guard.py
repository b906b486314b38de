"""Calls of a method's code: whatever goes wrong in it becomes the failure of its trial."""

from __future__ import annotations

import errno
import operator
import re
import signal
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hpobench_nmt.core.system.text import printable


class MethodFailure(Exception):
    """A method did something wrong, which the message describes."""


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_PACKAGE = str(Path(__file__).parents[1])
_LIBRARIES = re.compile(r"[/\\](?:site-packages|dist-packages|lib[/\\]python3\.\d+)[/\\]")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")


def guarded(what: str, call: Callable[..., Any], *arguments: Any) -> Any:
    """Call a method's code. Whatever it raises becomes its failure."""
    try:
        return call(*arguments)
    except BaseException as error:
        raise as_failure(what, error) from error


def as_failure(what: str, error: BaseException) -> MethodFailure:
    """The failure for an error that a method's call has raised. An error that is not its fault is raised."""
    if isinstance(error, MethodFailure):
        return error
    if isinstance(error, KeyboardInterrupt):
        # If Ctrl-C is ignored, as in worker processes, only the method itself can have raised this error.
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            raise error
        return MethodFailure(f"{what} raised KeyboardInterrupt")
    if isinstance(error, SystemExit):
        return MethodFailure(f"the method tried to exit the process (exit code {described(str, error.code)})")
    if is_no_room(error):
        raise error  # the machine's fault, not the method's
    return MethodFailure(f"{what} raised {type(error).__name__}: {described(str, error)}{_place(error)}")


def _place(error: BaseException) -> str:
    """Where in the user's own code an error was raised, or "" if only libraries are involved.

    The file is named without its folder, so that the text is the same on every machine.
    """
    found = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        if "ipykernel" in file or file.startswith("<ipython"):
            found = f" (line {line} of a cell)"
        elif not file.startswith((_PACKAGE, "<")) and not _LIBRARIES.search(file):
            found = f" ({Path(file).name}, line {line})"
    return found


def is_no_room(error: BaseException) -> bool:
    """Whether an error means that a disk is full, which is the machine's fault, not a method's."""
    return isinstance(error, OSError) and error.errno in _NO_ROOM


def failure_text(text: str) -> str:
    """A reason that can be written to any file and terminal, on one line of at most 400 characters."""
    return printable(" ".join(text.split()))[:400]


def recommended_row(method: Any, rows: Sequence[int], n_rows: int) -> int:
    """The row that a method's `recommend` returns, which must be one of those that it was given."""
    row: int = row_number("recommend", guarded("recommend", method.recommend, rows), n_rows)
    if row not in rows:
        raise MethodFailure(f"recommend returned row {row}, which is not among the rows it was given")
    return row


def function_of(method: Any, name: str) -> Callable[..., Any]:
    """A function that a method must have."""
    found: Callable[..., Any] | None = guarded(name, getattr, method, name, None)
    if not callable(found):
        raise MethodFailure(f"what was made, a {type(method).__name__}, has no {name}")
    return found


def row_number(name: str, answer: Any, n_rows: int) -> int:
    """The row number that a method's call returned; MethodFailure if it is invalid."""
    try:
        if isinstance(answer, bool | np.bool_):
            raise TypeError
        row = operator.index(answer)
    except Exception:
        shown = f"{type(answer).__name__} {described(repr, answer)}"
        raise MethodFailure(f"{name} returned {shown}, not a row number") from None
    if not 0 <= row < n_rows:
        raise MethodFailure(f"{name} returned row {row}, but rows go from 0 to {n_rows - 1}")
    return row


def resource_amount(name: str, answer: Any) -> float:
    """The resource that a method's request names; MethodFailure if it is invalid."""
    try:
        if isinstance(answer, bool | np.bool_ | str):
            raise TypeError
        resource = float(answer)
    except Exception:
        shown = f"{type(answer).__name__} {described(repr, answer)}"
        raise MethodFailure(f"{name} returned a request for {shown}, which is not a resource") from None
    if not resource > 0:
        raise MethodFailure(f"{name} returned a request for resource {resource:g}; it must be above 0")
    return resource


def described(describe: Callable[[Any], str], thing: object) -> str:
    """A short description of something that a method made, the same in every run."""
    try:
        text = " ".join(describe(thing).split())
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            raise
        return f"(a {type(thing).__name__} that cannot be shown)"
    # Memory addresses differ from run to run.
    return _ADDRESS.sub("0x…", text)[:300]
