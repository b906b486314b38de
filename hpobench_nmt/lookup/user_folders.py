"""The user's own folders of tables, corpora and states. HPOBENCH_NMT_HOME changes where they are."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import platformdirs

_APP = "hpobench-nmt"


def added_folder() -> Path:
    """Where `tables add` puts tables: user data, never cleaned up by the system."""
    return _folder("tables", platformdirs.user_data_dir)


def fetched_folder() -> Path:
    """Where `tables fetch` puts tables: a cache, which can be fetched again."""
    return _folder("cache", platformdirs.user_cache_dir)


def _folder(name: str, usual: Callable[..., str]) -> Path:
    home = os.environ.get("HPOBENCH_NMT_HOME")
    # "~" is the user's home: files of variables and containers are not expanded by a shell.
    return Path(home).expanduser() / name if home else Path(usual(_APP, appauthor=False)) / "tables"


def training_cache() -> Path:
    """Where the runner keeps corpora and models that trainings share: a cache, which can be rebuilt."""
    return fetched_folder().parent / "training"
