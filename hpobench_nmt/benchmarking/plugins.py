"""Methods by name: those of the package, a user's file, a module, or an installed entry point.

BO_EI_M                    comes with the package
my_file.py:MyMethod        a class in a file
package.module:MyMethod    a class that can be imported
NAME                       an entry point of the group "hpobench_nmt.methods"
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from hpobench_nmt.core.errors import InputError, unknown
from hpobench_nmt.core.files import check_name
from hpobench_nmt.core.problem import MethodFactory
from hpobench_nmt.methods import BUILT_IN

ENTRY_POINT_GROUP = "hpobench_nmt.methods"


@dataclass(frozen=True)
class NamedMethod:
    """A method and where it comes from.

    Attributes:
        name: unique in a run; names its files.
        spec: what was given; a worker process resolves it again.
        fingerprint: hash of the source; results made with another are not reused.
        objectives: numbers of objectives it is known to optimise; empty: not known.
        factory: the class, if it was given as an object and not by name.
    """

    name: str
    spec: str
    fingerprint: str
    objectives: tuple[int, ...] = ()
    factory: MethodFactory | None = None

    @property
    def built_in(self) -> bool:
        """Whether it comes with the package."""
        return self.factory is None and self.spec in BUILT_IN

    def load(self) -> MethodFactory:
        """What makes the method."""
        return self.factory if self.factory is not None else _load(self.spec)


def resolve_methods(specs: Iterable[str | MethodFactory]) -> list[NamedMethod]:
    """The methods named, in order.

    Raises:
        InputError: one cannot be found, is not a method, or two have one name.
    """
    methods = [_resolve(spec) for spec in specs]
    seen: dict[str, str] = {}
    for method in methods:
        # Some file systems do not tell upper case from lower.
        name = method.name.casefold()
        if name in seen:
            raise InputError(
                f"two methods are named {method.name!r} ({seen[name]}, {method.spec}): rename one."
            )
        seen[name] = method.spec
    return methods


def installed_entry_points() -> dict[str, str]:
    """Location of each installed entry point by its name."""
    return {e.name: e.value for e in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda e: e.name)}


def _resolve(spec: str | MethodFactory) -> NamedMethod:
    if not isinstance(spec, str):
        name = getattr(spec, "__name__", type(spec).__name__)
        _check_factory(spec, name)
        _refuse_built_in_name(name, name)
        return NamedMethod(check_name("method", name), name, _source_hash(spec), factory=spec)
    if spec in BUILT_IN:
        return NamedMethod(spec, spec, _package_hash(), BUILT_IN[spec].objectives)
    factory = _load(spec)
    _check_factory(factory, spec)
    location, colon, name = spec.rpartition(":")
    _refuse_built_in_name(name, spec)
    files = [Path(location)] if colon and location.endswith(".py") else []
    return NamedMethod(check_name("method", name), spec, _source_hash(factory, files))


def _refuse_built_in_name(name: str, spec: str) -> None:
    if name.casefold() in {known.casefold() for known in BUILT_IN}:
        raise InputError(f"method {spec!r} has the name of one that comes with the package: rename it.")


def _check_factory(factory: Any, spec: str) -> None:
    if not callable(factory):
        raise InputError(f"method {spec!r} is a {type(factory).__name__}, not a class or function.")
    if inspect.isclass(factory):
        lacking = [name for name in ("ask", "tell") if not callable(getattr(factory, name, None))]
        if lacking:
            raise InputError(
                f"method {spec!r} has no {' and no '.join(lacking)}: a method needs ask and tell."
            )


def _load(spec: str) -> MethodFactory:
    if spec in BUILT_IN:
        return BUILT_IN[spec].load()
    location, colon, attribute = spec.rpartition(":")
    if not colon:
        points = installed_entry_points()
        if spec not in points:
            raise unknown(
                "method",
                spec,
                [*BUILT_IN, *points],
                "'hpobench-nmt methods' lists them; your own is given as FILE.py:CLASS or MODULE:CLASS.",
            )
        location, _, attribute = points[spec].partition(":")
    try:
        module = _load_file(Path(location)) if location.endswith(".py") else importlib.import_module(location)
    except InputError:
        raise
    except ModuleNotFoundError as error:
        hint = "A class in a file is given as FILE.py:CLASS."
        raise InputError(f"method {spec!r}: there is no module {error.name!r}. {hint}") from error
    except (Exception, SystemExit) as error:
        raise InputError(f"method {spec!r}: importing it raised {type(error).__name__}: {error}") from error
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            classes = [
                n for n, v in vars(module).items() if inspect.isclass(v) and v.__module__ == module.__name__
            ]
            raise unknown("class", attribute, classes, f"({location})")
        found = getattr(found, part)
    factory: MethodFactory = found
    return factory


def _load_file(path: Path) -> Any:
    if not path.is_file():
        raise InputError(f"{path}: no such file.")
    path = path.resolve()
    # Named by its path, so that two files of one name do not meet, and found again when unpickled.
    name = f"_hpobench_nmt_plugin_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    module_spec = importlib.util.spec_from_file_location(name, path)
    if module_spec is None or module_spec.loader is None:
        raise InputError(f"{path}: not a Python file.")
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))
    try:
        module_spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(str(path.parent))
    return module


def _source_hash(factory: Any, files: Iterable[Path] = ()) -> str:
    """Hash of the files that a method is known to come from; what these import is not followed."""
    digest = hashlib.sha256(_package_hash().encode())
    parts = inspect.getmro(factory) if inspect.isclass(factory) else (factory, getattr(factory, "func", None))
    found = [Path(file) for file in files]
    for part in parts:
        module = inspect.getmodule(part)
        if module is not None and getattr(module, "__file__", None):
            found.append(Path(str(module.__file__)))
    for path in found:
        if path.suffix == ".py" and path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


@lru_cache
def _package_hash() -> str:
    """Hash of all sources that a trajectory of a built-in method depends on."""
    package = Path(__file__).parents[1]
    sources = [package / "core" / f"{name}.py" for name in ("loop", "pareto", "problem", "seeds", "space")]
    sources += [package / "lookup" / "table.py"]
    sources += sorted((package / "methods").glob("*.py"))
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.read_bytes())
    return digest.hexdigest()
