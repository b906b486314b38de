"""Locks between processes, which the system releases when their holder dies, however it dies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Wait until no other process is inside for the same path: for measuring times one at a time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path):
        yield


def is_held(path: Path) -> bool:
    """Whether a process is inside `exclusive` for that path now."""
    try:
        with FileLock(path, blocking=False):
            return False
    except Timeout:
        return True


def make_once(path: Path, make: Callable[[Path], None]) -> Path:
    """The file or folder at path, made by make(temporary path) if no process has made it yet.

    Others that ask meanwhile wait. What a killed maker left is not taken for the whole.
    """
    if path.exists():
        return path
    with exclusive(path.with_name(path.name + ".lock")):
        if not path.exists():
            partial = path.with_name(path.name + ".partial")
            _remove(partial)
            make(partial)
            partial.rename(path)
    return path


def _remove(path: Path) -> None:
    import shutil

    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
