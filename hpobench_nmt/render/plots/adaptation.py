"""Figures of how dynamic evaluation changes a language model (Krause et al. 2018, figure 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from hpobench_nmt.render.plots.style import COLOURS, GREY, axes_for, legend, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Static losses have one colour, and dynamic losses another. Dashed: state and weights are carried on.
_LINES = {
    "static": ("static", COLOURS[0], "-", "o"),
    "dynamic": ("dynamic", COLOURS[1], "-", "s"),
    "static_carried": ("static, carried on", COLOURS[0], "--", ""),
    "dynamic_carried": ("dynamic, carried on", COLOURS[1], "--", ""),
}
# A last window with a smaller share of the usual tokens is left out, because it would be mostly noise.
_LEAST_SHARE = 0.5
_MARKERS = 12


def plot_adaptation(frame: pd.DataFrame, title: str = "") -> Figure:
    """Mean losses against the tokens read, with a point in the middle of each window.

    The frame comes from `timescales` or `adaptation_curve`. It has position, tokens, and columns of losses in
    nats. If there are negative positions, a line at 0 marks the change to another text. Windows with less
    than half the usual number of tokens are not drawn.
    """
    figure, axes = axes_for(None, (7.6, 4.2))
    shown = frame[frame["tokens"] >= _LEAST_SHARE * frame["tokens"].max()]
    changes = bool((frame["position"] < 0).any())
    if changes:
        # No line joins points before and after the change.
        gap = pd.DataFrame({"position": [0.0], "tokens": [1.0]})
        shown = pd.concat([shown[shown["position"] < 0], gap, shown[shown["position"] >= 0]])
        axes.axvline(0, color=GREY, linewidth=1.2, linestyle=":", label="change of text")
    middle = shown["position"] + (shown["tokens"] - 1) / 2
    marks: dict[str, Any] = {"markersize": 4, "markevery": max(1, len(shown) // _MARKERS)}
    for name, (label, colour, dash, marker) in _LINES.items():
        if name in shown:
            style: dict[str, Any] = {"color": colour, "linestyle": dash, "marker": marker, "label": label}
            axes.plot(middle, shown[name], **style, **marks, linewidth=1.6 if dash == "-" else 1.2)
    axes.set(
        xlabel="tokens read since the change of text" if changes else "tokens read",
        ylabel="mean loss (nats per token)",
        title=title,
    )
    legend(axes)
    return plain(figure)
