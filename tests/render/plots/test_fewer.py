from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import hpobench_nmt as hb
from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.render.plots.fewer import plot_fewer


@pytest.fixture
def found(toy):
    tables = [dataclasses.replace(toy, name=f"t{i}", values=np.roll(toy.values, i, axis=0)) for i in range(2)]
    return hb.fewer_trainings(benchmark(tables, ["RS", "BO_EI_M_std"], trials=10, scores=["ftb"]))


def test_each_method_is_at_its_figure_with_its_interval(found):
    (axes,) = plot_fewer(found).axes
    assert axes.get_xscale() == "log"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["RS", "BO_EI_M_std"]
    lines = [(line.get_xdata(), line.get_ydata()) for line in axes.lines[1:]]
    for place, method in enumerate(["RS", "BO_EI_M_std"]):
        row = found.methods.set_index("method").loc[method]
        point, interval = (x for x, y in lines if y[0] == place)
        assert list(point) == [row["times_fewer"]]
        assert list(interval) == [row["low"], row["high"]]


def test_controls_are_grey(found):
    methods = found.methods.assign(method=["corner", *found.methods["method"][1:]])
    figure = plot_fewer(dataclasses.replace(found, methods=methods))
    colours = {line.get_color() for line in figure.axes[0].lines}
    assert "0.6" in colours
    assert "0.6" not in {line.get_color() for line in plot_fewer(found).axes[0].lines}


def test_why_there_is_no_figure(found):
    bare = dataclasses.replace(
        found, methods=found.methods.iloc[:0], reason="the figure is for one objective."
    )
    with pytest.raises(InputError, match="for one objective"):
        plot_fewer(bare)
