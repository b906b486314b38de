"""Which figures a report has: of each table of a run, over its tables, and of the tables themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from hpobench_nmt.analysis.captions import curves_finding, distribution_finding, expected_finding
from hpobench_nmt.analysis.clock_times import clock_milestones, typical_time
from hpobench_nmt.analysis.number_text import short
from hpobench_nmt.analysis.run_curves import (
    LOOKUPS,
    Curves,
    hypervolume_curves,
    regret_curves,
    surrogate_curves,
    time_in,
)
from hpobench_nmt.analysis.runtimes import (
    RuntimeDistribution,
    TargetRuntimes,
    expected_runtime_frame,
    runtime_distribution,
    target_runtimes,
)
from hpobench_nmt.analysis.section import Section
from hpobench_nmt.analysis.selection import EXACT, methods_on
from hpobench_nmt.analysis.table_front import Front
from hpobench_nmt.analysis.verdicts import Statistics
from hpobench_nmt.benchmarking.results import Results
from hpobench_nmt.core.errors import InputError
from hpobench_nmt.render.figure_spec import FigureSpec, HoverPoints, HoverSeries
from hpobench_nmt.render.plots import run_progress, run_statistics
from hpobench_nmt.render.plots.style import Style, drawn_rows
from hpobench_nmt.render.report_fronts import attained, front_moves
from hpobench_nmt.render.report_workers import workers
from hpobench_nmt.render.section_files import figures_of

_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_MILESTONES = (1, 3, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
# Where a suite has no budget of its own: the paper's.
_BUDGETS = {True: 20, False: 50}

Styles = dict[str, Style]


def table_figures(
    results: Results, prefix: str, table: str, styles: Styles, statistics: Statistics | None = None
) -> list[FigureSpec]:
    """Figures of a run on one table.

    Args:
        prefix: goes before the stems.
        statistics: for the figures that only files have.
    """
    stem = f"{prefix}-{table}"
    if not methods_on(results, table):
        return [FigureSpec(f"{stem}-curves", "Figures", problem="No method has finished on this table yet.")]
    several = len(results.instances[table].objectives) > 1
    timed = not results.instances[table].problem.counts_lookups
    at = _budget(results, table)
    rounds = clock_milestones(results, table)
    make = hypervolume_curves if several else regret_curves
    title = "Hypervolume found" if several else "Simple regret"
    specs = _attempt(
        f"{stem}-curves",
        title,
        lambda: _curves(make(results, table, [at, *rounds]), stem, title, at, styles, rounds),
    )
    found: TargetRuntimes | None = None
    try:
        found = target_runtimes(results)
    except InputError as error:
        specs.append(FigureSpec(f"{stem}-runtimes", "Runtime distribution", problem=str(error)))
    if found is not None:
        runtimes = found
        specs += _attempt(
            f"{stem}-runtimes",
            "Runtime distribution",
            lambda: [
                _distribution(
                    runtime_distribution(runtimes, [table], also=[at, *(rounds or _MILESTONES)]),
                    f"{stem}-runtimes",
                    at,
                    styles,
                    rounds,
                )
            ],
        )
    if several and not timed:
        specs += _attempt(
            f"{stem}-attained", "Fronts attained", lambda: attained(results, table, stem, int(at), styles)
        )
    if found is not None:
        specs += _attempt(
            f"{stem}-expected", "Expected runtimes", lambda: [_expected(runtimes, table, stem, styles)]
        )
    if several and not timed:
        specs += _attempt(
            f"{stem}-front-moves",
            "One trial's front as it moves",
            lambda: front_moves(results, table, stem, statistics),
        )
    if timed:
        specs += _attempt(
            f"{stem}-workers", "What the workers do", lambda: [workers(results, table, stem, statistics)]
        )
    else:
        specs += _attempt(
            f"{stem}-surrogate",
            "Error of the surrogates",
            lambda: _surrogates(results, table, stem, int(at), styles),
        )
    if statistics is not None:
        specs += _only_in_files(results, table, stem, styles, statistics)
    return specs


def run_figures(results: Results, prefix: str, statistics: Statistics, styles: Styles) -> list[FigureSpec]:
    """Figures of a run over its tables."""
    specs = []
    if len(results.instances) > 1:
        specs += _attempt(
            f"{prefix}-runtimes",
            "Runtime distribution over all tables",
            lambda: [
                _distribution(
                    runtime_distribution(target_runtimes(results), per_row=True, also=_SHARES),
                    f"{prefix}-runtimes",
                    0.1,
                    styles,
                )
            ],
        )
    for outcome in statistics.ranks:
        test = outcome.test
        stem = f"{prefix}-ranks-{outcome.score}"
        title = f"Mean ranks in {outcome.score}"
        if test is None:
            specs.append(FigureSpec(stem, title, problem=outcome.sentence))
            continue
        order = np.argsort(test.mean_ranks, kind="stable")
        specs.append(
            FigureSpec(
                stem,
                title,
                finding=outcome.sentence,
                draw=partial(run_statistics.plot_critical_difference, outcome, styles),
                head=("method", "mean rank"),
                rows=[(outcome.methods[i], f"{test.mean_ranks[i]:.2f}") for i in order],
                own_size=True,
            )
        )
    return specs


def section_figures(section: Section) -> list[FigureSpec]:
    """Figures of a table's own analysis, without the sentences and frames that the section has."""
    front = section.analysis if isinstance(section.analysis, Front) else None
    return [
        FigureSpec(
            f"table-{stem}",
            section.title if stem == section.stem else f"{section.table}: cost of a search",
            finding=" ".join(section.notes[:2]),
            draw=draw,
            points=_front_points(front) if front else None,
            own_size=front is None,
            on_white=section.kind == "correlation",
        )
        for stem, draw in figures_of(section).items()
    ]


def _front_points(front: Front) -> HoverPoints:
    rows = drawn_rows(len(front.points), front.rows.index.to_numpy(np.int64))
    return HoverPoints((front.metrics[0], front.metrics[1]), rows)


def _attempt(stem: str, title: str, make: Callable[[], list[FigureSpec]]) -> list[FigureSpec]:
    """The figures, or the reason why they cannot be computed."""
    try:
        return make()
    except InputError as error:
        return [FigureSpec(stem, title, problem=str(error))]


def _budget(results: Results, table: str) -> float:
    """The number of look-ups, or the time, that captions report on."""
    instance = results.instances[table]
    usual = _BUDGETS[len(instance.objectives) == 1]
    given = results.suite.score_at_for(table)
    if instance.problem.counts_lookups:
        return min(given or usual, len(instance.table))
    return given or typical_time(instance, usual)


def _curves(
    curves: Curves, stem: str, title: str, at: float, styles: Styles, rounds: Sequence[float] = ()
) -> list[FigureSpec]:
    if not (curves.frame["method"] != EXACT).any():
        reason = "No trial has a curve: each has failed, or ended before anything was trained."
        return [FigureSpec(f"{stem}-curves", title, problem=" ".join([reason, *curves.notes]))]
    finding = curves_finding(curves, at)
    head, rows = _milestones(curves.frame, "lookups", "mean", curves.n_initial, rounds)
    whole = curves.unit == LOOKUPS
    return [
        FigureSpec(
            f"{stem}-curves",
            title,
            finding=finding,
            draw=partial(run_progress.plot_curves, curves, styles),
            head=head,
            rows=rows,
            notes=curves.notes,
            series=HoverSeries(curves.frame, "lookups", "mean", f"after {{}} {curves.unit}", whole),
        ),
        FigureSpec(
            f"{stem}-panels",
            f"{title}: how trials spread",
            finding="One panel per method: mean and middle half of its trials.",
            draw=partial(run_progress.plot_curve_panels, curves, styles),
            files_only=True,
        ),
    ]


def _surrogates(results: Results, table: str, stem: str, at: int, styles: Styles) -> list[FigureSpec]:
    specs = []
    wanted = [at, results.suite.n_initial, *_MILESTONES]
    for number, curves in enumerate(surrogate_curves(results, table, also=wanted), start=1):
        metric = curves.quantity.removeprefix("squared error in ")
        name = f"{stem}-surrogate-{number}"
        title = f"Error of the surrogates in {metric}"
        if not (curves.frame["method"] != EXACT).any():
            reasons = " ".join(["No surrogate has a curve to show.", *curves.notes])
            specs.append(FigureSpec(name, title, problem=reasons))
            continue
        head, rows = _milestones(curves.frame, "lookups", "mean", curves.n_initial)
        specs.append(
            FigureSpec(
                name,
                title,
                finding=curves_finding(curves, at),
                draw=partial(run_progress.plot_curves, curves, styles),
                head=head,
                rows=rows,
                notes=curves.notes,
                series=HoverSeries(curves.frame, "lookups", "mean", "after {} look-ups"),
                aside=True,
            )
        )
    return specs


def _distribution(
    found: RuntimeDistribution, stem: str, at: float, styles: Styles, rounds: Sequence[float] = ()
) -> FigureSpec:
    frame, per_row = found.frame, found.per_row
    usual = _SHARES if per_row else rounds or [n for n in _MILESTONES if n >= 3]
    budgets = [b for b in usual if frame["budget"].min() <= b <= frame["budget"].max()]
    rows = []
    for method, part in frame.groupby("method", sort=False):
        x, y = part["budget"].to_numpy(), part["share"].to_numpy()
        exact = part["exact"].to_numpy()
        cells = []
        for budget in budgets:
            i = max(int(np.searchsorted(x, budget * (1 + 1e-9), side="right")) - 1, 0)
            cells.append(f"{'' if exact[i] else '≥ '}{y[i]:.0%}")
        rows.append((str(method), *cells))
    label = f"after {{}} {found.unit}"
    if per_row:
        label = "after {} look-ups per row of the table"
        label = "after {} of the time of all rows" if found.unit.startswith("time") else label
    percent = frame.assign(percent=frame["share"] * 100)
    return FigureSpec(
        stem,
        "Runtime distribution over all tables" if per_row else "Runtime distribution",
        finding=distribution_finding(found, at),
        draw=partial(run_progress.plot_runtime_distribution, found, styles),
        head=("share met after", *(f"{b:,.10g}" for b in budgets)),
        rows=rows,
        notes=(*found.notes, *_bounds(frame)),
        series=HoverSeries(
            percent.assign(y=frame["share"]), "budget", "y", label, whole=found.unit == LOOKUPS
        ),
    )


def _bounds(frame: pd.DataFrame) -> list[str]:
    if frame["exact"].all():
        return []
    return ["From a cross on, a line is dotted: trials had ended there, and the share is a lower bound."]


def _expected(found: TargetRuntimes, table: str, stem: str, styles: Styles) -> FigureSpec:
    frame, unit = expected_runtime_frame(found), found.instances[table].time_unit
    chosen = frame[frame["table"] == table]
    targets = list(dict.fromkeys(chosen["target"]))
    rows = []
    for method, part in chosen.groupby("method", sort=False):
        by_target = part.set_index("target")
        cells = []
        for target in targets:
            ert, low, high = by_target.loc[target, ["ert", "low", "high"]].to_numpy(np.float64).tolist()
            interval = "" if np.isnan(low) else f" ({short(low)}–{short(high)})"
            cells.append(f"{short(ert)}{interval}")
        rows.append((str(method), *cells))
    fronts = bool(chosen["on_front"].iloc[0])
    series = chosen.rename(columns={"ert": "y"})
    series = series.assign(y=series["y"].where(np.isfinite(series["y"])))
    label = "to find {} rows of the front" if fronts else "to be among the {} best rows"
    return FigureSpec(
        f"{stem}-expected",
        "Expected runtimes",
        finding=expected_finding(chosen, unit),
        draw=partial(run_progress.plot_expected_runtimes, frame, table, styles, unit=unit),
        head=(f"expected {time_in(unit)} to reach", *targets),
        rows=rows,
        notes=found.notes,
        series=HoverSeries(series, "value" if fronts else "rows", "y", label),
        aside=True,
    )


def _only_in_files(
    results: Results, table: str, stem: str, styles: Styles, statistics: Statistics
) -> list[FigureSpec]:
    """Figures whose data the page shows as tables."""
    specs = [
        FigureSpec(
            f"{stem}-scores",
            "Scores",
            draw=partial(
                run_statistics.plot_scores, statistics.scores, table, styles, timed=results.suite.timed
            ),
            files_only=True,
        )
    ]
    for score in results.suite.scores:
        draw: Any = partial(run_statistics.plot_wins, statistics.comparisons, table, score)
        specs.append(
            FigureSpec(f"{stem}-wins-{score}", f"Who beats whom in {score}", draw=draw, files_only=True)
        )
    return specs


def _milestones(
    frame: pd.DataFrame, x: str, y: str, n_initial: int, rounds: Sequence[float] = ()
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Means and quartiles of every method at round numbers of look-ups, or at the times given."""
    known = frame[x].to_numpy()
    longest = float(known.max())
    usual = rounds or (*_MILESTONES, n_initial, int(longest))
    wanted = sorted({n for n in usual if known.min() <= n <= longest})
    rows = []
    for method, part in frame.groupby("method", sort=False):
        at = part.set_index(x)
        cells = []
        for n in wanted:
            if n not in at.index:
                cells.append("–")
                continue
            mean, low, high = map(float, at.loc[n, [y, "low", "high"]])
            cells.append(f"{short(mean)} ({short(low)}–{short(high)})" if low == low else short(mean))
        rows.append((str(method), *cells))
    return ("mean (quartiles) after", *(f"{n:,.10g}" if rounds else str(n) for n in wanted)), rows
