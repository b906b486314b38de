"""Draw all figures of a report in several processes: for the page, or as files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from hpobench_nmt.analysis.report_runs import Run, all_methods, all_tables, run_slugs
from hpobench_nmt.analysis.selection import one_table
from hpobench_nmt.analysis.tables.section import Section
from hpobench_nmt.analysis.tables.sections import KINDS, analyze_tables
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.table import Table
from hpobench_nmt.render.figure_spec import DrawnFigure, FigureSpec
from hpobench_nmt.render.figures import run_figures, section_figures
from hpobench_nmt.render.html.svg import AS_IT_IS, page_figure
from hpobench_nmt.render.plots.style import image, method_styles
from hpobench_nmt.render.subject import Subject

# A guess at the cost of analysing all tables. The unit is the cost of a run's figures per row of a table.
_SECTIONS_WEIGHT = 2000
# The fixed cost of any part, in the same unit.
_LEAST = 300

Progress = Callable[[float, float], None]


@dataclass(frozen=True, eq=False)
class FigureGroup:
    """Figures that belong together, in order.

    The key is (run, table) for a run on one table, (run,) for a run over all its tables, and ("", table,
    kind) for the analysis of a table, which has a section.
    """

    key: tuple[str, ...]
    figures: tuple[DrawnFigure, ...]
    section: Section | None = None


def draw_report(
    runs: Sequence[Run], form: str, jobs: int, progress: Progress | None = None
) -> list[FigureGroup]:
    """Every figure of the report, in order: for the page ("svg") or as files ("pdf", "png").

    `progress` is called with (work done, work in all) as parts end.
    """
    import joblib

    methods = all_methods(runs)
    styles = method_styles(methods)
    tasks: list[tuple[int, Any]] = []
    for slug, run in zip(run_slugs(runs), runs, strict=True):
        for table, instance in run.results.instances.items():
            part = Subject(one_table(run.results, table), table, styles, run.statistics)
            # Surrogates cost the most, in large tables.
            tasks.append((len(instance.table), partial(_draw_run, part, (slug, table), methods, form)))
        whole = Subject(run.results, "", styles, run.statistics)
        tasks.append((0, partial(_draw_run, whole, (slug,), methods, form)))
    tasks.append((_SECTIONS_WEIGHT, partial(draw_sections, all_tables(runs), form)))
    # The longest tasks start first, so that none of them is left at the end. Results keep their order.
    order = sorted(range(len(tasks)), key=lambda i: -tasks[i][0])
    work, done = [tasks[i][0] + _LEAST for i in order], 0
    by_task: dict[int, list[FigureGroup]] = {}
    report = progress or (lambda done, total: None)
    report(0, sum(work))
    options: Any = {"batch_size": 1, "pre_dispatch": "all", "return_as": "generator"}
    drawn = joblib.Parallel(n_jobs=min(jobs, len(tasks)), **options)(
        joblib.delayed(tasks[i][1])() for i in order
    )
    for i, weight, groups in zip(order, work, drawn, strict=True):
        by_task[i] = groups
        done += weight
        report(done, sum(work))
    return [group for i in range(len(tasks)) for group in by_task[i]]


def _draw_run(subject: Subject, key: tuple[str, ...], methods: Sequence[str], form: str) -> list[FigureGroup]:
    return [FigureGroup(key, _drawn(run_figures(subject, "-".join(key)), methods, form))]


def draw_sections(tables: Sequence[Table], form: str, kinds: Collection[str] = KINDS) -> list[FigureGroup]:
    """Analyses that compare tables, and analyses of each table."""
    groups = []
    for section in analyze_tables(tables, kinds=kinds):
        specs = [replace(spec, stem=f"table-{spec.stem}") for spec in section_figures(section)]
        figures = _drawn(specs, [], form)
        # The page does not show these parts, so they are not sent back to the main process.
        bare = replace(section, files={}, analysis=None)
        groups.append(FigureGroup(("", section.table, section.kind), figures, bare))
    return groups


def _drawn(specs: Sequence[FigureSpec], methods: Sequence[str], form: str) -> tuple[DrawnFigure, ...]:
    return tuple(_figure(spec, methods, form) for spec in specs if form != "svg" or not spec.files_only)


def _figure(spec: FigureSpec, methods: Sequence[str], form: str) -> DrawnFigure:
    import matplotlib

    bare = replace(spec, draw=None, series=None, replay=None)
    if spec.problem or spec.draw is None:
        return DrawnFigure(bare)
    try:
        with matplotlib.rc_context(AS_IT_IS if form == "svg" else {}):
            figure = spec.draw()
    except InputError as error:
        return DrawnFigure(replace(bare, problem=str(error)))
    if form == "svg":
        return DrawnFigure(bare, *page_figure(figure, spec, methods))
    return DrawnFigure(bare, content=image(figure, form))
