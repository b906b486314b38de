from __future__ import annotations

import dataclasses
import itertools
import re

import numpy as np
import pandas as pd
import pytest
from drawn_figures import drawn, legend_lines
from matplotlib.colors import to_rgb

import hpobench_nmt as hb
from hpobench_nmt.analysis.replay import replay
from hpobench_nmt.analysis.run_curves import Curves, hypervolume_curves, regret_curves, surrogate_curves
from hpobench_nmt.analysis.run_fronts import attainment
from hpobench_nmt.analysis.runtimes import expected_runtime_frame, runtime_distribution, target_runtimes
from hpobench_nmt.analysis.selection import EXACT
from hpobench_nmt.analysis.verdicts import run_statistics
from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.render.html.svg import pixels, shared_styles, short_ids, short_path, to_svg
from hpobench_nmt.render.plots.curves import plot_curve_panels, plot_curves, plot_luck
from hpobench_nmt.render.plots.fronts import plot_attainment
from hpobench_nmt.render.plots.replay import plot_replay
from hpobench_nmt.render.plots.runtimes import plot_expected_runtimes, plot_runtime_distribution
from hpobench_nmt.render.plots.scores import plot_scores, plot_wins
from hpobench_nmt.render.plots.style import axes_for, mark_better, method_styles, short_ticks

METHODS = ("RS", "BO_EI_M_std", "GB_EIF_M")


@pytest.fixture
def single(toy):
    other = dataclasses.replace(toy, name="other", values=toy.values[::-1])
    return benchmark([toy, other], list(METHODS), trials=12)


def test_no_two_of_24_methods_look_alike():
    styles = method_styles([f"m{i}" for i in range(24)])
    assert len(set(styles.values())) == 25
    assert len({styles[f"m{i}"].colour for i in range(16)}) == 16
    assert styles[EXACT].colour == "black"
    assert method_styles(["a", "b", "a", EXACT]) == method_styles(["a", "b"])


def test_dark_twins_differ_in_lightness():
    styles = list(method_styles([f"m{i}" for i in range(16)]).values())[1:]
    for light, dark in zip(styles[:8], styles[8:], strict=True):
        assert np.mean(to_rgb(dark.colour)) < 0.75 * np.mean(to_rgb(light.colour))
        assert light.dash == "-" != dark.dash
    assert all(one.dash != other.dash for one, other in itertools.pairwise(styles[8:]))


def figures(single, multi, styles=None):
    found, many = target_runtimes(single), target_runtimes(multi)
    yield plot_curves(regret_curves(single, "toy"), styles)
    yield plot_curves(surrogate_curves(single, "toy")[0], styles)
    yield plot_curves(hypervolume_curves(multi, "toy"), styles)
    yield plot_attainment(attainment(multi, "toy", 8), styles)
    yield plot_runtime_distribution(runtime_distribution(found), styles)
    yield plot_runtime_distribution(runtime_distribution(many, per_row=True), styles)
    yield plot_expected_runtimes(expected_runtime_frame(found), "toy", styles)
    yield plot_expected_runtimes(expected_runtime_frame(many), "toy", styles)


def test_a_method_is_drawn_alike_in_every_figure_and_random_search_is_in_each(single, multi):
    styles = method_styles([*single.methods, *multi.methods])
    for figure in figures(single, multi, styles):
        lines = legend_lines(drawn(figure))
        lines.pop("rows of the table", None)
        assert EXACT in lines
        assert len(lines) >= 3
        for method, line in lines.items():
            style = styles[method]
            assert (line.get_color(), line.get_linestyle()) == (style.colour, style.dash)
            assert line.get_marker() == (style.marker or "None")


def test_axes_say_what_they_show_with_units(single, multi):
    labels = [(f.axes[0].get_xlabel(), f.axes[0].get_ylabel()) for f in figures(single, multi)]
    assert labels[0][1] == "mean simple regret in bleu (BLEU)"
    assert labels[1][1] == "mean squared error in bleu (BLEU²)"
    assert labels[2][1] == "mean share of the table's hypervolume"
    assert labels[3] == ("bleu (BLEU)", "seconds (s)")
    assert labels[4] == ("look-ups", "share of (trial, target) pairs met")
    assert labels[5][0] == "look-ups / rows of the table"
    assert labels[6] == ("to be among the best rows, this many", "expected look-ups, with 95% interval")
    assert labels[7][0] == "rows of the Pareto front to find"
    curves = regret_curves(single, "toy")
    for n, shade in ((3, " (shaded: the initial design)"), (0, "")):
        figure = plot_curves(dataclasses.replace(curves, n_initial=n))
        assert figure.axes[0].get_xlabel() == f"configurations looked up{shade}"


def test_lines_hold_the_data(single):
    curves = regret_curves(single, "toy")
    lines = legend_lines(plot_curves(curves, log=False))
    for method in (*METHODS, EXACT):
        part = curves.frame[curves.frame["method"] == method]
        np.testing.assert_array_equal(lines[method].get_xdata(), part["lookups"])
        np.testing.assert_array_equal(lines[method].get_ydata(), part["mean"])


def test_panels_show_every_method_with_its_quartiles(single, multi):
    for curves in (regret_curves(single, "toy"), hypervolume_curves(multi, "toy")):
        figure = drawn(plot_curve_panels(curves))
        shown = [axes.get_title() for axes in figure.axes if axes.get_visible()]
        assert shown == [m for m in curves.frame["method"].unique() if m != EXACT]
        assert all(axes.collections for axes in figure.axes if axes.get_visible())


def test_figures_of_twelve_methods(single):
    names = [f"METHOD_{i}" for i in range(12)]
    curves = regret_curves(single, "toy")
    one = curves.frame[curves.frame["method"] == "RS"]
    exact = curves.frame[curves.frame["method"] == EXACT]
    frame = pd.concat([*(one.assign(method=name) for name in names), exact])
    curves = dataclasses.replace(curves, frame=frame)
    lines = legend_lines(drawn(plot_curves(curves)))
    looks = [(line.get_color(), line.get_linestyle(), line.get_marker()) for line in lines.values()]
    assert len(set(looks)) == 13
    drawn(plot_curve_panels(curves))


def test_a_lower_bound_is_dotted_from_a_cross_on(toy):
    results = benchmark(toy, ["RS"], trials=12, lookups=10, score_at=10)
    figure = drawn(plot_runtime_distribution(runtime_distribution(target_runtimes(results))))
    dotted = [line for line in figure.axes[0].lines if line.get_linestyle() == ":"]
    assert dotted[0].get_xdata()[0] == 10
    assert any(line.get_marker() == "x" for line in figure.axes[0].lines)


def test_large_numbers_are_written_out():
    axes = axes_for(None)[1]
    axes.plot([0, 4e6], [0.0, 0.3])
    short_ticks(axes)
    assert axes.xaxis.get_major_formatter()(1_500_000) == "1.5M"
    assert axes.yaxis.get_major_formatter()(0.25, 0) != "2.5e-07M"


def test_the_best_and_its_ties_are_filled(single):
    statistics = run_statistics(single)
    figure = drawn(plot_scores(statistics.scores, "toy"))
    for axes, score in zip(figure.axes, ("ftb", "ftc", "fb"), strict=True):
        assert axes.get_title().startswith(score)
        part = statistics.scores[(statistics.scores.table == "toy") & (statistics.scores.score == score)]
        markers = [line for line in axes.lines if line.get_marker() not in ("None", "")]
        for marker, row in zip(markers, part.itertuples(), strict=True):
            assert marker.get_xdata()[0] == row.mean
            assert (marker.get_markerfacecolor() != "white") == (row.best or row.tied)


def test_what_has_no_mean_has_a_note_in_the_figure(toy):
    results = benchmark(toy, ["RS", "BO_EI_M_std"], trials=12, lookups=5, score_at=5)
    figure = drawn(plot_scores(run_statistics(results).scores, "toy"))
    assert any("not reached" in text.get_text() for text in figure.axes[0].texts)


def test_wins_are_counted_from_the_row(single):
    statistics = run_statistics(single)
    figure = drawn(plot_wins(statistics.comparisons, "toy", "ftb"))
    cells = {
        (round(t.get_position()[1]), round(t.get_position()[0])): t.get_text() for t in figure.axes[0].texts
    }
    for a, b in itertools.combinations(range(3), 2):
        numbers = [float(cells[pair].rstrip("*")) for pair in ((a, b), (b, a))]
        assert sum(numbers) == pytest.approx(100, abs=1)
    rs_bo = statistics.comparisons.iloc[0]
    assert cells[0, 1].rstrip("*") == f"{100 * rs_bo['p_a_better']:.0f}"


def test_what_cannot_be_drawn_is_said(single, multi):
    statistics = run_statistics(single)
    with pytest.raises(hb.InputError, match="Did you mean 'toy'"):
        plot_scores(statistics.scores, "toi")
    with pytest.raises(hb.InputError, match="no two methods were compared"):
        plot_wins(statistics.comparisons, "toy", "fta")
    (errors, _) = surrogate_curves(dataclasses.replace(multi, methods=("RS",)), "toy")
    for plot in (plot_curves, plot_curve_panels):
        with pytest.raises(
            hb.InputError, match=r"no method has a curve of squared error.*RS: left out, because it gives no"
        ):
            plot(errors)
    with pytest.raises(hb.InputError, match="in the styles of a figure"):
        plot_curves(regret_curves(single, "toy"), method_styles(["RS"]))
    with pytest.raises(hb.InputError, match="Did you mean 'other'"):
        plot_expected_runtimes(expected_runtime_frame(target_runtimes(single)), "othe")


def test_figures_can_be_joined_on_given_axes(single):
    from matplotlib.figure import Figure

    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert plot_curves(regret_curves(single, "toy"), ax=left) is figure
    assert plot_runtime_distribution(runtime_distribution(target_runtimes(single)), ax=right) is figure
    drawn(figure)


@pytest.mark.parametrize("plot", [plot_curves, plot_curve_panels])
def test_curves_that_reach_zero_stay_in_sight_on_a_log_axis(single, plot):
    curves = regret_curves(single, "toy")
    zero = curves.frame[(curves.frame["mean"] == 0) & (curves.frame["method"] == "BO_EI_M_std")]
    assert len(zero)
    figure = drawn(plot(curves))
    axes = next(a for a in figure.axes if plot is plot_curves or a.get_title() == "BO_EI_M_std")
    lines = [line for line in axes.lines if line.get_color() == method_styles(METHODS)["BO_EI_M_std"].colour]
    x, y = (np.asarray(v, dtype=float) for v in lines[-1].get_data())
    floor = y[np.isin(x, zero["lookups"])]
    assert len(floor) == len(zero) and len(set(floor)) == 1
    low, high = axes.get_ylim()
    assert low < floor[0] < y[y > floor[0]].min() < high
    ticks = axes.get_yticks()
    labels = dict(zip(ticks, map(axes.yaxis.get_major_formatter(), ticks), strict=True))
    assert labels[floor[0]] == "0"
    assert all(tick == floor[0] or tick >= y[y > floor[0]].min() * 0.9 for tick in ticks)


def test_what_belongs_to_a_method_is_known_by_its_mark_and_not_by_its_colour():
    methods = [f"m {i}<&>" for i in range(25)]  # the 25th has the colour of the first
    styles = method_styles(methods)
    assert styles[methods[0]].colour == styles[methods[16]].colour
    frame = pd.DataFrame(
        [(m, n, 1.0 / n + i, 1, 1, 1, 2) for i, m in enumerate(methods) for n in (1, 2, 3)],
        columns=["method", "lookups", "mean", "low", "median", "high", "trials"],
    )
    curves = Curves("toy", "regret", frame, 1, True)
    places = {m: i for i, m in enumerate([*methods, EXACT])}
    svg = to_svg(plot_curves(curves, styles), "f", places, {m: s.colour for m, s in styles.items()})
    groups = [int(m) for m in re.findall(r'data-m="(\d+)"', svg)]
    assert sorted(groups) == list(range(25))
    assert svg.count("var(--m0)") and svg.count("var(--m16)")


def test_a_curve_has_the_middle_half_of_its_trials_behind_it(single):
    curves = regret_curves(single, "toy")
    axes = plot_curves(curves, log=False).axes[0]
    bands = [c for c in axes.collections if c.get_gid()]
    assert [c.get_gid() for c in bands] == [f"method-{m}-0-band" for m in METHODS]
    for method, band in zip(METHODS, bands, strict=True):
        part = curves.frame[curves.frame["method"] == method].set_index("lookups")
        corners = band.get_paths()[0].vertices
        for n in (1, 7, 20):
            ends = part.loc[n, ["low", "high"]]
            last = corners[corners[:, 0] <= n, 0].max()  # points between two that are the same are left out
            drawn = corners[corners[:, 0] == last, 1]
            assert [drawn.min(), drawn.max()] == pytest.approx(ends.to_list())
    assert svg_of(curves).count('class="band"') == len(METHODS)
    assert "middle half" in axes.get_legend().get_title().get_text()
    alone = benchmark(single.instances["toy"].table, ["RS"], trials=1, scores=["ftb"])
    assert not plot_curves(regret_curves(alone, "toy")).axes[0].collections


def svg_of(curves):
    styles = method_styles(METHODS)
    places = {m: i for i, m in enumerate([*METHODS, EXACT])}
    return to_svg(plot_curves(curves, styles), "f", places, {m: s.colour for m, s in styles.items()})


def better(figure):
    (text,) = [t for t in figure.axes[0].texts if "better" in t.get_text()]
    return text.get_text(), text.xy


def test_every_figure_says_which_way_is_better(single, multi):
    arrows = [better(figure)[0] for figure in figures(single, multi)]
    assert arrows == [f"better {a}" for a in "↓↓↑↘↑↑↓↓"]  # BLEU is maximised, seconds are minimised


def test_the_word_better_hides_no_point():
    points = np.array([(0.0, 1.0), (1.0, 0.0), (0.0, 0.0), (0.5, 0.5)])
    for free in ((1, 1), (-1, 1), (1, -1)):
        corner = [(x + 1) / 2 for x in free]
        figure, axes = axes_for(None)
        axes.set(xlim=(0, 1), ylim=(0, 1))
        taken = np.array([p for p in [*points, (1.0, 1.0)] if list(p) != corner])
        mark_better(axes, 1, -1, taken)
        assert better(figure) == ("better ↘", tuple(corner))


def test_a_replayed_trial_is_drawn_in_its_order(multi):
    found = replay(multi, "toy")
    trial = found.trials["BO_M_std"]
    (axes,) = drawn(plot_replay(found, "BO_M_std")).axes
    whole, front, *stages = (c.get_offsets() for c in axes.collections)
    np.testing.assert_array_equal(whole, found.points)
    np.testing.assert_array_equal(front, found.points[found.front])
    np.testing.assert_array_equal(np.vstack(stages), found.points[trial.rows])
    held = trial.front_after(len(trial.rows))
    numbers = {t.get_text() for t in axes.texts if t.get_text().isdigit()}
    assert numbers == {str(1 + trial.rows.tolist().index(row)) for row in held}
    three = [dataclasses.replace(found, n_objectives=3), found]
    assert [len(plot_replay(each, "RS").axes[0].lines) for each in three] == [0, 1]


def test_paths_of_a_page_are_short_and_the_same():
    assert short_path("M 1 2 L 3 2 L 3 4 L 5 6 L 7 8 z") == "M1 2H3V4L5 6 7 8z"
    assert short_path("M 0 3 C 0.8 3 1 2.7 2 2 L 2 5 M 1 1 L 2 2") == "M0 3C0.8 3 1 2.7 2 2V5M1 1 2 2"
    svgs = [
        '<path id="a-x"/><use href="#a-x"/>',
        '<path id="b-x"/><g clip-path="url(#b-x)"/><use href="#b-x"/>',
    ]
    assert short_ids(svgs) == [
        '<path id="i0"/><use href="#i0"/>',
        '<path id="i1"/><g clip-path="url(#i1)"/><use href="#i1"/>',
    ]
    # Not the colours of methods, not texts, and not what names another element of its page.
    own = '<path d="M0 0" style="stroke:var(--m1)"/><text style="a:b">x</text>'
    own += '<path d="M0 0" style="fill:url(#i1)"/>' * 4
    of_all = '<defs><style type="text/css">*{stroke-linejoin: round; stroke-linecap: butt}</style></defs>'
    figure, axes = axes_for(None)
    axes.plot([0, 1], [0, 1])
    assert of_all in to_svg(figure, "f", {}, {})
    svgs = [of_all + '<path d="M1 2" style="a:b"/><use style="a:b" x="1"/>' * 2, f'<rect style="c:d"/>{own}']
    assert shared_styles(svgs) == (
        ['<path d="M1 2" class="s0"/><use class="s0" x="1"/>' * 2, f'<rect style="c:d"/>{own}'],
        ".s0{a:b}",
    )


def test_the_dots_of_a_scatter_are_one_path_where_they_were():
    figure, axes = axes_for(None)
    x, y = np.arange(12.0), np.arange(12.0) ** 2
    axes.scatter(x, y, s=16, color="#9AA0A6", linewidth=0)
    axes.scatter(x, y, s=16, facecolor="none", edgecolor="black")  # rings stay what they are
    svg = to_svg(figure, "f", {}, {})
    (d,) = re.findall(r'd="((?:M[-\d. ]+h0)+)" style="fill:none;stroke:#9aa0a6;stroke-width:4;', svg)
    at = np.array([pair.split() for pair in d.removeprefix("M").replace("h0", "").split("M")], dtype=float)
    np.testing.assert_allclose(at, pixels(figure, x.tolist(), y.tolist()), atol=0.051)
    assert svg.count("<use") >= 12


def test_what_a_legend_shows_is_there():
    figure, axes = axes_for(None)
    axes.scatter(np.arange(12.0), np.arange(12.0), s=16, color="#9AA0A6", linewidth=0, label="rows")
    axes.legend(loc="upper left")
    svg = to_svg(figure, "f", {}, {})
    assert "h0M" in svg and "rows</text>" in svg
    assert set(re.findall(r'href="#([^"]+)"', svg)) <= set(re.findall(r' id="([^"]+)"', svg))


def test_luck_is_the_smallest_loss_and_the_expected_loss_of_its_configuration():
    losses = np.array([[3.0, 1.0, np.nan, 2.0], [4.0, 5.0, 2.0, 1.0]])
    true = np.array([[2.0, 3.0, 1.0, 1.5], [4.0, 2.0, 3.0, 5.0]])
    (axes,) = plot_luck(losses, true).axes
    drawn = {line.get_label(): line.get_ydata().tolist() for line in axes.lines}
    assert drawn == {
        "smallest loss so far": [3.5, 2.5, 1.5, 1.0],
        "expected loss of\nits configuration": [3.0, 3.5, 3.0, 4.0],
        "smallest expected loss": [3.0, 2.0, 1.5, 1.5],
    }
