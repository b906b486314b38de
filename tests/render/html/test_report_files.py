"""Reports as files: figures, LaTeX tables, and the command that writes them."""

import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from hpobench_nmt.analysis.leaderboard import cells
from hpobench_nmt.analysis.report_runs import load_runs
from hpobench_nmt.cli.results import report as report_command
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.render.latex import tex
from hpobench_nmt.render.report import report

FORMS = pytest.mark.parametrize(("form", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF")])


@FORMS
def test_figures_as_files(quick, tmp_path, form, start):
    written = report([quick], tmp_path / "figures", format=form, jobs=1)
    names = {path.name for path in written}
    assert names >= {f"small-toy-{kind}.{form}" for kind in ("curves", "scores")}
    assert all(path.read_bytes().startswith(start) for path in written)


@pytest.mark.hosts
@FORMS
def test_figures_of_two_tables_and_objectives_as_files(folders, tmp_path, form, start):
    written = report(folders[1:], tmp_path / "figures", format=form, jobs=1)
    names = {path.name for path in written}
    for stem in (
        "two-toy-curves",
        "two-toy-scores",
        "two-toy-wins-fta",
        "table-correlation",
    ):
        assert f"{stem}.{form}" in names
    assert all(path.read_bytes().startswith(start) for path in written)


def test_latex_tables(folders, tmp_path):
    written = report(folders, tmp_path / "tables", format="latex")
    assert len(written) == 6
    run = load_runs(folders[1:])[0]
    source = (tmp_path / "tables" / "two-other.tex").read_text()
    lines = source.split(r"\midrule")[1].strip().splitlines()
    assert [line.split(" &")[0] for line in lines] == [tex(m) for m in run.results.methods]
    assert all(line.count(" & ") == 7 and line.endswith(r"\\") for line in lines)
    assert source.count(r"\textbf") == sum(c.best for c in cells(run.results) if c.table == "other")
    assert tex(r"a_b & 50% {x} \y ±") == r"a\_b \& 50\% \{x\} \textbackslash{}y $\pm$"


def test_the_command(quick, tmp_path):
    out = tmp_path / "r.html"
    done = CliRunner().invoke(report_command, [str(quick), "--out", str(out), "--jobs", "1"])
    assert done.exit_code == 0 and out.stat().st_size > 10_000
    done = CliRunner().invoke(report_command, [str(quick), "--format", "latex", "--out", str(tmp_path / "t")])
    assert done.output == f"2 files in {tmp_path / 't'}\n"
    done = CliRunner().invoke(report_command, [str(quick), "--format", "word"])
    assert isinstance(done.exception, InputError)


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for a browser is a shell script")
def test_the_report_is_opened_in_the_users_browser(quick, tmp_path):
    browser, asked = tmp_path / "browser", tmp_path / "asked"
    browser.write_text(f'#!/bin/sh\necho "$1" > "{asked}"\n')
    browser.chmod(0o755)
    out = tmp_path / "a report.html"
    command = [sys.executable, "-m", "hpobench_nmt", "report", quick, "--out", out, "--open", "--jobs", "1"]
    done = subprocess.run(
        command, env={**os.environ, "BROWSER": f"{browser} %s"}, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert asked.read_text().strip() == out.as_uri()
    done = subprocess.run(
        command, env={**os.environ, "BROWSER": "/bin/false", "PATH": ""}, capture_output=True, text=True
    )
    assert done.returncode == 0 and "open the file in one yourself" in done.stderr
