"""Wherever rows of a table are printed, their configurations are those of the table, to the last digit."""

import io
import re

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import hpobench_nmt as hb
from hpobench_nmt.analysis.tables.sections import analyze_tables
from hpobench_nmt.cli.main import main
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.lookup.disk.folder import save_folder
from hpobench_nmt.lookup.table import Table
from hpobench_nmt.render.html.page import analysis_content
from hpobench_nmt.render.plots.pareto_front import _configurations
from hpobench_nmt.render.terminal.grids import print_sections
from hpobench_nmt.render.terminal.table_charts import print_charts
from hpobench_nmt.render.terminal.table_summary import print_summary

RATES = (2.0**-13, 2.0**-12, 0.0013572088082974532, 0.5, 1.25, 300.0)
SHOWN = ("0.0001220703125", "0.000244140625", "0.0013572088082974532", "0.5", "1.25", "300")


@pytest.fixture
def fine():
    """A table whose rows are all on the front, and whose learning rates have many digits."""
    size = np.arange(1.0, 7.0)
    values = np.column_stack([10.123456789 - size, size])
    axis, metrics = Hyperparameter("rate", RATES, "log"), (Metric("loss", "min"), Metric("size", "min"))
    return Table("fine", (axis,), metrics, np.array(RATES)[:, None], values, ("loss", "size"))


def front_in_terminal(table, home):
    save_folder(table, home / "tables" / "fine")
    with pytest.raises(SystemExit, match="0"):
        main(["pareto", "fine"])


def terminal(write, *more):
    file = io.StringIO()
    write(*more[:1], Console(file=file, width=200), *more[1:])
    return file.getvalue()


WAYS = {
    "front": lambda table, home: str(table.pareto()),
    "notebook": lambda table, home: table.pareto()._repr_html_(),
    "data frame": lambda table, home: str(hb.pareto(table.to_frame(), ["loss:min", "size:min"])),
    "command": front_in_terminal,
    "show": lambda table, home: terminal(print_summary, table, 9).partition("Best by")[2],
    "charts": lambda table, home: terminal(print_charts, table).partition("Rows of the front")[2],
    "analyze": lambda table, home: terminal(print_sections, analyze_tables([table])[-2:]),
    "report": lambda table, home: " ".join(
        cell
        for section in analyze_tables([table])
        if section.kind == "front"
        for row in analysis_content(section, [], {})["rows"]
        for cell in row
    ),
    "hover": lambda table, home: " ".join(_configurations(table.pareto())),
}


@pytest.mark.parametrize("way", WAYS)
def test_configurations_are_not_rounded_and_metrics_are(fine, home, capsys, way):
    text = WAYS[way](fine, home) or capsys.readouterr().out
    numbers = re.findall(r"(?<![\w.])[0-9]+(?:\.[0-9]+)?", text)
    assert {*RATES} <= {float(number) for number in numbers}
    assert "4.123456789" not in text


def test_a_frame_may_lack_values():
    frame = pd.DataFrame({"rate": [2.0**-12, np.nan, 3.0], "a": [1.0, 2.0, 3.0], "b": [3.0, 2.0, 1.0]})
    frame.insert(1, "text", ["x", None, "–"])
    front = hb.pareto(frame, ["a:min", "b:min"])
    assert re.findall("<th>(.*?)</th>", front._repr_html_()) == ["row", "rate", "text", "a", "b"]
    cells = re.findall("<td>(.*?)</td>", front._repr_html_())
    assert cells[:2] + cells[5:8] + cells[10:13] == [
        *("0", "0.000244140625"),
        *("1", "", ""),
        *("2", "3", "–"),
    ]


def test_numbers_of_float32_are_shown_as_they_are_written():
    frame = pd.DataFrame({"rate": np.array([0.1, 1e-4], dtype=np.float32), "a": [1.0, 2.0], "b": [2.0, 1.0]})
    front = hb.pareto(frame, ["a:min", "b:min"])
    assert [line.split(", ")[1] for line in _configurations(front)] == ["rate 0.1", "rate 0.0001"]
    assert "0.1000" in str(front) and "0.0001" in str(front)


def test_what_a_constraint_measures_is_rounded():
    frame = pd.DataFrame(
        {"rate": [0.123456789, 0.5], "a": [1.0, 2.0], "b": [2.0, 1.0], "mem": [1.23456789, 2]}
    )
    front = hb.pareto(frame, ["a:min", "b:min"], constraints=["mem <= 3"])
    assert front.exact == ("rate",)
    assert "0.123456789" in str(front) and "1.2346" in str(front)
