"""What the headings of a table show: which program wrote it, and what that program's columns mean."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from hpobench_nmt.core.arrays import Floats, Ints
from hpobench_nmt.core.objectives import Direction
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.text import counted, free_name
from hpobench_nmt.core.system.validation import Strict, load_toml
from hpobench_nmt.lookup.imports import names
from hpobench_nmt.lookup.imports.cells import absent, as_seconds, between, columns_of, flattened, states_of
from hpobench_nmt.lookup.imports.reports import fold, step_of
from hpobench_nmt.lookup.imports.sweep import About, Column, Role, Sweep

SECONDS = "seconds"
_MOST_TEXT = 100_000


class _Format(Strict, frozen=True):
    """The headings of one program's tables; formats.toml explains the fields."""

    kind: str
    needs: tuple[str, ...] = ()
    roles: dict[str, Role] = msgspec.field(default_factory=dict)
    aside: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    seconds: tuple[str, ...] = ()
    objectives: tuple[str, ...] = ()
    direction: Direction | None = None
    training: tuple[str, ...] = ()
    step: tuple[str, ...] = ()

    def fits(self, headings: Sequence[str]) -> bool:
        """Whether the headings are those of such a table."""
        return all(_any(need.split("|"), name_of=headings) for need in self.needs)

    def about(self, name: str) -> About | None:
        """What the heading of a column shows; None if it shows nothing."""
        if name.lower() in self.aside:
            role: Role = "aside" if names.is_progress(name) else "identity"
            return About(role, f"bookkeeping of {self.kind}")
        for pattern, role in self.roles.items():
            if fnmatchcase(name, pattern) and name + "*" != pattern:
                prefix = pattern.removesuffix("*")
                why = f"called {prefix}…" if prefix else f"not bookkeeping of {self.kind}"
                return About(role, why, name=name.removeprefix(prefix))
        return None


def _any(patterns: Sequence[str], name_of: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in name_of)


class _Formats(Strict, frozen=True):
    format: tuple[_Format, ...]


_FORMATS = load_toml(Path(__file__).with_name("formats.toml"), _Formats).format


def headed(
    columns: Mapping[str, Column], path: Path, title: str, place: Callable[[int], str], kind: str = ""
) -> Sweep:
    """The sweep of a table's columns, by its headings. `kind` describes the source, if it is not a table.

    Raises InputError if a state of a known program is not known, or if lines are reports of trainings that
    cannot be told apart.
    """
    notes: tuple[str, ...] = ()
    if (kept := _children(columns)) is not None:
        lost = len(next(iter(columns.values()))) - len(kept)
        notes = (f"{counted(lost, 'run')} with nested runs left out: the nested runs count",)
        columns, whole = {name: cells[kept] for name, cells in columns.items()}, place

        def place(row: int) -> str:
            return whole(int(kept[row]))

    form = next(each for each in _FORMATS if each.fits(list(columns)))
    columns, plain = _opened(columns, form), not form.needs  # "a table" is of an unknown program
    about = {name: found for name in columns if (found := form.about(name)) is not None}
    settings = [name for name, each in about.items() if each.role == "hyperparameter"]
    for name in settings:  # cfg-config_id names the configurations
        distinct = len(set(columns[name].tolist())) == len(columns[name])
        if plain and distinct and names.is_identity(about[name].name):
            about[name] = replace(about[name], role="identity", why="it names a configuration")
    if plain and not settings:
        about = {name: each for name, each in about.items() if each.role in ("identity", "metric")}
    elif not plain and settings:
        about = {**dict.fromkeys(columns, About("metric")), **about}
    states = None
    lowered = {name.lower(): name for name in columns}
    for name in (lowered[word.lower()] for word in form.state if word.lower() in lowered):
        if columns[name].dtype == object and name not in settings:
            states = states_of(columns[name].tolist())
            if states is None and not plain:
                raise InputError(f"{path}: {name!r} has a state that is not known.")
            if states is not None:
                about[name] = About("identity", "the state of each training")
                break
    sources = form.seconds or _durations(columns, about)
    seconds, unread = _seconds(columns, sources)
    if seconds is not None:
        about |= dict.fromkeys(sources, About("identity", f"it is in {SECONDS}"))
        name = SECONDS if SECONDS in sources else free_name(SECONDS, columns)
        columns[name] = seconds
        about[name] = About("seconds", f"from {' and '.join(sources)}", name=SECONDS, unit="s")
    for name in columns:
        if _any(form.objectives, [name]):
            bare = name.removeprefix("values_").removeprefix("#").removeprefix("result.")
            bare = name if bare.isdecimal() else bare
            about[name] = About("metric", "what the study optimised", name=bare, objective=True)
    if form.direction:
        for name in [name for name, each in about.items() if each.role == "metric"]:
            about[name] = replace(about[name], direction=form.direction)
    sweep = Sweep(
        kind or form.kind, path, title, columns, about, states, notes=(*notes, *unread), place=place,
        plain=plain,
    )  # fmt: skip
    return _reported(sweep, form) if form.training else sweep


def _reported(sweep: Sweep, form: _Format) -> Sweep:
    """The reports of each training as its learning curve. A training that ended before others is pruned."""
    settings = [name for name in sweep.columns if sweep.role(name) == "hyperparameter"]
    keys = settings if form.training == ("*",) else list(form.training)
    found = step_of(sweep, keys, form.step)
    if found is None and form.training != ("*",):
        raise InputError(f"{sweep.path}: has several lines for one step of a training.")
    if found is None or len(np.unique(found.ids)) == len(sweep):
        return sweep
    return fold(sweep, found, pruned=True)


def _children(columns: Mapping[str, Column]) -> Ints | None:
    """The runs that are no parent, which only repeats its best child; None if no run is a parent."""
    parents, ids = (columns.get(name) for name in ("tags.mlflow.parentRunId", "run_id"))
    if parents is None or ids is None:
        return None
    kept = np.flatnonzero(~np.isin(ids.astype(str), np.unique(parents[~absent(parents)].astype(str))))
    return kept if len(kept) < len(ids) else None


def _durations(columns: Mapping[str, Column], about: Mapping[str, About]) -> tuple[str, ...]:
    """The column with the duration of each training in a table of an unknown program, or no column."""
    taken = {name for name, each in about.items() if each.role in ("hyperparameter", "aside", "identity")}
    return tuple(name for name in columns if names.is_seconds(name) and name not in taken)[:1]


def _seconds(columns: Mapping[str, Column], sources: Sequence[str]) -> tuple[Floats | None, tuple[str, ...]]:
    """The duration of each training, from one column or from two columns of dates; None if unknown. Also a
    note if some cells are no durations.
    """
    if not sources or not all(name in columns for name in sources):
        return None, ()
    first, *last = (columns[name] for name in sources)
    found = between(first, *last) if last else as_seconds(first)
    wrong = first[np.isnan(found) & ~absent(first)] if not last else first[:0]
    note = f"{len(wrong):,} of {len(first):,} cells of {sources[0]} are not durations, such as {{!r}}"
    return (None if np.isnan(found).all() else found), (note.format(wrong[0]),) if len(wrong) else ()


def _opened(columns: Mapping[str, Column], form: _Format) -> dict[str, Column]:
    """The columns, where each key of dictionaries in cells is a column, unless the format leaves them out."""
    found: dict[str, Column] = {}
    for name, cells in columns.items():
        opened = cells.dtype == object and name.lower() not in form.aside
        texts = cells[~absent(cells)].tolist() if opened else []
        if texts and all(_literal(text) is not None for text in texts):
            every = [_literal(cell) or {} for cell in cells.tolist()]
            found |= columns_of([flattened(record, f"{name}.") for record in every])
        else:
            found[name] = cells
    return found


class _Numbers(ast.NodeTransformer):
    """Replaces the names nan and inf, which Python prints for numbers, by these numbers."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(float(node.id)) if node.id in ("nan", "inf") else node


def _literal(text: Any) -> dict[str, Any] | None:
    """A dictionary in the syntax of JSON or Python, read without running it; None if the text is not one."""
    if not isinstance(text, str) or text[:1] != "{" or len(text) > _MOST_TEXT:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        try:
            found = ast.literal_eval(_Numbers().visit(ast.parse(text.strip(), mode="eval")))
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            return None
    return found if isinstance(found, dict) and all(isinstance(key, str) for key in found) else None
