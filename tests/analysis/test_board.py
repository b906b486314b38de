"""Leaderboards as values: a column is one function, and everything that draws a leaderboard draws it."""

import dataclasses
import io

import numpy as np
import pytest
from rich.console import Console

import hpobench_nmt as hb
from hpobench_nmt.analysis import board as boards
from hpobench_nmt.analysis.board import Board, Column, Entry, figure_board, table_boards
from hpobench_nmt.analysis.report_runs import read_run
from hpobench_nmt.analysis.verdicts import run_statistics
from hpobench_nmt.render.latex import board_latex
from hpobench_nmt.render.terminal.leaderboard import print_fewer


@pytest.fixture(scope="module")
def run():
    tables = ["sotu-ngram", "sotu-gpt-30k"]
    return read_run("two", hb.run("quick", tables=tables, methods=["RS", "BO_EI_M"], trials=3))


def test_a_new_column_is_one_function(run, monkeypatch):
    def length(results, found):
        return Column(
            "letters", "letters of the name", {m: Entry(str(len(m)), len(m)) for m in results.methods}
        )

    monkeypatch.setattr(boards, "COLUMNS", (*boards.COLUMNS, length))
    found = run.statistics.fewer
    of_run, of_arena = (figure_board(run.results, found, where) for where in ("run", "arena"))
    for board in (of_run, of_arena):
        assert (board.columns[-1].heading, dict(board.rows)["BO_EI_M"][-1].text) == ("letters", "7")
    head, rows = of_run.texts()
    assert head[-1] == "letters" and rows[-1][0] == "RS (exact)" and rows[-1][-1] == ""
    console = Console(file=io.StringIO(), width=200)
    print_fewer(run.results, found, console, explain=False)
    assert "letters ┃" in console.file.getvalue()
    assert "& letters " in board_latex(of_run, "")


def test_where_columns_are_shown(run):
    headings = {
        w: [c.heading for c in figure_board(run.results, run.statistics.fewer, w).columns]
        for w in ("run", "arena")
    }
    assert headings["run"] == ["times fewer", "places", "capped"]
    assert headings["arena"] == ["times fewer", "places", "capped", "ms/step"]


def test_methods_without_a_value_come_last_and_ties_keep_their_order():
    entries = {"a": Entry("1", 1.0), "c": Entry("3", 3.0), "d": Entry("1", 1.0)}
    board = Board(("a", "b", "c", "d"), (Column("x", "", entries),))
    assert board.best_first().methods == ("a", "d", "c", "b")
    column = dataclasses.replace(board.columns[0], lower=False)
    assert dataclasses.replace(board, columns=(column,)).best_first().methods == ("c", "a", "d", "b")
    assert repr(dict(board.rows)["b"]) == repr([Entry("–")])  # NaN is not NaN


def test_bars_share_a_scale():
    entries = {
        "a": Entry("2", 2.0, "1–4", (1.0, 4.0)),
        "b": Entry("≥9", 9.0),
        "c": Entry("3", 3.0, "", (np.nan, np.nan)),
    }
    linear = Column("x", "", entries, reference=Entry("5", 5.0), scale="linear")
    bar = linear.bar(entries["a"])
    assert (bar.mean, bar.low, bar.high, bar.reference) == (40.0, 20.0, 80.0, 100.0)
    assert linear.bar(entries["b"]) is None  # a lower bound is not a mean
    assert (linear.bar(entries["c"]).low, linear.bar(entries["c"]).mean) == (None, 60.0)
    log = dataclasses.replace(linear, reference=Entry("1", 1.0), scale="log")
    assert log.bar(entries["a"]).high == 100.0
    assert log.bar(entries["a"]).low == pytest.approx(100 * np.log(1 / 0.8) / np.log(4 / 0.8), abs=0.05)
    assert dataclasses.replace(linear, scale="").bar(entries["a"]) is None


def test_a_table_has_its_scores_then_the_chosen_rows_then_the_time(run):
    for board in table_boards(run.results, run_statistics(run.results)).values():
        *scores, _ = [column.score for column in board.columns]
        assert scores[:3] == ["ftb", "ftc", "fb"] and set(scores[3:]) == {"fb"}
        assert board.columns[-1].heading == "ms/step"
