"""What is printed and written: nothing is cut, nothing acts on a terminal or a spreadsheet."""

import csv
import io
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from hpobench_nmt.arena.beside import installed_archive
from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.cli.main import cli, main
from hpobench_nmt.core.system.text import UNSAFE
from hpobench_nmt.render.data_text import as_in_tables, csv_text, scores_csv
from hpobench_nmt.render.latex import run_latex
from hpobench_nmt.render.plots.style import image
from hpobench_nmt.render.terminal.grids import print_frame
from hpobench_nmt.render.terminal.leaderboard import print_leaderboard
from hpobench_nmt.render.terminal.table_summary import print_summary

HOSTILE = "\x1b[2J\x1b]0;owned\x07 a\rb \u202etxt.exe\udce9 [red]=1+1"
TWO = "bleu:max,seconds:min"


@pytest.fixture
def printed(capsys, monkeypatch):
    """Runs a command in this process; its output in so many columns, or as it is piped."""

    def printed(columns, *arguments):
        if columns:
            monkeypatch.setenv("COLUMNS", str(columns))
        else:
            monkeypatch.delenv("COLUMNS", raising=False)
        with pytest.raises(SystemExit) as exit_:
            main([str(a) for a in arguments])
        assert not exit_.value.code
        return capsys.readouterr().out

    return printed


@pytest.fixture
def run_folder(toy_home, printed):
    arguments = "run --tables toy --methods RS,BO_EI_M_std --trials 3 --jobs 1 --out r --quiet"
    printed(80, *arguments.split())
    return Path("r")


@pytest.mark.parametrize("columns", [44, 80])
def test_nothing_is_cut_on_a_narrow_terminal_nor_in_a_pipe(run_folder, printed, columns):
    commands = ["tables list", "tables show toy", f"pareto toy --objectives {TWO}", f"score {run_folder}"]
    for command in [*commands, "methods", "suites", "tables analyze toy"]:
        piped, narrow = printed(10_000, *command.split()), printed(columns, *command.split())
        assert max(map(len, narrow.splitlines())) <= columns, command
        # Every word is there, though it may be folded; bars are as wide as there is room.
        flat = re.sub(r"[\s│┃]", "", narrow)
        words = set(re.findall(r"[\w.±≥,:-]{2,}", piped))
        if "Left out, because the terminal is narrow: ms/step" in narrow:  # named, so nobody misses it
            words -= {
                word for line in piped.splitlines() for word in line.split()[-2:-1] if line[-1:] in ("│", "┃")
            }
        for word in words:
            assert word in flat, (command, word)


def test_a_grid_has_one_line_per_row_if_there_is_room(toy_home, printed):
    wide = pd.DataFrame([[f"{'x' * 30}{i}" for i in range(12)]], columns=[f"c{i}" for i in range(12)])
    wide.assign(a=1.0, b=2.0).to_csv("wide.csv", index=False)
    lines = printed(1000, "pareto", "wide.csv", "--objectives", "a:min,b:min").splitlines()
    assert len(lines) == 3
    assert all(f"{'x' * 30}{i}" in lines[1] for i in range(12))


def test_a_cell_wider_than_the_terminal_is_folded():
    file = io.StringIO()
    print_frame(pd.DataFrame({"n": [1.0], "text": ["abcdefghij" * 8]}), Console(file=file, width=30))
    lines = file.getvalue().splitlines()
    assert max(map(len, lines)) <= 30
    assert "abcdefghij" * 8 in "".join(line[4:].strip() for line in lines)


@pytest.mark.parametrize(
    "command",
    [
        "--help",
        *(pytest.param(c, marks=pytest.mark.hosts) for c in ("methods", "tables show toy", "score r")),
        "score r --format csv",
        pytest.param(f"pareto toy --objectives {TWO}", marks=pytest.mark.hosts),
    ],
)
def test_an_output_that_cannot_be_written(run_folder, command):
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    python = [sys.executable, "-m", "hpobench_nmt", *command.split()]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(python, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stderr == "Error: the output cannot be written: No space left on device.\n"
    # A reader that has gone, as in `| head`: silence.
    process = subprocess.Popen(python, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=120) == 141
    process.stderr.close()


@pytest.fixture
def hostile(toy):
    table = replace(toy, provenance={"source": HOSTILE, "licence": "=HYPERLINK()"})

    class Fails:
        def __init__(self, problem, rng):
            raise ValueError(HOSTILE)

        def ask(self):
            pass

        def tell(self, index, losses):
            pass

    return benchmark(table, ["RS", Fails], trials=4)


def test_what_others_wrote_does_not_act_on_the_terminal(hostile):
    file = io.StringIO()
    console = Console(file=file, width=90)
    print_leaderboard(hostile, console)
    assert r"\x1b[2J\x1b]0;owned\x07" in file.getvalue()
    print_summary(hostile.instances["toy"].table, console, 3)
    assert r"source: \x1b[2J\x1b]0;owned\x07" in file.getvalue()
    for text in (file.getvalue(), run_latex(hostile), scores_csv(hostile)):
        assert not UNSAFE.search(text.replace("\n", ""))


@pytest.mark.parametrize(
    "arguments", [["run", f"--{HOSTILE}"], ["run", "--trials", HOSTILE], ["run", "a", HOSTILE]]
)
def test_a_usage_error_shows_what_was_typed_with_escapes(capsys, arguments):
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    shown = capsys.readouterr().err
    assert exit_.value.code == 2
    usage, hint, blank, error = shown.splitlines()
    assert usage.startswith("Usage: hpobench-nmt run ") and "run --help" in hint and not blank
    assert error.startswith("Error: ") and r"\x1b[2J\x1b]0;owned\x07 a\rb \u202e" in error
    assert not UNSAFE.search(shown.replace("\n", ""))


def test_no_cell_of_a_csv_file_is_a_formula():
    texts = ["=1+1", "+cmd|' /C calc'!A0", "-2", "@SUM(A1)", "a\x1b[31m"]
    frame = pd.DataFrame({"=name": texts, "n": [-1.5] * 5})
    head, *rows = csv.reader(io.StringIO(csv_text(frame)))
    assert head == ["'=name", "n"]
    assert [row[0] for row in rows] == ["'=1+1", "'+cmd|' /C calc'!A0", "-2", "'@SUM(A1)", r"a\x1b[31m"]
    assert all(row[1] == "-1.5" for row in rows)


def test_numbers_and_truth_values_in_files_of_analyses_are_as_in_tables():
    frame = pd.DataFrame(
        {
            "float": [8.0, 0.1, np.nan, -0.0, 1e20, np.inf],
            "int": [1, 2, 3, 4, 5, 6],
            "bool": [True, False] * 3,
            "mixed": [True, False, None, "true", 10.0, "-x"],
            "numpy": np.array([np.bool_(True), np.float64(2), np.int64(3), None, "", 0.5], dtype=object),
        },
        index=[5, 4, 3, 2, 1, 0],
    )
    assert csv_text(as_in_tables(frame)).splitlines() == [
        "float,int,bool,mixed,numpy",
        "8,1,true,true,true",
        "0.1,2,false,false,2",
        ",3,true,,3",
        "0,4,false,true,",
        "1e+20,5,true,10,",
        "inf,6,false,'-x,0.5",
    ]


@pytest.mark.parametrize("form", ["svg", "pdf", "png"])
def test_a_figure_with_control_characters_is_sound(form):
    from hpobench_nmt.render.html.svg import to_svg
    from hpobench_nmt.render.plots.style import axes_for

    figure, axes = axes_for(None)
    axes.set(title=HOSTILE, xlabel=HOSTILE)
    axes.plot([1, 2], [1, 2], label=HOSTILE)
    axes.legend()
    content = image(figure, form)
    if form == "svg":
        ElementTree.fromstring(content)
        assert r"\x1b[2J" in to_svg(figure, "f", {}, {})


def help_pages(command=cli, path=()):
    """The words after which each command and group shows its help."""
    if not command.hidden:
        yield " ".join([*path, "--help"])
        for name, child in getattr(command, "commands", {}).items():
            yield from help_pages(child, (*path, name))


def test_no_line_of_any_command_is_wider_than_a_pipe_or_terminal(toy_home, run_folder, printed):
    compare = f"compare {run_folder} -m RS,BO_EI_M_std"
    tables = ("list", "show toy", "show shipped", "check toy", "check lohelp-de-en", "analyze toy")
    commands = [
        *(f"tables {each}" for each in tables),
        "methods",
        "methods BO_auto",
        "suites",
        compare,
        *help_pages(),
    ]
    for command in [
        *commands,
        f"score {run_folder}",
        f"score {run_folder} --explain",
        "doctor",
        *(["archive show"] if installed_archive() else []),  # a wheel has none
    ]:
        for columns in (None, 80):
            lines = printed(columns, *command.split()).splitlines()
            assert max(map(len, lines)) <= 80, (command, max(lines, key=len))
