"""Search files: what `tune` varies in a user's own program. new_search.toml has all keys, with comments.

`tune` copies the file beside the ledger, with keys for what the command line and the file's name say:

    program     the program and its arguments, with names in braces (families/program.py)
    seed        the root seed
    name        the name of the table
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from hpobench_nmt.core.candidates import whole_or_drawn
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.seeds import generator
from hpobench_nmt.core.space import Hyperparameter, Space
from hpobench_nmt.core.system.errors import InputError, check_known, foreign
from hpobench_nmt.core.system.files import check_name, read_toml
from hpobench_nmt.core.system.validation import Finite, Natural, Positive, Strict, Whole, load_toml
from hpobench_nmt.runner.families.program import PLACES, Command
from hpobench_nmt.runner.family import Family
from hpobench_nmt.runner.settings import Settings
from hpobench_nmt.runner.specs.spec import Spec, among
from hpobench_nmt.runner.specs.spec_file import Range, load_spec

NEW = Path(__file__).with_name("new_search.toml").read_text("utf-8")
_CANDIDATES = 1000
_MOST_GRID = 100_000
_Label = bool | Whole | Finite | str


class _File(Strict, frozen=True):
    file: str


class _Curve(Strict, frozen=True):
    key: str
    whole: Positive


class _Search(Strict, frozen=True):
    objectives: list[str]
    grid: dict[str, list[_Label] | Range]
    read: str | _File = ""
    start: dict[str, _Label] = msgspec.field(default_factory=dict)
    when: dict[str, dict[str, list[_Label]]] = msgspec.field(default_factory=dict)
    flags: dict[str, str] = msgspec.field(default_factory=dict)
    curve: _Curve | None = None
    candidates: Natural = 0
    program: list[str] = msgspec.field(default_factory=list)
    seed: Natural | None = None
    name: str = ""


def load_any(path: Path, follow_link: bool = True) -> Spec:
    """Read a spec, or the copy of a search file, which names its program.

    Raises InputError with what is wrong and the nearest valid name.
    """
    if "program" in read_toml(path, follow_link):
        return load_search(path, follow_link=follow_link)
    return load_spec(path, follow_link)


def load_search(
    path: Path, words: Sequence[str] = (), seed: int = 0, timeout: float = math.inf, follow_link: bool = True
) -> Spec:
    """Read a search file as the spec of a program, whose words may be given. Checks everything in it.

    Raises InputError with what is wrong and the nearest valid name.
    """
    file = load_toml(path, _Search, follow_link)
    with foreign(path, "cannot be used"):
        return _checked(file, path, words, seed, timeout)


def _checked(file: _Search, path: Path, words: Sequence[str], seed: int, timeout: float) -> Spec:
    if words and file.program and [*words] != file.program:
        raise InputError("has the key program already: leave out what follows --.")
    name = check_name("table", file.name or path.stem)
    heading = "" if file.name else f"name = {json.dumps(name)}\n"
    if not file.program:
        heading += f"program = {json.dumps([*words], ensure_ascii=False)}\n"
    if file.seed is None:
        heading += f"seed = {seed}\n"
    elif seed not in (0, file.seed):
        raise InputError(f"has the seed {file.seed}: leave out --seed, or remove the key.")
    seed = seed if file.seed is None else file.seed
    metrics = tuple(map(_metric, file.objectives))
    if not 1 <= len({metric.name for metric in metrics}) == len(metrics) <= 2:
        raise InputError("objectives must be one or two different metrics.")
    axes = _axes(file)
    command = Command(
        tuple(file.program or words),
        tuple(metric.name for metric in metrics),
        file.flags,
        _pattern(file, metrics),
        file.read.file if isinstance(file.read, _File) else "",
        file.curve.key if file.curve else "",
        timeout,
    )
    command.check([axis.name for axis in axes])
    family = Family(
        name="program",
        models="a user's own program",
        source="",
        corpus="text",
        settings=Settings,
        metrics=metrics,
        seed=lambda settings, replicate: seed + replicate,
        program=command,
    )
    spec = Spec(
        name=name,
        note=f"Each row is a run of: {shlex.join(command.words)}",
        family=family,
        seed=seed,
        objectives=command.metrics,
        metrics=metrics,
        axes=axes,
        fixed={"program": shlex.join(command.words), "flags": dict(file.flags)},
        base=path.resolve().parent,
        path=path,
        curve=(max(1, file.curve.whole // 27), file.curve.whole) if file.curve else None,
        heading=heading,
    )
    if spec.curve and spec.curve[0] == spec.curve[1]:
        raise InputError("[curve]: whole must be at least 2, so that trainings can be stopped earlier.")
    return _with_rows(spec, file)


def _metric(text: str) -> Metric:
    name, _, direction = text.partition(":")
    if direction not in ("min", "max"):
        raise InputError(f"objectives: {text!r} must be NAME:min or NAME:max, such as 'val_loss:min'.")
    return Metric(name.strip(), "min" if direction == "min" else "max")


def _pattern(file: _Search, metrics: Sequence[Metric]) -> str:
    if file.read and file.curve:
        raise InputError("[curve]: checkpoints are lines of JSON, so leave out read.")
    if not isinstance(file.read, str) or not file.read:
        return ""
    try:
        found = re.compile(file.read)
    except re.error as error:
        raise InputError(f"read: not a regular expression: {error}.") from None
    names = [metric.name for metric in metrics]
    if set(found.groupindex) != set(names) and (len(names) > 1 or found.groups != 1):
        groups = " and ".join(f"(?P<{name}>...)" for name in names)
        raise InputError(f"read: needs {'one group (...)' if len(names) == 1 else f'the groups {groups}'}.")
    return file.read


def _axes(file: _Search) -> tuple[Hyperparameter, ...]:
    if not file.grid:
        raise InputError("[grid] needs at least one hyperparameter, such as layers = [2, 4].")
    for section, names in (("when", file.when), ("flags", file.flags), ("start", file.start)):
        check_known("hyperparameter", names, file.grid, f"([{section}])")
    axes = []
    for name, values in file.grid.items():
        if name in PLACES:
            raise InputError(f"[grid]: {name} has a meaning of its own in braces: choose another name.")
        active_if = tuple((parent, tuple(of)) for parent, of in file.when.get(name, {}).items())
        if isinstance(values, Range):
            whole = isinstance(values.low, int) and isinstance(values.high, int)
            axis = Hyperparameter(
                name, (float(values.low), float(values.high)), values.scale or "linear", integer=whole,
                continuous=True,
            )  # fmt: skip
        elif all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
            axis = Hyperparameter(name, tuple(sorted(map(float, values))))
        else:
            axis = Hyperparameter(name, tuple(values), kind="categorical")
        axes.append(replace(axis, active_if=active_if))
    return Space(tuple(axes)).hyperparameters


def _with_rows(spec: Spec, file: _Search) -> Spec:
    """The spec with its candidates, and with the row that is trained first."""
    space, start = spec.space, None
    if file.start:
        start = space.encode(file.start)
    size = math.prod(len(axis.values) for axis in spec.axes)
    if not any(axis.continuous for axis in spec.axes) and size <= _MOST_GRID and not file.candidates:
        return replace(spec, start=None if start is None else spec.row(file.start))
    rng = generator(spec.seed, "candidates")
    codes = whole_or_drawn(spec.axes, file.candidates or _CANDIDATES, rng, file.candidates or _MOST_GRID)
    codes = np.where(space.active(codes), codes, np.nan)
    if start is not None:
        codes = np.vstack([start, codes])
    drawn = np.array([*{row.tobytes(): row for row in codes}.values()])
    return replace(among(spec, drawn), start=None if start is None else 0)
