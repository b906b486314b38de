"""The files that a method opens, as Python's audit events report them: modules, executed code and data."""

from __future__ import annotations

import mmap
import os
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from importlib.util import source_from_cache
from pathlib import Path
from typing import Any

import platformdirs

from hpobench_nmt.benchmarking.contestants.source_files import is_users, package_of
from hpobench_nmt.core.system.process_server import answer
from hpobench_nmt.core.system.processes import Process, Server, outcome

# By event, the position of the path among its arguments.
_EVENTS = {"open": 0, "import": 1, "ctypes.dlopen": 0, "sqlite3.connect": 0}
_NOTES_SIZE = 2**24
_SYSTEM = ("/proc", "/sys", "/dev", "/etc", "/lib", "/usr/lib", "/usr/share")
_OF_A_PREFIX = ("lib", "lib64", "share", "etc")


class _Recorder:
    """The audit hook. It cannot be removed, so each process has one, which is idle outside of `recorded`."""

    def __init__(self) -> None:
        self.note: Callable[[str], object] | None = None
        self.seen: set[str] = set()

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.note is None or event not in _EVENTS:
            return
        try:
            path = arguments[_EVENTS[event]]
            if path is None or isinstance(path, int):  # an open file
                return
            path = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - at once, and links stay
            if path not in self.seen:
                self.seen.add(path)
                if event != "open" or _reads(*arguments[1:]):  # it does not depend on what it writes
                    self.note(path)
        except Exception:  # the argument is not a path
            return


def _reads(mode: str | None, flags: int) -> bool:
    """Whether the earlier content of the file can be read."""
    if isinstance(mode, str):
        return "r" in mode or "a+" in mode.replace("b", "")
    return flags & os.O_ACCMODE != os.O_WRONLY and not flags & (os.O_TRUNC | os.O_EXCL)


@cache
def _recorder() -> _Recorder:
    recorder = _Recorder()
    sys.addaudithook(recorder.hear)
    return recorder


@contextmanager
def recorded(note: Callable[[str], object]) -> Iterator[None]:
    """Inside the block, note each path once that this process opens for reading, unless it wrote the file."""
    recorder = _recorder()
    recorder.seen.clear()
    recorder.note = note
    try:
        yield
    finally:
        recorder.note = None


class Notes:
    """Paths in memory that two processes share. A process's notes remain, however it ended.

    They begin at `start` in an open file, which is made as large as necessary.
    """

    def __init__(self, file: int, start: int = 0) -> None:
        os.truncate(file, start + _NOTES_SIZE)
        self.memory = mmap.mmap(file, start + _NOTES_SIZE)
        self._start = self._end = start

    def add(self, path: str) -> None:
        """Note a path."""
        content = os.fsencode(path) + b"\0"
        if self._end + len(content) < len(self.memory):
            self.memory[self._end : self._end + len(content)] = content
            self._end += len(content)

    def files(self) -> frozenset[Path]:
        """The files that were noted and still exist; for compiled modules, their sources."""
        end = self.memory.find(b"\0\0", self._start)
        return files_of(os.fsdecode(path) for path in self.memory[self._start : end].split(b"\0") if path)


def files_of(paths: Iterable[str]) -> frozenset[Path]:
    """The files at noted paths that still exist; for compiled modules, their sources."""
    found = (_source(Path(os.path.realpath(path))) for path in paths)
    return frozenset(path for path in found if path is not None and path.is_file())


def _source(path: Path) -> Path | None:
    if path.parent.name != "__pycache__":
        return path
    try:
        return Path(source_from_cache(path))
    except ValueError:  # machine code, which numba keeps there
        return None


def of_a_method(opened: Iterable[Path], own: Iterable[Path]) -> frozenset[Path]:
    """The files that a method depends on: not those of libraries, except the library of its own modules."""
    packages = {package_of(path) for path in own if path.suffix == ".py"}
    return frozenset(
        path
        for path in opened
        if (is_users(path) and not _of_the_system(path)) or any(map(path.is_relative_to, packages))
    )


def _of_the_system(path: Path) -> bool:
    described = path.parent.suffix in (".dist-info", ".egg-info")  # packages' metadata, read by Python
    return described or any(map(path.is_relative_to, _system_folders()))


@cache
def _system_folders() -> tuple[Path, ...]:
    """Folders of the system and of Python, and folders for the libraries' caches and settings."""
    prefixes = {sys.prefix, sys.base_prefix, sysconfig.get_path("data")}
    folders = [*_SYSTEM, *(f"{prefix}/{name}" for prefix in prefixes for name in _OF_A_PREFIX)]
    folders += [platformdirs.user_cache_dir(), platformdirs.user_config_dir()]
    folders += [os.environ[name] for name in ("NUMBA_CACHE_DIR",) if os.environ.get(name)]
    return tuple(Path(os.path.realpath(folder)) for folder in folders)


def opened_by(function: Callable[[], Any], server: Server) -> frozenset[Path]:
    """The files that a function opens for reading, in a process of its own that prints nothing."""
    with tempfile.TemporaryFile() as file:
        notes = Notes(file.fileno())
        call = partial(answer, partial(_call_recorded, function), Path(os.devnull))
        outcome(Process(server, call, [file.fileno()]))
        return notes.files()


def _call_recorded(function: Callable[[], Any], file: int) -> None:
    with recorded(Notes(file).add):
        function()
