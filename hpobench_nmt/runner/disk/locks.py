"""Locks between processes. The system releases them when their holder dies for any reason."""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from hpobench_nmt.core.system.errors import RunError
from hpobench_nmt.core.system.files import NO_LOCKS, why_no_locks
from hpobench_nmt.core.system.folders import scratch_folder

if sys.platform != "win32":
    import fcntl


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Wait until no other process is inside for the same path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(path):
        yield


def file_lock(path: Path, blocking: bool = True) -> FileLock:
    """The lock of a file in an existing folder. Raises RunError if the file system has no locks.

    Without locks, two processes would train the same row or write into one ledger.
    """
    if why := why_no_locks(path.parent.absolute()):
        raise RunError(why)
    return FileLock(path, blocking=blocking)


def measuring_lock(cache: Path, gpu: str = "") -> Path:
    """The path for `exclusive` when a process of this machine measures a time, on a GPU if one is named.

    Jobs that would disturb the measurement pause meanwhile. `cache` is the folder that all jobs share.
    """
    return cache / f"measuring-{platform.node()}{gpu and f'-{gpu}'}.lock"


def is_held(path: Path) -> bool:
    """Whether a process is inside `exclusive` for that path, or holds the file's lock in another way.

    Several processes may ask at the same time. On Unix, asking never makes a process look inside.
    """
    if sys.platform == "win32":
        try:
            with FileLock(path, blocking=False):
                return False
        except Timeout:
            return True
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    except OSError as error:
        if error.errno in NO_LOCKS:
            raise RunError(why_no_locks(path.parent.absolute())) from None
        raise
    return False


def make_once(path: Path, make: Callable[[Path], None]) -> Path:
    """The file or folder at path, made by make(temporary path) if no process has made it yet.

    Other processes that ask meanwhile wait. A process that is killed in `make` leaves nothing at `path`. Its
    temporary file is removed when the next file is made in the same folder.
    """
    if path.exists():
        return path
    with exclusive(path.with_name(path.name + ".lock")):
        if not path.exists():
            with scratch_folder(path) as scratch:
                make(scratch / "new")
                (scratch / "new").rename(path)
    return path


def key_of(identity: object) -> str:
    """A part of the name of such a file, for everything that its content depends on."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
