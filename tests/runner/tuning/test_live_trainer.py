"""Tuning with several trainings at a time, which are stopped on the way, killed, and gone on with."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Empty, SimpleQueue

import numpy as np
import pytest

from hpobench_nmt.benchmarking.contestants.plugins import resolve_methods
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trajectory import Trajectory
from hpobench_nmt.runner.disk.save_requests import LISTENS
from hpobench_nmt.runner.ledgers.ledger import read_ledger
from hpobench_nmt.runner.specs.spec_file import load_spec
from hpobench_nmt.runner.training.train_row import Unfinished
from hpobench_nmt.runner.training.workspace import open_workspace
from hpobench_nmt.runner.tuning import live_trainer
from hpobench_nmt.runner.tuning.journal import Journal
from hpobench_nmt.runner.tuning.tune import pick_metrics, tune

pytest.importorskip("torch", reason="torch is not installed: pip install 'hpobench-nmt[train]'")
pytest.importorskip("filelock")

SPEC = """
name = "live"
title = "a tiny AWD-LSTM"
family = "awd-lstm"
objectives = ["dev_ppl"]
metrics = ["dev_ppl", "test_ppl", "num_updates"]

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
embedding_size = 4
batch_size = 4
bptt = 10
max_epochs = 3
clip = 0
cache_window = 0
dynamic_rule = "none"
"""
TUNE = ("tune", "live.toml", "--methods", "ASHA", "--jobs", "2", "--updates", "20,60", "--device", "cpu")


@pytest.fixture
def at(place, monkeypatch):
    """The folder with the corpus and the spec; each test has a ledger of its own."""
    (place / "live.toml").write_text(SPEC)
    monkeypatch.chdir(place)
    monkeypatch.setenv("HPOBENCH_NMT_HOME", str(place / "home"))
    return place


def journal_in(folder):
    (path,) = folder.glob("tuning-*.jsonl")
    return path


def events_in(folder):
    return [json.loads(line) for line in journal_in(folder).read_text().splitlines()[1:]]


@pytest.mark.hosts
@pytest.mark.parametrize(
    ("number", "trained"),
    [(signal.SIGKILL, 0), (signal.SIGKILL, 2), (signal.SIGTERM, 1)],
    ids=["killed-early", "killed-late", "stopped"],
)
def test_a_run_that_is_killed_resumes_where_it_was(at, run_here, number, trained):
    out = f"{number.name}-{trained}"
    arguments = [*TUNE, "--lookups", "3", "--out", out]
    process = subprocess.Popen(
        [sys.executable, "-m", "hpobench_nmt", *arguments], start_new_session=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    folder, deadline = at / out, time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        events = events_in(folder) if list(folder.glob("tuning-*.jsonl")) else []
        if len(events) >= 3 and sum(event["done"] for event in events) >= trained:
            break
        time.sleep(0.02)
    if number == signal.SIGKILL:
        os.killpg(process.pid, number)
        process.communicate()
    else:
        process.send_signal(number)
        errors = process.communicate(timeout=60)[1]
        assert process.returncode == 143, errors
        # If no training has got as far as saving, the message says so.
        saved = r"the state of every training is saved|trainings resume from their last saved state"
        assert re.search(rf"stopped by SIGTERM; ({saved})\. Run the same command", errors), errors
    before = events_in(folder)
    assert len(before) >= 3
    with journal_in(folder).open("ab") as file:
        file.write(b'{"number":9')  # a line that the kill cut short
    shown = run_here(*arguments).stdout.splitlines()
    events = events_in(folder)
    assert events[: len(before)] == before
    assert [line.endswith("(before)") or "(before)  best" in line for line in shown[: len(events)]] == [
        i < len(before) for i in range(len(events))
    ]
    # Every row that was begun has ended in the end, and its record is in the ledger, once.
    rows = {event["row"] for event in events}
    assert len(rows) == 3
    assert sorted(event["row"] for event in events if event["done"]) == sorted(rows)
    assert len(read_ledger(folder / "ledger.jsonl").records) == 3
    stops = [event for event in events if not event["done"]]
    assert len(stops) >= 3  # each of the three was stopped once or more
    assert (np.diff([event["finish"] for event in events]) >= 0).all()
    # Nothing is left to do: the same is told again, without a training.
    again = run_here(*arguments).stdout.splitlines()
    assert all("(before)" in line for line in again[: len(events)])
    assert again[-2:] == shown[-2:]
    assert events_in(folder) == events


def tuned(at, out, method="RS", **options):
    spec = load_spec(at / "live.toml")
    workspace, _ = open_workspace(spec, at / out, at / "home" / "training")
    (named,) = resolve_methods([method])
    settings = {"lookups": 3, "seed": 0, "devices": ["cpu"], "workers": 2} | options
    return tune(workspace, named.load(), named.name, named.entry.identity, pick_metrics(spec, ()), **settings)


def test_whole_trainings_several_at_a_time(at):
    """Of which the ledger holds what the method was told."""
    trial = tuned(at, "whole")
    assert isinstance(trial, Trajectory)
    assert trial.failure == ""
    records = {record.key: record for record in read_ledger(at / "whole" / "ledger.jsonl").records}
    assert len(records) == len(trial.rows) == 3
    known = sorted(r.metrics.get("dev_ppl", math.nan) for r in records.values())
    np.testing.assert_array_equal(sorted(trial.losses[:, 0]), known)
    times = trial.timing
    assert set(times.workers.tolist()) == {0, 1}
    second = times.starts[np.argsort(times.starts)[1]]
    assert second < times.finishes.min()  # two at a time
    assert not (at / "whole" / "work").exists()


def test_a_search_whose_method_has_changed_starts_again_with_a_warning(at):
    mine = at / "mine.py"
    mine.write_text("from hpobench_nmt.methods.random_search import RandomSearch as Mine\n")
    tuned(at, "changed", f"{mine}:Mine", lookups=1, n_initial=1)
    tuned(
        at, "changed", f"{mine}:Mine", lookups=1, n_initial=1
    )  # resumed without a warning, which would raise
    tuned(at, "changed", f"{mine}:Mine", lookups=2, n_initial=1)  # other settings: a search of its own
    with mine.open("a") as file:
        file.write("SETTING = 1\n")
    (at / "changed" / "tuning-abc.jsonl").write_text('{"method": "RS", "look')  # another search's, cut short
    with pytest.warns(UserWarning, match="Mine or its libraries may have changed since this search"):
        tuned(at, "changed", f"{mine}:Mine", lookups=1, n_initial=1)
    assert len(list((at / "changed").glob("tuning-*.jsonl"))) == 4
    assert len(read_ledger(at / "changed" / "ledger.jsonl").records) == 2  # nothing was trained twice


def test_what_finds_no_memory_is_tried_again_beside_fewer_others_and_at_last_alone():
    """Three small trainings, and one that fits beside none of them."""
    room, lock, running, tries = live_trainer.Room(), threading.Lock(), set(), []

    def training(name, seconds, fits):
        def train(last):
            with lock:
                running.add(name)
                others = len(running) - 1
            time.sleep(seconds)
            with lock:
                running.discard(name)
            if name == "large":
                tries.append((others, last))
                return "done" if fits(others) else Unfinished("again", "out of memory")
            return "done"

        return lambda: room.trained(train)

    small = [training(str(i), 0.3 * (i + 1), None) for i in range(3)]
    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(each) for each in small]
        time.sleep(0.1)
        found.append(pool.submit(training("large", 0.01, lambda others: others == 0)))
        assert [each.result() for each in found] == ["done"] * 4
    assert tries == [(3, False), (2, False), (1, False), (0, True)]
    tries.clear()
    never = room.trained(lambda last: tries.append(last) or Unfinished("again", "out of memory"))
    assert never.kind == "again" and tries == [False, True]


def test_when_the_time_is_over_nothing_is_waited_for(at):
    trial = tuned(at, "short", "ASHA", updates=(20, 60), seconds=0.0)
    assert (len(trial.rows), trial.failure) == (0, "")


class _Out(SimpleQueue):
    """A queue of ended trainings whose time is over as soon as a training can be asked to save."""

    def get(self, timeout=None):
        deadline = time.monotonic() + 60
        while not list(Path(os.environ["HPOBENCH_NMT_HOME"]).rglob(LISTENS)):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        raise Empty


def test_when_the_time_is_over_trainings_save_before_they_are_ended(at, monkeypatch):
    monkeypatch.setattr("hpobench_nmt.runner.tuning.live_trainer.SimpleQueue", _Out)
    long = SPEC.replace("max_epochs = 3", "max_epochs = 100000").replace("[1, 5, 10000]", "[0.001]")
    (at / "live.toml").write_text(long)
    before = set((at / "home").rglob("training.pt"))
    trial = tuned(at, "hours", "ASHA", updates=(10**6, 2 * 10**6), seconds=1.0, workers=1)
    assert len(trial.rows) == 0
    assert len(set((at / "home").rglob("training.pt")) - before) == 1


def test_a_metric_that_checkpoints_lack_is_refused(at):
    spec = load_spec(at / "live.toml")
    workspace, _ = open_workspace(spec, at / "other", at / "home" / "training")
    (named,) = resolve_methods(["ASHA"])
    metrics = pick_metrics(spec, ["test_ppl"])
    message = r"trainings cannot be stopped early by test_ppl \(--updates\): .* --objectives: dev_ppl\."
    with pytest.raises(InputError, match=message):
        tune(workspace, named.load(), named.name, named.entry.identity, metrics, 2, 0, ["cpu"], 1, (20, 60))
    assert not workspace.work.exists()  # nothing was started


def test_a_journal_that_does_not_fit_is_refused(at):
    tuned(at, "fits", lookups=1, workers=1, n_initial=1, seconds=1e6)
    path = journal_in(at / "fits")
    text = path.read_text()
    for change, message in (
        (text.replace('"number":1', '"number":2'), "does not match the method's current choices"),
        (text.replace('"checkpoint":1', '"checkpoint":0'), "line 2: checkpoint must be"),
        (text.replace('"done":true', '"done":true,"x":1'), "unknown key 'x'"),
    ):
        path.write_text(change)
        with pytest.raises(InputError, match=message):
            tuned(at, "fits", lookups=1, workers=1, n_initial=1, seconds=1e6)
    path.write_text(text)
    assert tuned(at, "fits", lookups=1, workers=1, n_initial=1, seconds=1e6).failure == ""


def test_a_tuning_run_is_not_done_twice_at_once(at):
    tuned(at, "once", lookups=1, workers=1, n_initial=1, seconds=1e6)
    with (
        Journal(journal_in(at / "once"), {}).held(),
        pytest.raises(InputError, match="another run with the same settings is running"),
    ):
        tuned(at, "once", lookups=1, workers=1, n_initial=1, seconds=1e6)
    assert tuned(at, "once", lookups=1, workers=1, n_initial=1, seconds=1e6).failure == ""


def test_a_journal_is_of_its_settings(tmp_path):
    journal = Journal.of(tmp_path, {"method": "RS", "rows": (1, 2)})
    for head in (
        "{}",
        '{"tuning": 2, "method": "RS", "rows": [1, 2]}',
        '{"tuning": 1, "method": "RS"}',
        "what",
    ):
        journal.path.write_text(head + "\n")
        with pytest.raises(InputError, match="line 1"):
            journal.read()
    journal.path.write_text('{"tuning": 1, "rows": [1, 2], "method": "RS"}\n')
    assert journal.read() == []


def test_a_journal_is_not_written_through_a_link(tmp_path):
    journal = Journal.of(tmp_path, {"method": "RS"})
    journal.path.symlink_to(tmp_path / "victim")
    with pytest.raises(InputError, match="link"):
        journal.read()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--methods", "ASHA"), "ASHA stops trainings early: give the updates of the first stop"),
        (("--updates", "60,20"), "the smaller number first"),
        (("--updates", "a"), "must be FIRST,WHOLE"),
        (("--device", "cuda:0,cuda:1"), "give one device"),
    ],
)
def test_wrong_options_are_one_line(at, run_here, arguments, message):
    assert message in run_here("tune", "live.toml", *arguments, check=2).stderr
