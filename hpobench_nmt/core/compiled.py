"""Inner loops compiled by numba, whose machine code is kept in the user's cache.

By default numba keeps it beside the source, where it would survive an uninstallation and hide a later
editable install.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

from hpobench_nmt.core.compiled_folder import compiled_folder

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(**options: Any) -> Callable[[Function], Function]:
    """Decorator: `numba.njit(cache=True, **options)` with its files outside of the package.

    `NUMBA_CACHE_DIR`, numba's own variable, comes first. Where neither these files nor any in the package's
    folder can be written, each process compiles the function again.
    """
    settings: Any = numba.config
    own_place = str(compiled_folder())

    def decorate(function: Function) -> Function:
        # Numba settles a function's place here, so that the setting of other packages stays what it was.
        place = settings.CACHE_DIR
        settings.CACHE_DIR = place or own_place
        try:
            result: Function = numba.njit(cache=True, **options)(function)
        except RuntimeError:  # no place for the files can be written
            result = numba.njit(**options)(function)
        finally:
            settings.CACHE_DIR = place
        return result

    return decorate
