"""Source files that other files import, found by reading import statements, without running anything.

Imports are followed into the user's modules and an installed method's own package. They are not followed into
this package, the standard library, other installed packages and extension modules, or if a module's name is
computed.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path

from hpobench_nmt.core.system.processes import current_folder

_PACKAGE = Path(__file__).parents[2]
_NAME = _PACKAGE.name
_TYPE_CHECKING = ("TYPE_CHECKING", "typing.TYPE_CHECKING")
_LIBRARIES = ("site-packages", "dist-packages")
_IMPORTERS = ("import_module", "__import__")


# --- modules imported by a user's files ------------------------------------------------------------


def closure(start: Iterable[Path]) -> list[Path]:
    """The given files, and all of the user's files that they import, directly or through others."""
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
            inner = [f"{imported.module}.{name}".lstrip(".") for name in imported.names]
            for module in [imported.module, *inner]:
                level = imported.level
                files = _relative(path, level, module) if level else located(module, own_folders)
                # Imports are followed into an installed method's own package, not into other installed ones.
                todo += [f for f in files if is_users(f) or package_of(f) in map(package_of, start)]
        todo += _enclosing_packages(path)
    return sorted(found)


def _top_folder(path: Path) -> Path:
    """The folder that contains a file's outermost package. Imports are searched there."""
    folder = path.parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def package_of(path: Path) -> Path:
    """The folder of a file's outermost package, or the file itself if it is not in a package."""
    top = _top_folder(path)
    return path if path.parent == top else top / path.relative_to(top).parts[0]


def _enclosing_packages(path: Path) -> list[Path]:
    """The __init__.py files that run when the file is imported."""
    top, folder, found = _top_folder(path), path.parent, []
    while folder != top:
        found.append(folder / "__init__.py")
        folder = folder.parent
    return found


def _relative(path: Path, level: int, module: str) -> list[Path]:
    folder = path.parent
    for _ in range(level - 1):
        folder = folder.parent
    return module_files(folder.joinpath(*module.split(".")) if module else folder)


def module_files(place: Path) -> list[Path]:
    """The file of a module, by its path without an extension."""
    candidates = (place.with_name(place.name + ".py"), place / "__init__.py")
    return [path.resolve() for path in candidates if path.is_file()]


def located(module: str, folders: Iterable[Path]) -> list[Path]:
    """The files that are read when a module is imported by its full name: its own, and its packages'."""
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


def is_users(path: Path) -> bool:
    """Whether a file is the user's: neither in this package nor in a folder of libraries."""
    here = current_folder()
    added = [Path(p) for p in sys.path if isinstance(p, str) and p not in ("", here)]
    libraries = [folder.resolve() for folder in added if folder.name in _LIBRARIES]
    return not any(path.is_relative_to(folder) for folder in [*_installed(), *libraries])


# --- modules of this package -----------------------------------------------------------------------


def package_imports(path: Path) -> list[str]:
    """Full names of the modules of this package that a file imports."""
    found = []
    for imported in _imports(path):
        if imported.level or imported.module.partition(".")[0] != _NAME:
            continue
        inner = [f"{imported.module}.{name}" for name in imported.names]
        modules = [name for name in inner if module_files(_PACKAGE.parent.joinpath(*name.split(".")))]
        found += modules
        if len(modules) < len(inner) or not inner:
            found.append(imported.module)
    return found


# --- import statements -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Import:
    """`import module`, or `from ...module import names` with `level` dots."""

    module: str
    names: tuple[str, ...] = ()
    level: int = 0


def _imports(path: Path) -> tuple[_Import, ...]:
    try:
        return _imports_of(path.read_bytes())
    except OSError:
        return ()


@functools.lru_cache(maxsize=512)
def _imports_of(source: bytes) -> tuple[_Import, ...]:
    """The imports in a source, also in functions and by a literal name; empty if it cannot be parsed."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    found: list[_Import] = []
    for node in _running(tree):
        if isinstance(node, ast.Import):
            found += [_Import(alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = tuple(alias.name for alias in node.names if alias.name != "*")
            found.append(_Import(node.module or "", names, node.level))
    for node in ast.walk(tree):
        match node:
            case ast.Call(ast.Name(name) | ast.Attribute(attr=name), [ast.Constant(str(module)), *_]):
                if name in _IMPORTERS:
                    plain = module.lstrip(".")
                    found.append(_Import(plain, (), len(module) - len(plain)))
    return tuple(dict.fromkeys(found))


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """Every statement below a node, except statements that only a type checker reads."""
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        if block == "body" and isinstance(node, ast.If) and ast.unparse(node.test) in _TYPE_CHECKING:
            continue
        for child in getattr(node, block, ()):
            yield child
            yield from _running(child)
