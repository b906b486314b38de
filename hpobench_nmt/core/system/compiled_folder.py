"""The folder with the machine code of inner loops. The command line reads it without importing numba."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def compiled_folder() -> Path:
    """The folder that `NUMBA_CACHE_DIR`, numba's own variable, names, else one in the user's cache."""
    own = Path(platformdirs.user_cache_dir("hpobench-nmt", appauthor=False)) / "compiled"
    return Path(os.environ.get("NUMBA_CACHE_DIR") or own)


def has_compiled() -> bool:
    """Whether anything was compiled before. The very first run spends most of its time compiling."""
    return any(compiled_folder().glob("*/*.nbi"))
