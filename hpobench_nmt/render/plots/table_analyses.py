"""Figures of a table's analyses. Each function takes the analysis and returns a matplotlib Figure.

matplotlib is imported on first use. Colours are those of `plots.style`, which colour-blind readers can
distinguish. Whatever a colour shows, a shape, a hatch or a label shows as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from hpobench_nmt.core.arrays import Floats, Ints
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.text import counted, short
from hpobench_nmt.evaluation.correlation import RankCorrelation
from hpobench_nmt.evaluation.early_ranks import EarlyRanks
from hpobench_nmt.evaluation.importance import Importance
from hpobench_nmt.evaluation.noise import SeedNoise
from hpobench_nmt.evaluation.random_search import none_drawn
from hpobench_nmt.evaluation.sensitivity import NEAR, Sensitivity, share_within
from hpobench_nmt.render.figure_spec import TablePlot
from hpobench_nmt.render.plots.style import (
    COLOURS,
    GREY,
    draw_matrix,
    drawn_rows,
    how_many_drawn,
    label_floor,
    new_panels,
    plain,
    plain_log_ticks,
    raised,
    with_unit,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_MOST_PAIRS = 6
# Limits of the number of rows in plot_best_rows. It shows the rows that cannot be distinguished from the
# best, and a few more.
_LEAST_BEST, _MOST_BEST = 10, 30
# Maximum number of labels such as "row 123" that are horizontal. More labels are vertical.
_MOST_LEVEL_ROWS = 8


def plot_rank_correlation(found: RankCorrelation) -> Figure:
    """Spearman's coefficient between tables as a matrix (Zhang & Duh 2020, Figure 4)."""
    n = len(found.names)
    figure, (axes,) = new_panels(1, (1.6 + 0.85 * n, 1.2 + 0.75 * n))
    axes.set_facecolor("#DDDDDD")
    same = len(np.unique(found.n_common[~np.eye(n, dtype=bool)])) == 1
    texts = {}
    for (i, j), common in np.ndenumerate(found.n_common):
        r = found.coefficient[i, j]
        texts[i, j] = "none" if common == 0 else "–" if np.isnan(r) else f"{r:.2f}"
        if not same and i != j and common:
            texts[i, j] += f"\nn={common}"
    image = draw_matrix(axes, found.coefficient, found.names, (-1, 1), texts)
    where = "those that each pair of tables has"
    if found.common == "all":
        where = f"the {found.n_common[0, -1]} that all tables have"
    axes.set_title(f"Rank correlation of configurations\n({where})", fontsize=11)
    figure.colorbar(image, ax=axes, label="Spearman's coefficient", shrink=0.85)
    return plain(figure)


def plot_importance(parts: Sequence[Importance]) -> Figure:
    """Shares of variance of every hyperparameter and the strongest pairs, one bar per part of the space.

    The parts belong to one table and metric, such as the whole space and its best quarter. The first part
    determines the order of the bars. Error bars are standard deviations over the trees of a forest.
    """
    if not parts or len({(p.table, p.metric) for p in parts}) != 1:
        raise InputError("importance is drawn for one table and one metric at a time.")
    first = parts[0]
    pairs = pd.concat([part.pairs for part in parts]).groupby(["first", "second"], sort=False)["share"]
    chosen = [*((name, "") for name in first.singles["first"]), *pairs.max().nlargest(_MOST_PAIRS).index]
    figure, (axes,) = new_panels(1, (6.8, 1.5 + 0.34 * len(chosen)))
    height = 0.8 / len(parts)
    for i, part in enumerate(parts):
        lines = part.effects.set_index(["first", "second"]).loc[chosen]
        spread = lines["spread"].fillna(0.0).to_numpy() * 100
        share = lines["share"].to_numpy() * 100
        axes.barh(
            np.arange(len(chosen)) + (i - (len(parts) - 1) / 2) * height,
            share,
            height=height * 0.9,
            color=COLOURS[i % len(COLOURS)],
            hatch=("", "///", "...")[i % 3],
            edgecolor="white",
            linewidth=0,
            xerr=np.vstack([np.minimum(spread, share), spread]) if spread.any() else None,
            error_kw={"ecolor": "#333333", "elinewidth": 0.9, "capsize": 1.5},
            label=_part_label(part),
        )
    axes.set_yticks(range(len(chosen)), [a if not b else f"{a} × {b}" for a, b in chosen])
    axes.invert_yaxis()
    axes.axhline(len(first.singles) - 0.5, color=GREY, linewidth=0.8, linestyle=":")
    axes.set_xlim(left=0)
    how = "exact" if first.method == "exact" else "random forest, bars: sd over its trees"
    axes.set_xlabel("share of the variance explained (%)")
    axes.set_title(f"{first.table}: importance for {first.metric}\n({how})", fontsize=11)
    figure.legend(loc="outside lower center", ncols=len(parts), frameon=False, fontsize=9)
    return plain(figure)


def plot_seed_noise(found: SeedNoise, unit: str = "") -> Figure:
    """Every training of the replicated configurations, as measured (Zhang & Duh 2020, Figure 8)."""
    figure, (axes,) = new_panels(1, (6.8, 4.2))
    trainings = found.trainings
    mean = found.configurations["mean"].to_numpy()
    half = found.pooled.smallest_difference / 2
    for i, m in enumerate(mean):
        axes.fill_between([i - 0.32, i + 0.32], m - half, m + half, color="black", alpha=0.07, linewidth=0)
        axes.plot([i - 0.32, i + 0.32], [m, m], color=GREY, linewidth=1.2)
    own = (trainings["source"] == "table").to_numpy()
    number, value = trainings["configuration"].to_numpy(), trainings["value"].to_numpy()
    again = number[~own] + 0.04 + _spread_out(number[~own])
    label = "trained again with another seed"
    axes.scatter(again, value[~own], s=28, color=COLOURS[0], label=label, zorder=3)
    if own.any():
        first, label = number[own] - 0.27, "the table's own training"
        axes.scatter(first, value[own], s=40, marker="D", color=COLOURS[1], label=label, zorder=3)
    rows = [f"row {row}" if row >= 0 else "no row" for row in found.configurations["row"]]
    axes.set_xticks(range(len(rows)), rows, rotation=90 if len(rows) > _MOST_LEVEL_ROWS else 0)
    axes.tick_params(axis="x", labelsize=9 if len(rows) <= _MOST_BEST else 7)
    axes.set_xlabel("configuration, best in the table first")
    axes.set_ylabel(with_unit(found.metric, unit))
    apart = ", without the common effect of shared seeds" if found.shared_seeds else ""
    axes.set_title(
        f"{found.table}: pooled sd {short(found.pooled.sd)}{apart}.\nShaded boxes are as high as "
        f"the smallest difference worth believing, {short(found.pooled.smallest_difference)}",
        fontsize=11,
    )
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return plain(figure)


def plot_best_rows(found: SeedNoise, unit: str = "") -> Figure:
    """The best rows of a table in order, compared with the noise between seeds.

    Rows in the shaded band are no further from the best than the smallest difference worth believing. A bar
    is the 95% interval of a row's mean over seeds, from the pooled spread.
    """
    shown = found.ranked.head(min(_MOST_BEST, max(_LEAST_BEST, found.rows_within + 3)))
    value, within = shown["value"].to_numpy(), (shown["gap"] <= found.between_rows).to_numpy()
    place = np.arange(len(shown))
    figure, (axes,) = new_panels(1, (6.8, 4.2))
    if len(shown):
        end = value[0] + np.sign(value[-1] - value[0]) * found.between_rows
        axes.axhspan(*sorted((value[0], end)), color="black", alpha=0.07, linewidth=0)
    averaged = found.averaged_over > 1
    row_is = f"the mean of {found.averaged_over} trainings" if averaged else "the table's training"
    bars: dict[str, Any] = {"yerr": found.between_rows / 2**0.5, "fmt": "o", "color": COLOURS[0]}
    for some, fill, label in (
        (within, COLOURS[0], f"{row_is}, and the 95% interval of its mean over seeds"),
        (~within, "white", "the same, outside the shaded band"),
    ):
        if some.any():
            bars |= {"markerfacecolor": fill, "markersize": 5, "elinewidth": 1, "label": label}
            axes.errorbar(place[some], value[some], **bars)
    known = found.configurations.set_index("row").reindex(shown["row"])
    if known["mean"].notna().any() and not averaged:
        label = "mean of the trainings with all seeds"
        axes.scatter(place + 0.3, known["mean"], s=34, marker="D", color=COLOURS[1], label=label, zorder=3)
    axes.set_xticks(place, [str(row) for row in shown["row"]], rotation=90 if len(shown) > 15 else 0)
    axes.set_xlabel("row of the table, the best first")
    axes.set_ylabel(with_unit(found.metric, unit))
    axes.set_title(
        f"{found.table}: {found.rows_within} of {counted(found.n_rows, 'row')} "
        f"{'is' if found.rows_within == 1 else 'are'} no further from the best than\n"
        f"the smallest difference worth believing between two, {short(found.between_rows)}",
        fontsize=11,
    )
    figure.legend(loc="outside lower center", frameon=False, fontsize=9)
    return plain(figure)


def plot_sensitivity(found: Sensitivity, unit: str = "") -> Figure:
    """Share of the configurations within any distance of the best, and gaps by grid steps from it."""
    figure, (left, right) = new_panels(2, (9.6, 4.0))
    label = with_unit(f"gap to the best {found.objective.rpartition(':')[0]}", unit)
    known = ~np.isnan(found.gaps)
    gaps, steps = found.gaps[known], found.steps[known]
    # The upper half of the gaps does not matter for tuning, and would squeeze the rest.
    top = max(float(np.quantile(gaps, 0.5)) * 1.5, 2 * found.tolerance, float(gaps[gaps > 0].min()) * 2)
    distances = np.linspace(0, top, 400)
    groups = (
        ("all", np.ones(len(gaps), dtype=bool), "#333333", "-"),
        (f"1 or {NEAR} grid steps from the best", (steps >= 1) & (steps <= NEAR), COLOURS[0], "--"),
        ("farther off", steps > NEAR, COLOURS[1], ":"),
    )
    for name, some, colour, style in groups:
        if some.any():
            share = share_within(gaps[some], distances) * 100
            left.plot(
                distances, share, color=colour, linestyle=style, linewidth=1.8, label=f"{name} ({some.sum()})"
            )
    left.set(xlabel=label, ylabel="configurations within it (%)", xlim=(0, top), ylim=(0, 102))
    left.axvline(found.tolerance, color=GREY, linewidth=1, label=f"tolerance {short(found.tolerance)}")
    shown = drawn_rows(len(gaps))
    some, beside = gaps[shown], _spread_out(steps[shown], gaps[shown])
    remark = how_many_drawn(len(gaps))
    label_of_rows = f"configurations{remark}" if remark else None
    right.scatter(steps[shown] + beside, some, s=10, color=GREY, linewidth=0, label=label_of_rows)
    dots: dict[str, Any] = {"color": COLOURS[0], "marker": "o", "markersize": 4, "linewidth": 1.6}
    medians = found.by_steps["median_gap"]
    right.plot(found.by_steps["steps"], medians, **dots, label="median at that many steps")
    right.axhline(found.tolerance, color=GREY, linewidth=1)
    right.set(xlabel="grid steps from the best configuration", ylabel=label)
    right.set_ylim(bottom=min(0.0, right.get_ylim()[0]))
    figure.legend(loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    figure.suptitle(f"{found.table}: sensitivity", fontsize=11)
    return plain(figure)


def plot_search_cost(found: Sensitivity) -> Figure:
    """Chance that a search in random order, or a coarse grid, has a row within the tolerance."""
    figure, (axes,) = new_panels(1, (6.4, 4.2))
    metric = found.objective.rpartition(":")[0]
    n_rows, n_targets = len(found.gaps), int(found.by_steps["within"].sum())
    chance = 1.0 - none_drawn(n_rows, n_targets)
    axes.plot(np.arange(n_rows + 1), chance * 100, color="black", linewidth=1.6, label="random order (exact)")
    grids = found.grids
    dashed: dict[str, Any] = {"color": COLOURS[0], "marker": "s", "linestyle": "--", "linewidth": 1.2}
    label = "grids of 1, 2, 3, … values per hyperparameter"
    axes.plot(grids["trials"], grids["success"] * 100, **dashed, label=label)
    for g, trials, success in zip(grids["values"], grids["trials"], grids["success"], strict=True):
        at = (trials, success * 100)
        axes.annotate(str(g), at, xytext=(5, -11), textcoords="offset points", fontsize=9, color=COLOURS[0])
    axes.set(xlabel="configurations trained", xlim=(-0.02 * n_rows, None), ylim=(-2, 103))
    axes.set_ylabel(f"chance of one within {short(found.tolerance)} of the best (%)")
    axes.set_title(f"{found.table}: what a search for the best {metric} costs", fontsize=11)
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    return plain(figure)


def plot_early_ranks(found: EarlyRanks, unit: str = "") -> Figure:
    """Quantiles of the best value so far, ranks of the rows that are best in the end, and agreement."""
    figure, (values, ranks, agreement) = new_panels(3, (11.4, 3.7))
    frame = found.frame
    resources, floor = frame["resource"], _floor(frame["resource"])
    x = raised(resources, floor)
    middle: dict[str, Any] = {"color": COLOURS[0], "alpha": 0.2, "linewidth": 0, "label": "middle half"}
    values.fill_between(x, frame["low"], frame["high"], **middle)
    values.plot(x, frame["median"], color=COLOURS[0], label="median")
    values.plot(x, frame["best"], color=COLOURS[1], linestyle="--", label="best")
    values.set_ylabel(f"{found.metric} so far" + (f" ({unit})" if unit else ""))
    if not found.maximised and (frame["best"] > 0).all() and frame["high"].max() > 20 * frame["best"].min():
        values.set_yscale("log")
        plain_log_ticks(values.yaxis)
    values.set_title("Best value of a row so far", fontsize=10)
    values.legend(frameon=False, fontsize=8, loc="lower right" if found.maximised else "upper right")
    for place, part in reversed([*found.ranks.groupby("place", sort=True)]):
        label = {1: "the best in the end", 2: f"2nd to {found.ranks['place'].max()}th"}.get(int(str(place)))
        colour, width = (COLOURS[1], 2.2) if label and place == 1 else ("#8A9095", 0.9)
        ranks.plot(raised(part["resource"], floor), part["rank"], color=colour, linewidth=width, label=label)
    third: dict[str, Any] = {"color": "black", "linewidth": 0.8, "linestyle": ":"}
    ranks.axhline(max(found.n_rows / 3, 1), **third, label="a third of the rows")
    ranks.set_yscale("log")
    plain_log_ticks(ranks.yaxis)
    ranks.invert_yaxis()
    ranks.set_ylabel("rank among all rows")
    ranks.set_title("Rows that are best in the end", fontsize=10)
    ranks.legend(frameon=False, fontsize=8, loc="lower right")
    agreement.plot(x, frame["order"], color=COLOURS[0], label="Spearman, all rows")
    agreement.plot(x, frame["order_going"], color=COLOURS[2], linestyle="--", label="those that continue")
    agreement.plot(x, frame["kept"], color=COLOURS[1], linestyle=":", label="best tenth in the best third")
    agreement.axhline(0, color="#8A9095", linewidth=0.8)
    agreement.set_ylim(min(-0.05, float(frame[["order", "order_going"]].min().min()) - 0.05), 1.03)
    agreement.set_ylabel("agreement with the end")
    agreement.set_title("How well the order is known by then", fontsize=10)
    agreement.legend(frameon=False, fontsize=8, loc="lower right")
    for axes in (values, ranks, agreement):
        axes.set_xscale("log")
        plain_log_ticks(axes.xaxis)
        if floor is not None:
            axes.axvline(floor, color=GREY, linewidth=0.8, linestyle=":", zorder=0)
            label_floor(axes.xaxis, floor, float(resources[resources > 0].min()))
        axes.set_xlabel(found.resource)
        axes.tick_params(labelsize=7.5)
    figure.suptitle(f"{found.table}: learning curves of {counted(found.n_rows, 'row')}", fontsize=11)
    return plain(figure)


def _floor(resources: pd.Series[Any]) -> float | None:
    """The place of resource 0 on a log axis: a tenth of the axis before the others; None if none is 0."""
    positive = resources[resources > 0]
    if len(positive) in (0, len(resources)):
        return None
    lowest, highest = float(positive.min()), float(positive.max())
    share: float = (lowest / highest) ** 0.1
    return lowest * min(0.5, share)


def _part_label(part: Importance) -> str:
    if part.best_share is None:
        return f"whole space ({counted(part.n_rows, 'row')})"
    return f"best {part.best_share:.0%} ({counted(part.n_best, 'row')}, {part.metric} of {part.best_values})"


def _spread_out(groups: Ints, values: Floats | None = None) -> Floats:
    """Small offsets, always the same, that keep points of a group from hiding one another."""
    offsets = np.zeros(len(groups))
    for group in np.unique(groups):
        members = np.flatnonzero(groups == group)
        if values is not None:
            members = members[np.argsort(values[members], kind="stable")]
        # This sequence never repeats, and fills the width evenly for any number of points.
        offsets[members] = ((np.arange(len(members)) * 0.618034 + 0.5) % 1.0 - 0.5) * 0.5
    return offsets


TABLE_PLOTS = (
    TablePlot("correlation", lambda s: plot_rank_correlation(s.analysis), on_white=True),
    TablePlot("importance", lambda s: plot_importance(s.analysis)),
    TablePlot("sensitivity", lambda s: plot_sensitivity(s.analysis, s.unit)),
    TablePlot("sensitivity", lambda s: plot_search_cost(s.analysis), "{table}-search", "cost of a search"),
    TablePlot("noise", lambda s: plot_seed_noise(s.analysis, s.unit)),
    TablePlot("noise", lambda s: plot_best_rows(s.analysis, s.unit), "{stem}-best", "best rows and noise"),
    TablePlot("curves", lambda s: plot_early_ranks(s.analysis, s.unit)),
)
