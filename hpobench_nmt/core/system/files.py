"""Files: read within limits, written whole or not at all, and names that work everywhere."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import platform
import re
import shutil
import stat
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

from hpobench_nmt.core.system.errors import InputError, not_written, shortened
from hpobench_nmt.core.system.text import UNSAFE, escape

if sys.platform != "win32":
    import fcntl

MAX_SETTINGS_BYTES = 64 * 2**20
"""The largest TOML or JSON file that is read."""

_RESERVED = {"CON", "PRN", "AUX", "NUL"} | {f"{port}{n}" for port in ("COM", "LPT") for n in range(10)}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
_LONGEST_LABEL = 200
# Text between these characters may be a key with dots, but not a list of numbers, which have dots as well.
_PARTS_OF_TOML = re.compile(rb"[=,\[\]{}\n]")
_MOST_PARTS = 1000
_SCRATCH = ".hpobench-tmp"
_LEFTOVER = re.compile(
    r"\.(?P<target>.+)\.(?P<machine>[A-Za-z0-9-]*)\.(?P<process>\d{1,10})\.[a-z0-9_]{8}" + re.escape(_SCRATCH)
)
_REPLACED = "replaced"

NO_LOCKS = (errno.EBADF, errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
"""The errors of file systems that do not support locks, or, like NFS, locks of folders."""
_DAY = 24 * 3600.0
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # of Linux


def check_name(kind: str, name: str) -> str:
    """Return name if it can be a file name everywhere, because files are named after tables and methods."""
    if not is_name(name):
        raise InputError(
            f"{kind} name {shortened(str(name))} cannot be used: use letters, digits, '_', '.', '+' and '-' "
            f"(at most 100), without a dot at the end, and not a name that Windows reserves."
        )
    return name


def is_name(name: object) -> bool:
    """Whether a text is safe as a file's name on every system, and in a shell."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > 100:
        return False
    return not name.endswith(".") and name.split(".")[0].upper() not in _RESERVED


def check_label(kind: str, text: str) -> str:
    """Return the name or unit of a column if it can be shown as it is.

    Raises InputError if it has an unsafe character, begins or ends with a space, or is too long.
    """
    unsafe = UNSAFE.search(text)
    if unsafe:
        raise InputError(f"{kind} {shortened(text)} contains the character {escape(unsafe[0])}: remove it.")
    if text != text.strip():
        raise InputError(f"{kind} {shortened(text)} begins or ends with a space: remove it.")
    if len(text) > _LONGEST_LABEL:
        raise InputError(
            f"{kind} {shortened(text)} has {len(text):,} characters; at most {_LONGEST_LABEL} are allowed."
        )
    return text


def check_column(kind: str, name: str, unit: str) -> None:
    """Raise InputError if a column's name or unit cannot be shown as it is, or the name is empty."""
    if not isinstance(name, str):
        raise InputError(f"the name of a {kind} must be a text, not {name!r}.")
    if not name:
        raise InputError(f"a {kind} has an empty name.")
    check_label(kind, name)
    check_label(f"the unit of {kind} {name!r},", unit)


def check_distinct(names: Sequence[str], where: str) -> None:
    """Raise InputError if two columns have the same name."""
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"{where}: the column name {repeated[0]!r} is used more than once.")


def no_folder(path: Path) -> str:
    """Why a path is not a folder, in words."""
    try:
        return "a file, not a folder" if path.exists() else "no such folder"
    except OSError:  # no file can have this name
        return "no such folder"


def write_whole(path: Path, content: bytes) -> None:
    """Write a file in one step. Even after a crash, it exists completely or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path.parent)
    handle, name = tempfile.mkstemp(prefix=_scratch_prefix(path.name), suffix=_SCRATCH, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
        sync_folder(path.parent)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def save_file(path: Path, content: bytes) -> None:
    """Write a file in one step, like `write_whole`. Errors name the file, or the folder if it cannot be made.

    Raises RunError, or InputError if a name is too long.
    """
    where = path.parent
    try:
        where.mkdir(parents=True, exist_ok=True)
        where = path
        write_whole(path, content)
    except OSError as error:
        raise not_written(where, error) from error


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
    return Path(tempfile.mkdtemp(prefix=_scratch_prefix(target.name), suffix=_SCRATCH, dir=target.parent))


@contextmanager
def locked_folder(folder: Path, waits: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Lock a folder: only one process at a time runs the block. `waits` is called before waiting for another.

    The system releases the lock however the process ends. Processes are not kept out if the folder does not
    exist, or cannot be locked, as on Windows and on some network file systems.
    """
    if sys.platform == "win32" or not folder.is_dir():
        yield
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waits()
                fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
        yield
    finally:
        os.close(handle)


@cache
def why_no_locks(folder: Path) -> str:
    """Why files in a folder cannot be locked, with advice; empty if they can."""
    if sys.platform == "win32":
        return ""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in NO_LOCKS:
            return (
                f"{folder}: its file system does not support locks ({error.strerror}), so processes could "
                f"write into the same files at once. Use a folder on another file system, such as a local "
                f"disk, or mount it with locks (NFS: with lockd or local_lock=flock; Lustre: -o flock)."
            )
    return ""


def remove_leftovers(folder: Path) -> None:
    """Remove unfinished files and folders that killed processes have left in a folder.

    Their names contain the machine (see `_machine`) and the process. They are removed once that process has
    ended. If they come from another machine, they are removed after a day.
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
    replaced = path / _REPLACED
    if replaced.is_dir() and not target.exists():
        replaced.rename(target)
    shutil.rmtree(path)


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


def _scratch_prefix(name: str) -> str:
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


def read_bytes(path: Path, limit: int = MAX_SETTINGS_BYTES, follow_link: bool = True) -> bytes:
    """The content of an ordinary file of at most `limit` bytes; a pipe or a device is refused.

    Pass `follow_link=False` for files in other people's folders: a symbolic link, which could point at any
    file of the user, is then refused as well. Raises InputError if the file is refused or cannot be read.
    """
    try:
        if not follow_link and path.is_symlink():
            raise InputError(
                f"{path}: is a symbolic link, which is not followed. Replace it with the file itself."
            )
        # Without O_NONBLOCK, a pipe without a writer would wait forever.
        flags = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        flags |= 0 if follow_link else getattr(os, "O_NOFOLLOW", 0)
        with os.fdopen(os.open(path, os.O_RDONLY | flags), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise InputError(f"{path}: is not a file.")
            # Not read(limit): Python allocates all that is requested, and the limit is large. The additional
            # byte shows whether the file has grown.
            content = b"" if found.st_size > limit else file.read(found.st_size + 1)
            too_large = max(found.st_size, len(content)) > limit
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}.") from None
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{str(path)!r}: cannot be the name of a file.") from None
    if too_large:
        raise InputError(f"{path}: larger than {limit:,} bytes.")
    return content


def file_sha256(path: Path) -> str:
    """The SHA-256 of an ordinary file of any size, in hexadecimal digits. The caller refuses other files."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_toml(path: Path, follow_link: bool = True) -> dict[str, Any]:
    """A parsed TOML file; `validation.load_toml` also checks what is in it."""
    content = read_bytes(path, follow_link=follow_link)
    # The memory that Python's parser needs is quadratic in the number of a key's parts.
    if any(part.count(b".") > _MOST_PARTS for part in _PARTS_OF_TOML.split(content)):
        raise InputError(f"{path}: a key has more than {_MOST_PARTS} parts.")
    # With utf-8-sig, the byte order mark that some editors write is skipped.
    parsed: dict[str, Any] = _parsed(tomllib.loads, content, "utf-8-sig", "TOML", path)
    return parsed


def read_json(path: Path, follow_link: bool = True) -> Any:
    """A parsed JSON file; `validation.load_json` also checks what is in it."""
    return parse_json(read_bytes(path, follow_link=follow_link), str(path))


def parse_json(content: bytes, where: str) -> Any:
    """Parsed JSON, UTF-8 text; NaN, Infinity and a repeated key are refused. Messages begin with `where`.

    A number such as 1e999 becomes infinite. The types of validation.py refuse it, and name its key.
    """
    parse = partial(json.loads, object_pairs_hook=_distinct, parse_constant=_refuse)
    return _parsed(parse, content, "utf-8", "JSON", where)


def _parsed(parse: Callable[[str], Any], content: bytes, encoding: str, kind: str, where: object) -> Any:
    try:
        return parse(content.decode(encoding))
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: not UTF-8 text ({error.reason} at byte {error.start}).") from None
    except RecursionError:
        raise InputError(f"{where}: not valid {kind}: nested too deeply.") from None
    except ValueError as error:  # a syntax error, or a number of more than 4,300 digits
        # What follows a semicolon is the parser's advice for programmers.
        raise InputError(f"{where}: not valid {kind}: {str(error).split(';')[0].rstrip('.')}.") from None


def _distinct(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    held = dict(pairs)
    if len(held) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for place, key in enumerate(keys) if key in keys[:place])
        raise ValueError(f"the key {shortened(twice)} occurs twice")
    return held


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a number of JSON")
