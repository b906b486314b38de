"""Methods that hang or vanish; and processes, of which none may be left."""

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import hpobench_nmt as hb
from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.core.system.errors import InputError

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")

METHODS = """
import ctypes, os, signal, subprocess, threading, time
from pathlib import Path

class Base:
    def __init__(self, problem, rng):
        self.problem = problem
        self.left = rng.permutation(len(problem.features)).tolist()
        self.odd = rng.random() < 0.4

    def ask(self):
        self.act()
        return self.left[-1]

    def act(self):
        pass

    def tell(self, index, losses):
        self.left.remove(index)

def here():
    Path(os.environ["READY"]).touch()

class Loops(Base):
    def act(self):
        if self.odd:
            here()
            while True:
                pass

class HoldsTheInterpreter(Base):
    def act(self):
        if self.odd:
            here()
            ctypes.PyDLL(None).sleep(1000)

class IgnoresSignals(Base):
    def act(self):
        if self.odd:
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            here()
            while True:
                time.sleep(1)

class LeavesChildren(Base):
    def act(self):
        subprocess.Popen(["sleep", "1000"])
        here()
        time.sleep(1 if self.odd else 0)

class HangsInTell(Base):
    def tell(self, index, losses):
        super().tell(index, losses)
        while self.odd and len(self.left) < 30:
            time.sleep(1)

class HangsWhenMade(Base):
    def __init__(self, problem, rng):
        super().__init__(problem, rng)
        while self.odd:
            time.sleep(1)

class HangsInItsAnswer(Base):
    def ask(self):
        return self if self.odd else self.left[-1]

    def __index__(self):
        while True:
            time.sleep(1)

class LeavesProcesses(Base):
    def act(self):
        subprocess.Popen(["sleep", "1000"])

class StartsDaemons(Base):
    def act(self):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.closerange(0, 1000)
                os.execvp("sleep", ["sleep", "1000"])
            os._exit(0)
        here()
        time.sleep(1 if self.odd else 0)

class StartsThreads(Base):
    def act(self):
        threading.Thread(target=time.sleep, args=(1000,)).start()

class Behaves(Base):
    pass
"""


@pytest.fixture
def methods(toy_home, tmp_path):
    (tmp_path / "methods.py").write_text(METHODS)
    return lambda *names: [f"{tmp_path / 'methods.py'}:{name}" for name in names]


@pytest.fixture
def marked(tmp_path):
    """Environment variables that mark processes, and a function that lists the ids of those alive."""
    mark = f"HPOBENCH_NMT_TEST_MARK={uuid.uuid4()}"

    def alive():
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                zombie = (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
                if not zombie and mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    environment = dict([mark.split("=")], READY=str(tmp_path / "ready"))
    yield environment, alive
    for pid in alive():
        os.kill(pid, signal.SIGKILL)


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.02)


def read_of(pids, name):
    """What /proc has in a file of each of these processes, but for those that have ended."""
    for pid in pids:
        with contextlib.suppress(OSError):
            yield pid, Path(f"/proc/{pid}/{name}").read_text()


def start(specs, environment, *arguments):
    command = [sys.executable, "-m", "hpobench_nmt", "run", "quick", "--tables", "toy", "--trials", "30"]
    command += ["--methods", ",".join(specs), "--jobs", "2", "--out", "out", *arguments]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen(command, env=os.environ | environment, **pipes)


# --- the end of the main process -------------------------------------------------------------------


@linux
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
@pytest.mark.parametrize(
    "name", ["Loops", "HoldsTheInterpreter", "IgnoresSignals", "LeavesChildren", "StartsDaemons"]
)
def test_no_process_outlives_the_main_one(methods, marked, tmp_path, number, name):
    environment, alive = marked
    process = start(methods(name), environment)
    wait_for((tmp_path / "ready").exists)
    assert len(alive()) >= 3
    process.send_signal(number)
    # Both outputs go to one pipe, and reading it comes to an end: nobody is left to hold it open.
    process.communicate(timeout=60)
    assert process.returncode == -number
    wait_for(lambda: not alive())


@linux
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_no_worker_with_methods_of_the_package_outlives_the_main_process(toy_home, marked, number):
    environment, alive = marked
    process = start(["BO_EI_M"], environment, "--trials", "20000", "--quiet")
    wait_for(lambda: len(alive()) >= 4)
    wait_for(lambda: list(Path("out").rglob("*.parquet")))
    process.send_signal(number)
    process.communicate(timeout=60)
    wait_for(lambda: not alive())


@linux
def test_a_run_that_ends_well_leaves_no_process(methods, marked):
    environment, alive = marked
    process = start(
        methods("LeavesProcesses", "StartsDaemons", "StartsThreads"), environment, "--trials", "2"
    )
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    wait_for(lambda: not alive())


@linux
def test_workers_end_when_the_process_that_starts_them_is_killed(methods, marked, tmp_path):
    environment, alive = marked
    process = start(methods("Loops"), environment)
    wait_for((tmp_path / "ready").exists)
    parents = {pid: int(stat.rpartition(")")[2].split()[1]) for pid, stat in read_of(alive(), "stat")}
    (server,) = {pid for pid in parents.values() if parents.get(pid) == process.pid}
    os.kill(server, signal.SIGKILL)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert b"Run the same command again to resume" in output
    assert b"Traceback" not in output
    wait_for(lambda: not alive())


@linux
def test_a_worker_is_the_one_to_go_where_memory_runs_out(methods, marked, tmp_path):
    environment, alive = marked
    # Two blocks of 25 trials, and in both there is one that loops.
    process = start(methods("Loops"), environment, "--trials", "50")
    wait_for((tmp_path / "ready").exists)

    def scores():
        return {pid: int(text) for pid, text in read_of(alive(), "oom_score_adj")}

    wait_for(lambda: list(scores().values()).count(500) == 2)  # of two jobs
    assert scores()[process.pid] == 0
    process.kill()
    process.communicate(timeout=60)


BORN_LATE = """
import os, socket, time
from multiprocessing.connection import Connection
from hpobench_nmt.core.system.process_server import _run
ours, theirs = socket.socketpair()
server = os.getpid()
if os.fork() == 0:
    while os.getppid() == server:
        time.sleep(0.01)
    _run(server, Connection(theirs.detach()), [])
"""


@linux
def test_a_worker_that_is_born_as_the_server_dies_ends_too(marked):
    environment, alive = marked
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    process = subprocess.Popen([sys.executable, "-c", BORN_LATE], env=os.environ | environment, **pipes)
    # It would hold the pipe open, as it holds that of whoever reads the output of a run.
    assert process.communicate(timeout=60)[0] == b""
    wait_for(lambda: not alive())


# --- time limits -----------------------------------------------------------------------------------


def observations(folder, method):
    frame = pq.read_table(folder / "observations" / "toy" / f"{method}.parquet").to_pandas()
    return {n: (trial["row"].tolist(), trial["failure"].iloc[0]) for n, trial in frame.groupby("trial")}


SLOW = {
    "Loops": "ask",
    "HoldsTheInterpreter": "ask",
    "HangsInTell": "tell",
    "HangsWhenMade": "making it",
    "HangsInItsAnswer": "ask",
}


@pytest.mark.parametrize("others", [(), pytest.param(("2",), marks=pytest.mark.hosts)])
def test_a_call_that_hangs_fails_its_trial_and_no_other(
    methods, run_command, contents, monkeypatch, tmp_path, others
):
    monkeypatch.setenv("READY", str(tmp_path / "ready"))
    arguments = ("run", "quick", "--tables", "toy", "--trials", "5", "--quiet", "--timeout", "1.5")
    specs = ("--methods", ",".join(methods(*SLOW, "Behaves")))
    run_command(*arguments, *specs, "--jobs", "4", "--out", "four")
    for name, call in SLOW.items():
        found = observations(Path("four"), name)
        failed = {n for n, (_, failure) in found.items() if failure}
        assert 0 < len(failed) < 5, name
        for n, (rows, failure) in found.items():
            if n in failed:
                assert failure == f"{call} took longer than the time limit of 1.5 s"
                assert len(rows) == 3
            else:
                assert len(rows) >= 3  # the initial design may settle all
    assert not any(failure for _, failure in observations(Path("four"), "Behaves").values())
    for jobs in others:
        run_command(*arguments, *specs, "--jobs", jobs, "--out", "again")
        assert contents(Path("again")) == contents(Path("four"))


def test_the_other_trials_are_those_of_a_method_that_never_hangs(methods, toy, monkeypatch, tmp_path):
    monkeypatch.setenv("READY", str(tmp_path / "ready"))
    Path("fine").mkdir()
    Path("fine/Loops.py").write_text(METHODS.replace("while True:\n                pass", "pass"))
    hanging = benchmark(toy, methods("Loops"), trials=6, timeout=1.0)
    fine = benchmark(toy, ["fine/Loops.py:Loops"], trials=6)
    failed = [n for _, _, n, _ in hanging.failures()]
    assert 0 < len(failed) < 6
    for n, (one, other) in enumerate(
        zip(hanging.trials["toy", "Loops"], fine.trials["toy", "Loops"], strict=True)
    ):
        expected = other.rows[:3] if n in failed else other.rows
        np.testing.assert_array_equal(one.rows, expected)
        np.testing.assert_array_equal(one.losses, toy.losses(["bleu"])[expected])


def test_a_method_that_always_hangs_is_given_up(toy):
    class Sleeps:
        def __init__(self, problem, rng):
            pass

        def ask(self):
            time.sleep(1000)

        def tell(self, index, losses):
            pass

    found = benchmark(toy, [Sleeps], trials=12, timeout=0.2, n_initial=1).failures()
    reasons = [reason for *_, reason in found]
    # On a busy machine, starting the method may take that long, too.
    assert {reason.removeprefix("loading it ").removeprefix("ask ") for reason in reasons[:8]} == {
        "took longer than the time limit of 0.2 s"
    }
    assert set(reasons[8:]) == {"not run: 8 trials in a row ended the method's process or took too long"}
    assert len(reasons) == 12


def test_a_time_limit_may_be_longer_than_the_system_waits(toy, methods):
    assert benchmark(toy, methods("Behaves"), trials=1, timeout=1e15).failures() == []


def jumping_clock():
    """The library that fakes the time of a process; skips where it is not installed."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    if not found:
        pytest.skip("needs libfaketime")
    return found[0]


@pytest.mark.hosts
@pytest.mark.parametrize("arguments", [(), ("--timeout", "5")], ids=["", "time limit"])
def test_the_clock_of_the_machine_may_be_set_in_the_middle_of_a_run(methods, tmp_path, contents, arguments):
    """By days and years, to and fro. It once ended runs, in Popen.wait: see `_end` of processes.py."""
    clock = tmp_path / "clock"
    jumps = {
        "LD_PRELOAD": str(jumping_clock()),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
    }
    jumps["DONT_FAKE_MONOTONIC"] = "1"
    specs = ["RS", "BO_EI_M", *methods("Behaves")]
    start(specs, {}, "--quiet").communicate(timeout=120)
    undisturbed = contents(Path("out"))
    shutil.rmtree("out")
    clock.write_text("+0")
    process = start(specs, jumps, "--quiet", *arguments)
    deadline = time.monotonic() + 120
    for shift in itertools.cycle(["+2d", "-2d", "+0", "-70y", "+20y", "+3600s", "-1s"]):
        if process.poll() is not None or time.monotonic() > deadline:
            break
        clock.write_text(shift)
        time.sleep(0.1)
    output, _ = process.communicate(timeout=60)
    assert (process.returncode, b"Traceback" in output) == (0, False), output
    assert contents(Path("out")) == undisturbed


@pytest.mark.parametrize("timeout", [0.0, -1.0, float("inf"), float("nan")])
def test_a_time_limit_that_makes_no_sense_is_refused(toy, timeout):
    with pytest.raises(InputError, match="time limit"):
        benchmark(toy, ["RS"], trials=1, timeout=timeout)


GREEDY = """
class Greedy:
    def __init__(self, problem, rng):
        self.rows, self.odd = rng.permutation(len(problem.features)).tolist(), rng.random() < 0.5

    def ask(self):
        held = []
        while self.odd:
            held.append(bytearray(b"x" * 10_000_000))
        return self.rows[-1]

    def tell(self, index, losses):
        self.rows.remove(index)
"""


@pytest.fixture
def memory_group():
    """A control group whose processes together take at most 700 MB; skips where none can be made."""
    for root, limit in (("memory", "memory.limit_in_bytes"), ("", "memory.max")):
        group = Path("/sys/fs/cgroup") / root / f"hpobench-nmt-{uuid.uuid4()}"
        try:
            group.mkdir()
            (group / limit).write_text("700000000")
        except OSError:
            with contextlib.suppress(OSError):
                group.rmdir()
            continue
        yield group
        group.rmdir()
        return
    pytest.skip("needs a control group of its own")


@linux
@pytest.mark.hosts
def test_a_method_that_meets_the_memory_limit_of_its_group_loses_its_trial(toy_home, tmp_path, memory_group):
    """The system picks its process, and neither the run nor the server that forks."""
    (tmp_path / "greedy.py").write_text(GREEDY)
    command = [sys.executable, "-m", "hpobench_nmt", "run", "quick", "--tables", "toy", "--trials", "10"]
    command += ["--methods", f"RS,{tmp_path / 'greedy.py'}:Greedy", "--jobs", "2", "--quiet", "--out", "out"]
    shell = f'echo $$ > {memory_group / "cgroup.procs"} && exec "$@"'
    done = subprocess.run(["sh", "-c", shell, "sh", *command], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    results = hb.load_results("out")
    failed = results.failures()
    assert 0 < len(failed) < 10
    assert {reason for *_, reason in failed} == {"the method ended its process (SIGKILL -9)"}
