"""The commands `train` and `tune`: how runs stop, what they show and what they refuse."""

import contextlib
import json
import math
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the runner needs: pip install 'hpobench-nmt[train]'")

import torch
from filelock import FileLock
from tiny_trainings import SPEC, lines, run

from hpobench_nmt.cli.train import _seconds_of, _shape
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.ledgers.ledger import read_ledger
from hpobench_nmt.runner.specs.spec_file import load_spec
from hpobench_nmt.runner.training.processes import Processes
from hpobench_nmt.runner.training.train_row import train_and_record
from hpobench_nmt.runner.training.workspace import clear_workspace, entries, open_workspace

pytestmark = pytest.mark.usefixtures("spec_file")

_LONG = SPEC.replace("max_epochs = 4", "max_epochs = 100000").replace("[1, 5, 10000]", "[0.001]")


def _status(folder):
    done = run(folder, "train", "long.toml", "--status")
    assert done.returncode == 0, done.stderr
    return done.stdout


def _processes_with(mark):
    """Numbers of the processes, zombies left out, whose environment holds a text."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (folder / "environ").read_bytes():
                found.add(int(folder.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are found in /proc")
@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.hosts)]
)
def test_nothing_outlives_a_run_however_it_ends(place, start, wait_for, tmp_path, monkeypatch, number):
    (tmp_path / "long.toml").write_text(f"base = {json.dumps(str(place))}\n{_LONG}")
    monkeypatch.setenv("HPOBENCH_NMT_TEST_RUN", mark := f"run-{uuid.uuid4()}")
    main_process = start(
        tmp_path, "train", "long.toml", "--jobs", "2", "--device", "cpu", stdout=subprocess.PIPE, strict=False
    )
    # The run itself, the server that its trainings are forked from, its helper, and two trainings.
    wait_for(lambda: len(list(tmp_path.glob("tiny/work/*/log"))) == 2 or main_process.poll() is not None)
    assert main_process.poll() is None
    assert "0 trained, 0 failed, 4 to do." in (seen := _status(tmp_path))
    assert seen.count("  running  hidden_size=") == 2
    wait_for(lambda: _status(tmp_path).count("dev perplexity") == 2 or main_process.poll() is not None)
    assert len(_processes_with(mark.encode())) >= 4
    main_process.send_signal(number)
    main_process.communicate(timeout=30)  # nobody holds its output open
    wait_for(lambda: not _processes_with(mark.encode()), seconds=30)


_SLOW = (
    SPEC.replace("max_epochs = 4", "max_epochs = 20").replace("[1, 5, 10000]", "[1]").replace("[4, 8]", "[4]")
)


def _results(folder):
    return [
        (
            r.status,
            r.metrics["dev_ppl"],
            r.metrics["test_ppl"],
            [(p["update"], p["dev_ppl"]) for p in r.curve],
        )
        for r in read_ledger(folder / "ledger.jsonl").records
    ]


def _states(place):
    return [path for path in (place / "home").rglob("training.pt") if path.stat().st_size]


@pytest.mark.hosts
def test_sigterm_saves_the_state_at_once_and_the_run_resumes_to_the_bit(place, start, wait_for):
    """A state is saved every 30 s at most otherwise, and these trainings are shorter."""
    (place / "slow.toml").write_text(_SLOW)
    train = ("train", "slow.toml", "--jobs", "1", "--device", "cpu", "--limit", "1", "--quiet")
    done = run(place, *train, "--out", "whole")
    assert done.returncode == 0, done.stderr
    assert not _states(place)
    process = start(place, *train, "--out", "parts", stderr=subprocess.PIPE)
    wait_for(lambda: list((place / "home").rglob("curve.jsonl")) or process.poll() is not None)
    asked = time.monotonic()
    process.send_signal(signal.SIGTERM)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 143, errors
    assert "stopped by SIGTERM; the state of every training is saved. Run the same command" in errors
    [state] = _states(place)
    assert time.monotonic() - asked < 20  # under 1 s on an idle machine
    assert _results(place / "parts") == []
    saved = torch.load(state, weights_only=True)["state"]["course"]
    assert 0 < saved["update"] < _results(place / "whole")[0][3][-1][0]
    assert run(place, *train, "--out", "parts").returncode == 0
    assert _results(place / "parts") == _results(place / "whole")
    assert not _states(place)


@pytest.mark.hosts
def test_a_time_limit_saves_the_state_and_is_no_error(place):
    (place / "slow.toml").write_text(_SLOW.replace("max_epochs = 20", "max_epochs = 100000"))
    train = ("train", "slow.toml", "--jobs", "1", "--device", "cpu", "--limit", "1", "--quiet")
    done = run(place, *train, "--out", "limited", "--time-limit", "12s")
    assert done.returncode == 0, done.stderr
    assert "the time limit is reached; the state of every training is saved" in done.stderr
    assert len(_states(place)) == 1
    shutil.rmtree(place / "home" / "training" / "states")


@pytest.mark.parametrize(
    ("unit", "objectives", "right"),
    [
        ("character", 'objectives = ["dev_ppl"]', "dev_bpc"),
        ("character", 'objectives = ["dev_ppl_dynamic", "num_param"]', "dev_bpc_dynamic"),
        ("word", 'objectives = ["test_bpc"]', "test_ppl"),
        ("word", 'objectives = ["dev_ppl_word"]', "dev_ppl"),
    ],
)
@pytest.mark.parametrize("command", [("train", "--dry-run"), ("train",), ("tune", "--methods", "RS")])
def test_objectives_that_no_training_measures_are_refused(
    place, tmp_path, run_here, command, unit, objectives, right
):
    section = "".join(f'{part} = "{place / part}.txt"\n' for part in ("train", "dev", "test"))
    (tmp_path / "spec.toml").write_text(
        f'name = "units"\nfamily = "gpt"\n{objectives}\n[corpus]\nname = "text"\nunit = "{unit}"\n{section}'
        "[grid]\ndepth = [1, 2]\n"
    )
    name, *options = command
    done = run_here(name, tmp_path / "spec.toml", "--out", tmp_path / "out", *options, check=2)
    assert f"s. Use the objective {right}.\n" in done.stderr
    assert not (tmp_path / "out" / "work").exists()


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_the_same_seed_is_refused_where_a_repetition_would_train_nothing(place, tmp_path, run_here, more):
    """All rows of dynamic evaluation with one seed have the same model."""
    section = "".join(f'{part} = "{place / part}.txt"\n' for part in ("train", "dev", "test"))
    (tmp_path / "spec.toml").write_text(
        f'name = "again"\nfamily = "dynamic-evaluation"\n[corpus]\nname = "text"\n{section}'
        "[grid]\ndynamic_decay = [0.001, 0.002]\n[replicates]\nconfigurations = 1\nsame_seed = 2\n"
    )
    done = run_here("train", tmp_path / "spec.toml", "--out", tmp_path / "out", *more, check=2)
    assert "same_seed would measure the same model again. Remove same_seed from [replicates]." in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_time_limit_includes_the_preparation_of_the_corpus(place, tmp_path, run_here, monkeypatch):
    monkeypatch.setattr("hpobench_nmt.runner.corpora.load_corpus", lambda *section: time.sleep(20))
    monkeypatch.setenv("HPOBENCH_NMT_HOME", str(tmp_path))
    began = time.monotonic()
    done = run_here(
        "train", place / "tiny.toml", "--out", tmp_path / "out", "--time-limit", "1s", "--device", "cpu"
    )
    assert "the time limit is reached; trainings resume from their last saved state" in done.stderr
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("text", "seconds"), [("3h30m", 12_600), ("90s", 90), ("1d", 86_400), ("5min", 300), ("1.5h", 5400)]
)
def test_time_limits(text, seconds):
    assert _seconds_of(None, None, text) == seconds


@pytest.mark.parametrize("text", ["", "3", "0h", "30m3h", "-1h", "1.h", ".5h", "1e3s"])
def test_what_is_no_time_limit(text):
    with pytest.raises(InputError, match="such as 3h30m or 90s"):
        _seconds_of(None, None, text)


def test_what_cannot_be_paused_says_so(place):
    text = SPEC.replace("awd-lstm", "dynamic-evaluation").replace("[grid]", "[grid]\ndynamic_segment = [5]")
    text = text.replace("cache_window = 0\n", "").replace('"none"', '"sgd"')
    (place / "dynamic.toml").write_text(text)
    done = run(place, "train", "dynamic.toml", "--updates", "10", "--device", "cpu")
    assert (done.returncode, done.stderr) == (
        2,
        "Error: trainings of family 'dynamic-evaluation' cannot be paused.\n",
    )


def test_a_dry_run_trains_and_writes_nothing(place):
    done = run(place, "train", "tiny.toml", "--out", "none", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "To do: 8 trainings" in done.stdout
    assert not (place / "none").exists()


def test_a_dry_run_names_the_budgets_that_no_sizes_meet(place):
    spec = SPEC.replace("awd-lstm", "melis").partition("[grid]")[0]
    grid = "[grid]\nbudget = [1000, 20320]\ndropout_input = [0, 0.5]\n"
    grid += "[fixed]\ndepth = 2\ninput_embedding_ratio = 0.5\n"
    (place / "budgets.toml").write_text(spec + grid)
    done = run(place, "train", "budgets.toml", "--dry-run")
    assert done.returncode == 0, done.stderr
    [line] = [line for line in done.stdout.splitlines() if line.startswith("Will fail")]
    assert line.startswith("Will fail: budget=1000: no lstm of depth 2 has 1,000 parameters")
    (place / "budgets.toml").write_text(spec.replace("train.txt", "gone.txt") + grid)
    done = run(place, "train", "budgets.toml", "--dry-run")
    assert "was not checked: [corpus] train: cannot read" in done.stdout


def test_limit_stops_early(place):
    done = run(place, "train", "tiny.toml", "--out", "few", "--device", "cpu", "--quiet", "--limit", "1")
    assert done.returncode == 0, done.stderr
    assert len(lines(place / "few" / "ledger.jsonl")) == 1


def test_without_a_terminal_a_line_tells_of_each_training(place):
    done = run(place, "train", "tiny.toml", "--out", "told", "--device", "cpu", "--only", "learning_rate=5")
    assert done.returncode == 0, done.stderr
    line = r"^(\d) of (\d): hidden_size=\d learning_rate=5: dev_ppl=[\d.]+ .* s\)$"
    told = re.findall(line, done.stderr, re.MULTILINE)
    assert len(told) >= 2
    assert [int(number) for number, _ in told] == list(range(1, int(told[0][1]) + 1))


@pytest.mark.parametrize(
    ("values", "shown"),
    [([9.0, 7.0, math.inf], "  █▁ 7.00"), ([math.nan, 7.0], ""), ([3.0, 3.0], "  ▁▁ 3.00")],
)
def test_a_curve_that_diverged_is_shown_as_far_as_it_has_numbers(values, shown, monkeypatch):
    monkeypatch.setattr("hpobench_nmt.render.terminal.grids.ASCII_BARS", "▁▂▃▄▅▆▇█")
    assert _shape([{"dev_ppl": value} for value in values]) == shown


def test_a_folder_that_another_run_removes_meanwhile_is_none(tmp_path):
    loop = "import os, sys\nwhile True:\n    os.mkdir(sys.argv[1])\n    os.rmdir(sys.argv[1])"
    with subprocess.Popen([sys.executable, "-c", loop, str(tmp_path / "states")]) as other:
        try:
            while not (tmp_path / "states").exists():
                time.sleep(0)
            assert {entries(tmp_path / "states") for _ in range(3000)} == {()}
        finally:
            other.kill()


def test_what_another_run_is_at_is_left_to_it(place, tmp_path):
    spec = load_spec(place / "tiny.toml")
    workspace, _ = open_workspace(spec, tmp_path / "out", tmp_path / "cache")
    scratch = workspace.folder / "work" / "abc" / "scratch"
    scratch.mkdir(parents=True)
    (workspace.folder / "work" / "gone").mkdir()
    (workspace.folder / "work" / "gone.claim").touch()
    workspace.states.mkdir(parents=True)
    with FileLock(workspace.folder / "work" / "abc.claim"):
        clear_workspace(workspace)
        assert scratch.is_dir() and (workspace.folder / "reserve").exists() and workspace.states.is_dir()
        assert not (workspace.folder / "work" / "gone").exists()
    clear_workspace(workspace)
    assert not workspace.states.exists()
    assert sorted(path.name for path in workspace.folder.iterdir() if path.suffix != ".lock") == [
        "ledger.jsonl",
        "spec.toml",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("train", "tiny.toml", "--backend", "dask", "--device", "cpu"),
            "give the number of trainings at a time with --jobs",
        ),
        (("train", "tiny.toml", "--backend", "dask", "--jobs", "2", "--device", "cuda:1"), "'cpu' or 'cuda'"),
        (("train", "tiny.toml", "--device", "cuda:99"), "CUDA|unknown device"),
        (("train", "tiny.toml", "--device", "gpu"), "unknown device 'gpu'"),
        (("train", "tiny.toml", "--backend", "locl"), "Did you mean 'local'"),
        (("train", "tiny.toml", "--only", "hidden=4"), "Did you mean 'hidden_size'"),
        (("train", "none.toml"), "none.toml: cannot be read"),
        (("train", "tiny.toml", "--out", "nowhere", "--status"), "there is no ledger yet"),
        (("tune", "tiny.toml", "--methods", "BO_EI_N"), "Did you mean"),
        (("tune", "tiny.toml", "--methods", "RS,BO_EI_M"), "tune takes one method, not 2"),
        (("tune", "tiny.toml", "--objectives", "dev_pll"), "Did you mean 'dev_ppl'"),
        (("tune", "tiny.toml", "--objectives", "dev_ppl,dev_ppl"), "the same objective twice"),
        (
            ("tune", "tiny.toml", "--methods", "BO_EI_M", "--objectives", "dev_ppl,num_param"),
            "is for 1 objective, not",
        ),
        (
            ("tune", "tiny.toml", "--device", "cuda:0,cuda:1"),
            "give one device, or train several configurations at a time with --jobs",
        ),
        (("tables", "build", "none.jsonl"), "cannot be read"),
    ],
)
def test_wrong_input_is_one_line(place, arguments, message):
    done = run(place, *arguments)
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert re.search(message, line)


def test_a_corpus_that_changes_during_a_run_ends_it(place, tmp_path):
    for name in ("train.txt", "dev.txt", "test.txt", "tiny.toml"):
        shutil.copy(place / name, tmp_path)
    train = ("train", tmp_path / "tiny.toml", "--out", tmp_path / "out", "--device", "cpu", "--jobs", "1")
    spec = load_spec(tmp_path / "tiny.toml")
    workspace, _ = open_workspace(spec, tmp_path / "out", tmp_path / "cache")
    (tmp_path / "train.txt").write_text((tmp_path / "train.txt").read_text()[:400])
    processes = Processes()
    with pytest.raises(InputError, match="corpus 'text' has changed since this run began"):
        train_and_record(workspace, 0, 0, "cpu", processes, wait=True, last=False)
    processes.stop()
    assert lines(tmp_path / "out" / "ledger.jsonl") == []
    assert run(place, *train).returncode == 2


def test_the_status_of_a_shard_is_of_its_own_trainings(place, tmp_path):
    part = ("train", "tiny.toml", "--shard", "1/4", "--out", tmp_path / "part", "--device", "cpu", "--quiet")
    assert run(place, *part).returncode == 0
    assert " 0 to do." in run(place, *part, "--status").stdout


def test_nothing_but_the_runner_imports_torch():
    code = "import sys, hpobench_nmt, hpobench_nmt.cli.main; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
