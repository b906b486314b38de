"""What a method's results depend on, so that results of other code are not reused.

A method of this package is identified by its `rows_version`, an integer that rises when the method looks up
other rows, which a test enforces. A user's method is identified by its fingerprint, a hash. It covers

- its own module, and the user's modules that it imports, directly or not (source_files.py);
- the files that a fresh process opens while it loads and constructs the method (opened_files.py): modules
  imported by a computed name, code that is executed, and data. A method that is given as an object is already
  loaded, so there is no such process;
- the `rows_version` of the methods of this package that it imports, and the trial loop's `TRIAL_VERSION`.

If a trial opens files that are not covered, the run marks its results, and the next run computes them again.
Not covered: other code of this package, the standard library and installed packages (the manifest has the
versions of the main ones), files that another program opens, and files that a library opens without Python,
such as Parquet files.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import marshal
import re
import sys
import types
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from hpobench_nmt.benchmarking.contestants.opened_files import of_a_method
from hpobench_nmt.benchmarking.contestants.source_files import closure, is_users, located, package_imports
from hpobench_nmt.core.system.files import file_sha256
from hpobench_nmt.core.system.text import printable
from hpobench_nmt.core.system.validation import Natural, Strict
from hpobench_nmt.core.trial_loop import TRIAL_VERSION
from hpobench_nmt.methods import KNOWN

_NAME = __name__.partition(".")[0]
_DISTRIBUTIONS = {"sklearn": "scikit-learn"}
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")
_TRIAL = f"trial version {TRIAL_VERSION}"
_METHODS = f"{_NAME}.methods"
_BUT_READ = ", but trials read "
_MOST_SHOWN = 3


def library_versions(libraries: Iterable[str]) -> dict[str, str]:
    """The installed version of each of these modules' packages."""
    return {library: version(_DISTRIBUTIONS.get(library, library)) for library in libraries}


def program_fingerprint(command: str, settings: str, files: Iterable[Path]) -> str:
    """Hash of a command line, its settings, and the files that it names.

    Other files that the program opens are not covered.
    """
    return _digest(["program", command, settings, *_described(files), _TRIAL])


class MethodEntry(Strict, frozen=True, kw_only=True):
    """A method of the run: how it was named, and what its results depend on.

    If its trials read files that the fingerprint does not cover, the fingerprint is marked. It then differs
    from the fingerprints of all methods, in all versions, so that no run reuses the results.

    Attributes:
        spec: the text that names the method, with its settings.
        fingerprint: hash of the sources of a user's method; in formats before 4, of any method.
        rows_version, libraries: of a method of this package, in place of the fingerprint.
    """

    spec: str = ""
    fingerprint: str = ""
    rows_version: Natural = 0
    libraries: dict[str, str] = msgspec.field(default_factory=dict)

    def same_rows(self, other: MethodEntry) -> bool:
        """Whether results of the two methods, of the same name, may be mixed."""
        return msgspec.structs.replace(self, spec="") == msgspec.structs.replace(other, spec="")

    @property
    def identity(self) -> str:
        """What its results depend on, as a text."""
        versions = [f"{library} {version}" for library, version in self.libraries.items()]
        return self.fingerprint or ", ".join([f"rows version {self.rows_version}", *versions])

    def marked(self, files: Sequence[Path]) -> MethodEntry:
        """The entry, marked with the names of such files."""
        names = list(dict.fromkeys(path.name for path in files))
        shown = ", ".join(map(printable, names[:_MOST_SHOWN])) + (", …" if len(names) > _MOST_SHOWN else "")
        return msgspec.structs.replace(self, fingerprint=f"{self.unmarked.fingerprint}{_BUT_READ}{shown}")

    @property
    def unmarked(self) -> MethodEntry:
        """The entry without the mark."""
        return msgspec.structs.replace(self, fingerprint=self.fingerprint.partition(_BUT_READ)[0])

    @property
    def not_covered(self) -> str:
        """The names of the files that it does not cover; empty if there are none."""
        return self.fingerprint.partition(_BUT_READ)[2]


@dataclasses.dataclass(frozen=True)
class Fingerprint:
    """A hash, and the user's files that it covers."""

    sha256: str
    files: frozenset[Path]


def fingerprint(
    factory: Any, file: Path | None = None, module: str | None = None, opened: Iterable[Path] = ()
) -> Fingerprint:
    """Hash of the sources and settings that a user's method depends on.

    Args:
        factory: what makes the method: a class, a function, a partial, or an object with settings.
        file, module: where it was loaded from, if it was given as a file or a module.
        opened: files that were opened while it was loaded and made.
    """
    state = _State()
    state.add(factory)
    # The method's own module counts wherever it is, even in an installed package.
    files = [file.resolve()] if file is not None else []
    files += located(module, ()) if module is not None else []
    if not files and (inspect.isclass(factory) or inspect.isfunction(factory)):
        files = [path for path in [_file_of(factory)] if path is not None and not _is_of_package(factory)]
    loaded = of_a_method(opened, files)
    own = closure([*files, *state.files, *loaded])
    package = {name for path in own for name in package_imports(path)} | state.package_modules
    covered = frozenset([*own, *loaded])
    described = [*_described(covered), *_rows_versions(package), _TRIAL]
    return Fingerprint(_digest([*state.settings, *described]), covered)


def _rows_versions(modules: Iterable[str]) -> list[str]:
    """The versions of the methods in these modules of the package.

    Parts that several methods share, such as the kernels, stand for all methods: if their values change, the
    rows of some method change.
    """
    homes = {name: f"{_METHODS}.{known.location.partition(':')[0]}" for name, known in KNOWN.items()}
    used = {module for module in modules if module.startswith(_METHODS)}
    shared = not used <= set(homes.values())
    return [f"{name} {KNOWN[name].rows_version}" for name, home in homes.items() if shared or home in used]


def _digest(parts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part.encode("utf-8", "surrogatepass")).digest())
    return digest.hexdigest()


def _described(files: Iterable[Path]) -> list[str]:
    """One text per file: its name and the hash of its content, but not its folder."""
    return sorted(f"{path.name} {file_sha256(path)}" for path in files if path.is_file())


# --- methods given as objects ----------------------------------------------------------------------


class _State:
    """The source files of the classes and functions that an object is made of, and its settings as text."""

    def __init__(self) -> None:
        self.files: list[Path] = []
        self.package_modules: set[str] = set()
        self.settings: list[str] = []
        self._seen: set[int] = set()
        self._keep: list[Any] = []  # keeps them alive, so that no two objects get the same id

    def add(self, thing: Any) -> None:
        """Add an object and what it holds: settings, wrapped functions, the variables of a closure."""
        if thing is None or isinstance(thing, bool | int | float | complex | str | bytes | np.generic):
            self.settings.append(f"{type(thing).__name__} {thing!r}")
            return
        if id(thing) in self._seen:
            return
        pandas = sys.modules.get("pandas")  # nothing is one of its frames before it is imported
        self._seen.add(id(thing))
        self._keep.append(thing)
        if inspect.isclass(thing):
            for part in inspect.getmro(thing):
                self._add_source(part)
        elif isinstance(thing, functools.partial):
            self._add_all([thing.func, *thing.args, *thing.keywords.keys(), *thing.keywords.values()])
        elif isinstance(thing, types.MethodType):
            self._add_all([thing.__func__, thing.__self__])
        elif isinstance(thing, types.FunctionType):
            self._add_source(thing)
            cells = [cell.cell_contents for cell in thing.__closure__ or () if _is_filled(cell)]
            keywords = (thing.__kwdefaults__ or {}).values()
            self._add_all([*(thing.__defaults__ or ()), *keywords, *cells, *vars(thing).values()])
        elif isinstance(thing, np.ndarray):
            self._add_array(thing)
        elif pandas and isinstance(thing, pandas.DataFrame):
            self._add_array(thing.index.to_numpy())
            self._add_all(part for name, column in thing.items() for part in (name, column))
        elif pandas and isinstance(thing, pandas.Series):
            self._add_all([thing.name, thing.index.to_numpy(), thing.to_numpy()])
        elif isinstance(thing, set | frozenset):
            self.settings.append(f"{type(thing).__name__} of {len(thing)}")
            self._add_all(sorted(thing, key=_shown))  # their own order differs from process to process
        elif isinstance(thing, dict):
            self._add_all([part for item in thing.items() for part in item])
        elif isinstance(thing, tuple | list):
            self.settings.append(f"{type(thing).__name__} of {len(thing)}")
            self._add_all(thing)
        elif callable(inner := getattr(thing, "py_func", getattr(thing, "__wrapped__", None))):
            self.add(inner)  # compiled by numba, or cached
        else:
            self._add_object(thing)

    def _add_all(self, things: Iterable[Any]) -> None:
        for thing in things:
            self.add(thing)

    def _add_array(self, array: np.ndarray[Any, Any]) -> None:
        self.settings.append(f"array {array.dtype} {array.shape}")
        if array.dtype.hasobject:
            self._add_all(array.ravel().tolist())
        else:
            self.settings.append(hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest())

    def _add_object(self, thing: Any) -> None:
        own = _file_of(type(thing))
        self.add(type(thing))
        if (own and is_users(own)) or _is_of_package(type(thing)) or type(thing).__module__ == "__main__":
            self._add_all([part for item in _fields(thing).items() for part in item])
        else:
            # The contents of a library's object are internal, and may differ from run to run.
            self.settings.append(_shown(thing))

    def _add_source(self, part: Any) -> None:
        if part is object:
            return
        self.settings.append(f"{getattr(part, '__qualname__', '')}")
        file = _file_of(part)
        if _is_of_package(part):
            self.package_modules.add(part.__module__)
        elif file is None and part.__module__ not in sys.builtin_module_names:
            self.settings.append(_source_of(part))
        elif file is not None and is_users(file):
            self.files.append(file)
        else:
            self.settings.append(f"of {part.__module__}")


def _shown(thing: Any) -> str:
    """A description without memory addresses, which differ from run to run."""
    return _ADDRESS.sub("", repr(thing))


def _fields(thing: Any) -> dict[str, Any]:
    """The attributes of an object, by name: those in its dictionary, its slots and its dataclass fields."""
    names = dict.fromkeys(getattr(thing, "__dict__", {}))
    for part in type(thing).__mro__:
        slots = vars(part).get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            private = name.startswith("__") and not name.endswith("__")
            names[f"_{part.__name__.lstrip('_')}{name}" if private else name] = None
    if dataclasses.is_dataclass(thing):
        names |= dict.fromkeys(field.name for field in dataclasses.fields(thing))
    special = ("__dict__", "__weakref__")
    return {name: getattr(thing, name) for name in names if name not in special and hasattr(thing, name)}


def _is_of_package(part: Any) -> bool:
    return str(getattr(part, "__module__", "")).partition(".")[0] == _NAME


def _file_of(part: Any) -> Path | None:
    """The Python file of a class or function, or None if it does not have one."""
    file = getattr(inspect.getmodule(part), "__file__", None)
    path = Path(file).resolve() if file else None
    return path if path is not None and path.suffix == ".py" and path.is_file() else None


def _is_filled(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _source_of(part: Any) -> str:
    """The source of a class or function without a file, as in a notebook, or else its byte code."""
    try:
        return inspect.getsource(part)
    except (OSError, TypeError):
        functions = [part, *vars(part).values()] if inspect.isclass(part) else [part]
        codes = [f.__code__ for f in functions if isinstance(f, types.FunctionType)]
        return " ".join(hashlib.sha256(marshal.dumps(code)).hexdigest() for code in codes)
