"""Colours, styles of methods, and new figures and axes, which all figures share."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote, unquote

import numpy as np

from hpobench_nmt.analysis.selection import EXACT
from hpobench_nmt.core.arrays import Floats, Ints
from hpobench_nmt.core.system.files import save_file
from hpobench_nmt.core.system.text import printable

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

# The colours of Okabe & Ito, changed until each stands out on white (3:1) and readers with any kind of colour
# blindness can distinguish any two of them. Black is reserved for references.
COLOURS = ("#0D72B1", "#C54E00", "#0E9766", "#CC7AAB", "#CC8506", "#309ED6", "#817F80", "#987739")
# The same hues in dark. Their lightness, and dashed lines, distinguish them from the first.
_DARK = ("#00395A", "#7A3300", "#00573F", "#7F3F66", "#855C00", "#17658F", "#3F3F3F", "#4A3A0F")
_DASHES = ("--", ":")
MARKERS = "osD^vP*X<>hpd8H"  # one for each method
# For things in the background.
GREY = "#9AA0A6"
# Maximum number of points in a scatter. More would not be clearer, and take many megabytes in a report.
_MOST_POINTS = 4000
# From here on, matplotlib labels an axis in powers of ten.
_LARGE = 1e6
# The ids of a method's artists start with this, then the method's name.
_GID = "method-"
# An arrow to better values, by their direction to the right and up.
_ARROWS = {(-1, -1): "↙", (-1, 0): "←", (-1, 1): "↖", (0, -1): "↓", (0, 1): "↑"}
_ARROWS |= {(1, -1): "↘", (1, 0): "→", (1, 1): "↗"}
# The width and height of "better" with an arrow, as shares of the axes.
_WORDS = (0.16, 0.09)
# Ids of artists that an animated page hides start with this.
_STILL = "still"
# For each format, metadata that leaves the time of writing out of a file.
_UNDATED: Mapping[str, Mapping[str, None]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}


@dataclass(frozen=True)
class Style:
    """How a method is drawn: a colour, and matplotlib's names of a line style and a marker."""

    colour: str
    dash: str
    marker: str

    def line(self) -> dict[str, Any]:
        """Arguments for matplotlib's plot, without markers."""
        return {"color": self.colour, "linestyle": self.dash, "linewidth": 1.6}


Styles = Mapping[str, Style]
"""The style of each method."""


def method_styles(methods: Iterable[str]) -> dict[str, Style]:
    """A style for each method, by its place, and one for EXACT. The first 24 styles all differ."""
    styles = {EXACT: Style("black", "-.", "")}
    for i, method in enumerate(m for m in dict.fromkeys(methods) if m != EXACT):
        row, column = divmod(i, len(COLOURS))
        colour = (_DARK if row % 2 else COLOURS)[column]
        dash = _DASHES[(row + column) % len(_DASHES)] if row else "-"
        styles[method] = Style(colour, dash, MARKERS[i % len(MARKERS)])
    return styles


def mark(artist: Artist, method: str, part: int | str = 0) -> None:
    """Name the artist's method in the id of its SVG group. `part` distinguishes artists of one axes.

    The page shows the part "band" clearly only for one method at a time.
    """
    figure = artist.get_figure(root=True)
    panel = figure.axes.index(artist.axes) if figure and artist.axes else 0  # type: ignore[arg-type]
    artist.set_gid(f"{_GID}{quote(method, safe='', errors='surrogatepass')}-{panel}-{part}")


def set_tooltips(points: Artist, texts: Sequence[str]) -> None:
    """Set texts that browsers show on the points of a scatter in an SVG or a notebook."""
    from hpobench_nmt.render.plots.notebook_figure import NotebookFigure

    figure = points.get_figure(root=True)
    if isinstance(figure, NotebookFigure):
        gid = f"points-{len(figure.tooltips)}"
        points.set_gid(gid)
        figure.tooltips = {**figure.tooltips, gid: texts}


def mark_still(artist: Artist, number: int) -> None:
    """Mark an artist that the page hides when it animates the figure and draws the same itself."""
    artist.set_gid(f"{_STILL}-{number}")


def is_still(gid: str) -> bool:
    """Whether `mark_still` has set an id."""
    return gid.startswith(f"{_STILL}-")


def method_of_gid(gid: str) -> str | None:
    """The method that an id names; None for any other id."""
    name = gid.removeprefix(_GID).rpartition("-")[0].rpartition("-")[0]
    return unquote(name, errors="surrogatepass") if gid.startswith(_GID) and name else None


def image(figure: Figure, form: str) -> bytes:
    """A figure as "png", "pdf" or "svg". The same figure gives the same bytes."""
    import matplotlib

    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "hpobench-nmt"}):  # ids would otherwise be random
        plain(figure).savefig(buffer, format=form, dpi=150, metadata=_UNDATED.get(form))
    return buffer.getvalue()


def save(figure: Figure, path: Path, form: str) -> None:
    """Write a figure to a file in one step; see `image` and `save_file`."""
    save_file(path, image(figure, form))


def axes_for(ax: Axes | None, size: tuple[float, float] = (7.6, 4.4)) -> tuple[Figure, Axes]:
    """The figure and axes to draw on: the given axes, or new axes on a figure without a window."""
    if ax is not None:
        return ax.get_figure(root=True), ax  # type: ignore[return-value]
    figure, (axes,) = new_panels(1, size, grid="both")
    return figure, axes


def new_panels(
    n: int, size: tuple[float, float], columns: int = 0, grid: Literal["", "x", "both"] = "", **shared: Any
) -> tuple[Figure, tuple[Axes, ...]]:
    """A new figure, which notebooks show, with n panels in lines of `columns`, by default side by side.

    The size is in inches. Panels have no frame at the top and the right, and a grid along the axes that
    `grid` names. `shared` are the arguments sharex and sharey of matplotlib's `subplots`.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from hpobench_nmt.render.plots.notebook_figure import NotebookFigure

    figure = NotebookFigure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    columns = columns or n
    panels = tuple(figure.subplots(-(-n // columns), columns, squeeze=False, **shared).flat)
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        if grid:
            axes.grid(axis=grid, alpha=0.25, linewidth=0.6)
    for axes in panels[n:]:
        axes.set_visible(False)
    return figure, panels[:n]


def draw_matrix(
    axes: Axes, values: Floats, names: Sequence[str], limits: tuple[float, float], texts: Mapping[Any, str]
) -> AxesImage:
    """Draw a square matrix in colours, with a text in each cell; `texts` has them by (row, column)."""
    image = axes.imshow(values, cmap="PuOr_r", vmin=limits[0], vmax=limits[1])
    far = np.abs(values - sum(limits) / 2) > 0.3 * (limits[1] - limits[0])
    for (i, j), text in texts.items():
        colour, weight = "white" if far[i, j] else "black", "bold" if text.endswith("*") else "normal"
        axes.text(j, i, text, ha="center", va="center", color=colour, fontsize=9, fontweight=weight)
    axes.set_xticks(range(len(names)), names, rotation=35, ha="right")
    axes.set_yticks(range(len(names)), names)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return image


def legend(axes: Axes, title: str = "") -> None:
    """A legend beside the axes, where it hides nothing."""
    if axes.get_legend_handles_labels()[0]:
        place: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
        fonts: dict[str, Any] = {"fontsize": 9, "title_fontsize": 9, "alignment": "left"}
        axes.legend(frameon=False, **place, **fonts, handlelength=3, title=title or None)


def mark_better(axes: Axes, right: int, up: int, points: Floats | None = None) -> None:
    """Write "better" with an arrow to better values, whose direction is -1, 0 or 1 along each axis.

    The words are on that side of the axes or, with points of shape (n, 2), in the corner that hides the
    fewest of them. If corners are equal, the corner of the best values is preferred. Call this when the
    limits are final.
    """
    x, y = right or -1, up or -1
    if points is not None:
        places = axes.transAxes.inverted().transform(axes.transData.transform(points))
        corners = [(x, y), (x, -y), (-x, y), (-x, -y)]
        x, y = min(corners, key=lambda c: int((np.abs(places - (np.array(c) + 1) / 2) < _WORDS).all(1).sum()))
    arrow = _ARROWS[right, up]
    at: dict[str, Any] = {"xytext": (-4 * x, -4 * y), "textcoords": "offset points"}
    at |= {"ha": "left" if x < 0 else "right", "va": "bottom" if y < 0 else "top"}
    corner = ((x + 1) / 2, (y + 1) / 2)
    axes.annotate(f"better {arrow}", corner, xycoords="axes fraction", **at, fontsize=9, color="#333333")


def signs(maximised: Sequence[bool]) -> tuple[int, int]:
    """The directions in which the first two objectives are better, for `mark_better`."""
    return (1 if maximised[0] else -1, 1 if maximised[1] else -1)


def drawn_rows(n_rows: int, always: Iterable[int] = ()) -> Ints:
    """The rows of a table that a scatter shows, in ascending order, which are always the same.

    These are all rows of a small table. Of a large table, they are a few thousand random rows and those in
    `always`.
    """
    if n_rows <= _MOST_POINTS:
        return np.arange(n_rows)
    chosen = np.random.default_rng(0).choice(n_rows, _MOST_POINTS, replace=False)
    return np.union1d(chosen, np.fromiter(always, np.int64))


def how_many_drawn(n_rows: int) -> str:
    """A remark about a scatter that does not show every row; "" if it does."""
    return f" ({_MOST_POINTS:,} of {n_rows:,}, drawn at random)" if n_rows > _MOST_POINTS else ""


def staircase(maximised: bool) -> str:
    """The drawstyle of a front that is sorted by its first objective, in ascending order.

    `maximised` means that this objective is maximised. No row lies between two neighbours of a front, so a
    straight line would show values that no row reaches.
    """
    return "steps-pre" if maximised else "steps-post"


def with_unit(name: str, unit: str) -> str:
    """A label of an axis."""
    return f"{name} ({unit})" if unit else name


def plain_log_ticks(axis: Any) -> None:
    """Label a log axis 1, 3, 10, 30, ... instead of with powers. The steps depend on its range."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    low, high = axis.get_view_interval()
    decades = float(np.log10(high / low)) if 0 < low < high else 1.0
    subs = (1.0, 2.0, 5.0) if decades < 1.7 else (1.0, 3.0) if decades < 3.5 else (1.0,)
    axis.set_major_locator(LogLocator(base=10, subs=subs))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())  # minor ticks would take most of the time of a small figure


def short_ticks(axes: Axes) -> None:
    """Label large numbers as 1.5M, because a factor of 1e6 at the end of the axis is easily missed."""
    from matplotlib.ticker import FuncFormatter

    for axis in (axes.xaxis, axes.yaxis):
        if max(map(abs, axis.get_view_interval())) >= _LARGE:
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 1e6:g}M" if value else "0"))


def raised(values: pd.Series[Any], floor: float | None) -> pd.Series[Any]:
    """Values for an axis. On a log axis, which has a floor, 0 becomes the floor."""
    return values if floor is None else values.mask(values == 0, floor)


def label_floor(axis: Any, floor: float, lowest: float) -> None:
    """Label the floor of a log axis "0", and leave out the ticks between it and the lowest shown value."""
    from matplotlib.ticker import FixedLocator, FuncFormatter

    ticks = [t for t in axis.get_major_locator()() if t >= lowest]
    axis.set_major_locator(FixedLocator([floor, *ticks]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: "0" if value == floor else f"{value:g}"))


def plain(figure: Figure) -> Figure:
    """The figure with literal texts: dollar signs start no formulas, and control characters are escaped."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_parse_math(False)
        text.set_text(printable(text.get_text(), lines=True))
    return figure
