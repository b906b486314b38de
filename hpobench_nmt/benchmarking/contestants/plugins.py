"""Methods by name: those of the package, a user's file, a module, or an installed entry point.

BO_EI_M                    comes with the package
optuna.TPE                 from another library, which an extra of the package installs
my_file.py:MyMethod        a class in a file
package.module:MyMethod    a class that can be imported
NAME                       an entry point of the group "hpobench_nmt.methods"
cmd:python agent.py        a program that reads and writes lines of JSON

Settings may follow in parentheses (see hpobench_nmt.benchmarking.contestants.method_settings).
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import os
import re
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hpobench_nmt.benchmarking.contestants.fingerprints import (
    MethodEntry,
    fingerprint,
    library_versions,
    program_fingerprint,
)
from hpobench_nmt.benchmarking.contestants.method_settings import (
    command_of,
    spec_text,
    split_spec,
    with_settings,
    with_text,
)
from hpobench_nmt.benchmarking.contestants.opened_files import of_a_method, opened_by
from hpobench_nmt.benchmarking.contestants.program import Program, files_of_command, name_of_command
from hpobench_nmt.core.problem import MethodFactory, Problem, name_of
from hpobench_nmt.core.system.errors import InputError, as_list, one_line, unknown
from hpobench_nmt.core.system.files import check_name
from hpobench_nmt.core.system.processes import shared_server
from hpobench_nmt.core.system.text import brief
from hpobench_nmt.methods import BUILT_IN, KNOWN, of_objectives, require

if TYPE_CHECKING:
    import pandas as pd

ENTRY_POINT_GROUP = "hpobench_nmt.methods"
PREPARE = "hpobench_nmt.benchmarking.running.worker:prepare"
"""Prepares the server from which processes for methods are forked."""

# The longest time to load and construct a method. Then it is stopped, and the files opened so far count.
_MOST_SECONDS = 60


# Names of methods in other programs, reduced to lower-case letters, and our names.
_USUAL = {
    "random": "RS",
    "randomsearch": "RS",
    "optuna": "optuna.TPE",
    "evolution": "RE",
    "localsearch": "LS",
}
_USUAL |= dict.fromkeys(("bo", "gp", "bayes", "bayesian", "bayesianoptimization"), "BO_auto")


@dataclass(frozen=True)
class NamedMethod:
    """A method and where it comes from.

    Attributes:
        name: unique in a run; names its files.
        entry: what was given, and what the results depend on. If it differs, results are not reused.
        objectives: numbers of objectives that it is known to optimise; empty if not known.
        factory: the class, if it was given as an object and not by name.
        sequential: whether it is known to lack `suggest`, so that it supports only one worker.
        files: the files that the fingerprint covers; None for a method that comes with the package, and for a
            program, whose opened files cannot be recorded.
    """

    name: str
    entry: MethodEntry
    objectives: tuple[int, ...] = ()
    factory: MethodFactory | None = None
    sequential: bool = False
    files: frozenset[Path] | None = None

    @property
    def spec(self) -> str:
        """What was given. A worker process resolves it again."""
        return self.entry.spec

    @property
    def source(self) -> str:
        """The spec, with the whole path of a file, so that it can be loaded from any folder."""
        if command_of(self.spec) is not None:
            return self.spec
        base, settings = split_spec(self.spec)
        location, colon, attribute = base.rpartition(":")
        if not colon or not location.endswith(".py"):
            return self.spec
        return spec_text(f"{Path(location).resolve()}:{attribute}", settings)

    @property
    def is_program(self) -> bool:
        """Whether it is a program, whose results are not reproducible."""
        return self.factory is None and command_of(self.spec) is not None

    @property
    def built_in(self) -> bool:
        """Whether all of its code comes with the package, unlike that of adapters."""
        return self.factory is None and split_spec(self.spec)[0] in BUILT_IN

    def not_covered(self, opened: Iterable[Path]) -> list[Path]:
        """The files that its trials have opened and that its fingerprint should cover, but does not."""
        return [] if self.files is None else sorted(of_a_method(opened, self.files) - self.files)

    def load(self) -> MethodFactory:
        """The class or function that makes the method."""
        return self.factory if self.factory is not None else load_method(self.spec)


MethodSpec = str | MethodFactory | NamedMethod
"""A method by name or location, its class, or one that was resolved before."""


def resolve_methods(specs: Iterable[MethodSpec]) -> list[NamedMethod]:
    """The named methods, in order; InputError if a method is unknown, unusable, or has another's name."""
    specs = method_list(specs)
    bases = [split_spec(spec)[0] for spec in specs if isinstance(spec, str)]
    require(KNOWN[base] for base in bases if base in KNOWN)
    methods = [_resolve(spec) for spec in specs]
    seen: dict[str, str] = {}
    for each in methods:
        # Some file systems do not distinguish upper and lower case.
        name = each.name.casefold()
        if seen.get(name) == each.spec:
            raise InputError(f"method {each.name!r} is given twice.")
        if name in seen:
            raise InputError(f"two methods are named {each.name!r} ({seen[name]}, {each.spec}): rename one.")
        seen[name] = each.spec
    return methods


def method_list(methods: Iterable[MethodSpec]) -> list[MethodSpec]:
    """The methods as a list, also of comma-separated names in one text; anything else is refused."""
    if callable(methods) or not isinstance(methods, Iterable):
        raise InputError("methods must be a list of one or more names or classes, such as ['RS', 'BO_EI_M'].")
    return as_list("methods", methods)


def refuse_sequential(method: NamedMethod, workers: int) -> None:
    """Refuse several workers for a method that is known to support only one."""
    if method.sequential and workers > 1:
        raise InputError(
            f"method {method.name!r}: its class has no suggest, so it cannot run several trainings at a "
            f"time: use 1 worker, not {workers}."
        )


def refuse_objectives(method: NamedMethod, objectives: int) -> None:
    """Refuse a number of objectives that a method is known not to support."""
    if method.objectives and objectives not in method.objectives:
        raise InputError(f"method {method.name} is for {of_objectives(method.objectives)}, not {objectives}.")


def varied_built_in(spec: str) -> NamedMethod | None:
    """A built-in method (not of another library) with changed settings; None for any other text."""
    try:
        if "(" not in spec or split_spec(spec)[0] not in BUILT_IN:
            return None
        (method,) = resolve_methods([spec])
    except InputError:
        return None
    return method if "(" in method.spec else None


def installed_entry_points() -> dict[str, str]:
    """Location of each installed entry point by its name."""
    return {e.name: e.value for e in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda e: e.name)}


def list_methods() -> pd.DataFrame:
    """A data frame of all methods that can be named: method, objectives, extra, description.

    `extra` is the extra of this package that installs a method's libraries. Entry points of other packages
    come last, described by their location.
    """
    import pandas as pd

    rows = [(m.name, m.counts, m.extra, m.description) for m in KNOWN.values()]
    rows += [(name, "", "", location) for name, location in installed_entry_points().items()]
    return pd.DataFrame(rows, columns=["method", "objectives", "extra", "description"])


def method_groups() -> dict[str, list[str]]:
    """The names of `list_methods` in groups, by the purpose of the method; each is in one group."""
    found: dict[str, list[str]] = {}
    for method in KNOWN.values():
        if method.extra or method.libraries:
            group = "Optimizers of other packages"
        elif method.partial:
            group = "Stop trainings early, in suites with learning curves"
        elif 1 not in method.objectives:
            group = "For several objectives"
        elif len(method.objectives) > 1:
            group = "For one or more objectives"
        else:
            group = "For one objective"
        found.setdefault(group, []).append(method.name)
    found["Of installed packages"] = list(installed_entry_points())
    return {group: names for group, names in found.items() if names}


def _resolve(spec: MethodSpec) -> NamedMethod:
    if isinstance(spec, NamedMethod):
        return spec
    if not isinstance(spec, str):
        name = name_of(spec)
        _check_factory(spec, name)
        _refuse_built_in_name(name, name)
        found = fingerprint(spec)
        entry = MethodEntry(spec=check_name("method", name), fingerprint=found.sha256)
        return NamedMethod(name, entry, (), spec, _is_sequential(spec), found.files)
    base, settings = split_spec(spec)
    if base in KNOWN:
        known = KNOWN[base]
        _, name, text = with_settings(base, known.load(), settings) if settings else (known, base, "")
        entry = MethodEntry(
            spec=with_text(base, text),
            rows_version=known.rows_version,
            libraries=library_versions(known.libraries),
        )
        adapter = base not in BUILT_IN  # optimizers of other libraries do not have `suggest`
        return NamedMethod(name, entry, known.objectives, sequential=adapter)
    plain = _load(base)
    own = _own_name(plain, base)
    _check_factory(plain, base)
    _refuse_built_in_name(own, base)
    _, name, text = with_settings(check_name("method", own), plain, settings)
    spec = with_text(base, text)
    if isinstance(plain, Program):
        sha256 = program_fingerprint(plain.command, text, files_of_command(plain.command))
        return NamedMethod(name, MethodEntry(spec=spec, fingerprint=sha256))
    opened = opened_by(partial(_load_and_make, spec), shared_server(PREPARE)) if hasattr(os, "fork") else ()
    location, _ = _place(base)
    place = {"file": Path(location)} if location.endswith(".py") else {"module": location}
    found = fingerprint(plain, **place, opened=opened)
    sha256 = hashlib.sha256(f"{found.sha256}({text})".encode()).hexdigest() if text else found.sha256
    entry = MethodEntry(spec=spec, fingerprint=sha256)
    return NamedMethod(name, entry, sequential=_is_sequential(plain), files=found.files)


def _own_name(factory: Any, base: str) -> str:
    """The name of a user's method without settings."""
    return factory.name if isinstance(factory, Program) else base.rpartition(":")[2]


def _load_and_make(spec: str) -> None:
    signal.alarm(_MOST_SECONDS)
    factory = load_method(spec)
    for n_objectives in (1, 2):
        with suppress(Exception):
            factory(stand_in(n_objectives), np.random.default_rng(0))
            return


def stand_in(n_objectives: int) -> Problem:
    """A small problem, for constructing methods without a table."""
    features = np.random.default_rng(0).random((12, 2))
    features.setflags(write=False)  # like those of a table
    return Problem(features, n_objectives, 8, 3)


def _refuse_built_in_name(name: str, spec: str) -> None:
    if name.casefold() in {known.casefold() for known in KNOWN}:
        raise InputError(f"method {spec!r} has the name of a method of this package: rename it.")


def _check_factory(factory: Any, spec: str) -> None:
    if not callable(factory):
        raise InputError(f"method {spec!r} has the type {type(factory).__name__}, not a class or function.")
    if inspect.isclass(factory):
        # A class with suggest does not need ask, and with observe as well, not tell (core/problem.py).
        lacking = [name for name in ("ask", "tell") if not callable(getattr(factory, name, None))]
        if callable(getattr(factory, "suggest", None)):
            if "tell" in lacking and not callable(getattr(factory, "observe", None)):
                raise InputError(f"method {spec!r} has suggest, but neither observe nor tell.")
        elif lacking:
            raise InputError(
                f"method {spec!r} has no {' and no '.join(lacking)}: a method needs ask and tell."
            )


def _is_sequential(factory: Any) -> bool:
    """Whether it is a class without `suggest`. It is not known what a function constructs."""
    made = factory.func if isinstance(factory, partial) else factory
    return inspect.isclass(made) and not hasattr(made, "suggest")


def _place(spec: str) -> tuple[str, str]:
    """The file or module of a user's method, and its name there."""
    location, colon, attribute = spec.rpartition(":")
    if colon:
        return location, attribute
    points = installed_entry_points()
    if spec not in points:
        raise unknown(
            "method",
            spec,
            [*KNOWN, *points],
            "'hpobench-nmt methods' lists them. Give a method of your own as FILE.py:CLASS or MODULE:CLASS.",
            usual=_USUAL.get(re.sub("[^a-z]", "", spec.lower()), ""),
        )
    location, _, attribute = points[spec].partition(":")
    return location, attribute


def load_method(spec: str) -> MethodFactory:
    """The class or function that makes the method of a spec; InputError if it or a setting is unknown."""
    base, settings = split_spec(spec)
    factory = _load(base)
    return with_settings(_own_name(factory, base), factory, settings)[0] if settings else factory


def _load(spec: str) -> MethodFactory:
    if spec in KNOWN:
        return KNOWN[spec].load()
    command = command_of(spec)
    if command is not None:
        return Program(command, name_of_command(command))
    location, attribute = _place(spec)
    try:
        module = _load_file(Path(location)) if location.endswith(".py") else importlib.import_module(location)
    except InputError:
        raise
    except ModuleNotFoundError as error:
        if error.name is None:  # raised by the method's own code
            raise InputError(f"method {spec!r}: importing it raised {one_line(error)}.") from error
        of_file = location.endswith(".py") or not f"{location}.".startswith(f"{error.name}.")
        missing = f"it imports {error.name!r}, which is not installed."
        if not of_file:
            missing = f"module {error.name!r} does not exist. Give a class in a file as FILE.py:CLASS."
        raise InputError(f"method {spec!r}: {missing}") from error
    except SystemExit as error:
        code = "" if error.code in (None, 0) else f": {brief(error.code)}"
        raise InputError(
            f"method {spec!r}: importing it calls sys.exit{code}. Put code for scripts below: "
            'if __name__ == "__main__".'
        ) from error
    except Exception as error:
        raise InputError(f"method {spec!r}: importing it raised {one_line(error)}.") from error
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
        raise InputError(f"{path}: {'a folder, not a Python file' if path.is_dir() else 'no such file'}.")
    path = path.resolve()
    # The name comes from the path, so that two files of the same name do not collide. It is in sys.modules,
    # so that unpickling finds it.
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
