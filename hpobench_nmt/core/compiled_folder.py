"""Where the machine code of inner loops is kept; without numba, so that the command line can look."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def compiled_folder() -> Path:
    """The folder: of `NUMBA_CACHE_DIR`, numba's own variable, or in the user's cache."""
    own = Path(platformdirs.user_cache_dir("hpobench-nmt", appauthor=False)) / "compiled"
    return Path(os.environ.get("NUMBA_CACHE_DIR") or own)


def has_compiled() -> bool:
    """Whether anything was compiled before: the first run of all spends most of its time on that."""
    return any(compiled_folder().glob("*/*.nbi"))
