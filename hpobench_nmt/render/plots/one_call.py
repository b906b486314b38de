"""Any figure of results with one call: `hb.plot(results)`, `hb.plot(results, "runtimes")`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hpobench_nmt.analysis.run_curves import hypervolume_curves, regret_curves
from hpobench_nmt.analysis.run_fronts import attainment, moving_front
from hpobench_nmt.analysis.run_workers import worker_times
from hpobench_nmt.analysis.runtimes import expected_runtime_frame, runtime_distribution, target_runtimes
from hpobench_nmt.analysis.selection import methods_on, one_table
from hpobench_nmt.analysis.verdicts import run_statistics
from hpobench_nmt.benchmarking.results import Results
from hpobench_nmt.core.errors import InputError, unknown
from hpobench_nmt.render.plots import run_progress
from hpobench_nmt.render.plots import run_statistics as statistics_plots
from hpobench_nmt.render.plots.run_workers import plot_workers
from hpobench_nmt.render.plots.style import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LOOKUPS = {True: 20, False: 50}
"""After how many look-ups fronts are shown where the suite says nothing: the paper's numbers."""


def plot(
    results: Results, kind: str = "", table: str = "", *, ax: Axes | None = None, **options: Any
) -> Figure:
    """Draw one figure of results.

        results = hb.run(tables="sotu-ngram", methods=["RS", "BO_EI_M_std"], trials=20)
        hb.plot(results)                                     # simple regret against look-ups
        hb.plot(results, "runtimes").savefig("runtimes.pdf")

    Args:
        results: of `hb.run` or `hb.load_results`.
        kind: what to draw; left out: "regret" for one objective, "hypervolume" for more.

            - "regret": gap to the best value of the table, in the metric's unit, against look-ups;
            - "hypervolume": share of the table's hypervolume that was found, against look-ups;
            - "spread": the same as "regret" or "hypervolume", one panel per method, with quartiles;
            - "runtimes": share of targets met, against look-ups; with `per_row=True` over all tables, against
              look-ups for each row of a table;
            - "expected": expected look-ups to each target, with 95% intervals;
            - "attained": points that half of the trials attain in two objectives; options `lookups`, `level`,
              and `pair`, the places of the two, such as (0, 2);
            - "front": one trial's front as it moves; options `method`, `trial`, `lookups` (one or several),
              `pair`;
            - "workers": what the workers do in one trial on a clock; option `method`;
            - "scores": means of all scores, with 95% intervals;
            - "wins": who beats whom in a score; option `score`;
            - "ranks": mean ranks over all tables; option `score`.
        table: which; left out: the first on which a method has finished.
        ax: axes to draw on, for figures of one panel; left out: a new figure.
        options: as above.

    Returns:
        a matplotlib Figure; its `savefig` writes PNG, PDF or SVG. Notebooks show it.

    Raises:
        InputError: no such kind, table, method or option, or the results are not of that kind.
    """
    if not results.trials:
        raise InputError("there are no results to plot.")
    table = table or next(iter(results.trials))[0]
    if table not in results.instances:
        raise unknown("table", table, results.instances)
    if not methods_on(results, table):
        raise InputError(f"no method has finished on table {table!r} yet.")
    kind = kind or ("regret" if len(results.instances[table].objectives) == 1 else "hypervolume")
    if kind not in _KINDS:
        raise unknown("kind of figure", kind, _KINDS)
    draw, known, on_axes = _KINDS[kind]
    for name in options:
        if name not in known:
            raise unknown("option", name, known, f"(of the figure {kind!r})")
    if ax is not None:
        if not on_axes:
            raise InputError(f"the figure {kind!r} has several panels: it cannot be drawn on ax.")
        options["ax"] = ax
    return plain(draw(results, table, **options))


def _several(results: Results, table: str) -> bool:
    return len(results.instances[table].objectives) > 1


def _lookups(results: Results, table: str) -> int:
    given = results.suite.score_at_for(table) or _LOOKUPS[not _several(results, table)]
    return int(min(given, len(results.instances[table].table)))


def _regret(results: Results, table: str, **more: Any) -> Figure:
    return run_progress.plot_curves(regret_curves(results, table), **more)


def _hypervolume(results: Results, table: str, **more: Any) -> Figure:
    return run_progress.plot_curves(hypervolume_curves(results, table), **more)


def _spread(results: Results, table: str) -> Figure:
    make = hypervolume_curves if _several(results, table) else regret_curves
    return run_progress.plot_curve_panels(make(results, table))


def _runtimes(results: Results, table: str, per_row: bool = False, **more: Any) -> Figure:
    chosen = results if per_row else one_table(results, table)
    found = runtime_distribution(target_runtimes(chosen), per_row=per_row)
    return run_progress.plot_runtime_distribution(found, **more)


def _expected(results: Results, table: str, **more: Any) -> Figure:
    found = target_runtimes(one_table(results, table))
    unit = results.instances[table].time_unit
    return run_progress.plot_expected_runtimes(expected_runtime_frame(found), table, unit=unit, **more)


def _attained(
    results: Results,
    table: str,
    lookups: int = 0,
    level: float = 0.5,
    pair: tuple[int, int] = (0, 1),
    **more: Any,
) -> Figure:
    _check_pair(results, table, pair)
    if isinstance(lookups, Sequence):
        raise InputError(f"the figure 'attained' is after one number of look-ups, not {lookups!r}.")
    found = attainment(results, table, lookups or _lookups(results, table), level, pair)
    return run_progress.plot_attainment(found, **more)


def _front(
    results: Results,
    table: str,
    method: str = "",
    trial: int | None = None,
    lookups: int | Sequence[int] = (10, 20, 50, 100),
    pair: tuple[int, int] = (0, 1),
    **more: Any,
) -> Figure:
    _check_pair(results, table, pair)
    method = method or methods_on(results, table)[-1]
    steps = lookups if isinstance(lookups, Sequence) else [lookups]
    return run_progress.plot_front_moves(moving_front(results, table, method, steps, trial, pair), **more)


def _workers(results: Results, table: str, method: str = "") -> Figure:
    if results.instances[table].problem.counts_lookups:
        raise InputError("the figure 'workers' is of runs on a clock.")
    return plot_workers(worker_times(results, table, method or methods_on(results, table)[-1]))


def _scores(results: Results, table: str) -> Figure:
    return statistics_plots.plot_scores(run_statistics(results).scores, table, timed=results.suite.timed)


def _wins(results: Results, table: str, score: str = "") -> Figure:
    chosen = _score(results, score)
    return statistics_plots.plot_wins(run_statistics(results).comparisons, table, chosen)


def _ranks(results: Results, table: str, score: str = "", **more: Any) -> Figure:
    chosen = _score(results, score)
    (outcome,) = (outcome for outcome in run_statistics(results).ranks if outcome.score == chosen)
    return statistics_plots.plot_critical_difference(outcome, **more)


def _score(results: Results, score: str) -> str:
    if score and score not in results.suite.scores:
        raise unknown("score", score, results.suite.scores, "(of these results)")
    return score or results.suite.scores[0]


def _check_pair(results: Results, table: str, pair: tuple[int, int]) -> None:
    if not results.instances[table].problem.counts_lookups:
        raise InputError("fronts are of look-ups, and these results are on a clock.")
    m = len(results.instances[table].objectives)
    if m > 1 and (len(pair) != 2 or pair[0] == pair[1] or not all(0 <= j < m for j in pair)):
        raise InputError(f"pair must be two different places from 0 to {m - 1}, not {pair!r}.")


_KINDS: dict[str, tuple[Callable[..., Figure], tuple[str, ...], bool]] = {
    "regret": (_regret, ("log",), True),
    "hypervolume": (_hypervolume, ("log",), True),
    "spread": (_spread, (), False),
    "runtimes": (_runtimes, ("per_row",), True),
    "expected": (_expected, (), True),
    "attained": (_attained, ("lookups", "level", "pair"), True),
    "front": (_front, ("method", "trial", "lookups", "pair"), True),
    "workers": (_workers, ("method",), False),
    "scores": (_scores, (), False),
    "wins": (_wins, ("score",), False),
    "ranks": (_ranks, ("score",), True),
}
"""By name: what draws it, its options, and whether it has one panel."""
