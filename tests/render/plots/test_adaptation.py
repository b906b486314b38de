"""Figures of how a language model adapts: what they show is what was computed."""

import numpy as np
import pandas as pd
import pytest

from hpobench_nmt.render.plots.adaptation import plot_adaptation


def lines(figure):
    """The drawn losses by their label, as x and y."""
    (axes,) = figure.axes
    drawn = {line.get_label(): line.get_xydata() for line in axes.get_lines()}
    return axes, drawn


def test_losses_over_time_are_drawn_in_the_middle_of_their_windows():
    frame = pd.DataFrame({"position": [1, 10, 20, 30], "tokens": [9, 10, 10, 4]})
    for number, name in enumerate(("static", "dynamic", "static_carried", "dynamic_carried")):
        frame[name] = np.array([5.0, 4.0, 3.0, 99.0]) + number
    axes, drawn = lines(plot_adaptation(frame, "A $title$"))
    assert set(drawn) == {"static", "dynamic", "static, carried on", "dynamic, carried on"}
    for number, label in enumerate(("static", "dynamic", "static, carried on", "dynamic, carried on")):
        # The last window has less than half of the tokens: it is left out.
        assert drawn[label].tolist() == [[5, 5 + number], [14.5, 4 + number], [24.5, 3 + number]]
    assert axes.get_title() == "A $title$"
    assert axes.get_xlabel() == "tokens read"
    assert axes.get_ylabel() == "mean loss (nats per token)"
    styles = {(line.get_color(), line.get_linestyle()) for line in axes.get_lines()}
    assert len(styles) == 4


def test_a_change_of_text_is_marked():
    frame = pd.DataFrame({"position": [-20, -10, 0, 10], "tokens": [10] * 4})
    frame["static"], frame["dynamic"] = [1.0, 1.0, 4.0, 4.0], [1.0, 0.9, 3.5, 2.0]
    axes, drawn = lines(plot_adaptation(frame))
    assert set(drawn) == {"static", "dynamic", "change of text"}
    assert drawn["change of text"][:, 0].tolist() == [0, 0]
    assert drawn["dynamic"][[0, 1, 3, 4]].tolist() == [[-15.5, 1.0], [-5.5, 0.9], [4.5, 3.5], [14.5, 2.0]]
    assert np.isnan(drawn["dynamic"][2, 1])  # the line is broken there
    assert axes.get_xlabel() == "tokens read since the change of text"


@pytest.mark.parametrize("rows", [1, 300])
def test_any_number_of_windows_is_drawn(rows):
    frame = pd.DataFrame({"position": np.arange(rows), "tokens": 1, "static": 1.0, "dynamic": 0.5})
    _, drawn = lines(plot_adaptation(frame))
    assert len(drawn["static"]) == rows
