"""Help, options, errors and completion of the command line, and its commands for tables and fronts."""

import dataclasses
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from hpobench_nmt.cli.main import cli
from hpobench_nmt.lookup.catalogue import find_folder
from hpobench_nmt.lookup.disk.folder import load_folder, save_folder


def words(text):
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("runn", "unknown command 'runn'. Did you mean 'run'?"),
        ("tables shw", "unknown command 'shw'. Did you mean 'show'?"),
        ("run papersingle", "unknown suite 'papersingle'. Did you mean 'paper-single'?"),
        (
            "run -m BO_EI_M RS",
            "'RS' is not a suite. Join the values of an option with commas, as in --methods",
        ),
        ("run -t toy toy", "'toy' is not a suite. Join the values of an option with commas"),
        ("pareto toy --objectives bleu seconds", "(seconds). Join the values of an option with commas"),
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
        ("run --tables toy --trails 3", "Did you mean '--trials'?"),
        ("run --suite quick", "--suite is not an option: write hpobench-nmt run SUITE"),
        ("run -n 3", "Did you mean '--trials'?"),
        ("run -m RS BO_EI_M", "Join the values of an option with commas"),
        ("tables download nmthpo", "tables fetch"),
        ("score nowhere", "nowhere: no such folder"),
        ("score .", "has no manifest.json, so it is not a results folder"),
        ("score nowhere --format sequences --out out", "nowhere: no such folder"),
        ("score . --out out --format cvs", "unknown format 'cvs'"),
        ("pareto toy --objectives bleu", "a front needs two or more objectives"),
        ("pareto toy --objectives bleu,bleu", "the same objective twice"),
        ("pareto toy --objectives bleu,secs", "unknown metric 'secs'"),
        ("pareto tooy --objectives bleu,seconds", "Did you mean 'toy'?"),
        ("pareto no.csv --objectives a:min,b:min", "no.csv: no such file"),
        ("pareto toy --objectives bleu,seconds --out front.gif", "must end in .png, .pdf or .svg"),
        ("pareto toy --objectives bleu,seconds --out no/front.png", "no: no such folder"),
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
    for name in ("run", "score", "report", "methods", "suites", "pareto", "tables"):
        assert re.search(rf"^  {name}\s", done.stdout, re.MULTILINE)


def test_every_command_and_every_method_is_in_one_group():
    from hpobench_nmt.benchmarking.contestants.plugins import list_methods, method_groups
    from hpobench_nmt.cli.main import cli

    text = cli.get_help(click.Context(cli))
    listed = re.findall(r"^  ([a-z]+)  ", text.partition("Compare methods:")[2], re.MULTILINE)
    assert [*listed, "power", "archive", "ledger"] == list(cli.commands)
    assert len(listed) <= 12 and "More commands: power, archive, ledger." in text
    grouped = [name for names in method_groups().values() for name in names]
    assert sorted(grouped) == sorted(list_methods()["method"])
    assert "BO_auto" in method_groups()["For one or more objectives"]
    assert "ASHA" in method_groups()["Stop trainings early, in suites with learning curves"]


def test_a_table_of_ones_own(home, call):
    Path("lm.csv").write_text("lr,layers,ppl,seconds\n0.01,1,70,5\n0.1,1,65,5\n0.01,2,62,9\n0.1,2,60.5,9\n")
    sheet = '[hyperparameters.lr]\nscale = "log"\n[hyperparameters.layers]\n'
    sheet += '[metrics.ppl]\ndirection = "min"\n[metrics.seconds]\ndirection = "min"\n'
    sheet += '[claims.baseline]\nname = "trigrams"\nmetric = "ppl"\nvalue = 65\nhow = "counted"\n'
    Path("lm.toml").write_text(sheet)
    code, out, err = call("tables", "add", "lm.csv")
    assert (code, "Installed lm (4 rows)" in out) == (0, True), err
    assert "lm" in call("tables", "list")[1]
    shown = call("tables", "show", "lm")[1]
    assert "0.01, 0.1" in shown
    assert "baseline: 2 of 4 rows (50%) beat trigrams, whose ppl is 65" in shown
    assert "all 4 configurations of the grid have a row" in call("tables", "check", "lm")[1]
    assert call("run", "--tables", "lm", "--trials", "3", "--jobs", "1", "--methods", "RS,BO_EI_M")[0] == 0


def test_columns_that_the_datasheet_does_not_describe_are_left_out_if_asked(home, call):
    Path("lm.csv").write_text("lr,note,ppl\n0.01,first,70\n0.1,second,65\n")
    Path("lm.toml").write_text('[hyperparameters.lr]\n[metrics.ppl]\ndirection = "min"\n')
    code, _, err = call("tables", "add", "lm.csv")
    assert code == 2 and "column 'note' is not described in its datasheet" in err and "--accept other" in err
    code, out, err = call("tables", "add", "lm.csv", "--accept", "other")
    assert (code, "Installed lm (2 rows)" in out) == (0, True), err
    assert (home / "tables" / "lm" / "table.csv").read_text() == "lr,ppl\n0.01,70\n0.1,65\n"


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


def test_tables_that_a_file_no_longer_makes_are_named(home, call, toy):
    rows = [f"{m},{r},{ord(m) * r}\n" for m in "abc" for r in (0.1, 0.2)]
    sheet = '[hyperparameters.rate]\n[metrics.loss]\ndirection = "min"\n'
    Path("grid.toml").write_text('split_by = ["model"]\n' + sheet)
    Path("grid.csv").write_text("model,rate,loss\n" + "".join(rows))
    assert call("tables", "add", "grid.csv")[::2] == (0, "")
    Path("grid.csv").write_text("model,rate,loss\n" + "".join(rows[:2]))
    assert call("tables", "add", "grid.csv")[2] == "".join(
        f"The group also has grid-{m}, which grid.csv does not make. If it is from an earlier version of the "
        f"file, remove it: hpobench-nmt tables remove grid-{m}\n"
        for m in "bc"
    )
    assert call("tables", "remove", "grid-b")[0] == call("tables", "remove", "grid-c")[0] == 0
    assert call("tables", "add", "grid.csv")[2] == ""
    for m in "ab":  # a single table of a group leaves the others alone
        claims = {"collection": "pair", "collection_tables": 2, "collection_rows": 72}
        save_folder(dataclasses.replace(toy, name=f"pair-{m}", claims=claims), Path(f"pair-{m}"))
        assert call("tables", "add", f"pair-{m}")[::2] == (0, "")


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


def test_the_front_of_a_table_and_of_any_csv_agree(toy_home, call, toy):
    code, out, _ = call("pareto", "toy", "--objectives", "bleu,seconds", "--format", "csv")
    assert code == 0
    rows = [int(line.split(",")[0]) for line in out.splitlines()[1:]]
    assert sorted(rows) == toy.front(["bleu", "seconds"]).tolist()
    Path("front.csv").write_text(out)
    code, again, _ = call("pareto", "front.csv", "--objectives", "bleu:max,seconds:min", "--format", "csv")
    assert [line.partition(",")[2] for line in again.splitlines()] == out.splitlines()
    toy.to_frame().assign(note="x, y").to_csv("any.csv", index=False)
    code, out, _ = call("pareto", "any.csv", "--objectives", "bleu:max,seconds:min", "--out", "front.png")
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


def test_rows_that_lack_an_objective_are_counted(toy_home, call):
    _, out, _ = call("pareto", "toy-missing", "--objectives", "bleu,seconds")
    assert "6 rows lack an objective" in out


def test_a_broken_datasheet_spoils_its_own_table_only(toy_home, call):
    broken = toy_home / "tables" / "half-edited"
    broken.mkdir()
    (broken / "datasheet.toml").write_text("name = \n")
    code, out, _ = call("tables", "check", "toy")
    assert code == 0 and "rules that see no loss" in out
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


def test_output_to_a_closed_pipe_is_no_error(toy_home):
    done = subprocess.run(
        f"{sys.executable} -m hpobench_nmt tables check toy | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
    )
    assert "Traceback" not in done.stderr


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
    assert completed(["hpobench-nmt", "tune", "x.toml", "--methods", "BO_EI_M_s"]) == ["BO_EI_M_std"]
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
