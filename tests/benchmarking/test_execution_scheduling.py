"""Which worker gets which block when, and what becomes of a trial: with workers that follow a script.

The scripted workers keep to what `worker.Workers` promises; the real ones are in test_execution.py and
test_execution_blocks.py.
"""

from __future__ import annotations

import dataclasses
import os
import signal
from types import SimpleNamespace

import numpy as np
import pytest

from hpobench_nmt.benchmarking.contestants.fingerprints import MethodEntry
from hpobench_nmt.benchmarking.contestants.plugins import NamedMethod, resolve_methods
from hpobench_nmt.benchmarking.running import execution, worker
from hpobench_nmt.benchmarking.running.execution import run_blocks
from hpobench_nmt.benchmarking.running.trials import plan, run_block
from hpobench_nmt.benchmarking.running.worker import Task, TaskBroken, TaskDone
from hpobench_nmt.benchmarking.task.instance import make_instance
from hpobench_nmt.benchmarking.task.suite import Suite
from hpobench_nmt.core.system.errors import InputError, RunError
from hpobench_nmt.core.system.process_server import KILLED
from hpobench_nmt.core.system.processes import Ended
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trajectory import Trajectory

METHOD = NamedMethod("M", MethodEntry(spec="m.py:M", fingerprint="one"))


def blocks_of(tables, trials, method=METHOD):
    suite = Suite("s", ("ftb",), trials=trials)
    return plan(suite, {t.name: make_instance(suite, t) for t in tables}, [method], 7)


@dataclasses.dataclass(frozen=True, eq=False)
class ScriptedWorker:
    """One of them."""

    number: int
    workers: Scripted

    def send(self, message):
        self.workers.sent.append((self.number, message))

    def call(self):
        return self.workers.calls.get(self.number)

    def opened(self):
        return frozenset()

    def kill(self):
        self.workers.killed.append(self.number)


class Scripted:
    """Workers that send what the script says: one list of (number of the worker, message) per wait."""

    def __init__(self, *script, calls=()):
        self.script = list(script)
        self.calls = dict(calls)
        """The call that each worker is in, and its seconds."""
        self.sent, self.killed, self.waits, self.workers = [], [], [], []

    def start(self):
        self.workers.append(ScriptedWorker(len(self.workers) + 1, self))
        return self.workers[-1]

    def events(self, seconds):
        self.waits.append(seconds)
        for number, message in self.script.pop(0):
            yield self.workers[number - 1], message

    def tasks(self):
        """(worker, table, trials) of each task that was sent."""
        return [(n, m.table, (m.trials.start, m.trials.stop)) for n, m in self.sent if isinstance(m, Task)]


def NOTHING(block, files): ...  # noqa: N802


def scheduled(workers, blocks, jobs, timeout=None, untrusted=False):
    runs = [execution._Running(block, block.method.source) for block in blocks]
    return list(execution._Scheduler(workers, runs, jobs, timeout, NOTHING if untrusted else None).run())


def trial(*rows, failure=""):
    return Trajectory(np.array(rows), np.ones((len(rows), 1)), failure)


# --- methods of the package ----------------------------------------------------------------------------


def test_each_worker_has_one_block_ahead_and_an_idle_one_comes_first(toy):
    workers = Scripted(
        [(2, trial(3, 1)), (1, TaskDone(1.0)), (2, TaskDone(2.0)), (2, TaskDone(3.0))],
        [(1, TaskDone(4.0)), (2, TaskDone(5.0))],
        calls={1: ("ask", 1000.0)},  # without a limit, no call is too long
    )
    blocks = blocks_of([toy], 125)
    found = scheduled(workers, blocks, 2)
    assert workers.tasks() == [
        (1, "toy", (0, 25)),
        (2, "toy", (25, 50)),
        (1, "toy", (50, 75)),
        (2, "toy", (75, 100)),
        (2, "toy", (100, 125)),
    ]
    # The table comes before its first task, and once.
    kinds = [(n, type(m).__name__) for n, m in workers.sent[:4]]
    assert kinds == [(1, "TrialTable"), (1, "Task"), (2, "TrialTable"), (2, "Task")]
    assert sum(not isinstance(m, Task) for _, m in workers.sent) == 2
    task = workers.sent[1][1]
    assert (task.method, task.source, task.seed, task.untrusted) == ("M", METHOD.source, 7, False)
    assert [(block, seconds) for block, _, seconds in found] == [
        (blocks[0], 1.0),
        (blocks[1], 2.0),
        (blocks[3], 3.0),
        (blocks[2], 4.0),
        (blocks[4], 5.0),
    ]
    (kept,) = found[1][1]
    assert kept.rows.tolist() == [3, 1]
    assert workers.killed == [1, 2]
    assert workers.waits == [None, None]


def test_no_more_workers_than_blocks_or_jobs(toy):
    for jobs, count in ((1, 1), (3, 2)):
        workers = Scripted(*[[(n, TaskDone(0.0))] for n in ((1, 1) if jobs == 1 else (1, 2))])
        assert len(scheduled(workers, blocks_of([toy], 50), jobs)) == 2
        assert len(workers.workers) == count


def test_a_block_of_another_table_waits_for_an_idle_worker(two):
    workers = Scripted([(1, TaskDone(0.0))], [(2, TaskDone(0.0)), (1, TaskDone(0.0))], [(2, TaskDone(0.0))])
    blocks = blocks_of(two, 50)
    order = [blocks[0], blocks[2], blocks[3], blocks[1]]  # toy, other, other, toy
    scheduled(workers, order, 2)
    assert workers.tasks() == [
        (1, "toy", (0, 25)),
        (2, "other", (0, 25)),
        (2, "other", (25, 50)),
        (1, "toy", (25, 50)),
    ]
    workers = Scripted([(1, TaskDone(0.0))], [(1, TaskDone(0.0))])
    scheduled(workers, [blocks[0], blocks[2]], 1)
    assert [(n, type(m).__name__) for n, m in workers.sent] == [(1, "TrialTable"), (1, "Task")] * 2


def test_a_worker_of_the_package_that_ends_or_breaks_stops_the_run(toy):
    for message, said in (
        (Ended(1), r"a worker process ended \(exit code 1\)\. Finished work is kept\."),
        (TaskBroken("OSError: no room"), r"M: OSError: no room\. Finished work is kept\."),
    ):
        with pytest.raises(RunError, match=said):
            scheduled(Scripted([(1, message)]), blocks_of([toy], 25), 1)


# --- methods of a user ---------------------------------------------------------------------------------


def test_a_users_block_has_a_worker_of_its_own_which_is_killed(toy):
    workers = Scripted([(1, trial(5)), (1, TaskDone(1.0))], [(1, Ended(KILLED)), (2, TaskDone(2.0))])
    blocks = blocks_of([toy], 50)
    found = scheduled(workers, blocks, 1, untrusted=True)
    assert workers.tasks() == [(1, "toy", (0, 25)), (2, "toy", (25, 50))]
    assert all(m.untrusted for _, m in workers.sent if isinstance(m, Task))
    assert [len(trajectories) for _, trajectories, _ in found] == [1, 0]
    assert workers.killed == [1, 2]


def test_a_trial_whose_process_ends_fails_and_the_rest_goes_on(toy, monkeypatch):
    clock = iter([10.0, 11.0, 20.0, 22.0, 30.0])
    monkeypatch.setattr(execution, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    (block,) = blocks_of([toy], 5)
    workers = Scripted(
        [(1, trial(5)), (1, Ended(3))],
        [(2, trial(6, failure="no")), (2, Ended(KILLED))],
        [(3, trial(7)), (3, TaskDone(0.5))],
    )
    ((found, trajectories, seconds),) = scheduled(workers, [block], 1, untrusted=True)
    assert found is block
    assert workers.tasks() == [(1, "toy", (0, 5)), (2, "toy", (2, 5)), (3, "toy", (4, 5))]
    assert [t.failure for t in trajectories] == [
        "",
        "the method ended its process (exit code 3)",
        "no",
        "the method closed the connection of its process",
        "",
    ]
    assert [t.rows.tolist() for t in trajectories] == [
        [5],
        block.data.initial(7, 1),
        [6],
        block.data.initial(7, 3),
        [7],
    ]
    assert {t.rows.dtype for t in trajectories} == {np.dtype(np.int64)}
    np.testing.assert_array_equal(trajectories[1].losses, toy.losses(["bleu"])[block.data.initial(7, 1)])
    assert seconds == 1 + 2 + 0.5


def test_the_block_that_was_interrupted_goes_on_before_others(toy):
    workers = Scripted([(1, Ended(1))], [(2, TaskDone(0.0))], [(3, TaskDone(0.0))])
    scheduled(workers, blocks_of([toy], 50), 1, untrusted=True)
    assert workers.tasks() == [(1, "toy", (0, 25)), (2, "toy", (1, 25)), (3, "toy", (25, 50))]


def test_a_process_that_ends_in_the_last_trial(toy):
    """The block is done, and no worker is started for nothing."""
    workers = Scripted([(1, trial(6)), (1, trial(9)), (1, trial(4)), (1, Ended(1))])
    (block,) = blocks_of([toy], 4)
    ((_, trajectories, _),) = scheduled(workers, [block], 1, untrusted=True)
    assert [t.rows.tolist() for t in trajectories[:3]] == [[6], [9], [4]]
    assert trajectories[3].failure == "the method ended its process (exit code 1)"
    assert len(workers.workers) == 1


def test_eight_in_a_row_are_too_many(toy):
    (block,) = blocks_of([toy], 20)
    crashes = [[(n, Ended(-signal.SIGSEGV))] for n in range(1, 8)]
    again = [[(n, Ended(2))] for n in range(9, 17)]
    workers = Scripted(*crashes, [(8, trial(1)), (8, Ended(2))], *again[:-1])
    ((_, trajectories, _),) = scheduled(workers, [block], 1, untrusted=True)
    given_up = "not run: 8 trials in a row ended the method's process or took too long"
    segfault = f"the method ended its process (SIGSEGV {-signal.SIGSEGV})"
    exited = "the method ended its process (exit code 2)"
    assert [t.failure for t in trajectories] == [segfault] * 7 + [""] + [exited] * 8 + [given_up] * 4
    assert trajectories[19].rows.tolist() == block.data.initial(7, 19)


def test_a_call_that_takes_too_long_fails_its_trial(toy):
    workers = Scripted([], [(1, trial(5))], [(1, Ended(KILLED))], [(2, TaskDone(0.0))])
    calls = iter([{1: ("making it", 1.5)}, {1: ("ask", 4.0)}, {1: ("ask", 9.0)}, {}])
    events = workers.events

    def and_then_another_call(seconds):
        yield from events(seconds)
        workers.calls = next(calls)

    workers.events = and_then_another_call
    (block,) = blocks_of([toy], 3)
    found = scheduled(workers, [block], 1, 4.0, untrusted=True)
    ((_, trajectories, _),) = found
    assert workers.waits == [4.0, 2.5, 0.01, 4.0]
    assert workers.killed == [1, 2]  # once for the call, once at the end
    assert [t.failure for t in trajectories] == ["", "ask took longer than the time limit of 4 s"]
    assert workers.tasks() == [(1, "toy", (0, 3)), (2, "toy", (2, 3))]


def test_the_longest_call_sets_the_wait(two):
    workers = Scripted([(1, TaskDone(0.0))], [(2, TaskDone(0.0))], calls={1: ("ask", 1.0), 2: ("tell", 3.0)})
    scheduled(workers, blocks_of(two, 25), 2, 10.0, untrusted=True)
    assert workers.waits == [7.0, 7.0]
    assert workers.killed == [1, 2]


def test_a_trial_that_ends_while_its_worker_is_being_killed_counts(toy):
    """The next one is given to a new worker and has not failed."""
    workers = Scripted(
        [], [(1, trial(5)), (1, Ended(KILLED))], [(2, TaskDone(0.0))], calls={1: ("tell", 5.0)}
    )
    (block,) = blocks_of([toy], 2)
    ((_, trajectories, _),) = scheduled(workers, [block], 1, 5.0, untrusted=True)
    assert [t.failure for t in trajectories] == [""]
    assert workers.tasks() == [(1, "toy", (0, 2)), (2, "toy", (1, 2))]
    assert workers.killed == [1, 2]


# --- where blocks run ----------------------------------------------------------------------------------


class Local:
    """A method that is given as an object."""

    def __init__(self, problem, rng):
        self.left = rng.permutation(len(problem.features)).tolist()

    def ask(self):
        return self.left[-1]

    def tell(self, index, losses):
        self.left.remove(index)


def test_who_needs_a_process():
    local, rs = (resolve_methods([m])[0] for m in (Local, "RS"))
    for method, jobs, timeout, expected in (
        (rs, 1, None, False),
        (rs, 4, 1.0, False),
        (METHOD, 1, None, True),
        (local, 1, None, False),
        (local, 2, None, True),
        (local, 1, 1.0, True),
    ):
        assert execution._needs_process(method, jobs, timeout) is expected


class Obedient(Scripted):
    """Workers that finish each task as soon as they are asked."""

    made: list[Obedient] = []  # noqa: RUF012  (emptied before each test)

    def __init__(self, warm):
        super().__init__()
        self.warm, self.answered, self.most = warm, 0, 0
        self.made.append(self)

    def __enter__(self):
        return self

    def __exit__(self, *error): ...

    def events(self, seconds):
        self.waits.append(seconds)
        tasks = [(n, message) for n, message in self.sent if isinstance(message, Task)]
        new, self.answered = tasks[self.answered :], len(tasks)
        self.most = max(self.most, len({n for n, _ in new}))
        for number, _ in new:
            yield self.workers[number - 1], TaskDone(0.25)


@pytest.fixture
def obedient(monkeypatch):
    """The workers that run_blocks makes, in order."""
    Obedient.made = []
    monkeypatch.setattr(execution, "Workers", Obedient)
    return Obedient.made


def test_small_work_is_done_here_and_large_work_by_workers(two, obedient, monkeypatch):
    blocks = [b for name in ("RS", "BO_EI_M") for b in blocks_of(two, 3, resolve_methods([name])[0])]
    work = sum(block.work for block in blocks)
    for small, jobs, expected in ((work + 1, 2, False), (work, 2, True), (0, 3, True), (0, 1, False)):
        obedient.clear()
        monkeypatch.setattr(execution, "_SMALL_WORK", small)
        found = list(run_blocks(blocks, jobs, "local"))
        assert sorted(b.key for b, _, _ in found) == sorted(b.key for b in blocks)
        assert bool(obedient) is expected
        if expected:
            (workers,) = obedient
            assert workers.warm == [("BO_EI_M", 1), ("RS", 1)]
            assert len(workers.workers) == jobs
            assert not any(m.untrusted for _, m in workers.sent if isinstance(m, Task))
            assert {seconds for _, _, seconds in found} == {0.25}
            assert set(workers.waits) == {None}


def test_methods_of_the_user_have_workers_whatever_the_size(two, obedient):
    """Those of the package run here, and an object only where there are no other jobs and no limit."""
    blocks = blocks_of(two, 2) + blocks_of(two, 2, resolve_methods(["RS"])[0])
    blocks += blocks_of(two, 2, resolve_methods([Local])[0])
    for jobs, timeout, count in ((1, None, 2), (1, 9.0, 4), (2, None, 4)):
        obedient.clear()
        found = list(run_blocks(blocks, jobs, "local", timeout))
        assert sorted(b.key for b, _, _ in found) == sorted(b.key for b in blocks)
        (workers,) = obedient
        tasks = [m for _, m in workers.sent if isinstance(m, Task)]
        assert workers.warm == []
        assert len(tasks) == len(workers.workers) == count
        assert all(task.untrusted for task in tasks)
        assert workers.most == jobs
        assert set(workers.waits) == {timeout}


@pytest.mark.parametrize("timeout", [0.0, -1.0, float("inf"), float("nan")])
def test_a_limit_of_no_length_is_refused(timeout):
    with pytest.raises(InputError, match="the time limit must be a number of seconds above 0, not"):
        list(run_blocks([], 1, "local", timeout))


def test_the_largest_blocks_come_first(toy, monkeypatch):
    started = []
    monkeypatch.setattr(execution, "Workers", lambda warm: started.append(warm))
    blocks = blocks_of([toy], 60, resolve_methods(["RS"])[0])
    found = list(run_blocks([blocks[2], blocks[0], blocks[1]], 1, "local"))
    assert [block for block, _, _ in found] == [blocks[0], blocks[1], blocks[2]]
    for block, trajectories, seconds in found:
        again, _ = run_block(block)
        assert [t.rows.tolist() for t in trajectories] == [t.rows.tolist() for t in again]
        assert seconds > 0
    assert started == []


def test_without_fork_all_runs_here(toy, monkeypatch):
    monkeypatch.delattr(os, "fork")
    blocks = blocks_of([toy], 30, resolve_methods([Local])[0])
    found = list(run_blocks(blocks, 4, "local"))
    assert [block for block, _, _ in found] == blocks
    assert [len(trajectories) for _, trajectories, _ in found] == [25, 5]
    with pytest.raises(InputError, match="a time limit cannot be kept on this operating system"):
        list(run_blocks(blocks, 1, "local", 1.0))


def test_an_unexpected_error_is_one_line(toy):
    (block,) = blocks_of([toy], 1, resolve_methods(["RS"])[0])
    one_row = Trainings.whole(toy.losses(["bleu"])[:1])
    broken = dataclasses.replace(block, data=dataclasses.replace(block.data, trainings=one_row))
    with pytest.raises(
        RunError, match=r"the run stopped \(ValueError: .*\)\. Finished work is kept\. Run the same command"
    ):
        list(run_blocks([broken], 1, "local"))


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (0, "exit code 0"),
        (5, "exit code 5"),
        (-9, "SIGKILL -9"),
        (KILLED, "SIGKILL -9"),
        (-200, "signal -200"),
    ],
)
def test_how_a_process_ended(code, text):
    assert str(Ended(code)) == text


def test_a_method_is_sent_as_a_place_or_pickled():
    assert execution._source(METHOD) == METHOD.source
    content = execution._source(resolve_methods([Local])[0])
    assert isinstance(content, bytes)
    assert worker._load(content).__name__ == "Local"
