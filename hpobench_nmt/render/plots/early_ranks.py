"""The figure of a table's learning curves: quantiles, ranks over time, and how early the order is final."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hpobench_nmt.core.text import counted
from hpobench_nmt.evaluation.early_ranks import EarlyRanks
from hpobench_nmt.render.figure_spec import TablePlot
from hpobench_nmt.render.plots.style import COLOURS, new_panels, plain, plain_log_ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_early_ranks(found: EarlyRanks, unit: str = "") -> Figure:
    """Quantiles of the best value so far, ranks of the rows that are best in the end, and agreement."""
    figure, (values, ranks, agreement) = new_panels(3, (11.4, 3.7))
    frame = found.frame
    x = frame["resource"]
    middle: dict[str, Any] = {"color": COLOURS[0], "alpha": 0.2, "linewidth": 0, "label": "middle half"}
    values.fill_between(x, frame["low"], frame["high"], **middle)
    values.plot(x, frame["median"], color=COLOURS[0], label="median")
    values.plot(x, frame["best"], color=COLOURS[1], linestyle="--", label="best")
    values.set_ylabel(f"{found.metric} so far" + (f" ({unit})" if unit else ""))
    if not found.maximised and (frame["best"] > 0).all() and frame["high"].max() > 20 * frame["best"].min():
        values.set_yscale("log")
        plain_log_ticks(values.yaxis)
    values.set_title("Best value of a row so far", fontsize=10)
    values.legend(frameon=False, fontsize=8)
    for place, part in reversed([*found.ranks.groupby("place", sort=True)]):
        label = {1: "the best in the end", 2: f"2nd to {found.ranks['place'].max()}th"}.get(int(str(place)))
        colour, width = (COLOURS[1], 2.2) if label and place == 1 else ("#8A9095", 0.9)
        ranks.plot(part["resource"], part["rank"], color=colour, linewidth=width, label=label)
    third: dict[str, Any] = {"color": "black", "linewidth": 0.8, "linestyle": ":"}
    ranks.axhline(max(found.n_rows / 3, 1), **third, label="a third of the rows")
    ranks.set_yscale("log")
    plain_log_ticks(ranks.yaxis)
    ranks.invert_yaxis()
    ranks.set_ylabel("rank among all rows")
    ranks.set_title("Rows that are the best in the end", fontsize=10)
    ranks.legend(frameon=False, fontsize=8, loc="lower right")
    agreement.plot(x, frame["order"], color=COLOURS[0], label="Spearman, all rows")
    agreement.plot(x, frame["order_going"], color=COLOURS[2], linestyle="--", label="those that go on")
    agreement.plot(x, frame["kept"], color=COLOURS[1], linestyle=":", label="best tenth in the best third")
    agreement.axhline(0, color="#8A9095", linewidth=0.8)
    agreement.set_ylim(min(-0.05, float(frame[["order", "order_going"]].min().min()) - 0.05), 1.03)
    agreement.set_ylabel("agreement with the end")
    agreement.set_title("How much is known by then", fontsize=10)
    agreement.legend(frameon=False, fontsize=8, loc="lower right")
    for axes in (values, ranks, agreement):
        axes.set_xscale("log")
        plain_log_ticks(axes.xaxis)
        axes.set_xlabel(found.resource)
        axes.tick_params(labelsize=7.5)
    figure.suptitle(f"{found.table}: learning curves of {counted(found.n_rows, 'row')}", fontsize=11)
    return plain(figure)


TABLE_PLOTS = (TablePlot("curves", lambda s: plot_early_ranks(s.analysis, s.unit)),)
