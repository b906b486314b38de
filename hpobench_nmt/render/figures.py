"""The only list of figures, and its users: `hb.plot`, and the figures of a report.

A kind of figure is a `Plot` or a `TablePlot` in a module of `plots/`. The lists here name these modules, in
the order of a report.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import chain
from textwrap import indent, wrap
from typing import TYPE_CHECKING, Any

from hpobench_nmt.analysis.selection import methods_on
from hpobench_nmt.analysis.tables.section import Section
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.core.system.errors import InputError, check_known
from hpobench_nmt.render.figure_spec import FigureSpec, Plot, TablePlot
from hpobench_nmt.render.plots.style import method_styles, plain
from hpobench_nmt.render.subject import Subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_OF_RUNS = ("fewer", "volume", "curves", "runtimes", "fronts", "replay", "workers", "surrogates", "scores")
_OF_TABLES = ("table_analyses", "pareto_front")


def _all(modules: Iterable[str], name: str) -> tuple[Any, ...]:
    found = (getattr(import_module(f"hpobench_nmt.render.plots.{module}"), name) for module in modules)
    return tuple(chain.from_iterable(found))


PLOTS: tuple[Plot, ...] = _all(_OF_RUNS, "PLOTS")
TABLE_PLOTS: tuple[TablePlot, ...] = _all(_OF_TABLES, "TABLE_PLOTS")
_KINDS = {each.kind: each for each in PLOTS}


def plot(
    results: Results, kind: str = "", table: str = "", *, ax: Axes | None = None, **options: Any
) -> Figure:
    """Draw one figure of results.

        results = hb.run(tables="sotu-ngram", methods=["RS", "BO_EI_M_std"], trials=20)
        hb.plot(results)                                     # simple regret against look-ups
        hb.plot(results, "runtimes").savefig("runtimes.pdf")

    Args:
        results: results of `hb.run` or `hb.load_results`.
        kind: the figure to draw; by default "regret" for one objective and "hypervolume" for more.

            KINDS
        table: the table to draw; by default, the first on which a method has finished.
        ax: axes to draw on, for figures with one panel. By default, a new figure is made.
        options: options of the kind, as listed above.

    Returns:
        a matplotlib Figure; its `savefig` writes PNG, PDF or SVG. Notebooks show it.

    Raises:
        InputError: an unknown kind, table, method or option, or results that do not fit the kind.
    """
    if not results.trials:
        raise InputError("there are no results to plot.")
    table = table or next(iter(results.trials))[0]
    check_known("table", [table], results.instances)
    if not methods_on(results, table):
        raise InputError(f"no method has finished on table {table!r} yet.")
    subject = Subject(results, table, method_styles(results.methods))
    kind = kind or ("hypervolume" if subject.several else "regret")
    check_known("kind of figure", [kind], _KINDS)
    chosen = _KINDS[kind]
    check_known("option", options, chosen.options, f"(of the figure {kind!r})")
    if ax is not None and not chosen.one_panel:
        raise InputError(f"the figure {kind!r} has several panels: it cannot be drawn on ax.")
    draw = next(chosen.figures(subject, **options)).draw
    if draw is None:
        raise InputError(f"the figure {kind!r} has nothing to draw.")
    return plain(draw() if ax is None else draw(ax=ax))


def _described() -> str:
    """The kinds as a list, formatted for a docstring."""
    items = [wrap(f'- "{each.kind}": {each.about}', 100, subsequent_indent="  ") for each in PLOTS]
    return indent(";\n".join(map("\n".join, items)), " " * 12).strip() + "."


if plot.__doc__:  # python -OO removes docstrings
    plot.__doc__ = plot.__doc__.replace("KINDS", _described())


def run_figures(subject: Subject, prefix: str) -> list[FigureSpec]:
    """A report's figures of a run on one table, or over its tables. Their stems start with `prefix`."""
    if subject.table and not methods_on(subject.results, subject.table):
        problem = "No method has finished on this table yet."
        return [FigureSpec(f"{prefix}-curves", "Figures", problem=problem)]
    specs: list[FigureSpec] = []
    for each in PLOTS:
        has = each.of_table if subject.table else each.over_tables
        if has is None or not has(subject):
            continue
        try:
            found = list(each.figures(subject))
        except InputError as error:
            found = [FigureSpec(problem=str(error))]
        stem = f"{prefix}-{each.stem or each.kind}"
        specs += [replace(s, stem=f"{stem}{s.stem}", title=s.title or each.title) for s in found]
    return specs


def section_figures(section: Section) -> list[FigureSpec]:
    """Figures of a table's analysis, without the section's sentences and frames."""
    if section.analysis is None:
        return []
    return [
        FigureSpec(
            each.stem.format(stem=section.stem, table=section.table),
            f"{section.table}: {each.title}" if each.title else section.title,
            " ".join(section.notes[:2]),
            partial(each.draw, section),
            points=each.points(section) if each.points else None,
            own_size=each.points is None,
            on_white=each.on_white,
        )
        for each in TABLE_PLOTS
        if each.kind == section.kind
    ]
