"""Inner loops compiled by numba, whose machine code is kept in the user's cache.

By default numba keeps it beside the source, where it would survive an uninstallation and hide a later
editable install.

Importing numba and loading machine code takes a second, and compiling what a method needs may take ten. A
short search takes less without either. So numba is imported when a compiled function is first called, and
`starting` runs functions that have a plain form in that form for a while. Both forms give the same bits.
"""

from __future__ import annotations

import functools
import sys
import time
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from hpobench_nmt.core.system.compiled_folder import compiled_folder

Function = TypeVar("Function", bound=Callable[..., Any])
_QUIET_SECONDS = 2.0
# How much is computed in plain forms, about two seconds. Each call counts as 1,000 numbers, and those of its
# last argument.
_PLAIN_WORK = 100_000_000


class _Start:
    """Whether this process is in `starting`, and how much it may still compute in plain forms."""

    inside, left = False, _PLAIN_WORK


def compiled(plain: Callable[..., Any] | bool = False, **options: Any) -> Callable[[Function], Function]:
    """Decorator: `numba.njit(cache=True, **options)` with its files outside of the package.

    `NUMBA_CACHE_DIR`, numba's own variable, has precedence. If files can be written neither there nor in the
    package's folder, each process compiles the function again.

    Args:
        plain: the plain form: a function of NumPy that computes the same bits, or True if the function is
            fast enough without compilation.
    """

    def decorate(function: Function) -> Function:
        plain_form = function if plain is True else plain

        @functools.cache
        def dispatcher() -> Any:
            return _dispatcher(function, options)

        @functools.wraps(function)
        def call(*args: Any) -> Any:
            if plain_form and _Start.inside and _Start.left > 0:
                _Start.left -= 1000 + getattr(args[-1], "size", 1)
                with np.errstate(all="ignore"):  # as in compiled code
                    return plain_form(*args)
            return dispatcher()(*args)

        vars(call)["dispatcher"] = dispatcher
        return call  # type: ignore[return-value]

    return decorate


def _dispatcher(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """The function compiled by numba, which calls those of the compiled functions that it names."""
    import numba

    _listen()
    known = function.__globals__
    called = [name for name in function.__code__.co_names if hasattr(known.get(name), "dispatcher")]
    named = {name: known[name].dispatcher() for name in called}
    linked: Any = types.FunctionType(function.__code__, known | named, function.__name__)
    functools.update_wrapper(linked, function)
    settings: Any = numba.config
    # Numba fixes a function's cache folder in this call. The setting is restored for other packages.
    place = settings.CACHE_DIR
    settings.CACHE_DIR = place or str(compiled_folder())
    try:
        return numba.njit(cache=True, **options)(linked)
    except RuntimeError:  # no folder for the files is writable
        return numba.njit(**options)(linked)
    finally:
        settings.CACHE_DIR = place


@functools.cache
def _listen() -> None:
    """Print one line when functions have been compiled for some time, so that the wait has a reason."""
    from numba.core import event

    class Told(event.Listener):
        depth, since, seconds = 0, 0.0, 0.0

        def on_start(self, _: event.Event) -> None:
            if self.depth == 0:
                self.since = time.monotonic()
            self.depth += 1

        def on_end(self, _: event.Event) -> None:
            self.depth -= 1
            if _Start.inside and self.depth == 0 and self.seconds <= _QUIET_SECONDS:  # not of its callees
                self.seconds += time.monotonic() - self.since
                if self.seconds > _QUIET_SECONDS:
                    sys.stderr.write("Compiling the inner loops, once on this machine …\n")

    event.register("numba:compile", Told())  # type: ignore[no-untyped-call]


@contextmanager
def starting() -> Iterator[None]:
    """Inside, functions first run in their plain form, for about two seconds in all.

    After that, one line on standard error reports that compiling takes more than two seconds.
    """
    _Start.inside = True
    try:
        yield
    finally:
        _Start.inside = False
