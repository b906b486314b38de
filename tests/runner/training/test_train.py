"""Training through the command line: real trainings, real kills, and the table that comes of them."""

import contextlib
import io
import json
import math
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the runner needs: pip install 'hpobench-nmt[train]'")

import torch
from filelock import FileLock

import hpobench_nmt as hb
from hpobench_nmt.cli.main import main
from hpobench_nmt.cli.train import _seconds_of, _shape
from hpobench_nmt.core.errors import InputError
from hpobench_nmt.lookup.folder import load_folder
from hpobench_nmt.runner.devices import find_devices
from hpobench_nmt.runner.ledgers.ledger import read_ledger
from hpobench_nmt.runner.specs.spec import SAME_SEED, select
from hpobench_nmt.runner.specs.spec_file import load_spec
from hpobench_nmt.runner.training.processes import Processes
from hpobench_nmt.runner.training.train_row import train_and_record
from hpobench_nmt.runner.training.workspace import clear_workspace, entries, open_workspace

SPEC = """
name = "tiny"
title = "a tiny AWD-LSTM"
family = "awd-lstm"
seed = 3
objectives = ["dev_ppl", "num_param"]
metrics = ["dev_ppl", "test_ppl", "num_param", "num_updates", "gpu_memory"]

[corpus]
name = "text"
train = "train.txt"
dev = "dev.txt"
test = "test.txt"

[grid]
hidden_size = [4, 8]
learning_rate = [1, 5, 10000]

[fixed]
layers = 1
embedding_size = 8
batch_size = 8
bptt = 10
max_epochs = 4
clip = 0
cache_window = 0
dynamic_rule = "none"

[replicates]
configurations = 2
trainings = 1
"""
N_CONFIGS, N_TRAININGS = 6, 8


@pytest.fixture(scope="module", autouse=True)
def spec_file(place):
    (place / "tiny.toml").write_text(SPEC)


@dataclass
class Done:
    """How a command that ran in this process ended."""

    returncode: int
    stdout: str
    stderr: str


def run(place, *arguments):
    """The command in this process, which spares the imports; its trainings have processes of their own."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.chdir(place)
        patch.setenv("HPOBENCH_NMT_HOME", str(place / "home"))
        try:
            main([str(a) for a in arguments])
        except SystemExit as error:
            code = int(error.code or 0)
    return Done(code, out.getvalue(), err.getvalue())


def lines(ledger):
    return ledger.read_text().split("\n")[1:-1] if ledger.exists() else []


@pytest.fixture(scope="module")
def trained(place, spec_file, start, wait_for):
    """The folder of a run that was killed halfway and started again; asserts on the way."""
    folder, ledger = place / "out", place / "out" / "ledger.jsonl"
    train = ("train", "tiny.toml", "--out", folder, "--jobs", "2", "--device", "cpu", "--quiet")
    process = start(place, *train)
    wait_for(lambda: len(lines(ledger)) >= 2)
    process.send_signal(signal.SIGKILL)  # the run alone: its trainings must end by themselves
    process.wait()
    before = lines(ledger)
    assert 2 <= len(before) < N_TRAININGS
    done = run(place, *train)
    assert done.returncode == 0, done.stderr
    assert lines(ledger)[: len(before)] == before  # nothing of it was touched or trained again
    assert "6 trained, 2 failed, 0 to do" in done.stdout
    return folder


def test_a_run_that_is_killed_goes_on_where_it_was(trained):
    records = [json.loads(line) for line in lines(trained / "ledger.jsonl")]
    keys = [(json.dumps(r["config"]), r["replicate"]) for r in records]
    assert len(keys) == len(set(keys)) == N_TRAININGS
    assert not (trained / "work").exists()
    assert not (trained / "reserve").exists()


def test_what_a_kill_after_the_last_record_has_left_is_removed(trained, place):
    (trained / "work").mkdir()
    (trained / "work" / "0123.claim").touch()
    done = run(place, "train", "tiny.toml", "--out", trained, "--jobs", "2", "--device", "cpu", "--quiet")
    assert (done.returncode, (trained / "work").exists()) == (0, False)


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


@pytest.mark.parametrize(("text", "seconds"), [("3h30m", 12_600), ("90s", 90), ("1d", 86_400), ("5min", 300)])
def test_time_limits(text, seconds):
    assert _seconds_of(None, None, text) == seconds


@pytest.mark.parametrize("text", ["", "3", "0h", "30m3h", "-1h", "1.5h"])
def test_what_is_no_time_limit(text):
    with pytest.raises(InputError, match="such as 3h30m or 90s"):
        _seconds_of(None, None, text)


def test_paused_trainings_show_in_the_status_and_end_as_if_they_had_not_paused(place, trained):
    folder = place / "paused"
    train = (
        "train",
        "tiny.toml",
        "--out",
        folder,
        "--jobs",
        "1",
        "--device",
        "cpu",
        "--only",
        "hidden_size=4",
    )
    done = run(place, *train, "--until", "20")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("are paused: 'train' resumes them") == 1
    shown = run(place, "train", "tiny.toml", "--out", folder, "--status").stdout
    paused = [line for line in shown.splitlines() if line.startswith("  paused ")]
    assert len(paused) == done.stderr.count("Paused: hidden_size=4")
    assert paused and all(int(line.partition("at update ")[2].split()[0]) >= 20 for line in paused)
    ended = run(place, *train)
    assert ended.returncode == 0, ended.stderr
    expected = {r.key: r for r in read_ledger(trained / "ledger.jsonl").records}
    for record in read_ledger(folder / "ledger.jsonl").records:
        other = expected[record.key]
        assert record.status == other.status
        for name in ("dev_ppl", "test_ppl", "num_updates"):
            assert record.metrics.get(name) == other.metrics.get(name)
        assert [p["dev_ppl"] for p in record.curve] == [p["dev_ppl"] for p in other.curve]
    # Neither this run nor the one that was killed has left a state.
    assert list((place / "home" / "training" / "states").glob("*/*")) == []


def test_what_cannot_be_paused_says_so(place):
    text = SPEC.replace("awd-lstm", "dynamic-evaluation").replace("[grid]", "[grid]\ndynamic_segment = [5]")
    text = text.replace("cache_window = 0\n", "").replace('"none"', '"sgd"')
    (place / "dynamic.toml").write_text(text)
    done = run(place, "train", "dynamic.toml", "--until", "10", "--device", "cpu")
    assert (done.returncode, done.stderr) == (
        2,
        "Error: trainings of family 'dynamic-evaluation' cannot be paused.\n",
    )


def test_a_record_tells_how_it_came_about(trained):
    for record in read_ledger(trained / "ledger.jsonl").records:
        assert record.seconds > 0
        assert record.device.startswith("cpu")
        assert {"python", "numpy", "torch", "hpobench-nmt"} <= set(record.versions)
        assert record.started.endswith("+00:00")
        if record.status == "done":
            assert not record.converged  # after four epochs
            assert record.metrics["dev_ppl"] > 1
            points = [point["dev_ppl"] for point in record.curve]
            assert len(points) >= 2
            assert min(points) < 14  # what a guess has
        else:
            assert record.config["learning_rate"] == 10000
            assert "diverged" in record.reason or "learned nothing" in record.reason


def test_a_finished_run_has_nothing_to_do(trained, place):
    before = (trained / "ledger.jsonl").read_bytes()
    done = run(place, "train", "tiny.toml", "--out", trained, "--device", "cpu", "--quiet")
    assert done.returncode == 0, done.stderr
    assert (trained / "ledger.jsonl").read_bytes() == before


def test_the_table_of_a_ledger(trained, place):
    done = run(place, "tables", "build", trained / "ledger.jsonl")
    assert done.returncode == 0, done.stderr
    assert "4 of 6 configurations, 2 failed, complete" in done.stdout
    table = hb.load_table(trained)
    assert [h.name for h in table.hyperparameters] == ["hidden_size", "learning_rate"]
    assert table.hyperparameters[1].values == (1, 5)  # where everything failed there is nothing to look up
    assert [m.name for m in table.metrics] == ["dev_ppl", "test_ppl", "num_param", "num_updates"]
    assert table.objectives == ("dev_ppl", "num_param")
    assert table.claims == {"configurations": 6, "failed": 2, "complete": True}
    assert table.provenance["not_converged"].startswith("4 (a limit of epochs")
    assert "learned nothing" in table.provenance["failed"] or "diverged" in table.provenance["failed"]
    by_config = {
        tuple(r.config.values()): r for r in read_ledger(trained / "ledger.jsonl").records if not r.replicate
    }
    for config, values in zip(table.configs.tolist(), table.to_frame().to_dict("records"), strict=True):
        assert values["dev_ppl"] == by_config[tuple(config)].metrics["dev_ppl"]


def test_replicates_stand_beside_the_table_and_are_installed_with_it(trained, place, monkeypatch):
    run(place, "tables", "build", trained)
    again = load_folder(trained).replicates.to_frame()
    spec = load_spec(trained / "spec.toml")
    expected = {
        r.key for r in read_ledger(trained / "ledger.jsonl").records if r.replicate and r.status == "done"
    }
    assert len(again) == len(expected)
    assert set(again["replicate"]) <= {1.0}
    table = hb.load_table(trained).to_frame()
    for row in again.to_dict("records"):
        twin = table[
            (table.hidden_size == row["hidden_size"]) & (table.learning_rate == row["learning_rate"])
        ]
        assert row["dev_ppl"] != twin["dev_ppl"].item()
        config = {"hidden_size": row["hidden_size"], "learning_rate": row["learning_rate"]}
        assert row["seed"] == spec.training_seed(config, 1)
    assert run(place, "tables", "add", trained).returncode == 0
    monkeypatch.setenv("HPOBENCH_NMT_HOME", str(place / "home"))
    installed = place / "home" / "tables" / "tiny"
    assert load_folder(installed).replicates.to_frame().equals(again)
    for name in ("spec.toml", "ledger.jsonl"):  # with the learning curves
        assert (installed / name).read_bytes() == (trained / name).read_bytes()
    assert "✓ built from the ledger beside it" in run(place, "tables", "check", "tiny").stdout
    (installed / "replicates.csv").write_text("x\n1\n")
    with pytest.raises(hb.InputError, match="SHA-256"):
        load_folder(installed).replicates.to_frame()


def test_the_same_seed_gives_the_same_rows_however_they_are_trained(trained, place):
    out = place / "again"
    only = ("--only", "hidden_size=8", "--limit", "2")
    done = run(place, "train", "tiny.toml", "--out", out, "--jobs", "1", "--device", "cpu", *only)
    assert done.returncode == 0, done.stderr
    first = read_ledger(trained / "ledger.jsonl").finished()
    second = read_ledger(out / "ledger.jsonl").finished()
    assert [json.loads(key)["hidden_size"] for key, _ in second] == [8.0, 8.0]
    for key, record in second.items():
        twin = first[key]
        assert (record.status, record.seed) == (twin.status, twin.seed)
        for metric in ("dev_ppl", "test_ppl", "num_updates"):  # not the times
            assert record.metrics.get(metric) == twin.metrics.get(metric)
        assert [p["dev_ppl"] for p in record.curve] == [p["dev_ppl"] for p in twin.curve]


def test_the_copy_of_the_spec_trains_the_same_from_where_it_lies(trained, place):
    copy = trained / "spec.toml"
    before = copy.read_bytes()
    done = run(place, "train", copy, "--out", trained, "--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert "6 trained, 2 failed, 0 to do" in done.stdout
    assert copy.read_bytes() == before
    elsewhere = place / "deep" / "er"
    done = run(
        place, "train", copy, "--out", elsewhere, "--device", "cpu", "--only", "hidden_size=4", "--limit", "1"
    )
    assert done.returncode == 0, done.stderr
    again = (elsewhere / "spec.toml").read_text()
    assert again.count("base") == 1
    assert load_spec(elsewhere / "spec.toml").base.resolve() == place


def unchained(ledger):
    """The text of a ledger without its hashes, as an earlier version wrote it."""
    return re.sub(r',"chain":"\w+"', "", ledger.read_text()).replace('{"ledger":2', '{"ledger":1')


def test_devices_are_not_mixed_unawares(trained, place):
    if find_devices("auto") != ["cpu"]:
        pytest.skip("there is a CUDA device here")
    mixed = place / "mixed"
    shutil.copytree(trained, mixed)
    ledger = mixed / "ledger.jsonl"
    ledger.write_text(unchained(ledger).replace('"device":"cpu, ', '"device":"cuda:0: Some GPU, '))
    for command in (("train",), ("tune", "--lookups", "1")):
        done = run(place, *command, "tiny.toml", "--out", "mixed")
        assert done.returncode == 2
        assert "Some GPU" in done.stderr
        assert "--device cpu" in done.stderr
    assert run(place, "train", "tiny.toml", "--out", "mixed", "--device", "cpu").returncode == 0


@pytest.mark.hosts
def test_two_runs_at_one_ledger_share_the_work(place, start):
    out = place / "shared"
    arguments = ("train", "tiny.toml", "--out", out, "--jobs", "1", "--device", "cpu", "--quiet")
    arguments += ("--only", "hidden_size=4")
    runs = [start(place, *arguments, stderr=subprocess.PIPE) for _ in range(2)]
    errors = [process.communicate(timeout=240)[1] for process in runs]
    assert [process.returncode for process in runs] == [0, 0], errors
    records = [json.loads(line) for line in lines(out / "ledger.jsonl")]
    assert len(records) == len({(json.dumps(r["config"]), r["replicate"]) for r in records})
    only = select(load_spec(place / "tiny.toml"), ["hidden_size=4"])
    assert len(records) == 3 + len(set(only) & set(load_spec(place / "tiny.toml").replicate_rows))


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


def test_rows_of_two_processors_in_one_ledger_are_told_of(trained, place):
    mixed = place / "processors"
    shutil.copytree(trained, mixed)
    ledger = unchained(mixed / "ledger.jsonl")
    old = re.sub(r'(?m)^(.*"hidden_size":4.*"device":"cpu, one thread: )[^"]*"', r'\1Old One"', ledger)
    (mixed / "ledger.jsonl").write_text(old)
    rows = sum("Old One" in line and '"status":"done"' in line for line in old.splitlines())
    sentence = rf"Rows were trained on .*cpu, one thread: Old One \({rows} rows\).*: times of different"
    done = run(place, "train", "tiny.toml", "--out", "processors", "--device", "cpu")
    assert re.search(sentence, done.stderr)
    done = run(place, "tables", "build", "processors")
    assert "Old One" in (said := hb.load_table(mixed).provenance["devices_differ"])
    assert said in done.stdout
    done = run(place, "train", "tiny.toml", "--out", trained, "--device", "cpu")
    assert "Rows were" not in done.stderr


def test_where_no_training_succeeded_no_table_is_suggested(place):
    (place / "hopeless.toml").write_text(SPEC.replace("[1, 5, 10000]", "[10000]").replace("[4, 8]", "[4]"))
    done = run(place, "train", "hopeless.toml", "--out", "hopeless", "--device", "cpu", "--quiet")
    assert done.returncode == 0, done.stderr
    assert "No training has succeeded" in done.stdout
    assert "tables build" not in done.stdout


def test_limit_stops_early(place):
    done = run(place, "train", "tiny.toml", "--out", "few", "--device", "cpu", "--quiet", "--limit", "1")
    assert done.returncode == 0, done.stderr
    assert len(lines(place / "few" / "ledger.jsonl")) == 1


def test_the_best_row_is_trained_again_in_the_same_run(place):
    text = SPEC.replace("configurations = 2\ntrainings = 1", "best = 1\nsame_seed = 1")
    (place / "best.toml").write_text(text.replace("[1, 5, 10000]", "[1, 5]").replace("[4, 8]", "[4]"))
    done = run(place, "train", "best.toml", "--out", "best", "--device", "cpu", "--jobs", "1", "--quiet")
    assert done.returncode == 0, done.stderr
    first, second, again = read_ledger(place / "best" / "ledger.jsonl").records
    best = min(first, second, key=lambda record: record.metrics["dev_ppl"])
    assert (again.config, again.seed, again.replicate) == (best.config, best.seed, SAME_SEED + 1)
    assert again.metrics["dev_ppl"] == best.metrics["dev_ppl"]  # on the same machine


def test_without_a_terminal_a_line_tells_of_each_training(place):
    done = run(place, "train", "tiny.toml", "--out", "told", "--device", "cpu", "--only", "learning_rate=5")
    assert done.returncode == 0, done.stderr
    line = r"^(\d) of (\d): hidden_size=\d learning_rate=5: dev_ppl=[\d.]+ .* s\)$"
    told = re.findall(line, done.stderr, re.MULTILINE)
    assert len(told) >= 2
    assert [int(number) for number, _ in told] == list(range(1, int(told[0][1]) + 1))


def test_tuning_trains_what_a_method_asks_for_and_goes_on_where_it_was(trained, place):
    tune = ("tune", "tiny.toml", "--method", "BO_EI_M", "--out", "tuned", "--device", "cpu", "--seed", "1")
    first = run(place, *tune, "--lookups", "4")
    assert first.returncode == 0, first.stderr
    ledger = place / "tuned" / "ledger.jsonl"
    assert len(lines(ledger)) == 4
    second = run(place, *tune, "--lookups", "6")
    assert second.returncode == 0, second.stderr
    assert second.stdout.count("from the ledger") == 4
    assert len(lines(ledger)) == N_CONFIGS
    steps = [line.split("  (")[0] for line in first.stdout.splitlines() if "->" in line]
    assert [line.split("  (")[0] for line in second.stdout.splitlines() if "->" in line][:4] == steps
    assert "failed: " in second.stdout
    best = min(
        (r for r in read_ledger(ledger).records if r.status == "done"), key=lambda r: r.metrics["dev_ppl"]
    )
    assert f"Best: hidden_size={best.config['hidden_size']}" in second.stdout


def test_a_method_that_fails_is_not_passed_over(trained, place):
    (place / "sulky.py").write_text(
        "class Sulky:\n"
        "    def __init__(self, problem, rng): pass\n"
        "    def ask(self): raise ValueError('no idea')\n"
        "    def tell(self, index, losses): pass\n"
    )
    tune = ("tune", "tiny.toml", "--method", "sulky.py:Sulky", "--lookups", "5", "--out", trained)
    done = run(place, *tune, "--device", "cpu")
    assert done.returncode == 1
    assert "Best: " in done.stdout
    assert re.search("Sulky failed after 3 look-ups: .*no idea", done.stderr)
    assert not (trained / "reserve").exists()


@pytest.mark.parametrize(
    ("values", "shown"),
    [([9.0, 7.0, math.inf], "  █▁ 7.00"), ([math.nan, 7.0], ""), ([3.0, 3.0], "  ▁▁ 3.00")],
)
def test_a_curve_that_diverged_is_shown_as_far_as_it_has_numbers(values, shown, monkeypatch):
    monkeypatch.setattr("hpobench_nmt.cli.train._ASCII_BARS", "▁▂▃▄▅▆▇█")
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
        (("tune", "tiny.toml", "--method", "BO_EI_N"), "Did you mean"),
        (("tune", "tiny.toml", "--objectives", "dev_pll"), "Did you mean 'dev_ppl'"),
        (("tune", "tiny.toml", "--objectives", "dev_ppl,dev_ppl"), "the same objective twice"),
        (
            ("tune", "tiny.toml", "--method", "BO_EI_M", "--objectives", "dev_ppl,num_param"),
            "is for 1 objective, not",
        ),
        (
            ("tune", "tiny.toml", "--device", "cuda:0,cuda:1"),
            "give one device, or train several configurations at a time with --workers",
        ),
        (("tables", "build", "none.jsonl"), "cannot be read"),
    ],
)
def test_wrong_input_is_one_line(place, arguments, message):
    done = run(place, *arguments)
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert re.search(message, line)


def test_a_ledger_of_another_spec_is_refused_and_kept(trained, place):
    (place / "other.toml").write_text(SPEC.replace("max_epochs = 4", "max_epochs = 5"))
    before = (trained / "ledger.jsonl").read_bytes()
    done = run(place, "train", "other.toml", "--out", trained, "--device", "cpu")
    assert done.returncode == 2
    assert "belongs to another spec: max_epochs is 4 there, 5 here" in done.stderr
    assert (trained / "ledger.jsonl").read_bytes() == before


def test_a_corpus_that_changed_is_refused(trained, place, tmp_path):
    for name in ("dev.txt", "test.txt", "tiny.toml"):
        (tmp_path / name).write_text((place / name).read_text())
    (tmp_path / "train.txt").write_text((place / "train.txt").read_text() + "w1 w2\n")
    done = run(place, "train", tmp_path / "tiny.toml", "--out", trained, "--device", "cpu")
    assert done.returncode == 2
    assert "the corpus has changed" in done.stderr


def test_a_corpus_that_changes_during_a_run_ends_it(place, tmp_path):
    for name in ("train.txt", "dev.txt", "test.txt", "tiny.toml"):
        shutil.copy(place / name, tmp_path)
    train = ("train", tmp_path / "tiny.toml", "--out", tmp_path / "out", "--device", "cpu", "--jobs", "1")
    spec = load_spec(tmp_path / "tiny.toml")
    workspace, _ = open_workspace(spec, tmp_path / "out", tmp_path / "cache")
    (tmp_path / "train.txt").write_text((tmp_path / "train.txt").read_text()[:400])
    processes = Processes()
    with pytest.raises(InputError, match="corpus 'text' has changed since this run began"):
        train_and_record(workspace, 0, 0, "cpu", processes)
    processes.stop()
    assert lines(tmp_path / "out" / "ledger.jsonl") == []
    assert run(place, *train).returncode == 2


def test_the_status_of_a_shard_is_of_its_own_trainings(place, tmp_path):
    part = ("train", "tiny.toml", "--shard", "1/4", "--out", tmp_path / "part", "--device", "cpu", "--quiet")
    assert run(place, *part).returncode == 0
    assert " 0 to do." in run(place, *part, "--status").stdout


def test_tuning_by_what_is_not_measured_is_refused(place, tmp_path):
    text = SPEC.replace('"num_param", "num_updates"', '"num_param", "num_updates", "dev_bpc"')
    (place / "blind.toml").write_text(text)
    tune = ("tune", "blind.toml", "--out", tmp_path / "t", "--device", "cpu", "--objectives", "dev_bpc")
    done = run(place, *tune, "--method", "RS", "--lookups", "6")
    assert done.returncode == 2
    assert re.search(
        r"none of 3 trainings measured dev_bpc\. Name a measured metric with --objectives: .*dev_ppl",
        done.stderr,
    )


def test_nothing_but_the_runner_imports_torch():
    code = "import sys, hpobench_nmt, hpobench_nmt.cli.main; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
