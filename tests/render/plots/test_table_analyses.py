"""Figures of a table's analyses: what they show is what was computed."""

import io
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from hpobench_nmt.analysis.tables.sections import analyze_tables
from hpobench_nmt.core.objectives import Metric, Objective
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.evaluation.correlation import rank_correlation
from hpobench_nmt.evaluation.early_ranks import early_ranks
from hpobench_nmt.evaluation.importance import importance
from hpobench_nmt.evaluation.noise import seed_noise
from hpobench_nmt.evaluation.sensitivity import sensitivity
from hpobench_nmt.lookup.table import Table
from hpobench_nmt.render.figures import section_figures
from hpobench_nmt.render.plots import table_analyses


def texts(figure):
    from matplotlib.text import Text

    return [t.get_text() for t in figure.findobj(Text) if t.get_text()]


def test_importance_is_drawn(toy):
    parts = [importance(toy.response()), importance(toy.response(), best_share=0.5)]
    figure = table_analyses.plot_importance(parts)
    (axes,) = figure.axes
    names = [t.get_text() for t in axes.get_yticklabels()]
    bars = [
        [patch.get_width() / 100 for patch in container]
        for container in axes.containers
        if len(container) > 3
    ]
    assert names[:3] == parts[0].singles["first"].tolist()
    for part, widths in zip(parts, bars, strict=True):
        for name, width in zip(names, widths, strict=True):
            shares = part.effects.set_index(["first", "second"])["share"]
            first, _, second = name.partition(" × ")
            assert shares[first, second] == pytest.approx(width)
    assert any("exact" in t for t in texts(figure))
    with pytest.raises(InputError, match="one table and one metric"):
        table_analyses.plot_importance([parts[0], importance(toy.response("seconds"))])
    with pytest.raises(InputError, match="one table and one metric"):
        table_analyses.plot_importance([])


def test_correlation_is_drawn(two):
    found = rank_correlation([table.response() for table in two])
    assert f"{found.coefficient[0, 1]:.2f}" in texts(table_analyses.plot_rank_correlation(found))


def test_sensitivity_is_drawn(toy):
    found = sensitivity(toy.response(), 0.5)
    left, right = table_analyses.plot_sensitivity(found, "BLEU").axes
    assert left.get_xlabel() == "gap to the best bleu (BLEU)"
    everything = left.lines[0]
    at = np.searchsorted(everything.get_xdata(), 1.0)
    distance = everything.get_xdata()[at]
    assert everything.get_ydata()[at] == pytest.approx((found.gaps <= distance).mean() * 100)
    assert sorted(right.collections[0].get_offsets()[:, 1]) == pytest.approx(sorted(found.gaps))
    curve, grids = table_analyses.plot_search_cost(found).axes[0].lines
    within = int(found.by_steps["within"].sum())
    assert curve.get_ydata()[[0, 1]] == pytest.approx([0, within / 36 * 100])
    assert curve.get_ydata()[36 - within + 1] == pytest.approx(100)
    assert grids.get_ydata().tolist() == pytest.approx((found.grids["success"] * 100).tolist())


@pytest.mark.parametrize("first", [(0.0,), ()])
def test_checkpoints_at_resource_0_are_drawn(first):
    resources = np.array([*first, 100.0, 1000.0, 8000.0])
    n, ends = 6, len(resources)
    losses = (10.0 - np.arange(ends) + 0.1 * np.arange(n)[:, None]).reshape(-1, 1)
    starts, x = np.arange(n + 1) * ends, np.tile(resources, n)
    found = early_ranks("t", Objective("loss", "min"), "updates", Trainings(starts, x, x + 1, losses))
    figure = table_analyses.plot_early_ranks(found)
    figure.canvas.draw()
    for axes in figure.axes:
        low, high = axes.get_xlim()
        for line in (line for line in axes.lines if len(line.get_xdata()) == ends):
            drawn = np.asarray(line.get_xdata())
            assert drawn[len(first) :].tolist() == [100, 1000, 8000]
            assert (drawn > low).all() and (drawn < high).all()
        labels = [t.get_text() for t in axes.get_xticklabels() if low <= t.get_position()[0] <= high]
        assert labels[: len(first) + 2] == ["0"] * len(first) + ["100", "300"]


def test_seed_noise_is_drawn(toy, again):
    found = seed_noise(toy.response(), again(toy, [3, 9, 20]))
    (axes,) = table_analyses.plot_seed_noise(found, "BLEU").axes
    points = np.concatenate([c.get_offsets()[:, 1] for c in axes.collections if len(c.get_offsets()) > 1])
    assert sorted(points) == pytest.approx(sorted(found.trainings["value"]))
    assert axes.get_ylabel() == "bleu (BLEU)"


@pytest.mark.parametrize("spec", ["bleu", "seconds"])
def test_the_best_rows_are_drawn_against_the_noise(toy, again, spec):
    response = toy.response(spec)
    sign = response.objective.to_loss(1.0)
    order = np.argsort(sign * response.values, kind="stable")
    found = seed_noise(response, again(toy, [int(order[0]), int(order[20])]))
    (axes,) = table_analyses.plot_best_rows(found, "").axes
    count = max(10, found.rows_within + 3)
    assert [t.get_text() for t in axes.get_xticklabels()] == [str(row) for row in order[:count]]
    inside, outside = (container[0].get_ydata() for container in axes.containers)
    assert [*inside, *outside] == response.values[order[:count]].tolist()
    assert len(inside) == found.rows_within
    # The shaded band goes from the best row to the worse side.
    (band,) = axes.patches
    ends = sorted(
        (response.values[order[0]], response.values[order[0]] + sign * found.pooled.smallest_difference)
    )
    assert [band.get_y(), band.get_y() + band.get_height()] == pytest.approx(ends)
    (means,) = (c.get_offsets() for c in axes.collections if len(c.get_offsets()) == count)
    known = found.configurations.set_index("row")["mean"]
    assert means[0, 1] == pytest.approx(known[order[0]])


def test_means_are_drawn_against_the_noise_of_means(toy, again):
    response = toy.response("bleu")
    found = seed_noise(response, again(toy, range(36), times=4, scale=1.0), averaged=True)
    figure = table_analyses.plot_best_rows(found, "BLEU")
    (axes,) = figure.axes
    (band,) = axes.patches
    assert band.get_height() == pytest.approx(found.pooled.smallest_difference / 2)
    bar = axes.containers[0][2][0].get_segments()[0]
    assert np.ptp(bar[:, 1]) == pytest.approx(2 * found.pooled.smallest_difference / 2 / 2**0.5)
    count = len(axes.get_xticklabels())
    # A row's mean is not drawn a second time.
    assert not [c for c in axes.collections if len(c.get_offsets()) == count]
    assert f"{found.between_rows:.3g}" in axes.get_title()
    assert any("the mean of 4 trainings" in text for text in texts(figure))


@pytest.mark.parametrize("n", [3, 8, 9, 20, 36])
def test_names_of_many_rows_do_not_overlap(toy, again, n):
    figure = table_analyses.plot_seed_noise(seed_noise(toy.response(), again(toy, range(n))))
    figure.canvas.draw()
    labels = figure.axes[0].get_xticklabels()
    edges = [label.get_window_extent() for label in labels]
    assert len(edges) == n
    assert all(one.x1 <= other.x0 for one, other in pairwise(edges))


def test_small_and_odd_tables_are_drawn():
    axis = Hyperparameter("a", (1.0, 2.0))
    metric = Metric("loss", "min")
    table = Table("two-rows", (axis,), (metric,), np.array([[1.0], [2]]), np.array([[3.0], [4]]), ("loss",))
    again = pd.DataFrame({"a": [1.0, 1.0], "loss": [3.0, 3.5]})
    sections = analyze_tables([table.with_replicates(again)])
    assert [s.kind for s in sections if not s.problem] == ["importance", "sensitivity", "noise"]
    for section in sections:
        for spec in section_figures(section):
            spec.draw().savefig(io.BytesIO())
