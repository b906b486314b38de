"""Inner loops compiled by numba, whose machine code is kept in the user's cache.

By default numba keeps it beside the source, where it would survive an uninstallation and hide a later
editable install.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numba
from numba.core import event

from hpobench_nmt.core.system.compiled_folder import compiled_folder

Function = TypeVar("Function", bound=Callable[..., Any])
_QUIET_SECONDS = 2.0


def compiled(**options: Any) -> Callable[[Function], Function]:
    """Decorator: `numba.njit(cache=True, **options)` with its files outside of the package.

    `NUMBA_CACHE_DIR`, numba's own variable, has precedence. If files can be written neither there nor in the
    package's folder, each process compiles the function again.
    """
    settings: Any = numba.config
    own_place = str(compiled_folder())

    def decorate(function: Function) -> Function:
        # Numba fixes a function's cache folder in this call. The setting is restored for other packages.
        place = settings.CACHE_DIR
        settings.CACHE_DIR = place or own_place
        try:
            result: Function = numba.njit(cache=True, **options)(function)
        except RuntimeError:  # no folder for the files is writable
            result = numba.njit(**options)(function)
        finally:
            settings.CACHE_DIR = place
        return result

    return decorate


class _Told(event.Listener):
    """Prints one line when functions have been compiled for some time, so that the wait has a reason."""

    def __init__(self) -> None:
        self._depth, self._since, self._seconds = 0, 0.0, 0.0

    def on_start(self, _: event.Event) -> None:
        """A function begins to be compiled."""
        if self._depth == 0:
            self._since = time.monotonic()
        self._depth += 1

    def on_end(self, _: event.Event) -> None:
        """It has been compiled."""
        self._depth -= 1
        if self._depth == 0 and self._seconds <= _QUIET_SECONDS:  # compiling a function compiles its callees
            self._seconds += time.monotonic() - self._since
            if self._seconds > _QUIET_SECONDS:
                sys.stderr.write("Compiling the inner loops, once on this machine …\n")


_told = _Told()  # one, so that a process prints the line once


@contextmanager
def compiling_is_told() -> Iterator[None]:
    """Inside, one line on standard error reports that compiling takes more than two seconds."""
    with event.install_listener("numba:compile", _told):
        yield
