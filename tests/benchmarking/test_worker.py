"""What a worker does with a table and a task, in this process, over a real connection."""

from __future__ import annotations

import dataclasses
import errno
import os
import signal
import socket
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest

from hpobench_nmt.benchmarking.contestants.opened_files import Notes
from hpobench_nmt.benchmarking.contestants.plugins import resolve_methods
from hpobench_nmt.benchmarking.running.trials import plan, run_block
from hpobench_nmt.benchmarking.running.worker import (
    CALLS,
    CLOCK,
    Task,
    TaskBroken,
    TaskDone,
    Worker,
    _Worker,
)
from hpobench_nmt.benchmarking.task.instance import make_instance
from hpobench_nmt.benchmarking.task.suite import Suite
from hpobench_nmt.core.trajectory import Trajectory


class Ends:
    """Both ends of a worker's connection, and the main process's view of its clock."""

    def __init__(self):
        ours, theirs = socket.socketpair()
        with tempfile.TemporaryFile() as file:
            notes = Notes(file.fileno(), CLOCK.size)
        self.ours = Connection(ours.detach())
        self.theirs = Connection(theirs.detach())
        self.worker = _Worker(self.theirs, notes)
        self.seen = object.__new__(Worker)  # without a process
        self.seen._notes = notes

    def work(self, *messages):
        """Send messages, let the worker do them to the end of the connection, and return its answers."""
        for message in messages:
            self.ours.send(message)
        half = socket.socket(fileno=os.dup(self.ours.fileno()))
        half.shutdown(socket.SHUT_WR)
        with pytest.raises(EOFError):
            self.worker.work()
        half.close()
        answers = []
        while self.ours.poll():
            answers.append(self.ours.recv())
        return answers


@pytest.fixture
def ends():
    """The handler of Ctrl-C and the current folder are this process's own again afterwards."""
    handler, home = signal.getsignal(signal.SIGINT), Path.cwd()
    both = Ends()
    yield both
    both.ours.close()
    both.theirs.close()
    signal.signal(signal.SIGINT, handler)
    os.chdir(home)


def block_of(table, method="RS", trials=3):
    suite = Suite("s", ("ftb",), trials=trials)
    return plan(suite, {table.name: make_instance(suite, table)}, resolve_methods([method]), 4)[0]


def task_of(block, source="", untrusted=False, trials=None):
    name = block.method.name
    return Task(block.table, name, source or name, block.seed, trials or range(block.stop), untrusted)


def test_a_worker_does_what_this_process_does(ends, two):
    blocks = [block_of(table) for table in two]
    messages = [blocks[0].data, task_of(blocks[0]), blocks[1].data, task_of(blocks[1]), task_of(blocks[0])]
    begun = time.perf_counter()
    answers = ends.work(*messages)
    assert [type(a).__name__ for a in answers] == [*["Trajectory"] * 3, "TaskDone"] * 3
    for place, block in zip((0, 4, 8), (blocks[0], blocks[1], blocks[0]), strict=True):
        for trajectory, answer in zip(run_block(block)[0], answers[place : place + 3], strict=True):
            np.testing.assert_array_equal(answer.rows, trajectory.rows)
            np.testing.assert_array_equal(answer.losses, trajectory.losses)
            assert answer.failure == ""
        assert 0 < answers[place + 3].seconds <= time.perf_counter() - begun
    assert ends.seen.call() is None
    # Only the trials that were asked for.
    other = Ends()
    *found, done = other.work(blocks[0].data, task_of(blocks[0], trials=range(1, 2)))
    assert isinstance(done, TaskDone)
    np.testing.assert_array_equal(found[0].rows, answers[1].rows)
    assert len(found) == 1


METHODS = """
import errno, os, signal
from pathlib import Path

seen = []

class Notes:
    def __init__(self, problem, rng):
        self.left = list(range(len(problem.features)))
        self.problem = problem
        self.note("making it")

    def note(self, what):
        seen.append((what, watch(), Path.cwd(), signal.getsignal(signal.SIGINT)))

    def ask(self):
        self.note("ask")
        return self.left[-1]

    def tell(self, index, losses):
        self.note("tell")
        self.left.remove(index)

class Moves(Notes):
    def __init__(self, problem, rng):
        super().__init__(problem, rng)
        os.chdir("/")
        signal.signal(signal.SIGINT, signal.default_int_handler)

class Writes(Notes):
    def ask(self):
        self.problem.features[:] = 0

class FillsTheDisk(Notes):
    def ask(self):
        raise OSError(errno.ENOSPC, "No space left")
"""


@pytest.fixture
def methods(ends, tmp_path):
    """A file of methods that can ask what the main process sees of them."""
    import builtins

    (tmp_path / "m.py").write_text(METHODS)
    builtins.watch = ends.seen.call
    yield lambda name: f"{tmp_path / 'm.py'}:{name}"
    del builtins.watch


def noted(source):
    """The notes of the methods of a file, which is loaded once for each task."""
    import sys

    (module,) = [m for m in sys.modules.values() if getattr(m, "__file__", None) == source.rpartition(":")[0]]
    return module.seen


def test_the_main_process_sees_which_call_is_running(ends, methods, toy):
    source = methods("Notes")
    answers = ends.work(block_of(toy).data, task_of(block_of(toy), source, True, range(2)))
    assert [a.failure for a in answers[:2]] == ["", ""]
    notes = noted(source)
    assert {what for what, *_ in notes} == {"making it", "ask", "tell"}
    for what, (call, seconds), folder, handler in notes:
        assert call == what
        assert 0 <= seconds < 60
        assert folder == Path.cwd()
        assert handler is signal.SIG_IGN
    assert ends.seen.call() is None
    assert CALLS[0] == "loading it"


def test_each_trial_starts_where_the_worker_did(ends, methods, toy):
    source, home = methods("Moves"), Path.cwd()
    answers = ends.work(block_of(toy).data, task_of(block_of(toy), source, True))
    assert [a.failure for a in answers[:3]] == [""] * 3
    made = [(folder, handler) for what, _, folder, handler in noted(source) if what == "making it"]
    assert made == [(home, signal.SIG_IGN)] * 3


def test_a_worker_whose_folder_is_gone_works_in_another(tmp_path, toy, ends):
    folder = tmp_path / "gone"
    folder.mkdir()
    os.chdir(folder)
    folder.rmdir()
    other = Ends()  # `ends` goes back to the folder of this process afterwards
    answers = other.work(block_of(toy).data, task_of(block_of(toy), untrusted=True))
    assert [a.failure for a in answers[:3]] == [""] * 3


def test_a_table_cannot_be_changed_by_a_method(ends, methods, toy):
    # A pickle keeps no flags, so the worker must set them.
    assert np.array(toy.features).flags.writeable
    answers = ends.work(block_of(toy).data, task_of(block_of(toy), methods("Writes"), True))
    failures = [a.failure for a in answers[:3] if len(a.rows) == 3]
    assert failures
    reason = "ask raised ValueError: assignment destination is read-only (m.py, line "
    assert all(failure.startswith(reason) for failure in failures if failure)
    assert not any(array.flags.writeable for array in (ends.worker._tables["toy"].losses,))


def test_a_method_that_cannot_be_loaded_fails_every_trial(ends, toy, tmp_path):
    block = block_of(toy)
    source = f"{tmp_path / 'no.py'}:M"
    answers = ends.work(block.data, task_of(block, source, True))
    assert [type(a) for a in answers] == [Trajectory] * 3 + [TaskDone]
    for trial, answer in enumerate(answers[:3]):
        assert answer.rows.tolist() == block.data.initial(4, trial)
        assert answer.rows.dtype == np.int64
        assert answer.failure.startswith("loading it in a worker process raised InputError: ")
        assert "no such file" in answer.failure


def test_what_is_not_the_methods_fault_breaks_the_task(ends, methods, toy, tmp_path):
    """A method of the package that cannot be loaded, and a disk that is full."""
    block = block_of(toy)
    (answer,) = ends.work(block.data, task_of(block, f"{tmp_path / 'no.py'}:M", untrusted=False))
    assert isinstance(answer, TaskBroken)
    assert "no such file" in answer.reason
    other = Ends()
    *done, last = other.work(block.data, task_of(block, methods("FillsTheDisk"), untrusted=True))
    assert isinstance(last, TaskBroken)
    assert f"[Errno {errno.ENOSPC}] No space left" in last.reason
    assert all(isinstance(a, Trajectory) for a in done)


def test_the_table_that_arrives_is_the_one_that_was_sent(ends, toy):
    """The losses and features that a worker has are those that were sent, with what is missing."""
    values = toy.values.copy()
    values[::3, 0] = np.nan
    block = block_of(dataclasses.replace(toy, values=values))
    ends.work(block.data)
    found = ends.worker._tables["toy"]
    np.testing.assert_array_equal(found.losses, block.data.losses)
    np.testing.assert_array_equal(found.problem.features, block.data.problem.features)
    assert not found.losses.flags.writeable
    assert not found.problem.features.flags.writeable
