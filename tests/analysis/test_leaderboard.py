import csv
import dataclasses
import io
import json
import re

import numpy as np
import pytest
from rich.console import Console

import hpobench_nmt as hb
from hpobench_nmt.analysis.board import table_boards
from hpobench_nmt.analysis.leaderboard import Cell, cells, figure, interval, shown
from hpobench_nmt.analysis.verdicts import run_statistics
from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.benchmarking.contestants.plugins import resolve_methods
from hpobench_nmt.benchmarking.run import run_suite
from hpobench_nmt.benchmarking.sequences import export_sequences
from hpobench_nmt.benchmarking.task.instance import suite_instances
from hpobench_nmt.benchmarking.task.scoring import exact_score
from hpobench_nmt.benchmarking.task.suite import changed
from hpobench_nmt.benchmarking.task.suite_files import load_suite
from hpobench_nmt.evaluation.scores import Summary
from hpobench_nmt.render.data_text import scores_csv, scores_json
from hpobench_nmt.render.latex import run_latex
from hpobench_nmt.render.report import report
from hpobench_nmt.render.terminal.leaderboard import print_leaderboard


@pytest.fixture
def results(toy):
    return benchmark(toy, ["RS", "BO_EI_M", "GB_EIF_M"], trials=20)


def printed(results, width=160, explain=False):
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    print_leaderboard(results, console, explain)
    return console.file.getvalue()


def exact_texts(results, table):
    """The values of exact random search on a table, in the order of the columns."""
    return [entry.text for entry in table_boards(results, run_statistics(results))[table].reference]


def test_the_best_of_each_score_is_marked(results):
    for score in results.suite.scores:
        row = {c.method: c for c in cells(results) if c.score == score}
        least = min(c.summary.mean for c in row.values())
        assert {m for m, c in row.items() if c.best} == {m for m, c in row.items() if c.summary.mean == least}


def test_the_terminal_shows_every_method_and_the_exact_reference(results):
    text = printed(results)
    for name in ("toy: 36 rows, bleu:max, 20 trials", "RS", "BO_EI_M", "GB_EIF_M", "RS (exact)", "fb @20 ↓"):
        assert name in text
    assert "paper" not in text


def test_intervals_and_ties_are_those_of_the_statistics(results):
    statistics = run_statistics(results)
    verdicts = {v.score: v for v in statistics.verdicts}
    by_cell = statistics.scores.set_index(["method", "score"]).sort_index()
    found = list(cells(results))
    for cell in found:
        row = by_cell.loc[(cell.method, cell.score)]
        assert (cell.low, cell.high) == (row["low"], row["high"])
        assert cell.low <= cell.summary.mean <= cell.high
        # Of several methods with the best mean, a verdict names the first as the best.
        assert cell.best or cell.method != verdicts[cell.score].best
        assert cell.tied == (cell.method in verdicts[cell.score].tied and not cell.best)
    assert repr(list(cells(results, statistics))) == repr(found)  # a NaN is not itself


def test_the_terminal_marks_the_best_and_its_ties(results):
    text = printed(results)
    lines = {line.split("│")[1].strip(): line for line in text.splitlines() if line.startswith("│")}
    for cell in cells(results):
        mark = "* " if cell.best else "≈ " if cell.tied else ""
        assert f" {mark}{shown(cell)} │" in lines[cell.method]
        assert f" {interval(cell)} │" in lines[cell.method]
    assert text.count(" * ") == sum(cell.best for cell in cells(results))
    assert "≈: not shown to be worse" in text
    assert "95%" in text
    # Ranks need several tables.
    assert "Friedman" not in text


def test_scores_are_rounded_half_up():
    # A mean of 36.5 look-ups, and a sum that is short of 9.5 by its noise.
    assert (figure(36.5, 9.499999999999998, 0), figure(2.5, np.nan, 0)) == ("37±10", "3")
    assert (figure(-0.125, 0.0, 2), figure(-0.001, 0.4949, 2), figure(9.4999, 0.5, 0)) == (
        "-0.13±0.00",
        "0.00±0.49",
        "9±1",
    )
    # Large ones are whole, and nothing is added to them.
    for value in (1e8, 148540284.0):
        assert figure(value, np.nan, 0) == f"{value:.0f}"
    for value in (1e9, 1e15, 2.5e18, 1e300, 1.7e308):
        assert figure(value, np.nan, 0) == f"{value:.2e}"


@pytest.mark.parametrize(
    ("least", "decimals", "text"),
    [
        (0.29, 2, "0.29"),
        (0.299, 2, "0.29"),
        (1e8, 0, 10**8),
        (2.999e11, 0, "2.99e+11"),
    ],
)
def test_a_bound_is_never_rounded_up(least, decimals, text):
    none, bound = (np.nan, np.nan), Summary(np.nan, np.nan, 2, 1, 0, least)
    cell = Cell("t", "m", "s", bound, *none, False, False, *none, decimals)
    assert shown(cell) == f"≥{text} (1 not reached)"


@pytest.mark.parametrize(
    ("stderr", "published_std", "distance"),
    [(0.3, 4.0, 1.0 / 0.5), (0.0, 1e308, 1e-307), (0.0, 0.0, np.nan), (1e200, 0.0, 1e-200)],
)
def test_a_distance_in_standard_errors_overflows_nowhere(stderr, published_std, distance):
    """The published deviation is of 100 trials. Its square may be beyond all numbers."""
    ours = Summary(6.0, stderr * 10.0, 100)
    cell = Cell("t", "m", "s", ours, np.nan, np.nan, False, False, 5.0, published_std, 1)
    assert cell.distance == pytest.approx(distance, rel=1e-9, abs=0.0, nan_ok=True)


def test_one_method_is_neither_best_nor_tied(toy):
    text = printed(benchmark(toy, ["RS"], trials=12))
    assert " * " not in text
    assert "≈" not in text
    assert "Only one method was run" in text


def test_few_trials_are_told(toy):
    tables = [dataclasses.replace(toy, name=f"t{i}", values=np.roll(toy.values, i, axis=0)) for i in range(3)]
    text = " ".join(printed(benchmark(tables, ["RS", "BO_EI_M", "GB_EIF_M"], trials=4)).split())
    assert "With 4 trials, intervals are too narrow to trust" in text


def test_a_table_of_few_rows_is_told(toy):
    small = dataclasses.replace(toy.of_rows(range(19)), name="small")
    for table, told in ((small, True), (toy.of_rows(range(20)), False)):
        text = " ".join(printed(benchmark([table], ["RS"], trials=2, score_at=5)).split())
        assert ("small: with fewer than 20 rows, even random search soon finds the best" in text) == told


def test_a_mean_that_does_not_exist_has_no_interval(toy):
    results = benchmark(toy, ["RS", "BO_EI_M"], trials=10, lookups=5, score_at=5)
    ftb = next(c for c in cells(results) if c.score == "ftb")
    assert interval(ftb) == ""
    record = json.loads(scores_json(results))[0]
    assert (record["ci_low"], record["ci_high"]) == (None, None)
    *_, line = (line for line in run_latex(results).splitlines() if line.startswith("RS &"))
    assert line.split("&")[2].strip() != "[]"


def test_nothing_is_cut_on_a_narrow_terminal(nmthpo_home, monkeypatch):
    monkeypatch.setenv("HPOBENCH_NMT_HOME", str(nmthpo_home))
    suite = changed(load_suite("paper-single"), tables=("sw-en",), methods=("RS",), trials=10)
    instances = suite_instances(suite)
    results = run_suite(suite, instances, resolve_methods(["RS"]))
    wide, narrow = printed(results, 160), printed(results, 80)
    assert "…" not in narrow
    assert max(map(len, narrow.splitlines())) <= 80 < max(map(len, wide.splitlines()))
    for score in suite.scores:
        assert f"{score} " in narrow


def test_a_leaderboard_is_ranked_and_fits_80_columns(two, monkeypatch):
    results = benchmark(two, ["RS", "BO_EI_M", "GB_EIF_M"], trials=20)
    statistics = run_statistics(results)
    monkeypatch.setenv("COLUMNS", "80")
    text = str(results)
    assert max(map(len, text.splitlines())) <= 80
    for table, part in zip(two, text.split(": 36 rows, ")[1:], strict=True):
        shown = [line.split()[1] for line in part.splitlines() if line.startswith("│")][:3]
        ranks = dict.fromkeys(results.methods, 0.0)
        for score in results.suite.scores:  # all trials reach all targets, so that means are whole
            means = {
                c.method: c.summary.mean
                for c in cells(results, statistics)
                if (c.table, c.score) == (table.name, score)
            }
            for m in ranks:
                ranks[m] += (
                    sum(v < means[m] for v in means.values()) + sum(v == means[m] for v in means.values()) / 2
                )
        assert [ranks[m] for m in shown] == sorted(ranks.values())
        answer = " ".join(part.split())
        best = statistics.fewer.cells.query("table == @table.name and method != 'RS'").nlargest(
            1, "times_fewer"
        )
        assert f"a row among the best 2%: {best['method'].item()} " in answer
        assert f"{best['times_fewer'].item():.3g} times fewer" in answer
    assert text.startswith("BO_EI_M takes ") or text.startswith("GB_EIF_M takes ")


def test_the_answer_on_one_table_stands_above_all(results):
    text = printed(results)
    assert re.match(r"\w+ takes [\d.]+ times fewer trainings than random search \(95%: ", text)
    alone = printed(benchmark(results.instances["toy"].table, ["RS"], trials=3))
    assert alone.startswith("No method takes fewer trainings than random search.")


def test_long_notes_are_for_those_who_ask(results):
    short, long = printed(results), printed(results, explain=True)
    for note in ("BCa bootstrap", "is capped: it counts", "order of their mean rank"):
        assert note not in short
        assert note in " ".join(long.split())
    wide, narrow = printed(results, 160), printed(results, 60)
    assert "Left out" not in wide
    assert "95% │" not in narrow and "Left out, because the terminal is narrow: " in narrow


def test_failed_and_censored_trials_are_said(toy):
    class Broken:
        def __init__(self, problem, rng):
            raise ValueError("[bold]<b>not markup</b>")

        def ask(self):
            pass

        def tell(self, index, losses):
            pass

    limited = benchmark(toy, ["RS", Broken], trials=10, lookups=5, score_at=5)
    text = printed(limited)
    assert "– (10 failed)" in text
    assert "not reached)" in text
    first = next(cells(limited))
    assert f"≥{int(first.summary.at_least)} (" in shown(first)
    half = dataclasses.replace(first, summary=dataclasses.replace(first.summary, at_least=4.7))
    assert shown(half).startswith("≥4 (")
    assert "Broken raised ValueError: [bold]<b>not markup</b>" in text


def test_csv_and_json_hold_the_same_cells(results):
    from_csv = list(csv.DictReader(io.StringIO(scores_csv(results))))
    from_json = json.loads(scores_json(results))
    assert len(from_csv) == len(from_json) == 9
    for a, b in zip(from_csv, from_json, strict=True):
        assert float(a["mean"]) == b["mean"]
        assert float(a["ci_low"]) == b["ci_low"] <= b["mean"] <= b["ci_high"]
        assert (a["best"], a["tied"]) == (str(b["best"]), str(b["tied"]))
        assert a["published_mean"] == ""
        assert b["published_mean"] is None
        assert b["random_search_mean"] > 0


def test_what_is_exported_says_what_it_is(toy, tmp_path):
    clock = {"clock": "cost", "cost": "seconds", "score_at": 300}
    results = benchmark(toy, ["RS"], trials=2, tolerance=0.7, workers=2, **clock)
    records = {record["score"]: record for record in json.loads(scores_json(results))}
    settings = ("score_at", "tolerance", "unit", "clock", "workers", "trials")
    assert {score: [record[name] for name in settings] for score, record in records.items()} == {
        "ftb": [None, None, "s", "cost", 2, 2],
        "ftc": [None, 0.7, "s", "cost", 2, 2],
        "fb": [300, None, "BLEU", "cost", 2, 2],
    }
    (line,) = (line for line in csv.DictReader(io.StringIO(scores_csv(results))) if line["score"] == "fb")
    assert [line[name] for name in settings] == ["300.0", "", "BLEU", "cost", "2", "2"]
    *_, written = report([results], tmp_path, format="latex")
    for text in (run_latex(results), written.read_text()):
        told = next(line for line in text.splitlines() if "36 rows" in line)
        assert told.startswith(
            r"\caption{toy: 36 rows, bleu:max, 2 trials, 2 workers, time in s; ftc: within 0.7 BLEU"
        )
        assert "; fb: after 300 s" in told and "fb @300" in text


def test_small_gaps_and_costs_are_shown_with_the_digits_that_they_have(toy):
    def of(scale):
        table = dataclasses.replace(toy, values=toy.values * [scale, scale, 1.0])
        costs = {"clock": "cost", "cost": "seconds", "score_at": 300 * scale}
        return benchmark(table, ["RS"], objectives=["bleu"], scores=["ftb", "fb"], trials=5, **costs)

    for scale, decimals in ((1.0, {"ftb": 0, "fb": 2}), (1e-3, {"ftb": 2, "fb": 4})):
        results = of(scale)
        for cell in cells(results):
            mean, std = (f"{x:.{decimals[cell.score]}f}" for x in (cell.summary.mean, cell.summary.std))
            assert (shown(cell), float(mean) > 0) == (f"{mean}±{std}", True)
        mean = exact_score(results.instances["toy"], results.instances["toy"].goals[0])[0]
        assert exact_texts(results, "toy")[0].startswith(f"{mean:.{decimals['ftb']}f}")


def test_latex_escapes_names_and_marks_the_best(results):
    latex = run_latex(results).split("% Needs booktabs.")[-1]
    assert r"BO\_EI\_M" in latex
    assert r"\textbf{" in latex
    tied = sum(cell.tied for cell in cells(results))
    assert latex.count(r"\underline{") == tied
    assert latex.count("& [") == 9
    assert latex.count(r"\\") == 1 + 3 + 1
    assert "±" not in latex


def test_latex_has_the_exact_values_of_random_search_below_a_line(toy):
    tables = [toy, dataclasses.replace(toy, name="other", values=-toy.values)]
    results = benchmark(tables, ["RS", "BO_EI_M"], trials=3)
    lines = run_latex(results).splitlines()
    for table in ("toy", "other"):
        *figures, time = exact_texts(results, table)
        assert len(figures) == 3 and "±" in figures[0] and not time
        at = lines.index(
            " & ".join(["RS (exact)", *(cell for text in figures for cell in (text, "")), ""]).replace(
                "±", r"$\pm$"
            )
            + r" \\"
        )
        assert (lines[at - 1], lines[at + 1]) == (r"\midrule", r"\bottomrule")
        assert lines[at - 2].startswith(r"BO\_EI\_M & ")
        head = " & ".join(
            ["", *(rf"{s} $\downarrow$ & 95\%" for s in ("ftb", "ftc", "fb @20")), r"ms/step \\"]
        )
        assert (lines[at - 6], lines[at - 5]) == (r"\toprule", head)
        assert lines[at - 8].startswith(rf"\caption{{{table}: 36 rows")
    # On the cost clock with several workers nothing exact is known.
    clock = benchmark(toy, ["RS"], trials=2, clock="cost", cost="seconds", workers=2, scores=["ftb"])
    assert r"RS (exact) & -- &  &  \\" in run_latex(clock).splitlines()


def test_latex_has_the_columns_of_the_other_leaderboards(nmthpo_home, monkeypatch, tmp_path):
    monkeypatch.setenv("HPOBENCH_NMT_HOME", str(nmthpo_home))
    suite = changed(
        load_suite("paper-single"), tables=("zh-en", "ru-en"), methods=("RS", "BO_EI_M"), trials=2
    )
    results = run_suite(suite, suite_instances(suite), resolve_methods(suite.methods))
    assert "61$\\pm$34" in run_latex(results)
    _, zh_en, over_all = (path.read_text() for path in sorted(report([results], tmp_path, format="latex")))
    assert r"ftb $\downarrow$ & 95\% & paper & $\Delta$/se & ftc" in zh_en
    assert r" & times fewer & 95\% & " in over_all


def test_the_papers_figures_stand_beside_ours(nmthpo_home, monkeypatch):
    monkeypatch.setenv("HPOBENCH_NMT_HOME", str(nmthpo_home))
    suite = load_suite("paper-single")
    results = benchmark(
        "zh-en",
        ["RS"],
        trials=100,
        ties="first",
        score_at=20,
        tolerance=0.5,
        objectives=["dev_bleu"],
        published=suite.published,
    )
    found = {c.score: c for c in cells(results)}
    assert (found["ftb"].published_mean, found["ftb"].published_std) == (61, 34)
    for cell in found.values():
        error = np.hypot(cell.summary.std / 10, cell.published_std / 10)
        assert cell.distance == pytest.approx((cell.summary.mean - cell.published_mean) / error)
        assert abs(cell.distance) < 4
    assert "61±34" in printed(results)


def naive_authors_scores(line, best_row, values, tolerance, budget, n_initial):
    """ftb, ftc and fb of a sequence as the paper's section 4.1 defines them, ties to the first row."""
    rows = [int(r) for r in line.split()]
    ftb = max(rows.index(best_row) + 1, n_initial)
    ftc = max(next(i for i, r in enumerate(rows) if values[r] >= values[best_row] - tolerance) + 1, n_initial)
    return ftb, ftc, values[best_row] - max(values[r] for r in rows[:budget])


def test_exported_sequences_give_the_same_scores(toy, tmp_path):
    results = benchmark(toy, ["RS", "BO_EI_M"], trials=25, ties="first", score_at=10, tolerance=0.5)
    files = export_sequences(results, tmp_path)
    assert sorted(str(f.relative_to(tmp_path)) for f in files) == ["toy/BO_EI_M.ss", "toy/RS.ss"]
    values = toy.column("bleu")
    for method in ("RS", "BO_EI_M"):
        lines = (tmp_path / "toy" / f"{method}.ss").read_text().splitlines()
        assert len(lines) == 25
        assert all(sorted(map(int, line.split())) == list(range(36)) for line in lines)
        theirs = np.array([naive_authors_scores(x, int(values.argmax()), values, 0.5, 10, 3) for x in lines])
        for ours, mean, std in zip(
            results.summary("toy", method), theirs.mean(0), theirs.std(0), strict=True
        ):
            assert ours.mean == pytest.approx(mean)
            assert ours.std == pytest.approx(std)


def test_a_run_in_which_any_of_several_best_rows_counts_is_not_exported(toy, tmp_path):
    values = toy.values.copy()
    values[[3, 8], 0] = 40.0
    tied = dataclasses.replace(toy, values=values)
    with pytest.raises(hb.InputError, match="2 rows share the best value"):
        export_sequences(benchmark(tied, ["RS"], trials=2), tmp_path / "out")
    assert export_sequences(benchmark(tied, ["RS"], trials=2, ties="first"), tmp_path / "out")


def test_what_is_not_settled_is_not_exported(toy, tmp_path):
    results = benchmark(toy, ["RS"], trials=10, lookups=5, score_at=5)
    with pytest.raises(hb.InputError, match="stopped before ftb was settled"):
        export_sequences(results, tmp_path / "out")
    assert not (tmp_path / "out").exists()
