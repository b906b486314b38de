"""Methods that hang, vanish, or tamper with their process; and processes, of which none may be left."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import hpobench_nmt as hb
from hpobench_nmt.benchmarking import execution
from hpobench_nmt.benchmarking.instance import make_instance
from hpobench_nmt.benchmarking.plugins import resolve_methods
from hpobench_nmt.benchmarking.suite import Suite
from hpobench_nmt.benchmarking.trials import plan
from hpobench_nmt.core.errors import InputError, RunError
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.lookup.table import Table

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")

METHODS = """
import atexit, ctypes, os, signal, subprocess, sys, threading, time
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

class Behaves(Base):
    pass

# --- tampering: what they do must change nothing

class Prints(Base):
    def act(self):
        print("x" * 100_000)

class Moves(Base):
    def act(self):
        os.chdir("/")

class ClosesStdout(Base):
    def act(self):
        sys.stdout.close()
        sys.stdout = open(os.devnull, "w")

class SetsHandlers(Base):
    def act(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, lambda number, frame: None)

class StartsThreads(Base):
    def act(self):
        threading.Thread(target=time.sleep, args=(1000,)).start()

class LeavesProcesses(Base):
    def act(self):
        subprocess.Popen(["sleep", "1000"])

class Hooks(Base):
    def act(self):
        sys.excepthook = sys.unraisablehook = threading.excepthook = None
        sys.exit = None
        atexit.register(time.sleep, 1000)

class Forks(Base):
    def act(self):
        if len(self.left) == 30:
            os.fork()

# --- tampering that fails a trial

class WritesFeatures(Base):
    def act(self):
        self.problem.features[:] = 0

class ClosesEverything(Base):
    def act(self):
        os.closerange(3, 4096)

class IsHuge(Base):
    def ask(self):
        return "x" * 10_000_000

class EatsMemory(Base):
    def act(self):
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
        self.much = [bytearray(64 << 20) for _ in range(1000)]

class Interrupts(Base):
    def act(self):
        signal.signal(signal.SIGINT, signal.default_int_handler)
        raise KeyboardInterrupt

class CannotSay(Base):
    def act(self):
        class Mute(Exception):
            def __str__(self):
                sys.exit(4)
        raise Mute

class SpeaksOddly(Base):
    def act(self):
        raise ValueError("caf\\udce9 \\x1b[31m\\x00 \\u202e")

class DiesOfASignal(Base):
    def act(self):
        if self.odd:
            os.kill(os.getpid(), signal.SIGRTMIN + 2)
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


def start(specs, environment, *arguments):
    command = [sys.executable, "-m", "hpobench_nmt", "run", "quick", "--tables", "toy", "--trials", "30"]
    command += ["--methods", ",".join(specs), "--jobs", "2", "--out", "out", *arguments]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen(command, env=os.environ | environment, **pipes)


# --- the end of the main process -------------------------------------------------------------------


@linux
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
@pytest.mark.parametrize("name", ["Loops", "HoldsTheInterpreter", "IgnoresSignals", "LeavesChildren"])
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
    process = start(methods("LeavesProcesses", "StartsThreads"), environment, "--trials", "2")
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    wait_for(lambda: not alive())


@linux
def test_workers_end_when_the_process_that_starts_them_is_killed(methods, marked, tmp_path):
    environment, alive = marked
    process = start(methods("Loops"), environment)
    wait_for((tmp_path / "ready").exists)
    status = {pid: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in alive()}
    (server,) = [pid for pid, fields in status.items() if int(fields[1]) == process.pid]
    os.kill(server, signal.SIGKILL)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert b"Run the same command again to go on" in output
    assert b"Traceback" not in output
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


def test_a_call_that_hangs_fails_its_trial_and_no_other(
    methods, run_command, contents, monkeypatch, tmp_path
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
    run_command(*arguments, *specs, "--jobs", "2", "--out", "two")
    assert contents(Path("two")) == contents(Path("four"))


def test_the_other_trials_are_those_of_a_method_that_never_hangs(methods, toy, monkeypatch, tmp_path):
    monkeypatch.setenv("READY", str(tmp_path / "ready"))
    Path("fine").mkdir()
    Path("fine/Loops.py").write_text(METHODS.replace("while True:\n                pass", "pass"))
    hanging = hb.benchmark(toy, methods("Loops"), trials=6, timeout=1.0)
    fine = hb.benchmark(toy, ["fine/Loops.py:Loops"], trials=6)
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

    found = hb.benchmark(toy, [Sleeps], trials=12, timeout=0.2, n_initial=1).failures()
    reasons = [reason for *_, reason in found]
    # On a busy machine, starting the method may take that long, too.
    assert {reason.removeprefix("loading it ").removeprefix("ask ") for reason in reasons[:8]} == {
        "took longer than the time limit of 0.2 s"
    }
    assert set(reasons[8:]) == {"not run: 8 trials in a row ended the method's process or took too long"}
    assert len(reasons) == 12


@pytest.mark.parametrize("timeout", [0.0, -1.0, float("inf"), float("nan")])
def test_a_time_limit_that_makes_no_sense_is_refused(toy, timeout):
    with pytest.raises(InputError, match="time limit"):
        hb.benchmark(toy, ["RS"], trials=1, timeout=timeout)


# --- methods that tamper with their process --------------------------------------------------------

HARMLESS = (
    "Prints",
    "Moves",
    "ClosesStdout",
    "SetsHandlers",
    "StartsThreads",
    "LeavesProcesses",
    "Hooks",
    "Forks",
)
FAILING = {
    "WritesFeatures": "ask raised ValueError: assignment destination is read-only",
    "ClosesEverything": "the method closed the connection of its process",
    "IsHuge": "ask returned str 'xxx",
    "EatsMemory": "ask raised MemoryError",
    "Interrupts": "KeyboardInterrupt",
    "CannotSay": "ask raised Mute: (a Mute that cannot be shown)",
    "SpeaksOddly": "ask raised ValueError: caf\\udce9 \\x1b[31m\\x00 \\u202e",
}


@pytest.mark.parametrize("jobs", [1, 3])
def test_tampering_reaches_no_other_trial_and_never_the_run(methods, toy, capfd, jobs):
    results = hb.benchmark(toy, methods("Behaves", *HARMLESS, *FAILING), trials=6, jobs=jobs, timeout=60)
    assert "x" * 1000 not in capfd.readouterr().out  # what workers print is not the run's output
    for name in HARMLESS:
        for one in results.trials["toy", name]:
            assert not one.failure, name
            assert len(one.rows) == len(set(one.rows.tolist()))
    # All share their code but for what they do beside: the names differ, and so do the generators.
    for name, reason in FAILING.items():
        asked = [t for t in results.trials["toy", name] if t.failure]
        assert asked, name
        assert all(reason in t.failure for t in asked), (name, asked[0].failure)
        assert all(len(t.rows) == 3 for t in asked)
        assert all(len(t.failure) <= 400 for t in asked)
    assert not any(t.failure for t in results.trials["toy", "Behaves"])


def test_only_the_trials_that_end_their_process_fail(methods, toy):
    trials = hb.benchmark(toy, methods("DiesOfASignal"), trials=30, jobs=2).trials["toy", "DiesOfASignal"]
    failed = [t.failure for t in trials if t.failure]
    assert 0 < len(failed) < 30
    assert set(failed) == {f"the method ended its process (signal {-signal.SIGRTMIN - 2})"} or set(
        failed
    ) == {f"the method ended its process ({signal.Signals(signal.SIGRTMIN).name} {-signal.SIGRTMIN - 2})"}


def test_a_run_with_odd_texts_can_be_kept_and_read(methods, run_command):
    run_command(
        "run",
        "quick",
        "--tables",
        "toy",
        "--trials",
        "2",
        "--methods",
        methods("SpeaksOddly")[0],
        "--out",
        "out",
        check=1,  # every trial fails
    )
    scores = json.loads(run_command("score", "out", "--format", "json").stdout)
    assert {row["failed"] for row in scores} == {2}


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
    here = hb.benchmark(two, names, trials=60, seed=3)
    assert not started
    small = hb.benchmark(two, names, trials=2, seed=3, jobs=2)
    assert not started, "work that is done in a moment needs no process"
    monkeypatch.setattr(execution, "_SMALL_WORK", 0)
    same_trials(here, hb.benchmark(two, names, trials=60, seed=3, jobs=3))
    assert len(started) == 3
    same_trials(small, hb.benchmark(two, names, trials=2, seed=3, jobs=2))


def test_what_a_users_method_keeps_in_its_process_ends_with_the_block(methods, two, started, tmp_path):
    import inspect

    (tmp_path / "remembers.py").write_text(inspect.getsource(Remembers))
    spec = f"{tmp_path / 'remembers.py'}:Remembers"
    one, many = (hb.benchmark(two, [spec], trials=60, jobs=jobs) for jobs in (1, 4))
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

    one = hb.benchmark(two, [Local], trials=30)
    assert not started
    same_trials(one, hb.benchmark(two, [Local], trials=30, jobs=2))
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
        hb.benchmark(toy, [Holds], trials=2, jobs=2)


def test_a_worker_of_the_package_that_is_killed_ends_the_run_with_one_line(two, monkeypatch):
    monkeypatch.setattr(execution, "_SMALL_WORK", 0)
    start_worker = execution.Workers.start

    def start_and_kill(self):
        worker = start_worker(self)
        self.kill(worker)
        return worker

    monkeypatch.setattr(execution.Workers, "start", start_and_kill)
    with pytest.raises(RunError, match=r"a worker process ended \(SIGKILL -9\).*again to go on"):
        hb.benchmark(two, ["RS"], trials=30, jobs=2)


def test_a_table_is_sent_to_a_worker_once(two, monkeypatch):
    monkeypatch.setattr(execution, "_SMALL_WORK", 0)
    sent = []
    send = execution.Worker.send
    monkeypatch.setattr(
        execution.Worker,
        "send",
        lambda self, message: (sent.append((self.number, message)), send(self, message)),
    )
    hb.benchmark(two, ["RS", "BO_EI_M"], trials=200, jobs=2)
    tables = [(n, message.name) for n, message in sent if not isinstance(message, execution.Task)]
    assert len(tables) == len(set(tables)) <= 4
    tasks = [message for _, message in sent if isinstance(message, execution.Task)]
    assert len(tasks) == 2 * 2 * 8
    assert sorted(t for task in tasks for t in task.trials) == sorted(list(range(200)) * 4)


def test_no_file_stays_open_after_a_run(methods, toy):
    resolve_methods(methods("Behaves"))
    hb.benchmark(toy, methods("Behaves"), trials=2)
    before = len(list(Path("/dev/fd").iterdir()))
    for _ in range(3):
        hb.benchmark(toy, methods("Behaves", "ClosesEverything"), trials=2, timeout=30)
    assert len(list(Path("/dev/fd").iterdir())) == before


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
        assert len(block.data.goals) == 1
    whole = dataclasses.replace(suite, stop="exhausted")
    exhausting = plan(whole, {"toy": make_instance(whole, two[0])}, methods, seed=0)
    assert all(block.data.goals == () for block in exhausting)


@pytest.mark.parametrize(
    ("jobs", "backend", "message"),
    [
        (0, "loky", "jobs must be at least 1, not 0"),
        (1, "slurm", "backend 'slurm' is not one of loky, dask, ray"),
    ],
)
def test_settings_that_make_no_sense_are_refused(jobs, backend, message):
    with pytest.raises(InputError, match=message):
        list(execution.run_blocks([], jobs, backend))


COUNTS = """
import os
from pathlib import Path

class Crashes:
    def __init__(self, problem, rng):
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
    trials = hb.benchmark(toy, [f"{tmp_path / 'counts.py'}:Crashes"], trials=25).trials["toy", "Crashes"]
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
    found = hb.benchmark(toy, [f"{file}:Crashes"], trials=2).failures()
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
    here = hb.benchmark(table, ["RS"], **settings)
    monkeypatch.setattr(execution, "_SMALL_WORK", 0)
    same_trials(here, hb.benchmark(table, ["RS"], jobs=2, **settings))
    assert all(sorted(t.rows.tolist()) == list(range(4200)) for t in here.trials["large", "RS"])
