"""Mutated inputs of a reader: the content is read, or it is refused in one line that names the file.

Nothing else may happen. The readers are declared in readers.py.
"""

import os
import shutil
import signal
import warnings
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from fuzzing.mutations import mutate_file, pick
from hpobench_nmt.core.system.errors import InputError

_SECONDS = 20  # for an input
_LONGEST = 1000  # characters of a message
_HOME, _TABLES = "HPOBENCH_NMT_HOME", "HPOBENCH_NMT_TABLES"


class Fault(Exception):
    """An input was neither read nor refused as it should be."""


class _Hangs(BaseException):
    """No error that a reader would catch."""


@dataclass(frozen=True)
class Reader:
    """A format that is read.

    Attributes:
        make: writes valid files into a folder.
        read: reads them. The folder is the current one, and `home` in it is the home.
        files: patterns of the files that are mutated.
        repair: makes hashes right again in files that were mutated, so that they are read.
        refusal: the error of files that are refused.
        needs: modules without which nothing can be read.
    """

    make: Callable[[Path], object]
    read: Callable[[], object]
    files: tuple[str, ...] = ("*",)
    repair: Callable[[Path], object] = lambda folder: None
    refusal: type[Exception] = InputError
    needs: tuple[str, ...] = ()

    @property
    def missing(self):
        """The needed modules that are not installed."""
        return [name for name in self.needs if find_spec(name) is None]


class Tries:
    """Mutated inputs of one reader, in a folder of its own."""

    def __init__(self, name, reader, folder):
        self.name, self.reader, self.folder = name, reader, folder
        self.counts = Counter()
        with self._at_home():
            self.reader.make(folder)
        self._valid = {p: p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
        self._mutated = [p for p in self._valid if any(p.match(pattern) for pattern in self.reader.files)]
        with self._at_home(), _strict():
            self.reader.read()  # what is mutated must be valid
        self._restore()

    def once(self, seed):
        """Try the input of a seed; Fault if it does not end as it should."""
        rng = np.random.default_rng([*seed, zlib.crc32(self.name.encode())])
        path = pick(rng, self._mutated)
        content = mutate_file(rng, path, self.folder)
        path.write_bytes(content)
        where = f"{self.name}, seed {seed}, {path.relative_to(self.folder)}: {content[:3000]!r}"
        try:
            self.counts[self._ended(path)] += 1
        except Exception as error:
            raise Fault(f"{where}\n{type(error).__name__}: {error}") from error
        except _Hangs as error:
            raise Fault(f"{where}\n{error}") from error
        finally:
            self._restore()

    def _ended(self, path):
        with self._at_home(), _at_most(_SECONDS), _strict():
            try:
                self.reader.repair(self.folder)
                self.reader.read()
            except self.reader.refusal as error:
                said = str(error)
                if len(said.splitlines()) != 1 or len(said) > _LONGEST:
                    raise Fault(f"not one clear line: {said}") from error
                known = {part for p in self._valid for part in (*p.relative_to(self.folder).parts, p.stem)}
                known.add(self.folder.name)
                if self.reader.refusal is InputError and not any(name in said for name in known):
                    raise Fault(f"does not name the file: {said}") from error
                return "refused"
        return "read"

    def _restore(self):
        """Only the valid files again."""
        for path in sorted(self.folder.rglob("*"), reverse=True):
            if path.is_file() or path.is_symlink():
                if path not in self._valid:
                    path.unlink()
            elif not any(path in valid.parents for valid in self._valid):
                shutil.rmtree(path)
        for path, content in self._valid.items():
            if not path.is_file() or path.read_bytes() != content:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)

    @contextmanager
    def _at_home(self):
        """The folder is the current one, and has the home."""
        before = {name: os.environ.pop(name, None) for name in (_HOME, _TABLES)}
        os.environ[_HOME] = str(self.folder / "home")
        try:
            with chdir(self.folder):
                yield
        finally:
            del os.environ[_HOME]
            os.environ.update({name: value for name, value in before.items() if value is not None})


@contextmanager
def _strict():
    """Warnings are errors, except what our readers tell."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UserWarning)
        yield


@contextmanager
def _at_most(seconds):
    def stop(number, frame):
        raise _Hangs(f"took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
