"""Runs on a clock: how long they are, which methods they take, and the same bytes from the same seed."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import hpobench_nmt as hb
from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.benchmarking.contestants.plugins import resolve_methods
from hpobench_nmt.benchmarking.records.store import load_results
from hpobench_nmt.benchmarking.run import run_suite
from hpobench_nmt.benchmarking.task.instance import suite_instances
from hpobench_nmt.benchmarking.task.scoring import length_of, score_of
from hpobench_nmt.benchmarking.task.suite import Suite
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trajectory import Timeline, Trajectory
from hpobench_nmt.lookup.disk.folder import save_folder
from hpobench_nmt.methods.early.successive_halving import ASHA


def test_how_long_a_trial_was():
    on_look_ups = Trajectory(np.arange(3), np.ones((3, 1)), "")
    assert length_of(on_look_ups) == 3.0
    times = np.array([2.0, 2.5, 4.0])
    on_a_clock = dataclasses.replace(on_look_ups, timing=Timeline(times, times, times, times, np.arange(3)))
    assert length_of(on_a_clock) == 4.0
    nothing = Trajectory(np.empty(0, int), np.empty((0, 1)), "it broke")
    for timing in (None, Timeline.of_lookups(0)):
        assert length_of(dataclasses.replace(nothing, timing=timing)) == 0.0


def test_a_runtime_is_never_less_than_the_initial_design(curved):
    results = benchmark(curved, ["RS"], trials=40, workers=2, n_initial=3, stop="exhausted",
                           scores=("ftb",), clock="cost")  # fmt: skip
    instance = results.instances["toy"]
    (goal,) = instance.goals
    for trial in results.trials["toy", "RS"]:
        time = trial.timing
        begun = np.lexsort((time.workers, time.starts))[:3]
        met = time.finishes[np.flatnonzero(goal.targets[trial.candidates])[0]]
        assert score_of(instance, goal, trial) == max(met, time.finishes[begun].max())


def test_on_look_ups_a_trials_time_is_the_number_of_them(toy):
    at = {"time": {"default": 9, "toy": 7}, "stop": "exhausted", "scores": ("ftb",), "trials": 2}
    results = benchmark(toy, ["RS", "ASHA"], **at)
    for trials in results.trials.values():
        assert [len(trial.rows) for trial in trials] == [7, 7]
    assert results.instances["toy"].problem.lookups == 7
    fewer = benchmark(toy, ["RS"], lookups=5, **at)
    assert {len(trial.rows) for trial in fewer.trials["toy", "RS"]} == {5}


def test_methods_that_only_suggest_run_on_look_ups_too(toy):
    mine = partial(ASHA, eta=4)
    mine.__name__ = "Mine"
    results = benchmark(toy, ["ASHA", "ASHA(eta=4)", "RS", mine], trials=5, scores=("ftb",))
    assert results.failures() == []
    for method in ("ASHA", "ASHA+eta-4", "Mine"):
        assert all(trial.timing is None for trial in results.trials["toy", method])


def test_a_sequential_method_with_several_workers_is_refused_and_one_that_crashes_fails(curved, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import os\n"
        "class One:\n"
        "    def __init__(self, problem, rng): self.n = -1\n"
        "    def ask(self): self.n += 1; return self.n\n"
        "    def tell(self, index, losses): pass\n"
        "class Crash(One):\n"
        "    def suggest(self, running): os._exit(3)\n"
        "def made(problem, rng): return One(problem, rng)\n"
    )
    one, crash, made = (f"{tmp_path / 'mine.py'}:{name}" for name in ("One", "Crash", "made"))
    rules = {"trials": 2, "workers": 2, "clock": "cost", "scores": ("ftb",)}
    for method, name in ((one, "One"), ("pymoo.NSGA2", "pymoo.NSGA2")):
        more = {"scores": ("fto",), "objectives": ("bleu", "seconds")} if name != "One" else {}
        with pytest.raises(
            hb.InputError, match=f"method '{name}': its class has no suggest, .* use 1 worker, not 2"
        ):
            benchmark(curved, ["RS", method], **rules | more)
    found = benchmark(curved, [made, crash], **rules)
    reasons = {method: reason for _, method, _, reason in found.failures()}
    assert "a One, has no suggest" in reasons["made"]  # what a function makes is only seen then
    assert "ended its process (exit code 3)" in reasons["Crash"]
    for trial in found.trials["toy", "Crash"]:
        assert len(trial.rows) == len(trial.timing.finishes) == 3  # the initial design


def test_scores_after_a_time_need_the_time(curved):
    call = {"trials": 1, "clock": "cost"}
    assert benchmark(curved, ["RS"], **call).suite.scores == ("ftb", "ftc")
    after = benchmark(curved, ["RS"], **call, score_at=12.5)
    assert after.suite.scores == ("ftb", "ftc", "fb") and after.suite.score_at == {"default": 12.5}
    with pytest.raises(hb.InputError, match="score_at"):
        benchmark(curved, ["RS"], **call, scores=["fb"])


def test_learning_curves_may_come_later_where_a_metric_says_the_cost(toy, curved, home, tmp_path):
    def run():
        suite = Suite("s", ("ftb",), clock="cost", cost="seconds", tables=("toy",), trials=2)
        return run_suite(suite, suite_instances(suite), resolve_methods(["RS"]), folder=tmp_path / "r")

    save_folder(toy, home / "tables" / "toy")
    before = run().scores()
    save_folder(curved, home / "tables" / "toy")
    manifest = json.loads((tmp_path / "r" / "manifest.json").read_text())
    del manifest["sha256"]
    # Those written before say which curves there were.
    manifest["tables"]["toy"]["curves"] = "0" * 64
    for text in (None, json.dumps(manifest)):
        if text is not None:
            (tmp_path / "r" / "manifest.json").write_text(text)
        assert load_results(tmp_path / "r").scores().equals(before)
        assert run().scores().equals(before)


RUN = ("run", "clocked.toml", "--quiet")
CLOCKED = """
scores = ["ftb", "ftc", "fb"]
tables = ["toy"]
methods = ["ASHA", "RS", "Hyperband", "BO_EI_M_std"]
constraints = ["seconds<=40"]
clock = "cost"
curves = true
resume = false
workers = 3
n_initial = 0
trials = 60
score_at = {default = 12.5}
"""


def test_the_same_seed_gives_the_same_bytes(curved, home, run_command, contents, tmp_path):
    """For any number of processes and hash seed, and after a kill; and the results are read again."""
    save_folder(curved, home / "tables" / "toy")
    Path("clocked.toml").write_text(CLOCKED)
    run_command(*RUN, "--jobs", "1", "--out", tmp_path / "one", PYTHONHASHSEED="1")
    reference = contents(tmp_path / "one")
    assert json.loads(reference["manifest.json"])["format"] == 4
    killed = tmp_path / "killed"
    process = subprocess.Popen(
        [sys.executable, "-m", "hpobench_nmt", *RUN, "--jobs", "2", "--out", str(killed)],
        start_new_session=True,
    )
    while not list(killed.rglob("*.parquet")) and process.poll() is None:
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    run_command(*RUN, "--jobs", "2", "--out", killed, PYTHONHASHSEED="2")
    assert contents(killed) == reference
    read = load_results(tmp_path / "one")
    assert read.suite.timed
    assert read.summary("toy", "ASHA")[0].unanswered == 0
    worse = curved.curves.values.copy()
    worse[:5] -= 0.001
    save_folder(
        dataclasses.replace(curved, curves=dataclasses.replace(curved.curves, values=worse)), tmp_path / "t"
    )
    for name in ("curves.csv", "datasheet.toml"):
        (home / "tables" / "toy" / name).write_bytes((tmp_path / "t" / name).read_bytes())
    with pytest.raises(InputError, match="the learning curves of table 'toy' have changed"):
        load_results(tmp_path / "one")
