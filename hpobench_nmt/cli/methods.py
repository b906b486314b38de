"""`hpobench-nmt methods`: what methods there are, what one of them is, and whether one of yours behaves."""

from __future__ import annotations

import ast
import importlib.util
import operator
import os
import re
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hpobench_nmt.cli.common import make_console, say
from hpobench_nmt.cli.completion import completing, method_names
from hpobench_nmt.core.errors import InputError, RunError, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hpobench_nmt.benchmarking.plugins import NamedMethod
    from hpobench_nmt.benchmarking.suite import Suite
    from hpobench_nmt.testing import Check


@click.command()
@click.argument("name", required=False, shell_complete=completing(method_names))
@click.option("--check", "spec", help="Run the conformance checks on a method, e.g. my_file.py:MyMethod.")
@click.option("--n-objectives", type=click.IntRange(1, 10), default=1, show_default=True, help="For --check.")
def methods(name: str | None, spec: str | None, n_objectives: int) -> None:
    """List the methods, or check one of your own.

    With a NAME, show what that method is, and its settings. Settings are written after a name:
    --methods "BO_EI_M_std(length_scale=0.5)". They become part of the method's name in results.
    """
    if spec and name:
        raise InputError(f"--check says which method: leave {name!r} out.")
    if spec:
        _check(spec, n_objectives)
    elif name:
        _show(name)
    else:
        _list()


def _list() -> None:
    from hpobench_nmt.benchmarking.plugins import installed_entry_points
    from hpobench_nmt.methods import KNOWN
    from hpobench_nmt.render.terminal.grids import print_grid

    rows = [(m.name, m.counts, m.extra, m.description) for m in KNOWN.values()]
    rows += [(name, "", "", location) for name, location in installed_entry_points().items()]
    head = ("method", "objectives", "extra", "what it is")
    print_grid(head, rows, make_console(), wrapped=head[-1:])


def _show(spec: str) -> None:
    """What a method is, where that is from, its settings, and what it needs."""
    from hpobench_nmt.benchmarking.method_settings import settings_of, shown, split_spec
    from hpobench_nmt.benchmarking.plugins import load_method, resolve_methods
    from hpobench_nmt.methods import KNOWN

    name, _ = split_spec(spec)
    known = KNOWN.get(name)
    settings: dict[str, Any] | None = None
    missing = ""
    try:
        resolve_methods([spec])
        settings = settings_of(load_method(spec))
    except InputError as error:
        if known is None or not known.missing():
            raise
        missing = str(error)
    if known is None:
        say(f"{spec}: a method of yours")
        about = (load_method(spec).__doc__ or "").strip()
    else:
        say(f"{known.name}: {known.description}")
        say(f"objectives: {known.counts}")
        about = _about(f"hpobench_nmt.methods.{known.location.partition(':')[0]}")
    first, *others = about.split("\n\n")
    for paragraph in [first, *filter(_of_a_paper, others)]:
        if paragraph:
            say(" ".join(paragraph.split()))
    if known is not None and known.partial:
        say("It trains rows part of the way, so that it needs a table with learning curves.")
    if known is not None and known.extra:
        say(f"extra: {known.extra}{'' if missing else ', installed'}")
    if missing:
        say(missing)
    elif settings:
        say("settings, with their values:")
        for key, value in settings.items():
            say(f"  {key} = {shown(value)}")
        say(f'Another value: --methods "{name}({next(iter(settings))}=...)".')
    else:
        say("It has no settings.")


def _about(module: str) -> str:
    """The description at the top of a module, which names its paper, without importing it."""
    found = importlib.util.find_spec(module)
    if found is None or found.origin is None:
        return ""
    return ast.get_docstring(ast.parse(Path(found.origin).read_text(encoding="utf-8"))) or ""


def _of_a_paper(paragraph: str) -> bool:
    """Whether it is text that names a year, and no table of symbols."""
    return re.search(r"\b(19|20)\d\d\b", paragraph) is not None and "   " not in paragraph


def with_every_method(suite: Suite) -> Suite:
    """The suite with the names of all methods that fit it in place of "all"."""
    if "all" not in suite.methods:
        return suite
    from hpobench_nmt.benchmarking.suite import changed

    own = [name for name in suite.methods if name != "all"]
    return changed(suite, methods=tuple(dict.fromkeys([*every_method(suite), *own])))


def tell_of_whole_trainings(suite: Suite, methods: Sequence[NamedMethod]) -> None:
    """Say which methods were made to stop trainings early, and cannot where no curves are used."""
    from hpobench_nmt.benchmarking.method_settings import split_spec
    from hpobench_nmt.methods import BUILT_IN

    early = [m.name for m in methods if m.built_in and BUILT_IN[split_spec(m.spec)[0]].partial]
    if early and not suite.curves:
        say(f"Without --curves every training runs to its end: {', '.join(early)} cannot stop any.", err=True)


def every_method(suite: Suite) -> tuple[str, ...]:
    """The methods that "all" stands for: those that fit the suite, and whose libraries are installed."""
    from hpobench_nmt.methods import BUILT_IN, KNOWN

    # Other people's optimizers have no suggest.
    known = KNOWN if suite.workers == 1 else BUILT_IN
    fits = [m for m in known.values() if suite.n_objectives in m.objectives]
    fitting = [m for m in fits if suite.curves or not m.partial]
    absent = [m.name for m in fitting if m.missing()]
    if absent:
        say(f"Left out, because their libraries are not installed: {', '.join(absent)}.", err=True)
    return tuple(m.name for m in fitting if m.name not in absent)


def _check(spec: str, n_objectives: int) -> None:
    """Run each check in a worker process, so that a method that ends its process fails only a check."""
    from hpobench_nmt.benchmarking.plugins import resolve_methods
    from hpobench_nmt.benchmarking.processes import Ended, Workers
    from hpobench_nmt.testing import CONFORMANCE_CHECKS

    (method,) = resolve_methods([spec])
    failed = 0
    with Workers() if hasattr(os, "fork") else nullcontext() as workers:
        ask = workers.ask if workers else operator.call
        checks = ask(partial(_checks_for, method.source, n_objectives))
        if isinstance(checks, Ended):  # what cannot be made fails them all
            checks = CONFORMANCE_CHECKS
        for check in checks:
            reason = ask(partial(_reason, check, method.source, n_objectives))
            if isinstance(reason, Ended):
                reason = reason.of_the_method
            failed += bool(reason)
            say(f"FAILED  {check.__name__}: {reason}" if reason else f"ok      {check.__name__}")
    if failed:
        raise RunError(f"{method.name} fails {failed} of {len(checks)} checks.")


def _checks_for(source: str, n_objectives: int) -> tuple[Check, ...]:
    """The checks for a method, in a worker process; all of the usual ones if it cannot be made."""
    from hpobench_nmt.benchmarking.plugins import load_method
    from hpobench_nmt.testing import CONFORMANCE_CHECKS, checks_for

    try:
        return checks_for(load_method(source), n_objectives)
    except BaseException:
        return CONFORMANCE_CHECKS


def _reason(check: Check, source: str, n_objectives: int) -> str:
    """Why a method fails a check, in a worker process; empty if it does not."""
    from hpobench_nmt.benchmarking.plugins import load_method
    from hpobench_nmt.testing import NonConformance

    try:
        check(load_method(source), n_objectives)
    except NonConformance as error:
        return str(error) or "no reason given"
    except BaseException as error:
        return f"its code outside of its calls raised {one_line(error)}"
    return ""
