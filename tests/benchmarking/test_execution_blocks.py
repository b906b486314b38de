"""Where blocks of trials run, and in what order: the results are the same everywhere."""

import inspect
import threading

import numpy as np
import pytest

from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.benchmarking.contestants.plugins import resolve_methods
from hpobench_nmt.benchmarking.running import execution
from hpobench_nmt.benchmarking.running.trials import plan
from hpobench_nmt.benchmarking.task.instance import make_instance
from hpobench_nmt.benchmarking.task.suite import Suite, changed
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.core.system.errors import InputError, RunError
from hpobench_nmt.lookup.table import Table

# --- where blocks run ------------------------------------------------------------------------------


class Remembers:
    """Counts its trials in the process: it looks up another row in each."""

    made = 0

    def __init__(self, problem, rng):
        type(self).made += 1
        self.left = list(range(len(problem.features)))
        self.left = self.left[self.made :] + self.left[: self.made]

    def ask(self):
        return self.left[-1]

    def tell(self, index, losses):
        self.left.remove(index)


def same_trials(one, other):
    assert one.trials.keys() == other.trials.keys()
    for key, trials in one.trials.items():
        for a, b in zip(trials, other.trials[key], strict=True):
            np.testing.assert_array_equal(a.rows, b.rows)
            np.testing.assert_array_equal(a.losses, b.losses)
            assert (a.failure, a.rows.dtype, a.losses.dtype) == (b.failure, b.rows.dtype, b.losses.dtype)


@pytest.fixture
def started(monkeypatch):
    """Counts the worker processes that are started."""
    found = []
    start_worker = execution.Workers.start
    monkeypatch.setattr(
        execution.Workers, "start", lambda self: found.append(start_worker(self)) or found[-1]
    )
    return found


def test_workers_give_what_this_process_gives(two, monkeypatch, started):
    names = ["RS", "BO_EI_M", "GB_EIF_R"]
    here = benchmark(two, names, trials=60, seed=3)
    assert not started
    small = benchmark(two, names, trials=2, seed=3, jobs=2)
    assert not started, "work that is done in a moment needs no process"
    monkeypatch.setattr(execution, "_SMALL_WORK", 0)
    same_trials(here, benchmark(two, names, trials=60, seed=3, jobs=3))
    assert len(started) == 3
    same_trials(small, benchmark(two, names, trials=2, seed=3, jobs=2))


def test_what_a_users_method_keeps_in_its_process_ends_with_the_block(two, started, tmp_path):
    (tmp_path / "remembers.py").write_text(inspect.getsource(Remembers))
    spec = f"{tmp_path / 'remembers.py'}:Remembers"
    one, many = (benchmark(two, [spec], trials=60, jobs=jobs) for jobs in (1, 4))
    same_trials(one, many)
    assert len(started) == 2 * 2 * 3  # of 25, 25 and 10 trials


def test_objects_run_in_workers_where_there_are_several(two, started):
    class Local:
        def __init__(self, problem, rng):
            self.left = rng.permutation(len(problem.features)).tolist()

        def ask(self):
            return self.left[-1]

        def tell(self, index, losses):
            self.left.remove(index)

    one = benchmark(two, [Local], trials=30)
    assert not started
    same_trials(one, benchmark(two, [Local], trials=30, jobs=2))
    assert len(started) == 4


def test_an_object_that_cannot_be_sent_is_named(toy):
    class Holds:
        def __init__(self, problem, rng):
            pass

        def ask(self):
            return 0

        def tell(self, index, losses):
            pass

    Holds.lock = threading.Lock()
    with pytest.raises(InputError, match="'Holds' cannot be sent to a worker process"):
        benchmark(toy, [Holds], trials=2, jobs=2)


def test_a_worker_of_the_package_that_is_killed_ends_the_run_with_one_line(two, monkeypatch):
    monkeypatch.setattr(execution, "_SMALL_WORK", 0)
    start_worker = execution.Workers.start

    def start_and_kill(self):
        worker = start_worker(self)
        worker.kill()
        return worker

    monkeypatch.setattr(execution.Workers, "start", start_and_kill)
    with pytest.raises(RunError, match=r"a worker process ended \(SIGKILL -9\).*again to resume"):
        benchmark(two, ["RS"], trials=30, jobs=2)


def test_a_table_is_sent_to_a_worker_once(two, monkeypatch):
    monkeypatch.setattr(execution, "_SMALL_WORK", 0)
    sent = []
    send = execution.Worker.send
    monkeypatch.setattr(
        execution.Worker,
        "send",
        lambda self, message: (sent.append((id(self), message)), send(self, message)),
    )
    benchmark(two, ["RS", "LS"], trials=50, jobs=2, scores=["ftb"])
    tables = [(n, message.name) for n, message in sent if not isinstance(message, execution.Task)]
    assert len(tables) == len(set(tables)) <= 4
    tasks = [message for _, message in sent if isinstance(message, execution.Task)]
    assert len(tasks) == 2 * 2 * 2
    assert sorted(t for task in tasks for t in task.trials) == sorted(list(range(50)) * 4)


# --- blocks ----------------------------------------------------------------------------------------


def test_a_plan_covers_every_trial_once_in_blocks_of_25(two):
    suite = Suite("s", ("ftb",), trials=60, lookups=20)
    instances = {t.name: make_instance(suite, t) for t in two}
    methods = resolve_methods(["RS", "BO_EI_M"])
    blocks = plan(suite, instances, methods, seed=4)
    expected = [(t.name, m.name, first) for t in two for m in methods for first in (0, 25, 50)]
    assert [block.key for block in blocks] == expected
    assert [block.stop - block.first for block in blocks] == [25, 25, 10] * 4
    assert [block.work for block in blocks] == [500, 500, 200] * 4
    assert all(block.seed == 4 for block in blocks)
    # What all blocks of a table share is held once.
    assert len({id(block.data) for block in blocks}) == 2
    for block in blocks:
        assert block.data.losses is instances[block.table].losses
        assert [goal.name for goal in block.data.goals] == ["ftb", "target"]
    whole = changed(suite, stop="exhausted")
    exhausting = plan(whole, {"toy": make_instance(whole, two[0])}, methods, seed=0)
    assert all(block.data.goals == () for block in exhausting)


@pytest.mark.parametrize(
    ("jobs", "backend", "message"),
    [
        (0, "local", "jobs must be a whole number of 1 or more, not 0"),
        (1, "slurm", "unknown backend 'slurm'. Known: dask, local, ray"),
    ],
)
def test_settings_that_make_no_sense_are_refused(jobs, backend, message):
    with pytest.raises(InputError, match=message):
        list(execution.run_blocks([], jobs, backend))


def test_the_old_name_of_the_local_backend_warns_and_works(toy):
    suite = Suite("s", ("ftb",), trials=2)
    blocks = plan(suite, {"toy": make_instance(suite, toy)}, resolve_methods(["RS"]), 4)
    said = r"^backend 'loky' is deprecated since version 1\.1 .*: use 'local'"
    with pytest.warns(FutureWarning, match=said):
        found = list(execution.run_blocks(blocks, 1, "loky"))
    assert [block for block, _, _ in found] == blocks


COUNTS = """
import os
from pathlib import Path

class Crashes:
    def __init__(self, problem, rng):
        if len(problem.features) < 36:  # not on the table: for its fingerprint
            return
        log = Path(__file__).with_name("log")
        with log.open("a") as file:
            file.write("x")
        if len(log.read_text()) != 8:
            os._exit(5)
        self.left = list(range(len(problem.features)))

    def ask(self):
        return self.left[-1]

    def tell(self, index, losses):
        self.left.remove(index)
"""


def test_a_method_is_given_up_after_eight_crashes_in_a_row_and_no_trial_runs_twice(toy, tmp_path):
    (tmp_path / "counts.py").write_text(COUNTS)
    trials = benchmark(toy, [f"{tmp_path / 'counts.py'}:Crashes"], trials=25).trials["toy", "Crashes"]
    crash = "the method ended its process (exit code 5)"
    given_up = "not run: 8 trials in a row ended the method's process or took too long"
    # Seven crashes, one trial that is fine, eight crashes.
    assert [t.failure for t in trials] == [crash] * 7 + [""] + [crash] * 8 + [given_up] * 9
    assert (tmp_path / "log").read_text() == "x" * 16
    assert all(len(t.rows) == 3 for n, t in enumerate(trials) if n != 7)
    assert len({tuple(t.rows[:3]) for t in trials}) == 25


def test_a_method_that_cannot_be_loaded_in_a_worker_fails_its_trials(toy, tmp_path):
    file = tmp_path / "main_only.py"
    file.write_text("import sys\nassert 'pytest' in sys.modules, 'not here'\n" + COUNTS)
    found = benchmark(toy, [f"{file}:Crashes"], trials=2).failures()
    assert len(found) == 2
    assert all("loading it in a worker process raised InputError" in reason for *_, reason in found)
    assert all("not here" in reason for *_, reason in found)


def test_tables_of_thousands_of_rows_go_through_a_worker_whole(monkeypatch):
    rng = np.random.default_rng(0)
    axes = (
        Hyperparameter("a", tuple(map(float, range(70)))),
        Hyperparameter("b", tuple(map(float, range(60)))),
    )
    configs = np.array([(a, b) for a in axes[0].values for b in axes[1].values])
    table = Table("large", axes, (Metric("score", "max"),), configs, rng.normal(size=(4200, 1)), ("score",))
    settings = {"trials": 26, "stop": "exhausted", "scores": ["ftb"]}
    here = benchmark(table, ["RS"], **settings)
    monkeypatch.setattr(execution, "_SMALL_WORK", 0)
    same_trials(here, benchmark(table, ["RS"], jobs=2, **settings))
    assert all(sorted(t.rows.tolist()) == list(range(4200)) for t in here.trials["large", "RS"])
