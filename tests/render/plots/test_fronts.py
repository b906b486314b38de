"""Fronts as they are drawn: staircases, pairs of objectives, and titles of points."""

from __future__ import annotations

import io
import re

import numpy as np
import pandas as pd
import pytest
from drawn_figures import drawn, legend_lines

import hpobench_nmt as hb
from hpobench_nmt.analysis.replay import moving_front
from hpobench_nmt.analysis.table_front import table_front
from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.core.constraints import Constraint
from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.render.figures import run_figures
from hpobench_nmt.render.plots.fronts import plot_front_moves
from hpobench_nmt.render.plots.pareto_front import plot_front, plot_front_pairs
from hpobench_nmt.render.plots.style import method_styles
from hpobench_nmt.render.subject import Subject


def test_moving_fronts_and_the_tables_own(multi):
    found = moving_front(multi, "toy", "RS", lookups=(3, 10, 36))
    figure = drawn(plot_front_moves(found))
    lines = legend_lines(figure)
    assert [label for label in lines if label.startswith("after")] == [f"after {n}" for n in found.lookups]
    colours = [tuple(lines[f"after {n}"].get_color()) for n in found.lookups]
    lightness = [np.mean(c[:3]) for c in colours]
    assert lightness == sorted(lightness, reverse=True)
    low, high = figure.axes[0].get_xlim()
    assert all(low < x < high for x in found.points[found.front, 0])


def test_fronts_of_three_objectives_are_no_staircases_in_two_of_them(toy):
    three = ["bleu", "seconds", "memory"]
    results = benchmark(toy, ["RS"], objectives=three, scores=["fbh"], trials=4)
    found = moving_front(results, "toy", "RS", (5, 20), pair=(1, 2))
    lines = legend_lines(drawn(plot_front_moves(found)))
    assert {line.get_linestyle() for label, line in lines.items() if label.startswith("after")} == {"None"}
    specs = run_figures(Subject(results, "toy", method_styles(["RS"])), "r-toy")
    stems = [spec.stem for spec in specs if "attained" in spec.stem or "front-moves" in spec.stem]
    pairs = ("1-2", "1-3", "2-3")
    expected = [f"r-toy-attained-{p}" for p in pairs] + [f"r-toy-front-moves-{p}" for p in pairs]
    assert stems == expected
    assert not any(spec.problem for spec in specs if spec.stem in stems)


def test_the_front_of_three_objectives_in_pairs(toy):
    front = table_front(toy, ["bleu", "seconds", "memory"], [Constraint.parse("seconds<=50")])
    figure = drawn(plot_front_pairs(front))
    assert [(a.get_xlabel(), a.get_ylabel()) for a in figure.axes] == [
        ("bleu (BLEU)", "seconds (s)"),
        ("bleu (BLEU)", "memory (MB)"),
        ("seconds (s)", "memory (MB)"),
    ]
    kept = toy.column("seconds") <= 50
    for axes, pair in zip(
        figure.axes, (("bleu", "seconds"), ("bleu", "memory"), ("seconds", "memory")), strict=True
    ):
        assert len(axes.collections[1].get_offsets()) == len(front.rows)
        losses = np.where(kept[:, None], toy.losses(pair), np.nan)
        assert len(axes.lines[0].get_xdata()) == len(pareto_front(losses))


@pytest.mark.parametrize("objectives", [3, 4, 5, 6])
def test_no_panel_of_a_front_is_empty(objectives):
    names = "abcdef"[:objectives]
    frame = pd.DataFrame(np.random.default_rng(0).random((20, objectives)), columns=list(names))
    figure = drawn(plot_front_pairs(hb.pareto(frame, [f"{name}:min" for name in names])))
    assert all(axes.has_data() for axes in figure.axes if axes.get_visible())


def stairs(line):
    """The corners of a line as they are drawn."""
    from matplotlib.cbook import STEP_LOOKUP_MAP

    x, y = line.get_data()
    return np.column_stack(STEP_LOOKUP_MAP[line.get_drawstyle()](np.asarray(x), np.asarray(y)))


@pytest.mark.parametrize("first", ["bleu:max", "bleu:min"])
@pytest.mark.parametrize("second", ["seconds:max", "seconds:min"])
def test_a_front_is_a_staircase_that_the_table_reaches(toy, multi, first, second):
    front = table_front(toy, [first, second])
    assert len(front.rows) > 2
    (line,) = drawn(plot_front(front)).axes[0].lines
    corners = stairs(line)
    signs = np.where(front.maximised, -1.0, 1.0)
    losses = front.points * signs
    for corner in corners * signs:
        # Some row is as good or better, and none is better in both.
        assert (losses <= corner + 1e-12).all(axis=1).any()
        assert not (losses < corner - 1e-12).all(axis=1).any()


def test_a_moving_front_is_a_staircase_too(multi):
    found = moving_front(multi, "toy", "RS", (5, 20))
    losses = found.points * [-1.0, 1.0]
    for line, rows in zip(drawn(plot_front_moves(found)).axes[0].lines, found.fronts, strict=True):
        corners = stairs(line) * [-1.0, 1.0]
        assert len(corners) == 2 * len(rows) - 1
        assert all((losses[rows] <= c + 1e-12).all(axis=1).any() for c in corners)


def test_a_front_saved_as_svg_names_the_configuration_of_each_point(toy, tmp_path):
    front = hb.pareto(toy, ["bleu", "seconds"])
    front.plot().savefig(tmp_path / "front.svg")
    svg = (tmp_path / "front.svg").read_text()
    titles = re.findall(r'<use [^>]*x="([-\d.]+)"[^>]*><title>([^<]*)</title></use>', svg)
    titles.sort(key=lambda title: float(title[0]))
    by_bleu = sorted(front.rows.tolist(), key=lambda row: toy.column("bleu")[row])
    for row, (_, title) in zip(by_bleu, titles, strict=True):
        assert title.startswith(f"row {row}, ")
        assert all(f"{name} {value:.6g}" in title for name, value in toy.config(row).items())
        assert f"bleu {toy.column('bleu')[row]:.6g}" in title
    file = io.BytesIO()
    front.plot().savefig(file, format="svg")
    assert file.getvalue().count(b"<title>") == len(front.rows)
    front.plot().savefig(tmp_path / "front.png")
    assert (tmp_path / "front.png").read_bytes().startswith(b"\x89PNG")
