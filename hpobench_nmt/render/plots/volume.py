"""The answer of a run with several objectives: the share of the hypervolume that each method finds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hpobench_nmt.analysis.found_volume import FoundVolume, found_volume
from hpobench_nmt.analysis.selection import EXACT
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.text import NONE
from hpobench_nmt.render.figure_spec import FigureSpec, Plot
from hpobench_nmt.render.plots.lines import draw_ranking
from hpobench_nmt.render.plots.style import Styles, method_styles
from hpobench_nmt.render.subject import Subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TITLE = "Share of the hypervolume found"
_MARGIN = 0.15


def plot_volume(found: FoundVolume, styles: Styles | None = None, ax: Axes | None = None) -> Figure:
    """The share of each method with its interval over trials, the best on top; random search is a line."""
    known = found.methods[::-1]
    if not len(known):
        raise InputError(" ".join(found.notes))
    styles = styles or method_styles(known["method"])
    figure, axes = draw_ranking(known, found.random_search, "{:.1%}".format, styles, ax)
    low, high = axes.get_xlim()
    axes.set_xlim(low, high + _MARGIN * (high - low))  # for the number beside the longest interval
    axes.set_xticks([tick for tick in axes.get_xticks() if low <= tick <= 1 + 1e-9])  # a share is at most 1
    axes.xaxis.set_major_formatter("{x:.0%}" if high - low > 0.05 else "{x:.1%}")
    axes.set_xlabel("share of the table's hypervolume (better →)")
    return figure


def _volume(subject: Subject) -> Iterator[FigureSpec]:
    """Share of the hypervolume that each method has found when scores are taken, over all tables."""
    results = subject.results
    at = {table: float(replace(subject, table=table).at) for table in results.instances}
    if any(len(instance.objectives) < 2 for instance in results.instances.values()):
        raise InputError("a hypervolume needs two or more objectives.")
    found = found_volume(results, at)
    rows = [
        (line["method"], f"{line['share']:.1%}", f"{line['low']:.1%}–{line['high']:.1%}")
        for line in found.methods.to_dict("records")
    ]
    if not np.isnan(found.random_search):
        rows.append((EXACT if found.exact else "RS, all trials", f"{found.random_search:.1%}", NONE))
    yield FigureSpec(
        finding=_finding(found),
        draw=partial(plot_volume, found, subject.styles),
        head=("method", "share", "95%"),
        rows=rows,
        notes=[_when(found), *found.notes],
        own_size=True,
    )


def _finding(found: FoundVolume) -> str:
    if not len(found.methods):
        return ""
    best = found.methods.iloc[0]
    text = f"{best['method']} finds {best['share']:.1%} of the hypervolume of the front"
    beside = "" if np.isnan(found.random_search) else f", random search {found.random_search:.1%}"
    return f"{text}{beside}."


def _when(found: FoundVolume) -> str:
    """Sentences on when shares are measured, and over what they are averaged."""
    places = [f"{line['at']:,.4g} {line['unit']}" for line in found.tables.to_dict("records")]
    same = len(set(places)) == 1
    when = places[0] if same else "; ".join(map(" on ".join, zip(places, found.tables["table"], strict=True)))
    several = len(found.tables) > 1
    mean = "Mean over trials, tables and families" if several else "Mean over trials"
    return f"{mean}, after {when}. Interval: over trials{', on these tables' if several else ''}."


def _several(subject: Subject) -> bool:
    return all(len(instance.objectives) > 1 for instance in subject.results.instances.values())


PLOTS = (Plot("volume", _TITLE, _volume, of_table=None, over_tables=_several),)
