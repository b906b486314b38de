"""Runs on the command line, their scores and exports, and the command that lists and checks methods."""

import dataclasses
import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hpobench_nmt as hb
from hpobench_nmt.benchmarking.call import every_method
from hpobench_nmt.benchmarking.task.suite import Suite
from hpobench_nmt.cli.common import writing
from hpobench_nmt.core.system.errors import InputError, RunError
from hpobench_nmt.lookup.disk.folder import save_folder
from hpobench_nmt.methods import BUILT_IN, BuiltIn

INTO = ("--out", "results/quick")


def test_the_bar_says_that_a_first_run_compiles(toy_home, tmp_path):
    command = "-m hpobench_nmt run --tables toy --methods BO_EI_M --trials 2 --jobs 1 --out"
    for name, at_first in (("first", True), ("second", False)):
        terminal = {"TTY_COMPATIBLE": "1", "FORCE_COLOR": "1", "COLUMNS": "100", "TERM": "xterm"}
        done = subprocess.run(
            [sys.executable, *command.split(), name],
            capture_output=True,
            text=True,
            env={**os.environ, **terminal, "NUMBA_CACHE_DIR": str(tmp_path / "numba")},
        )
        assert done.returncode == 0, done.stderr
        assert ("quick: compiling, once" in done.stderr) == at_first


def test_a_run_from_start_to_finish(toy_home, call):
    code, out, err = call(
        "run", "quick", "--tables", "toy,toy-missing", "--trials", "5", "--jobs", "1", *INTO
    )
    assert code == 0, err
    for name in (
        "toy ",
        "toy-missing ",
        "BO_EI_M_std",
        "RS (exact)",
        "The scores of each table: hpobench-nmt score results/quick",
    ):
        assert name in out
    assert "Traceback" not in err
    code, text, _ = call("score", "results/quick", "--explain")
    assert code == 0
    assert "toy: 36 rows" in text and "toy-missing: 36 rows" in text
    short = call("score", "results/quick")[1].splitlines()
    assert short[-1].startswith("--explain explains") and set(short[:-1]) < set(text.splitlines())
    assert call("score", "results/quick", "--format", "csv")[1].startswith("table,method,score,best,trials")
    assert r"\begin{tabular}" in call("score", "results/quick", "--format", "latex")[1]
    assert call("score", "results/quick", "--format", "yaml")[0] == 2


def test_the_same_command_again_only_shows_the_scores(toy_home, call):
    arguments = ("run", "quick", "--tables", "toy", "--trials", "5", "--jobs", "1", "--explain")
    first = call(*arguments)
    before = {p: p.stat().st_mtime_ns for p in Path("results").rglob("*.parquet")}
    second = call(*arguments)
    assert first[1] == second[1]
    assert {p: p.stat().st_mtime_ns for p in Path("results").rglob("*.parquet")} == before


def test_a_table_given_as_a_folder_is_found_again(toy_home, call, tmp_path, toy):
    from hpobench_nmt.lookup.disk.folder import save_folder

    save_folder(toy, tmp_path / "elsewhere" / "toy-two")
    folder = tmp_path / "elsewhere" / "toy-two"
    code, _, err = call("run", "--tables", str(folder), "--trials", "2", "--jobs", "1", "--out", "out")
    assert code == 0, err
    assert call("score", "out")[0] == 0


def test_the_first_command_of_a_newcomer_can_be_scored_again(home, call):
    code, out, err = call("run", "--trials", "2", "--jobs", "1", "--methods", "RS,BO_EI_M", *INTO)
    assert code == 0, err
    assert "sotu-ngram " in out
    code, text, _ = call("score", "results/quick")
    assert code == 0 and "sotu-ngram: 960 rows" in text


def test_other_runs_have_other_folders_and_the_same_command_resumes(toy_home, call):
    run = ("run", "--tables", "toy", "--methods", "RS", "--trials", "2", "--jobs", "1", "--quiet")
    for more in ((), ("--seed", "3"), (), ("--set", "workers=2")):
        assert call(*run, *more) == (0, "", "")
    folders = [path.name for path in Path("results").iterdir()]
    assert len(folders) == 3 and all(name.startswith("quick-") for name in folders)


def test_results_outlive_their_tables(toy_home, call):
    code, _, err = call("run", "--tables", "toy,toy-missing", "--methods", "RS", "--trials", "2", *INTO)
    assert code == 0, err
    with pytest.warns(UserWarning, match="left out toy-missing, which is not installed now"):
        assert call("tables", "remove", "toy-missing")[0] == 0
        code, out, err = call("score", "results/quick", "--format", "csv")
    assert code == 0 and {line.split(",")[0] for line in out.splitlines()[1:]} == {"toy"}
    with pytest.warns(UserWarning, match="left out toy-missing"):
        assert call("report", "results/quick", "-j", "1")[0] == 0
    assert call("tables", "remove", "toy")[0] == 0
    code, _, err = call("score", "results/quick")
    assert code == 2 and "unknown table 'toy'" in err


def test_two_objectives(toy_home, call):
    code, out, err = call("run", "modern-multi", "--tables", "toy", "--trials", "3", "--jobs", "1")
    assert code == 0, err
    assert "NSGA2" in out
    assert "failed" not in out


@pytest.mark.parametrize("option", ["--tables", "--methods", "--objectives"])
def test_a_list_of_nothing_is_refused(toy_home, call, option):
    code, _, err = call("run", option, " , ")
    assert (code, f"{option} is empty. Leave it out" in err) == (2, True)


def test_a_budget_beyond_the_table_spends_it(toy_home, call):
    run = ("run", "--tables", "toy", "--methods", "RS", "--trials", "2", "--jobs", "1", "--explain", *INTO)
    code, out, err = call(*run, "--set", "score_at=1e9", "--lookups", "1000000000")
    assert (code, err.strip()) == (0, "")
    assert call("score", "results/quick", "--explain")[1] in out


def test_short_options_are_the_long_ones(toy_home, call):
    run = ("run", "-t", "toy", "-m", "RS", "--trials", "2", "-j", "1", "-o", "r", "--quiet")
    assert call(*run) == (0, "", "")
    assert hb.load_results("r").methods == ("RS",)
    assert call("-V") == call("--version")


@pytest.mark.parametrize(("name", "meant"), [("BO", "BO_auto"), ("random_search", "RS"), ("gp", "BO_auto")])
def test_other_programs_names_of_methods_are_understood(home, call, name, meant):
    code, _, err = call("run", "-m", name)
    assert (code, f"unknown method {name!r}. Did you mean {meant!r}?" in err) == (2, True)


def test_with_few_look_ups_fb_is_measured_at_the_end_of_the_trial(toy_home, call):
    run = ("run", "--tables", "toy", "--methods", "RS", "--trials", "2", "--jobs", "1", "--lookups", "5")
    code, out, _ = call(*run, "--explain")
    assert (code, "fb @5" in out) == (0, True)
    code, _, err = call(*run, "--set", "score_at=20")
    assert code == 2
    assert "fb is measured after 20 look-ups, but a trial may make only 5" in err.splitlines()[-1]


def test_a_table_with_too_few_objectives_is_left_out_with_a_word(home, toy, call):
    save_folder(toy, home / "tables" / "toy")
    save_folder(dataclasses.replace(toy, name="single", objectives=("bleu",)), home / "tables" / "single")
    _, _, err = call("run", "modern-multi", "--methods", "RS", "--trials", "2", "--jobs", "1")
    assert "table 'single' names 1 objective of its own" in err
    assert "'toy'" not in err


def test_methods_are_listed_and_checked(toy_home, call):
    _, out, _ = call("methods")
    for name in ("RS", "BO_EI_M", "GB_EIF_R", "NSGA2"):
        assert re.search(rf"^{name}\s", out, re.MULTILINE)
    Path("mine.py").write_text(
        "class Bad:\n    def __init__(self, problem, rng):\n        pass\n"
        "    def ask(self):\n        return 0\n    def tell(self, index, losses):\n        pass\n"
    )
    code, out, err = call("methods", "--check", "mine.py:Bad")
    assert code == 1
    assert "FAILED  looks_up_every_row_once: ask returned row 0, which was looked up before" in out
    assert "Bad fails" in err


def test_exported_sequences_are_complete(toy_home, call):
    call("run", "quick", "--tables", "toy", "--trials", "4", "--jobs", "1", "--methods", "RS,BO_EI_M", *INTO)
    code, out, err = call("score", "results/quick", "--format", "sequences", "--out", "ss")
    assert (code, out) == (0, "2 files in ss\n"), err
    lines = Path("ss/toy/RS.ss").read_text().splitlines()
    assert len(lines) == 4
    assert all(sorted(map(int, line.split())) == list(range(36)) for line in lines)


BROKEN = """
class Broken:
    def __init__(self, problem, rng):
        raise ValueError("no licence")

    def ask(self): ...

    def tell(self, index, losses): ...
"""


def test_a_run_in_which_every_trial_of_a_method_failed_ends_with_1(toy_home, call):
    Path("broken.py").write_text(BROKEN)
    run = (
        "run",
        "quick",
        "--tables",
        "toy,toy-missing",
        "--methods",
        "broken.py:Broken,RS",
        "--trials",
        "12",
    )
    code, out, errors = call(*run, "--out", "r")
    assert code == 1
    assert "every trial failed: Broken on toy, Broken on toy-missing. The first reason:" in errors
    assert "no licence" in errors
    assert "RS" in out
    scores = json.loads(call("score", "r", "--format", "json")[1])
    assert {(s["table"], s["failed"]) for s in scores if s["method"] == "Broken"} == {
        ("toy", 12),
        ("toy-missing", 12),
    }
    assert not any(s["tied"] or s["best"] for s in scores if s["method"] == "Broken")
    # The same command again finds all of it done, and ends in the same way.
    assert call(*run, "--out", "r", "--quiet")[0] == 1
    assert call(*run[:5], "RS", *run[6:], "--out", "r", "--quiet")[0] == 0


def test_what_a_method_is(call):
    code, out, _ = call("methods", "BO_EI_M_std(noise_sd=0.1)")
    assert code == 0
    assert "BO_EI_M_std: BO_EI_M on standardised losses" in out
    assert "Zhang & Duh 2020" in out
    assert "length_scale = 1.0\n  noise_sd = 0.1\n" in out
    assert "It has no settings." in call("methods", "RS")[1]
    code, out, _ = call("methods", "ASHA")
    assert "eta = 3" in out
    assert "learning curves" in out
    assert "Li et al." in out
    code, _, err = call("methods", "BO_EI_MM")
    assert code == 2
    assert "Did you mean 'BO_EI_M'?" in err
    code, _, err = call("methods", "RS", "--check", "BO_EI_M")
    assert (code, "--check names the method: leave 'RS' out" in err) == (2, True)


@pytest.mark.parametrize("arguments", [("",), ("--check", ""), ("new", "--check", "")])
def test_an_empty_name_is_not_all_methods(call, arguments):
    code, out, err = call("methods", *arguments)
    assert (code, out) == (2, "") and "the name of the method is empty: give a name" in err


def test_a_place_that_cannot_be_written_is_told_before_the_model_is_read(call, tmp_path):
    file = tmp_path / "file"
    file.write_text("kept")
    for arguments, message in (
        (("model", "translate", "-o", tmp_path), f"{tmp_path}: a folder, not a file: name a file for --out."),
        (
            ("model", "translate", "-o", file / "a" / "b"),
            f"{file}: a file, not a folder: name another --out.",
        ),
        (("model", "adaptation", "-o", file), f"{file}: a file, not a folder: name another --out."),
        (("model", "adaptation", "-o", file / "a"), f"{file}: a file, not a folder: name another --out."),
    ):
        code, _, err = call(*map(str, arguments), "no_model")
        assert code == 2 and message in err
    for arguments in (
        ("model", "translate", "-o", file),
        ("model", "adaptation", "-o", tmp_path / "new" / "a"),
    ):
        code, _, err = call(*map(str, arguments), "no_model")
        assert code == 2 and "--out" not in err  # these places are fine, but there is no model
    assert file.read_text() == "kept" and not (tmp_path / "new").exists()


def test_a_method_whose_library_is_missing_is_shown_with_the_command_that_installs_it(call, monkeypatch):
    monkeypatch.setattr(BuiltIn, "missing", lambda method: list(method.libraries))
    code, out, _ = call("methods", "optuna.TPE")
    assert code == 0
    assert "pip install 'hpobench-nmt[optuna]'" in out
    names = every_method(Suite("s", ("fto",)), print)
    assert {"RS", "BO_M", "NSGA2"} <= set(names)
    assert not any("." in name or "EI" in name or name == "ASHA" for name in names)


def test_all_methods_are_those_that_can_have_so_many_workers():
    found = {n: every_method(Suite("s", ("fto",), workers=n), print) for n in (1, 2)}
    assert "pymoo.NSGA2" in found[1]  # it has no suggest
    assert set(found[2]) == {name for name in found[1] if name in BUILT_IN}


def test_methods_that_cannot_stop_trainings_early_are_named(toy_home, call, tmp_path):
    run = ("run", "--tables", "toy", "--trials", 1, "--jobs", 1, "--quiet", "--out", tmp_path / "r")
    code, _, said = call(*run, "--methods", "RS,ASHA,Hyperband(eta=4)")
    assert code == 0
    assert (
        "Without curves every training runs to its end: ASHA, Hyperband+eta-4 cannot stop trainings early."
        in said
    )


def test_all_methods_run(toy_home, call, tmp_path, monkeypatch):
    monkeypatch.setattr(BuiltIn, "missing", lambda method: list(method.libraries))  # they take long to import
    given = ("--tables", "toy", "--trials", 1, "--jobs", 1, "--quiet", "--methods", "all")
    suite = tmp_path / "two.toml"
    suite.write_text('scores = ["fbp"]\nscore_at = {default = 4}\nlookups = 4\n')
    assert call("run", suite, *given, "--out", tmp_path / "r")[0] == 0
    found = {path.stem for path in (tmp_path / "r" / "observations" / "toy").iterdir()}
    whole = {name for name, method in BUILT_IN.items() if 2 in method.objectives and not method.partial}
    assert whole <= found


def test_a_folder_whose_name_is_too_long_is_wrong_input(toy_home, call):
    given = ("run", "quick", "--tables", "toy", "--trials", "1", "--methods", "RS", "--quiet", "--jobs", "1")
    code, _, errors = call(*given, "--out", "x" * 300)
    assert (code, errors.count("\n")) == (2, 1)
    with pytest.raises(InputError, match="cannot be written"), writing(Path("x")):
        raise OSError(errno.ENAMETOOLONG, "File name too long")
    with pytest.raises(RunError, match="cannot be written"), writing(Path("x")):
        raise OSError(errno.ENOSPC, "No space left")
