"""Sections of an analysis of tables as they are printed and written: nothing is cut or lost."""

import io
import re
import resource
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from one_section import only
from rich.console import Console

from hpobench_nmt.analysis.number_text import column_text
from hpobench_nmt.analysis.table_front import table_front
from hpobench_nmt.analysis.tables.sections import analyze_tables
from hpobench_nmt.core.system.errors import RunError
from hpobench_nmt.evaluation.importance import importance
from hpobench_nmt.render.figures import section_figures
from hpobench_nmt.render.section_files import write_front, write_sections
from hpobench_nmt.render.terminal.grids import print_frame, print_sections
from hpobench_nmt.render.terminal.table_charts import print_charts
from hpobench_nmt.render.terminal.table_summary import print_summary


def printed(sections, width=80):
    file = io.StringIO()
    print_sections(sections, Console(file=file, width=width))
    return file.getvalue()


def test_columns_may_have_the_names_that_the_analyses_use(toy, again):
    axes = tuple(
        replace(h, name=name) for h, name in zip(toy.hyperparameters, ("row", "n", "n_"), strict=True)
    )
    table = replace(toy, hyperparameters=axes)
    names = dict(zip([h.name for h in toy.hyperparameters], ["row", "n", "n_"], strict=True))
    sections = analyze_tables([table.with_replicates(again(toy, [3, 9, 20]).rename(columns=names))])
    assert not any(s.problem for s in sections)
    assert "Pareto front" in printed(sections)
    front, noise = only(sections, "front").files["toy-front"], only(sections, "noise").files["toy-noise"]
    assert list(front.columns[:2]) == ["row_", "row"]
    assert front["row_"].tolist() == front.index.tolist()
    assert list(noise.columns) == ["row", "row_", "n__", "n_", "in_table", "n", "mean", "sd", "range", "luck"]
    file = io.StringIO()
    print_summary(table, Console(file=file, width=120), 2)
    print_charts(table, Console(file=file, width=120))
    assert file.getvalue().count("row_") == 2


def test_what_one_table_does_not_allow_is_left_out_and_said(toy):
    constant = replace(toy, name="constant", values=np.full_like(toy.values, 3.0))
    single = replace(toy, name="single", objectives=("bleu",))
    tiny = replace(toy, name="tiny", configs=toy.configs[:1], values=toy.values[:1])
    untold = replace(toy, name="untold", values=toy.values * np.nan)
    sections = analyze_tables([toy, constant, single, tiny, untold])
    assert only(sections, "importance", "constant").problem.endswith("no variance can be explained.")
    assert only(sections, "sensitivity", "constant").problem.endswith("nothing is sensitive.")
    assert len(only(sections, "front", "constant").shown) == 36
    assert "does not have two objectives" in only(sections, "front", "single").problem
    assert "at least 2 rows" in only(sections, "importance", "tiny").problem
    assert "is missing in every row" in only(sections, "sensitivity", "untold").problem
    assert "no row has both bleu and seconds" in only(sections, "front", "untold").problem
    assert not any(s.problem for s in sections if s.table == "toy")
    assert printed(sections).count("Left out:") == 8


@pytest.mark.parametrize("width", [60, 80, 160])
def test_what_is_printed_fits(two, width, again):
    sections = analyze_tables([two[0].with_replicates(again(two[0], [3, 9, 20])), two[1]])
    text = printed(sections, width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    # Every row of every front is there, with all of its digits.
    for row, value in zip(
        *only(sections, "front", "toy").files["toy-front"][["row", "bleu"]].to_numpy().T, strict=True
    ):
        assert f"{value:.2f}" in text
        assert str(int(row)) in text


def test_a_wide_frame_is_printed_in_blocks():
    frame = pd.DataFrame({"[i]name": [f"row{i}" for i in range(40)], "value": np.arange(40) * 1.25})
    frame = frame.assign(**{f"column_{j}": [f"{i}x{j}" for i in range(40)] for j in range(12)})
    file = io.StringIO()
    print_frame(frame, Console(file=file, width=50))
    text = file.getvalue()
    assert max(map(len, text.splitlines())) <= 50
    words = text.split()
    for i, line in frame.iterrows():
        assert line["[i]name"] in words
        assert f"{line['value']:.2f}" in words
        assert f"{i}x11" in words
    assert words.count("[i]name") > 1
    file = io.StringIO()
    print_frame(frame[["[i]name", "value"]], Console(file=file, width=50))
    assert file.getvalue().split()[:2] == ["[i]name", "value"]


def test_numbers_of_a_column_have_the_same_decimals():
    assert column_text(pd.Series([1.5, 20.25, np.nan])) == ["1.50", "20.25", "–"]
    assert column_text(pd.Series([0.0003, 0.001])) == ["0.0003", "0.0010"]
    assert column_text(pd.Series([1e-9, 5.0])) == ["1e-09", "5"]
    assert column_text(pd.Series([123456.0, 1.5])) == ["123456.0", "1.5"]
    assert column_text(pd.Series([3, 40])) == ["3", "40"]


def test_labels_are_shown_as_tables_have_them_and_a_dash_where_there_is_none():
    labels, truths = ["a", None, np.nan], [True, None, False]
    frame = pd.DataFrame(
        {"l": pd.Series(labels), "t": pd.Series(truths, dtype=object), "b": [True, False, True]}
    )
    assert [column_text(frame[name]) for name in frame] == [
        ["a", "–", "–"],
        ["true", "–", "false"],
        ["true", "false", "true"],
    ]
    file = io.StringIO()
    print_frame(frame, Console(file=file, width=50), digits=3)
    lines = [line.split() for line in file.getvalue().splitlines()[1:]]
    assert lines == [["a", "true", "true"], ["–", "–", "false"], ["–", "false", "true"]]


def test_names_are_shown_as_they_are(toy, again):
    odd = replace(
        toy,
        hyperparameters=(replace(toy.hyperparameters[0], name="[red]a$b$^"), *toy.hyperparameters[1:]),
        metrics=(replace(toy.metrics[0], name="[bold]<script>$x_$"), *toy.metrics[1:]),
        objectives=("[bold]<script>$x_$", "seconds"),
    )
    frame = again(odd, [1, 2, 3])
    sections = analyze_tables([odd.with_replicates(frame)])
    for width in (80, 250):
        text = printed(sections, width)
        assert "[red]a$b$^" in text
        assert "[bold]<script>$x_$" in text
    for section in sections:
        for spec in section_figures(section):
            spec.draw().savefig(io.BytesIO())


def test_files_are_written_as_tables_are(toy, tmp_path):
    sections = analyze_tables([toy], kinds=["front", "sensitivity"])
    assert {stem for section in sections for stem in section.files} >= {"toy-front", "toy-sensitivity-grids"}
    bare = [replace(section, analysis=None) for section in sections]  # without figures
    written = write_sections(bare, tmp_path)
    cells = [cell for path in written for cell in re.split("[,\n]", path.read_text())]
    assert "true" in cells and not {"True", "False"} & set(cells)
    assert not any(cell.endswith(".0") for cell in cells)


def test_files(two, tmp_path):
    # Drawing takes its time: one table's first two analyses, and the correlation.
    sections = analyze_tables(two)[:3]
    first = write_sections(sections, tmp_path / "a" / "b")
    second = write_sections(sections, tmp_path / "c")
    assert [p.name for p in first] == [p.name for p in second]
    assert len({p.name for p in first}) == len(first)
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name
        assert one.read_bytes()[:4] == {".png": b"\x89PNG", ".pdf": b"%PDF"}.get(
            one.suffix, one.read_bytes()[:4]
        )
    shares = pd.read_csv(tmp_path / "c" / "toy-importance.csv", keep_default_na=False)
    assert len(shares) == 2 * (3 + 3)
    written, share = (
        shares["share"].astype(float).iloc[0],
        importance(two[0].response()).effects["share"].iloc[0],
    )
    assert written == pytest.approx(share, rel=1e-15)  # pandas 2 may round the last bit otherwise
    blocked = tmp_path / "file"
    blocked.touch()
    with pytest.raises(RunError, match="file: cannot be written"):
        write_sections(sections, blocked)


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="the system has no limit on file sizes")
def test_where_the_disk_is_full_the_old_files_stay_as_they_were(two, tmp_path):
    sections = [only(analyze_tables(two[:1]), "front")]
    front = table_front(two[0], ["bleu", "seconds"])
    write_front(front, tmp_path / "front.svg")
    write_sections(sections, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for size, name in ((100, "toy-front.csv"), (2000, "toy-front.png")):
        # Python ignores the signal: a write beyond the limit is an error, as on a full disk.
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
        try:
            with pytest.raises(RunError, match=rf"/{name}: cannot be written: File too large"):
                write_sections(sections, tmp_path)
            with pytest.raises(RunError, match=r"/front\.svg: cannot be written: File too large"):
                write_front(front, tmp_path / "front.svg")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_matplotlib_is_only_imported_to_draw():
    modules = "hpobench_nmt.analysis.tables.sections, hpobench_nmt.render.terminal.table_charts"
    code = f"import sys, {modules}; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
