"""Methods that tamper with their process change no other trial, and never end the run."""

import json
import signal
from pathlib import Path

import pytest

from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.benchmarking.contestants.plugins import resolve_methods

METHODS = """
import atexit, os, signal, subprocess, sys, threading, time

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

class Behaves(Base):
    pass

# --- what these do must change nothing

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

# --- what these do fails a trial

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


@pytest.mark.parametrize(("trials", "jobs"), [(4, 3), pytest.param(6, 1, marks=pytest.mark.hosts)])
def test_tampering_reaches_no_other_trial_and_never_the_run(methods, toy, capfd, trials, jobs):
    specs = methods("Behaves", *HARMLESS, *FAILING)
    results = benchmark(toy, specs, trials=trials, jobs=jobs, timeout=60)
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
    trials = benchmark(toy, methods("DiesOfASignal"), trials=30, jobs=2).trials["toy", "DiesOfASignal"]
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


def test_no_file_stays_open_after_a_run(methods, toy):
    resolve_methods(methods("Behaves"))
    benchmark(toy, methods("Behaves"), trials=2)
    before = len(list(Path("/dev/fd").iterdir()))
    for _ in range(3):
        benchmark(toy, methods("Behaves", "ClosesEverything"), trials=2, timeout=30)
    assert len(list(Path("/dev/fd").iterdir())) == before
