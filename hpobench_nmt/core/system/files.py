"""Files: read within limits, written whole or not at all, and names that work everywhere."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

from hpobench_nmt.core.system.errors import InputError, not_written, shortened
from hpobench_nmt.core.system.folders import (
    SCRATCH,
    remove_leftovers,
    replace_folder,
    scratch_folder,
    scratch_prefix,
    sync_folder,
)
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

NO_LOCKS = (errno.EBADF, errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
"""The errors of file systems that do not support locks, or, like NFS, locks of folders."""


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
    if unsafe := UNSAFE.search(text):
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


def is_file(path: Path) -> bool:
    """Whether a file is there. False, not an error, for what cannot be a path."""
    return os.path.isfile(path)  # noqa: PTH113


def is_folder(path: Path) -> bool:
    """Whether a folder is there. False, not an error, for what cannot be a path."""
    return os.path.isdir(path)  # noqa: PTH112


def no_folder(path: Path) -> str:
    """Why a path is not a folder, in words."""
    return "a file, not a folder" if os.path.exists(path) else "no such folder"  # noqa: PTH110


def write_whole(path: Path, content: bytes) -> None:
    """Write a file in one step. Even after a crash, it exists completely or not at all.

    A link in its place is replaced: the folder may be another person's, and the link lead anywhere.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path.parent)
    handle, name = tempfile.mkstemp(prefix=scratch_prefix(path.name), suffix=SCRATCH, dir=path.parent)
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


def write_folder(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write a folder of these files in one step, so that it is never incomplete. An older one is replaced."""
    with scratch_folder(folder) as work:
        for name, content in contents.items():
            write_whole(work / name, content)
        work.chmod(0o755)
        replace_folder(work, folder)


def save_file(path: Path, content: bytes) -> None:
    """Write a file that the user named in one step. If it is a link, the file that it leads to is written.

    Missing folders are made, but not those that only a link names. Errors name the file, or the folder if it
    cannot be made. Raises RunError, or InputError if a name is too long.
    """
    where = path.parent
    try:
        where.mkdir(parents=True, exist_ok=True)
        where = path
        target = Path(os.path.realpath(path))
        target.parent.stat()
        write_whole(target, content)
    except OSError as error:
        raise not_written(where, error) from error


def create_file(path: Path, text: str) -> None:
    """Write a text to a new file. Nothing is left behind if it cannot be written, as on a full disk.

    Raises InputError if the file exists, RunError if it cannot be written.
    """
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InputError(f"{path} exists and was not changed. Give another name.") from None
    except OSError as error:
        path.unlink(missing_ok=True)
        raise not_written(path, error) from error


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
        if not _lock(handle):
            waits()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _lock(handle: int) -> bool:
    """Lock an open file or folder, if its file system has locks; False if another process has locked it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
    return True


@contextmanager
def sole_writer(path: Path) -> Iterator[None]:
    """Refuse to run the block while another process runs it for the same file, also through a link.

    The lock is a hidden file beside the file, which is removed at the end. Processes are not kept out on
    Windows and on file systems without locks. Raises InputError, or RunError if the folder cannot be written.
    """
    if sys.platform == "win32":
        yield
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        target = Path(os.path.realpath(path))
        lock = target.with_name(f".{target.name}.lock")
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise not_written(path, error) from error
    try:
        # The last holder may have removed the file between our two steps.
        if not (_lock(handle) and lock.exists() and os.path.samestat(os.fstat(handle), lock.stat())):
            raise InputError(f"{path}: another process is writing this file. Give another file, or wait.")
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)
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


def refuse_link(path: Path) -> Path:
    """The path. Raises InputError if it is a symbolic link, which could lead a write out of the folder."""
    if path.is_symlink():
        raise InputError(
            f"{path}: is a symbolic link, which is not followed. Replace it with the file itself."
        )
    return path


def read_bytes(path: Path, limit: int = MAX_SETTINGS_BYTES, follow_link: bool = True) -> bytes:
    """The content of an ordinary file of at most `limit` bytes; a pipe or a device is refused.

    Pass `follow_link=False` for files in other people's folders: a symbolic link, which could point at any
    file of the user, is then refused as well. Raises InputError if the file is refused or cannot be read.
    """
    try:
        if not follow_link:
            refuse_link(path)
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


def parquet_bytes(table: Any, **options: Any) -> bytes:
    """A table of Arrow as the content of a Parquet file, compressed by zstd. Options: see `write_table`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", **options)
    return bytes(sink.getvalue().to_pybytes())
