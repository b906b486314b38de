"""Inner loops compiled by numba, whose machine code is kept in the user's cache.

By default numba keeps it beside the source, where it would survive an uninstallation and hide a later
editable install.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

from hpobench_nmt.core.system.compiled_folder import compiled_folder

Function = TypeVar("Function", bound=Callable[..., Any])


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
