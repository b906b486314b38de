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
    assert "27 trainings" in planned


@pytest.mark.parametrize("name", ["tables show sotu-ngram", "tables list", "tables check sotu-ngram"])
def test_the_shipped_table_can_be_looked_at(home, run_command, name):
    assert "sotu-ngram" in run_command(*name.split()).stdout
