"""Folders that are moved into place whole, alone or in groups, and what killed processes leave behind."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import platform
import re
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

SCRATCH = ".hpobench-tmp"
"""The end of the names of files and folders that are not finished."""
_LEFTOVER = re.compile(
    r"\.(?P<target>.+)\.(?P<machine>[A-Za-z0-9-]*)\.(?P<process>\d{1,10})\.[a-z0-9_]{8}" + re.escape(SCRATCH)
)
_REPLACED = "replaced"
_COMMITTED = "committed"
_DAY = 24 * 3600.0
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # of Linux


@contextmanager
def scratch_folder(target: Path) -> Iterator[Path]:
    """A new folder beside the target, to fill and move into place. If not moved, it is removed at the end."""
    work = _new_scratch_folder(target)
    try:
        yield work
    finally:
        remove_folder(work)


def replace_folder(new: Path, target: Path) -> None:
    """Move a finished folder into place. An older one is removed only when the new one is there.

    Linux exchanges the two folders in one step. Other systems need two steps. If the process is killed
    between them, or neither folder can be moved into place, the older folder stays in a scratch folder, from
    which `remove_leftovers` restores it. The new folder is on the disk when this returns.
    """
    sync_folder(new)
    if not target.exists():
        new.rename(target)
    elif _exchange(new, target):
        remove_folder(new)
    else:
        _replace_in_two_steps(new, target)
    sync_folder(target.parent)


def replace_folders(work: Path) -> None:
    """Move the folders of a scratch folder to its parent: all of them, or none if killed before the first.

    A file in the scratch folder then names them, each with the number by which the system knows it. From then
    on they count as moved: if the process is killed, `remove_leftovers` moves the rest.
    """
    folders = [folder for folder in sorted(work.iterdir()) if folder.is_dir()]
    for folder in folders:
        sync_folder(folder)
    begun = work / "begun"
    begun.write_text(json.dumps({folder.name: folder.stat().st_ino for folder in folders}))
    handle = os.open(begun, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)
    begun.rename(work / _COMMITTED)
    sync_folder(work)
    _move_rest(work)


def _move_rest(work: Path) -> None:
    for name, number in json.loads((work / _COMMITTED).read_text()).items():
        new = work / name
        # An older folder, which was exchanged for the new one, has another number.
        if new.is_dir() and new.stat().st_ino == number and new.parent == work:
            replace_folder(new, work.parent / name)


def remove_folder(path: Path) -> None:
    """Remove a folder with all its files. Files that cannot be removed stay.

    A path that is not a folder is left alone. Among other people's files it may be a pipe, with which
    shutil.rmtree would wait for a writer.
    """
    if os.path.isdir(path):  # noqa: PTH112 - Path.is_dir raises for some names
        shutil.rmtree(path, ignore_errors=True)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, if the system supports this."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in one step; False if the system or the file system does not support this."""
    if sys.platform != "linux":
        return False
    import ctypes

    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:  # an old C library
        return False
    if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    error = ctypes.get_errno()
    if error in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(error, os.strerror(error), str(one))


def _replace_in_two_steps(new: Path, target: Path) -> None:
    aside = _new_scratch_folder(target)
    try:
        target.rename(aside / _REPLACED)
        new.rename(target)
    finally:
        if not target.exists():  # an error, or Ctrl-C
            (aside / _REPLACED).rename(target)
        remove_folder(aside)  # not reached if the line above fails: the older folder is still inside


def _new_scratch_folder(target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(target.parent)
    return Path(tempfile.mkdtemp(prefix=scratch_prefix(target.name), suffix=SCRATCH, dir=target.parent))


def remove_leftovers(folder: Path) -> None:
    """Remove unfinished files and folders that killed processes have left in a folder.

    Their names contain the machine (see `_machine`) and the process. They are removed once that process has
    ended. If they come from another machine, they are removed after a day. A group of folders that was being
    moved into place is moved first.
    """
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            found = _LEFTOVER.fullmatch(entry.name)
            if found and _abandoned(found["machine"], int(found["process"]), entry):
                with contextlib.suppress(OSError):  # another process may be removing it as well
                    _remove_leftover(folder / entry.name, folder / found["target"])


def _remove_leftover(path: Path, target: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        path.unlink()
        return
    # Under a name of this process, no other process takes it for left behind.
    own = path.with_name(f"{scratch_prefix(target.name)}{secrets.token_hex(4)}{SCRATCH}")
    path.rename(own)
    replaced = own / _REPLACED
    if replaced.is_dir() and not target.exists():
        replaced.rename(target)
    if (own / _COMMITTED).is_file():
        _move_rest(own)
    shutil.rmtree(own)


def _abandoned(machine: str, process: int, entry: os.DirEntry[str]) -> bool:
    # On Windows, signal 0 would end the process.
    if machine != _machine() or os.name == "nt":
        with contextlib.suppress(OSError):
            return time.time() - entry.stat(follow_symlinks=False).st_mtime > _DAY
        return False
    # On the same machine, look for the process itself: the age is unreliable if the clock was set meanwhile.
    try:
        os.kill(process, 0)
    except (OSError, OverflowError) as error:
        return isinstance(error, ProcessLookupError)
    return False


def scratch_prefix(name: str) -> str:
    """How names of unfinished files and folders begin: with their target, this machine and this process."""
    return f".{name}.{_machine()}.{os.getpid()}."


def _machine() -> str:
    """A name for the place in which process numbers are unique: a machine since its boot, or a container.

    Containers may share a home folder and the name of their machine, and each numbers its processes from 1.
    """
    place = _boot_id()
    with contextlib.suppress(OSError):
        place += str(Path("/proc/self/ns/pid").readlink())
    name = re.sub(r"[^A-Za-z0-9-]", "-", platform.node())[:40]
    return f"{name}-{hashlib.sha256(place.encode()).hexdigest()[:10]}"


@cache
def _boot_id() -> str:
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    return ""
