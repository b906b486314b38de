"""`tables import` as a user types it."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hpobench_nmt.lookup.catalogue import load_table

_WRITERS = Path(__file__).parents[1] / "lookup" / "imports" / "conftest.py"


@pytest.fixture(scope="module")
def writers():
    spec = importlib.util.spec_from_file_location("writers_of_sweeps", _WRITERS)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def work(home, writers):
    """The current folder, with a storage and a CSV file of Optuna."""
    writers.optuna_tables(Path("study.db"))
    writers.trials_dataframe(Path("trials.csv"))
    return home


def test_one_command_makes_a_benchmark_of_a_storage(work, run_command, run_here):
    done = run_command("tables", "import", "study.db")
    assert done.stdout.startswith(
        "nmt: 4 rows from an Optuna storage\n  objective       value    max, what the study optimised\n"
    )
    assert (
        "hyperparameter  lr       log scale, 0.001 to 0.004, 4 values; the study's own scale" in done.stdout
    )
    assert f"Installed nmt (4 rows) in {work / 'tables' / 'nmt'}." in done.stdout
    checked = run_here("tables", "check", "nmt").stdout
    assert "✓ value of every row that has it is the best of its curve" in checked
    run_here(
        "run",
        "--tables",
        "nmt",
        "--methods",
        "RS",
        "--trials",
        "2",
        "--set",
        "score_at=3",
        "--out",
        "results/nmt",
    )


def test_the_same_file_twice_says_so(work, run_here, contents, writers):
    run_here("tables", "import", "study.db")
    before = contents(work)
    done = run_here("tables", "import", "study.db")
    assert done.stdout == "study.db was imported before, as nmt. Nothing is changed.\n"
    assert contents(work) == before
    rows = work / "tables" / "nmt" / "table.csv"
    rows.write_bytes(rows.read_bytes()[:-9])  # damaged since
    assert "Replaced nmt (4 rows)" in run_here("tables", "import", "study.db").stdout
    assert contents(work) == before
    again = run_here("tables", "import", "study.db", "--ignore", "seconds")
    assert "Replaced nmt (4 rows)" in again.stdout
    assert [m.name for m in load_table("nmt").metrics] == ["value"]
    assert "Installed other" in run_here("tables", "import", "study.db", "--as", "other").stdout


def test_a_table_of_another_source_is_not_replaced_unasked(work, run_here):
    run_here("tables", "import", "trials.csv", "--metric", "value:max", "--as", "nmt")
    before = load_table("nmt").sha256
    done = run_here("tables", "import", "study.db", check=2)
    assert "there is a table of this name from another source. Give another name: --as NAME." in done.stderr
    assert load_table("nmt").sha256 == before
    assert "Replaced nmt" in run_here("tables", "import", "study.db", "--as", "nmt").stdout


def test_a_draft_is_edited_and_added(work, run_here):
    done = run_here("tables", "import", "trials.csv", "--metric", "value:max", "--out", "draft")
    assert done.stdout.endswith(
        "Wrote draft. Edit draft/datasheet.toml, then: hpobench-nmt tables add draft\n"
    )
    assert not (work / "tables").exists()
    sheet = Path("draft/datasheet.toml").read_text()
    assert "# objective       value     max, as you say" in sheet
    Path("draft/datasheet.toml").write_text(sheet.replace('direction = "max"', 'direction = "min"', 1))
    run_here("tables", "add", "draft")
    run_here("tables", "import", "trials.csv", "--metric", "value:min", "--as", "other")
    assert load_table("trials").sha256 == load_table("other").sha256
    assert (
        "draft: exists already" in run_here("tables", "import", "study.db", "--out", "draft", check=2).stderr
    )


def test_curves_and_replicates_of_a_draft_come_along(work, run_here, writers):
    writers.json_lines(Path("lines.jsonl"))
    run_here("tables", "import", "lines.jsonl", "--out", "draft")
    run_here("tables", "add", "draft")
    run_here("tables", "import", "lines.jsonl", "--as", "other")
    one, other = load_table("lines"), load_table("other")
    assert (one.sha256, one.curves.sha256) == (other.sha256, other.curves.sha256)
    assert one.replicates.rows.seeds.tolist() == other.replicates.rows.seeds.tolist() == [1, 1, 1]


def test_guesses_are_written_and_not_installed(work, run_command, run_here):
    done = run_command("tables", "import", "trials.csv", check=2)
    assert (
        "min, a guess: it is not known whether smaller or larger is better; what the study optimised"
        in done.stdout
    )
    assert done.stderr == (
        "Error: trials.csv: these roles are only guesses: value. Correct trials.roles.toml, then run: "
        "hpobench-nmt tables import trials.csv --roles trials.roles.toml\n"
    )
    assert not (work / "tables").exists()
    roles = Path("trials.roles.toml")
    roles.write_text(roles.read_text().replace('direction = "min"', 'direction = "max"', 1))
    run_here("tables", "import", "trials.csv", "--roles", "trials.roles.toml")
    assert [m.direction for m in load_table("trials").metrics] == ["max", "max", "min"]
    run_here("tables", "import", "trials.csv", "--yes", "--ignore", "acc,seconds", "--as", "other")
    assert [str(m.direction) for m in load_table("other").metrics] == ["min"]


@pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo-terminals")
def test_on_a_terminal_it_is_asked(work):
    ours, theirs = os.openpty()
    program = subprocess.Popen(
        [sys.executable, "-m", "hpobench_nmt", "tables", "import", "trials.csv"],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    )
    os.close(theirs)
    os.write(ours, b"y\n")
    out, _ = program.communicate(timeout=120)
    assert program.returncode == 0
    assert "a guess: it is not known whether smaller or larger is better" in out
    asked = os.read(ours, 10_000).decode()
    os.close(ours)
    assert asked.count("Are these roles right?") == 1
    assert load_table("trials").metrics[0].direction == "min"
