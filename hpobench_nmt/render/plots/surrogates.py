"""Error of the methods' surrogates, against look-ups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hpobench_nmt.analysis.run_curves import surrogate_curves
from hpobench_nmt.render.figure_spec import FigureSpec, Plot
from hpobench_nmt.render.plots.curves import curves_figure
from hpobench_nmt.render.subject import MILESTONES, Subject


def _surrogates(subject: Subject, log: bool | None = None) -> Iterator[FigureSpec]:
    """Squared error of the surrogates in the first objective, against look-ups; the trials are replayed."""
    wanted = [int(subject.at), subject.results.suite.n_initial, *MILESTONES]
    for number, curves in enumerate(surrogate_curves(subject.results, subject.table, also=wanted), start=1):
        metric = curves.quantity.removeprefix("squared error in ")
        found = curves_figure(subject, curves, log, "There is no surrogate whose curve could be shown.")
        title = f"Error of the surrogates in {metric}"
        yield replace(found, stem=f"-{number}", title=title, aside=not found.problem)


PLOTS = (Plot("surrogate", "Error of the surrogates", _surrogates, of_table=lambda s: s.counts_lookups),)
