"""What the command line prints and how it ends, for good and bad input."""

import dataclasses
import errno
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

import hpobench_nmt as hb
from hpobench_nmt.benchmarking.call import every_method
from hpobench_nmt.benchmarking.suite import Suite
from hpobench_nmt.cli.common import writing
from hpobench_nmt.cli.main import cli, main
from hpobench_nmt.core.errors import InputError, RunError
from hpobench_nmt.lookup.catalogue import find_folder
from hpobench_nmt.lookup.folder import load_folder, save_folder
from hpobench_nmt.methods import BUILT_IN, BuiltIn

ROOT = Path(__file__).parents[1]


@pytest.fixture
def call(capsys):
    """Run the command line in this process: (exit code, stdout, stderr)."""

    def call(*arguments):
        with pytest.raises(SystemExit) as exit_:
            main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return exit_.value.code or 0, out, err

    return call


def words(text):
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("runn", "unknown command 'runn'. Did you mean 'run'?"),
        ("tables shw", "unknown command 'shw'. Did you mean 'show'?"),
        ("run papersingle", "unknown suite 'papersingle'. Did you mean 'paper-single'?"),
        ("run nowhere.toml", "nowhere.toml: cannot be read"),
        ("run --tables tooy", "unknown table 'tooy'. Did you mean 'toy'?"),
        (
            "run --tables zh-en",
            "table 'zh-en' is not installed. Get it with 'hpobench-nmt tables fetch nmthpo'",
        ),
        ("run --tables toy,toy", "tables has the same name twice"),
        ("run --tables toy --methods BO_EI_MM", "unknown method 'BO_EI_MM'. Did you mean 'BO_EI_M'?"),
        ("run --tables toy --methods BO_M", "method 'BO_M' is for 2 to 10 objectives, and there is 1 for"),
        ("run --tables toy --methods RS,RS", "method 'RS' is given twice"),
        ("run --tables toy --out a-file", "a-file: is a file, not a folder"),
        ("run --tables toy --objectives blue", "unknown metric 'blue'. Did you mean 'bleu'?"),
        ("run --tables toy --objectives bleu:up", "the direction after ':' must be 'min' or 'max'"),
        ("run --tables toy --objectives bleu,seconds", "For two or more there is the suite modern-multi"),
        ("run --tables toy --trials 0", "0 is not in the range"),
        ("run --tables toy --seed -1", "-1 is not in the range"),
        ("run --tables toy --jobs 0", "0 is not in the range"),
        ("run --tables toy --lookups 2", "2 look-ups are fewer than the 3 initial rows"),
        ("run --tables toy --backend locl", "unknown backend 'locl'. Did you mean 'local'?"),
        ("run --tables toy --trails 3", "No such option"),
        ("score nowhere", "nowhere: no such folder"),
        ("score .", "has no manifest.json, so it is not a results folder"),
        ("export nowhere --out out", "nowhere: no such folder"),
        ("export . --out out --format csv", "unknown format 'csv'"),
        ("pareto toy --objectives bleu", "a front needs two or more objectives"),
        ("pareto toy --objectives bleu,bleu", "the same objective twice"),
        ("pareto toy --objectives bleu,secs", "unknown metric 'secs'"),
        ("pareto tooy --objectives bleu,seconds", "Did you mean 'toy'?"),
        ("pareto no.csv --objectives a:min,b:min", "no.csv: no such file"),
        ("pareto toy --objectives bleu,seconds --plot front.gif", "must end in .png, .pdf or .svg"),
        ("pareto toy --objectives bleu,seconds --plot no/front.png", "no: no such folder"),
        ("tables show tooy", "Did you mean 'toy'?"),
        ("tables check tooy", "Did you mean 'toy'?"),
        ("tables fetch nmthpp", "unknown collection 'nmthpp'. Did you mean 'nmthpo'?"),
        ("tables fetch nmthpo --from nowhere", "nowhere: no such folder"),
        ("tables add nowhere.csv", "nowhere.csv: no such file or folder"),
        ("methods --check nowhere.py:X", "nowhere.py: no such file"),
    ],
)
def test_wrong_input_gets_one_message_and_exit_code_2(toy_home, call, arguments, message):
    Path("a-file").touch()
    code, out, err = call(*arguments.split())
    assert code == 2
    assert message in words(err)
    assert out == ""
    assert not Path("results").exists()


def test_help_names_every_command_without_loading_anything_heavy():
    program = (
        "import sys; sys.argv = ['hpobench-nmt', '--help']\n"
        "from hpobench_nmt.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as e: assert not e.code\n"
        "heavy = {'numpy', 'pandas', 'numba', 'scipy', 'matplotlib', 'rich', 'torch'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name in ("run", "score", "export", "methods", "suites", "pareto", "tables"):
        assert re.search(rf"^  {name}\s", done.stdout, re.MULTILINE)


def test_the_bar_says_that_a_first_run_compiles(toy_home, tmp_path):
    command = "-m hpobench_nmt run --tables toy --methods RS --trials 2 --jobs 1 --out"
    for name, at_first in (("first", True), ("second", False)):
        machine_code = tmp_path / "numba"
        terminal = {"TTY_COMPATIBLE": "1", "FORCE_COLOR": "1", "COLUMNS": "100", "TERM": "xterm"}
        done = subprocess.run(
            [sys.executable, *command.split(), name],
            capture_output=True,
            text=True,
            env={**os.environ, **terminal, "NUMBA_CACHE_DIR": str(machine_code)},
        )
        assert done.returncode == 0, done.stderr
        assert ("quick: compiling, once" in done.stderr) == at_first
        (machine_code / "methods").mkdir(parents=True, exist_ok=True)
        (machine_code / "methods" / "one.nbi").touch()


def test_every_command_and_every_method_is_in_one_group():
    from hpobench_nmt.benchmarking.plugins import list_methods, method_groups
    from hpobench_nmt.cli.main import cli

    text = cli.get_help(click.Context(cli))
    listed = re.findall(r"^  ([a-z]+)  ", text.partition("Compare methods:")[2], re.MULTILINE)
    assert listed == list(cli.commands)
    grouped = [name for names in method_groups().values() for name in names]
    assert sorted(grouped) == sorted(list_methods()["method"])
    assert "BO_auto" in method_groups()["For one or more objectives"]
    assert "ASHA" in method_groups()["Stop trainings early, in suites with learning curves"]


def test_a_run_from_start_to_finish(toy_home, call):
    code, out, err = call("run", "quick", "--tables", "toy,toy-missing", "--trials", "5", "--jobs", "1")
    assert code == 0, err
    for name in (
        "toy: 36 rows",
        "toy-missing: 36 rows",
        "BO_EI_M_std",
        "RS (exact)",
        "Results: results/quick",
    ):
        assert name in out
    assert "Traceback" not in err
    code, text, _ = call("score", "results/quick", "--explain")  # as the first run does
    assert code == 0
    assert text in out
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
    from hpobench_nmt.lookup.folder import save_folder

    save_folder(toy, tmp_path / "elsewhere" / "toy-two")
    folder = tmp_path / "elsewhere" / "toy-two"
    code, _, err = call("run", "--tables", str(folder), "--trials", "2", "--jobs", "1", "--out", "out")
    assert code == 0, err
    assert call("score", "out")[0] == 0


def test_the_first_command_of_a_newcomer_can_be_scored_again(home, call):
    code, out, err = call("run", "--trials", "2", "--jobs", "1", "--methods", "RS,BO_EI_M")
    assert code == 0, err
    assert "sotu-ngram: 960 rows" in out
    assert call("score", "results/quick")[0] == 0


def test_two_objectives(toy_home, call):
    code, out, err = call("run", "modern-multi", "--tables", "toy", "--trials", "3", "--jobs", "1")
    assert code == 0, err
    assert "NSGA2" in out
    assert "failed" not in out


def test_a_table_of_ones_own(home, call):
    Path("lm.csv").write_text("lr,layers,ppl,seconds\n0.01,1,70,5\n0.1,1,65,5\n0.01,2,62,9\n0.1,2,60.5,9\n")
    sheet = '[hyperparameters.lr]\nscale = "log"\n[hyperparameters.layers]\n'
    sheet += '[metrics.ppl]\ndirection = "min"\n[metrics.seconds]\ndirection = "min"\n'
    Path("lm.toml").write_text(sheet)
    code, out, err = call("tables", "add", "lm.csv")
    assert (code, "Installed lm (4 rows)" in out) == (0, True), err
    assert "lm" in call("tables", "list")[1]
    assert "0.01, 0.1" in call("tables", "show", "lm")[1]
    assert "all 4 configurations of the grid have a row" in call("tables", "check", "lm")[1]
    assert call("run", "--tables", "lm", "--trials", "3", "--jobs", "1", "--methods", "RS,BO_EI_M")[0] == 0


def test_a_table_that_hides_another_is_told_and_can_be_removed(home, call, toy):
    save_folder(dataclasses.replace(toy, name="sotu-ngram"), Path("mine"))
    code, out, err = call("tables", "add", "mine")
    assert (code, out.startswith("Installed sotu-ngram (36 rows)")) == (0, True)
    assert "It hides the table of the same name in " in err
    assert "until 'hpobench-nmt tables remove sotu-ngram'" in err
    assert call("tables", "add", "mine")[1:] == (out.replace("Installed", "Replaced"), "")
    assert "36 rows" in call("tables", "show", "sotu-ngram")[1]
    assert completed(["hpobench-nmt", "tables", "remove", "so"]) == ["sotu-ngram"]
    code, out, _ = call("tables", "remove", "sotu-ngram")
    assert (code, "is now used" in out) == (0, True)
    assert list((home / "tables").iterdir()) == []
    assert "960 rows" in call("tables", "show", "sotu-ngram")[1]
    shipped = load_folder(find_folder("sotu-ngram"))
    code, _, err = call("tables", "remove", "sotu-ngram")
    assert (code, "was neither added nor fetched" in err) == (2, True)
    assert load_folder(find_folder("sotu-ngram")).sha256 == shipped.sha256
    assert "Did you mean 'sotu-ngram'?" in call("tables", "remove", "sotu-ngam")[2]


def test_an_added_table_that_is_hidden_can_be_replaced_and_removed(home, call, toy, monkeypatch):
    save_folder(toy, Path("mine/toy"))
    save_folder(toy, Path("elsewhere/toy"))
    monkeypatch.setenv("HPOBENCH_NMT_TABLES", str(Path("elsewhere").resolve()))
    for done in ("Installed", "Replaced"):
        _, out, err = call("tables", "add", "mine/toy")
        assert out.startswith(f"{done} toy ")
        assert "It is hidden by the table of the same name in " in err
    assert completed(["hpobench-nmt", "tables", "remove", ""]) == ["toy"]
    assert call("tables", "remove", "toy")[0] == 0
    assert "toy" not in completed(["hpobench-nmt", "tables", "remove", ""])
    code, _, err = call("tables", "remove", "toy")
    assert (code, "was neither added nor fetched" in err) == (2, True)
    assert load_folder(Path("elsewhere/toy")).sha256 == toy.sha256


def test_removing_a_link_leaves_what_it_points_to(home, call, toy):
    save_folder(toy, Path("mine/toy"))
    (home / "tables").mkdir(parents=True)
    (home / "tables" / "toy").symlink_to(Path("mine/toy").resolve())
    assert call("tables", "remove", "toy")[0] == 0
    assert not (home / "tables" / "toy").is_symlink()
    assert load_folder(Path("mine/toy")).sha256 == toy.sha256


@pytest.mark.parametrize("option", ["--tables", "--methods", "--objectives"])
def test_a_list_of_nothing_is_refused(toy_home, call, option):
    code, _, err = call("run", option, " , ")
    assert (code, f"{option} is empty. Leave it out" in err) == (2, True)


def test_a_budget_beyond_the_table_spends_it(toy_home, call):
    run = ("run", "--tables", "toy", "--methods", "RS", "--trials", "2", "--jobs", "1", "--score-at", "1e99")
    code, out, err = call(*run)
    assert (code, err.strip()) == (0, "")
    assert call("score", "results/quick", "--explain")[1] in out


def test_the_front_of_a_table_and_of_any_csv_agree(toy_home, call, toy):
    code, out, _ = call("pareto", "toy", "--objectives", "bleu,seconds", "--format", "csv")
    assert code == 0
    rows = [int(line.split(",")[0]) for line in out.splitlines()[1:]]
    assert sorted(rows) == toy.front(["bleu", "seconds"]).tolist()
    Path("front.csv").write_text(out)
    code, again, _ = call("pareto", "front.csv", "--objectives", "bleu:max,seconds:min", "--format", "csv")
    assert [line.partition(",")[2] for line in again.splitlines()] == out.splitlines()
    toy.to_frame().assign(note="x, y").to_csv("any.csv", index=False)
    code, out, _ = call("pareto", "any.csv", "--objectives", "bleu:max,seconds:min", "--plot", "front.png")
    assert code == 0
    assert f"{len(rows)} of 36 rows are on the front" in out
    assert Path("front.png").read_bytes()[:4] == b"\x89PNG"
    code, _, err = call("pareto", "any.csv", "--objectives", "bleu,seconds:min")
    assert (code, "add ':min' or ':max'" in err) == (2, True)
    code, _, err = call("pareto", "any.csv", "--objectives", "note:max,seconds:min")
    assert (code, "line 2: 'note' is 'x, y', not a number" in err) == (2, True)


def test_the_front_of_a_tables_own_objectives_is_printed_in_short(toy_home, call, toy):
    code, out, _ = call("pareto", "toy")
    assert (code, call("pareto", "toy", "--objectives", "bleu,seconds")[1]) == (0, out)
    assert out.splitlines()[0].split() == ["row", "layers", "width", "learning_rate", "bleu", "seconds"]


@pytest.mark.parametrize("words", [("run", "\ud800"), ("pareto", "a\udfff.csv"), ("\udc00",)])
def test_a_word_that_is_no_text_is_refused_in_a_line(call, words):
    code, out, err = call(*words)
    assert (code, out) == (2, "")
    assert (
        err
        == f"Error: {words[-1]!a}: is not valid Unicode text, so it cannot be the name of a file or table.\n"
    )


def test_every_option_says_what_it_takes():
    def options(command, path):
        for child in command.commands.values() if isinstance(command, click.Group) else ():
            yield from options(child, f"{path} {child.name}")
        yield from ((path, p) for p in command.params if isinstance(p, click.Option) and not p.is_flag)

    found = [(path, p.opts[-1], p.make_metavar(click.Context(cli))) for path, p in options(cli, "")]
    assert len(found) > 60
    assert not [each for each in found if each[2].startswith(("TEXT", "INTEGER"))]


def test_short_options_are_the_long_ones(toy_home, call):
    run = ("run", "-t", "toy", "-m", "RS", "--trials", "2", "-j", "1", "-o", "r", "--quiet")
    assert call(*run) == (0, "", "")
    assert hb.load_results("r").methods == ("RS",)
    assert call("-V") == call("--version")


@pytest.mark.parametrize(("name", "meant"), [("BO", "BO_auto"), ("random_search", "RS"), ("gp", "BO_auto")])
def test_other_programs_names_of_methods_are_understood(home, call, name, meant):
    code, _, err = call("run", "-m", name)
    assert (code, f"unknown method {name!r}. Did you mean {meant!r}?" in err) == (2, True)


def test_rows_that_lack_an_objective_are_counted(toy_home, call):
    _, out, _ = call("pareto", "toy-missing", "--objectives", "bleu,seconds")
    assert "6 rows lack an objective" in out


def test_few_look_ups_need_a_smaller_budget(toy_home, call):
    code, _, err = call("run", "--lookups", "5")
    assert code == 2
    assert "fb is measured after 20 look-ups, but a trial may make only 5" in err.splitlines()[-1]
    run = ("run", "--tables", "toy", "--methods", "RS", "--trials", "2", "--jobs", "1")
    code, out, _ = call(*run, "--lookups", "5", "--score-at", "5")
    assert code == 0
    assert "fb @5" in out


def test_a_broken_datasheet_spoils_its_own_table_only(toy_home, call):
    broken = toy_home / "tables" / "half-edited"
    broken.mkdir()
    (broken / "datasheet.toml").write_text("name = \n")
    assert call("tables", "check", "toy")[0] == 0
    assert call("run", "--tables", "toy", "--methods", "RS", "--trials", "2", "--jobs", "1")[0] == 0
    code, _, err = call("tables", "check", "half-edited")
    assert code == 2
    assert "not valid TOML" in err
    assert "half-edited" in "".join(call("tables", "list")[1:])


def test_a_collection_that_lacks_a_member_says_which_cannot_be_read(nmthpo_home, tmp_path, monkeypatch, call):
    home = tmp_path / "another home"
    shutil.copytree(nmthpo_home, home)
    monkeypatch.setenv("HPOBENCH_NMT_HOME", str(home))
    (home / "cache" / "so-en" / "datasheet.toml").write_text("name = \n")
    for arguments in (("tables", "check", "nmthpo"), ("run", "--tables", "nmthpo", "--trials", "1")):
        code, _, err = call(*arguments)
        assert code == 2
        assert "so-en" in err and "not valid TOML" in err


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
    call("run", "quick", "--tables", "toy", "--trials", "4", "--jobs", "1", "--methods", "RS,BO_EI_M")
    code, out, err = call("export", "results/quick", "--format", "sequences", "--out", "ss")
    assert (code, out) == (0, "2 files in ss\n"), err
    lines = Path("ss/toy/RS.ss").read_text().splitlines()
    assert len(lines) == 4
    assert all(sorted(map(int, line.split())) == list(range(36)) for line in lines)


def test_output_to_a_closed_pipe_is_no_error(toy_home):
    done = subprocess.run(
        f"{sys.executable} -m hpobench_nmt tables check toy | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
    )
    assert "Traceback" not in done.stderr


def test_an_option_of_the_first_version_is_hidden_and_warns_in_one_line(toy_home, run_command):
    assert "--budget" not in run_command("run", "--help").stdout
    run = ("run", "--tables", "toy", "--methods", "RS", "--trials", "3", "--quiet", "--budget", "5")
    deprecated = "Warning: --budget is deprecated since version 1.1 and will be removed in version 2.0"
    assert run_command(*run).stderr == f"{deprecated}: use --score-at.\n"


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


def test_what_takes_long_to_import_is_imported_late():
    """Workers can start before pandas is there, and the scores of one table need no scipy.stats."""
    code = (
        "import sys, hpobench_nmt.benchmarking.call, hpobench_nmt.lookup.catalogue as catalogue\n"
        "catalogue.load_table('sotu-ngram')\n"
        "print([name for name in ('pandas', 'scipy', 'numba', 'torch') if name in sys.modules])\n"
        "import hpobench_nmt.render.terminal.leaderboard\n"
        "print([name for name in ('scipy.stats', 'numba', 'matplotlib') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split("\n") == ["[]", "[]", ""]


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


def completed(words):
    """What bash would offer for the last of these words."""
    environment = os.environ | {
        "_HPOBENCH_NMT_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-c", "from hpobench_nmt.cli.main import main; main()"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


def test_the_shell_completes_commands_options_and_names(toy_home):
    assert completed(["hpobench-nmt", "ru"]) == ["run"]
    assert "--methods" in completed(["hpobench-nmt", "run", "--m"])
    assert completed(["hpobench-nmt", "run", "--methods", "RS,BO_EI_M_s"]) == ["RS,BO_EI_M_std"]
    assert completed(["hpobench-nmt", "tables", "show", "toy"]) == ["toy", "toy-missing"]
    assert completed(["hpobench-nmt", "pareto", "toy"]) == ["toy", "toy-missing"]
    assert completed(["hpobench-nmt", "tables", "fetch", "nmt"]) == ["nmthpo", "nmtlc"]
    assert completed(["hpobench-nmt", "tune", "x.toml", "--method", "BO_EI_M_s"]) == ["BO_EI_M_std"]
    assert "paper-single" in completed(["hpobench-nmt", "run", "paper"])


def test_a_table_is_shown_under_a_constraint(toy_home, call, toy):
    code, out, _ = call("tables", "show", "toy", "--rows", "1", "--constraint", "seconds<=30")
    kept = toy.column("seconds") <= 30
    assert code == 0
    assert f"Best by bleu of the {kept.sum()} rows that keep seconds<=30" in out
    best = toy.column("bleu")[kept].max()
    assert best < toy.column("bleu").max()
    assert re.search(rf"Best by.*\n.*\n +\d+ .*{best}", out)
    front = out[out.index("Rows of the front") :].splitlines()[2:]
    assert all(float(line.split()[2]) <= 30 for line in front if line.strip() and line.split()[0].isdigit())
    assert call("tables", "show", "toy", "--constraint", "second<=30")[0] == 2
    code, out, _ = call("tables", "analyze", "toy", "--constraint", "seconds<=30")
    assert (code, out.splitlines()[0]) == (
        0,
        f"Table 'toy': the {kept.sum()} of 36 rows that keep seconds<=30.",
    )
    assert f"of the {kept.sum()} rows with both are on the Pareto front" in out
    assert call("tables", "analyze", "toy", "--constraint", "second<=30")[0] == 2


def test_a_folder_whose_name_is_too_long_is_wrong_input(toy_home, call):
    given = ("run", "quick", "--tables", "toy", "--trials", "1", "--methods", "RS", "--quiet", "--jobs", "1")
    code, _, errors = call(*given, "--out", "x" * 300)
    assert (code, errors.count("\n")) == (2, 1)
    with pytest.raises(InputError, match="cannot be written"), writing(Path("x")):
        raise OSError(errno.ENAMETOOLONG, "File name too long")
    with pytest.raises(RunError, match="cannot be written"), writing(Path("x")):
        raise OSError(errno.ENOSPC, "No space left")


def all_commands(group, name=()):
    for each, command in group.commands.items():
        yield (*name, each)
        if isinstance(command, click.Group):
            yield from all_commands(command, (*name, each))


def test_the_help_of_every_command_has_no_control_characters(call):
    names = list(all_commands(cli))
    assert ("tables", "add") in names
    for name in names:
        code, out, errors = call(*name, "--help")
        assert (code, errors) == (0, "")
        assert not {c for c in out if c != "\n" and not c.isprintable()}, name
