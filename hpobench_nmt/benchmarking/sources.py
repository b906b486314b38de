"""The source files that a method depends on, found by reading imports and without running anything.

Results made with other sources are not reused, so a fingerprint must change whenever a source does. It covers

- the files that run a trial, and what of this package the method imports;
- the method's own module, and the modules of the user that it imports, directly or through others.

Not followed: the standard library, installed packages (a run's manifest has the versions of the main ones),
data files, modules that are imported by a computed name, and extension modules.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import hashlib
import importlib.util
import inspect
import marshal
import re
import site
import sys
import sysconfig
import types
from collections.abc import Iterable, Iterator
from importlib.machinery import PathFinder
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

_PACKAGE = Path(__file__).parents[1]
_NAME = _PACKAGE.name
_TYPE_CHECKING = ("TYPE_CHECKING", "typing.TYPE_CHECKING")
_DISTRIBUTIONS = {"sklearn": "scikit-learn"}
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")
# What runs a trial, and what turns a table into the features and losses of one.
_TRIAL = tuple(
    f"{_NAME}.{module}" for module in ("core.trial_loop", "core.seeds", "core.replicates", "lookup.table")
)


def built_in_fingerprint(module: str, attribute: str, libraries: Iterable[str] = ()) -> str:
    """Hash of the sources that a method of this package depends on.

    Args:
        module: the full name of the module that it is in.
        attribute: its name there.
        libraries: those of other people that do its work; their versions count.
    """
    versions = [f"{library} {version(_DISTRIBUTIONS.get(library, library))}" for library in libraries]
    return _digest([attribute, *versions, *_described(_package_closure((*_TRIAL, module)))])


def fingerprint(factory: Any, file: Path | None = None, module: str | None = None) -> str:
    """Hash of the sources and settings that a user's method depends on.

    Args:
        factory: what makes the method: a class, a function, a partial, or an object with settings.
        file: the file that it was loaded from, where it was given as a file.
        module: the module that it was loaded from, where it was given as a module.
    """
    state = _State()
    state.add(factory)
    # The method's own module counts wherever it lies, also in an installed package.
    files = [file.resolve()] if file is not None else []
    files += _located(module, ()) if module is not None else []
    if not files and (inspect.isclass(factory) or inspect.isfunction(factory)):
        files = [path for path in [_file_of(factory)] if path is not None and not _is_of_package(factory)]
    own = _closure([*files, *state.files])
    package = {name for path in own for name in _package_imports(path)} | state.package_modules
    described = _described(own) + _described(_package_closure((*_TRIAL, *sorted(package))))
    return _digest([*state.settings, *described])


def _digest(parts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part.encode("utf-8", "surrogatepass")).digest())
    return digest.hexdigest()


def _described(files: Iterable[Path]) -> list[str]:
    """One text per file: its name and its content, but not where it lies."""
    found = ((path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in files if path.is_file())
    return sorted(f"{name} {content}" for name, content in found)


# --- modules imported by a user's files ------------------------------------------------------------


def _closure(start: Iterable[Path]) -> list[Path]:
    """The files given, and all of the user's that they import, directly or through others."""
    start = list(start)
    roots = {_top_folder(path) for path in start}
    found: dict[Path, None] = {}
    todo = list(start)
    while todo:
        path = todo.pop()
        if path in found or path.suffix != ".py":
            continue
        found[path] = None
        own_folders = {_top_folder(path), *roots}
        for imported in _imports(path):
            files = _relative(path, imported) if imported.level else _located(imported.module, own_folders)
            for name in imported.names:
                inner = dataclasses.replace(imported, module=f"{imported.module}.{name}".lstrip("."))
                files += _relative(path, inner) if inner.level else _located(inner.module, own_folders)
            # An installed method's own package is followed; others that are installed are not.
            todo += [f for f in files if _is_users(f) or _package_of(f) in map(_package_of, start)]
        todo += _enclosing_packages(path)
    return sorted(found)


def _top_folder(path: Path) -> Path:
    """The folder that a file's outermost package lies in; imports are looked for there."""
    folder = path.parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def _package_of(path: Path) -> Path:
    """The folder of a file's outermost package, or the file itself if it is in none."""
    top = _top_folder(path)
    return path if path.parent == top else top / path.relative_to(top).parts[0]


def _enclosing_packages(path: Path) -> list[Path]:
    """The __init__.py of every package that importing the file runs."""
    top, folder, found = _top_folder(path), path.parent, []
    while folder != top:
        found.append(folder / "__init__.py")
        folder = folder.parent
    return found


def _relative(path: Path, imported: _Import) -> list[Path]:
    folder = path.parent
    for _ in range(imported.level - 1):
        folder = folder.parent
    parts = imported.module.split(".") if imported.module else []
    return _module_files(folder.joinpath(*parts)) if parts else _module_files(folder)


def _module_files(place: Path) -> list[Path]:
    """The file of a module, by its path without an ending."""
    candidates = (place.with_name(place.name + ".py"), place / "__init__.py")
    return [path.resolve() for path in candidates if path.is_file()]


def _located(module: str, folders: Iterable[Path]) -> list[Path]:
    """The files that importing a module by its full name reads: its own, and its packages'."""
    name, *inner = module.split(".")
    spec = PathFinder.find_spec(name, [str(folder) for folder in folders]) if folders else None
    try:
        spec = spec or importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return []
    files = []
    for part in [*inner, ""]:
        if spec is None:
            break
        if spec.origin and Path(spec.origin).suffix == ".py":
            files.append(Path(spec.origin).resolve())
        if not part or spec.submodule_search_locations is None:
            break
        name = f"{name}.{part}"
        spec = PathFinder.find_spec(name, list(spec.submodule_search_locations))
    return files


@functools.cache
def _installed() -> tuple[Path, ...]:
    """Folders whose modules are not the user's own."""
    folders = [sysconfig.get_path(key) for key in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders += [*site.getsitepackages(), site.getusersitepackages()]
    package = [_PACKAGE, *(path for path in _PACKAGE.iterdir() if path.is_symlink())]
    return tuple({path.resolve() for path in [*map(Path, folders), *package]})


def _is_users(path: Path) -> bool:
    if {"site-packages", "dist-packages"} & set(path.parts):
        return False
    return not any(path.is_relative_to(folder) for folder in _installed())


# --- modules of this package -----------------------------------------------------------------------


def _package_closure(modules: Iterable[str]) -> list[Path]:
    """The files of these modules of the package, and of all that they import inside it.

    The __init__.py of a package counts only if something is imported from it by name.
    """
    found: dict[Path, None] = {}
    todo = list(modules)
    while todo:
        for path in _package_files(todo.pop()):
            if path not in found:
                found[path] = None
                todo += _package_imports(path)
    return sorted(found)


def _package_files(module: str) -> list[Path]:
    parts = module.split(".")
    return _module_files(_PACKAGE.joinpath(*parts[1:])) if parts[0] == _NAME else []


def _package_imports(path: Path) -> list[str]:
    """Full names of the modules of this package that a file imports."""
    found = []
    for imported in _imports(path):
        if imported.level or imported.module.partition(".")[0] != _NAME:
            continue
        inner = [f"{imported.module}.{name}" for name in imported.names]
        modules = [module for module in inner if _package_files(module)]
        found += modules
        if len(modules) < len(inner) or not inner:
            found.append(imported.module)
    return found


# --- import statements -----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Import:
    """`import module`, or `from ...module import names` with `level` dots."""

    module: str
    names: tuple[str, ...] = ()
    level: int = 0


def _imports(path: Path) -> tuple[_Import, ...]:
    try:
        source = path.read_bytes()
    except OSError:
        return ()
    return _imports_of(source)


@functools.lru_cache(maxsize=512)
def _imports_of(source: bytes) -> tuple[_Import, ...]:
    """The imports in a source, also those inside functions; none if it cannot be parsed."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    found: list[_Import] = []
    for node in _running(tree):  # statements only: expressions hold no imports
        if isinstance(node, ast.Import):
            found += [_Import(alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = tuple(alias.name for alias in node.names if alias.name != "*")
            found.append(_Import(node.module or "", names, node.level))
    return tuple(dict.fromkeys(found))


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """Every statement below, without those that only a type checker reads."""
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        if block == "body" and isinstance(node, ast.If) and ast.unparse(node.test) in _TYPE_CHECKING:
            continue
        for child in getattr(node, block, ()):
            yield child
            yield from _running(child)


# --- methods given as objects ----------------------------------------------------------------------


class _State:
    """The source files of the classes and functions that an object is made of, and its settings as text."""

    def __init__(self) -> None:
        self.files: list[Path] = []
        self.package_modules: set[str] = set()
        self.settings: list[str] = []
        self._seen: set[int] = set()
        self._keep: list[Any] = []  # alive, so that no two things get the same id

    def add(self, thing: Any) -> None:
        """Note a thing and what it holds: settings, wrapped functions, the variables of a closure."""
        if thing is None or isinstance(thing, bool | int | float | complex | str | bytes | np.generic):
            self.settings.append(f"{type(thing).__name__} {thing!r}")
            return
        if id(thing) in self._seen:
            return
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
        elif isinstance(thing, np.ndarray) and not thing.dtype.hasobject:
            content = hashlib.sha256(np.ascontiguousarray(thing).tobytes()).hexdigest()
            self.settings.append(f"array {thing.dtype} {thing.shape} {content}")
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

    def _add_object(self, thing: Any) -> None:
        own = _file_of(type(thing))
        self.add(type(thing))
        if (own and _is_users(own)) or _is_of_package(type(thing)) or type(thing).__module__ == "__main__":
            fields = dict(getattr(thing, "__dict__", {}))
            if dataclasses.is_dataclass(thing):
                fields |= {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing)}
            self._add_all([part for item in fields.items() for part in item])
        else:
            # What a library's object holds is its own affair, and may differ from run to run.
            self.settings.append(_ADDRESS.sub("", repr(thing)))

    def _add_source(self, part: Any) -> None:
        if part is object:
            return
        self.settings.append(f"{getattr(part, '__qualname__', '')}")
        file = _file_of(part)
        if _is_of_package(part):
            self.package_modules.add(part.__module__)
        elif file is None and part.__module__ not in sys.builtin_module_names:
            self.settings.append(_source_of(part))
        elif file is not None and _is_users(file):
            self.files.append(file)
        else:
            self.settings.append(f"of {part.__module__}")


def _is_of_package(part: Any) -> bool:
    return str(getattr(part, "__module__", "")).partition(".")[0] == _NAME


def _file_of(part: Any) -> Path | None:
    """The Python file of a class or function, None where it has none."""
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
