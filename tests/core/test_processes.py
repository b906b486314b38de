"""The guard of processes: all of them end with this process, whatever they and it are at."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from hpobench_nmt.core.system.process_server import ignore_sigterm
from hpobench_nmt.core.system.processes import Process, Program, Server, last_line, outcome, run_program

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")

PREPARES = """
import time
from hpobench_nmt.core.system.processes import Process, Server
server = Server({prepare!r}, *{arguments!r})
process = Process(server, print)
print(server._process.pid, flush=True)
time.sleep(60)
"""
SLOW = """
import atexit, pathlib, time

def prepare(ready):
    atexit.register(time.sleep, 60)
    pathlib.Path(ready).touch()
"""


def runs(pid):
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def gone_with_its_parent(folder, prepare, *arguments, ready=lambda: True):
    """Whether a server ends soon after the process that started it was killed."""
    program = PREPARES.format(prepare=prepare, arguments=arguments)
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=folder)
    server = int(process.stdout.readline())
    deadline = time.monotonic() + 30
    while not ready() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.3)
    assert runs(server)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    deadline = time.monotonic() + 10
    while runs(server) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not runs(server)


@linux
def test_a_server_that_imports_and_compiles_ends_with_its_parent(tmp_path):
    """Which takes seconds, and in which it answers nobody."""
    assert gone_with_its_parent(tmp_path, "time:sleep", 60)


@linux
def test_a_server_ends_without_what_its_libraries_do_at_the_end(tmp_path):
    """Torch takes seconds to clear up: a killed `train` left its server behind for five."""
    (tmp_path / "slow.py").write_text(SLOW)
    ready = tmp_path / "ready"
    assert gone_with_its_parent(tmp_path, "slow:prepare", str(ready), ready=ready.exists)


TELLS = """
import os, time

def prepare():
    pass

def sleep(connection):
    connection.send(os.getpid())
    time.sleep(60)
"""


@linux
def test_sigterm_ends_neither_the_server_nor_what_ignores_it_but_all_else(tmp_path, monkeypatch):
    """Slurm and systemd send SIGTERM to all processes of a program, of which the first decides what ends."""
    (tmp_path / "tells.py").write_text(TELLS)
    monkeypatch.syspath_prepend(tmp_path)
    import tells

    server = Server("tells:prepare")
    for function, ends in ((tells.sleep, "SIGTERM"), (partial(ignore_sigterm, tells.sleep), "SIGKILL")):
        process = Process(server, function)
        assert process._connection.poll(30)
        pid = process._connection.recv()
        for each in (server._process.pid, pid):
            os.kill(each, signal.SIGTERM)
        time.sleep(0.3)
        process.kill()
        assert outcome(process).name == ends
        assert runs(server._process.pid)


INTERRUPTED = """
import os, signal, threading, time
from hpobench_nmt.core.system.processes import Program

def interrupt():
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
with open(os.devnull, "r+b") as nothing:
    program = Program(["sleep", "60"], [nothing.fileno()] * 3)
threading.Thread(target=interrupt).start()
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # the thread was started before, and takes it
try:
    program.wait()
except KeyboardInterrupt:
    print("interrupted")
"""


@linux
def test_ctrl_c_that_does_not_interrupt_a_system_call_ends_the_wait():
    """It comes to another thread, or just before the call: then Python sees it only after the call."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=30)
    assert done.stdout == "interrupted\n", done.stderr


LOST = """
import os, signal
from hpobench_nmt.core.system.ctrl_c import remember_ctrl_c
from hpobench_nmt.core.system.processes import Program

signal.signal(signal.SIGINT, signal.default_int_handler)
remember_ctrl_c()
with open(os.devnull, "r+b") as nothing:
    short, long = [Program(["sleep", seconds], [nothing.fileno()] * 3) for seconds in ("0.5", "60")]
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print(short.wait())  # to clear up, it may wait as before
try:
    long.wait()
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_that_c_code_has_dropped_ends_the_next_wait():
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, timeout=30)
    assert done.stdout == "exit code 0\ninterrupted\n", done.stderr


def run_python(code, log, **options):
    return run_program([sys.executable, "-c", code], log, **options)


FLOODS = "import sys; [sys.stdout.write('x' * 1000 + chr(10)) for _ in range(5000)]; print('the end')"


@pytest.mark.parametrize(
    ("code", "how", "said"),
    [
        ("print('done')", "exit code 0", "done"),
        ("import sys; sys.exit('bad  option')", "exit code 1", "bad  option"),
        ("import os; print('last', flush=True); os.kill(os.getpid(), 11)", "SIGSEGV -11", "last"),
        (FLOODS, "exit code 0", "the end"),
        ("import signal; print(signal.getsignal(signal.SIGPIPE) == signal.SIG_IGN)", "exit code 0", "True"),
    ],
)
def test_how_a_program_ended_and_what_it_said_last(tmp_path, code, how, said):
    log = tmp_path / "log"
    assert str(run_python(code, log)) == how
    assert last_line(log.read_bytes()) == said


def test_a_program_that_cannot_be_started_says_why(tmp_path):
    (tmp_path / "plain").write_text("")
    for word, reason in (("no-such-program", "No such file"), (str(tmp_path / "plain"), "Permission denied")):
        with pytest.raises(OSError, match=reason):
            run_program([word], tmp_path / "log")


def test_a_program_has_the_environment_and_the_folder_that_it_is_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "import os; print(os.environ.get('A'), os.environ.get('OMP_NUM_THREADS'), os.getcwd())"
    run_python(code, tmp_path / "log", environment={"A": "b"})
    assert (tmp_path / "log").read_text() == f"b None {tmp_path}\n"


IGNORES = "import signal, time; signal.signal(15, signal.SIG_IGN); "
SAVES = "import signal, sys, time; signal.signal(15, lambda *_: (print('saved'), sys.exit())); "
WAITS = "print('ready', flush=True); time.sleep(60)"


@pytest.mark.parametrize(
    ("code", "seconds", "said"),
    [(SAVES + WAITS, 1.5, "saved"), (IGNORES + WAITS, 0.3, "ready"), ("import time;" + WAITS, 1.5, "ready")],
)
def test_a_program_that_takes_too_long_is_asked_to_end_and_then_killed(
    tmp_path, monkeypatch, code, seconds, said
):
    monkeypatch.setattr(Program.stop, "__defaults__", (0.5,))
    log, began = tmp_path / "log", time.monotonic()
    assert run_python(code, log, seconds=seconds) is None
    assert time.monotonic() - began < 30
    assert last_line(log.read_bytes()) == said


@linux
def test_what_a_program_has_forked_ends_with_it(tmp_path):
    log = tmp_path / "log"
    pids = tmp_path / "pids"
    run_program(["sh", "-c", f"sleep 60 & echo $! > {pids}; setsid sleep 60 & echo $! >> {pids}"], log)
    deadline = time.monotonic() + 10
    left = [int(pid) for pid in pids.read_text().split()]
    while any(map(runs, left)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(map(runs, left))


def test_an_error_of_the_watcher_ends_the_program(tmp_path):
    found = []

    def watch(program):
        found.append(program)
        raise InterruptedError

    with pytest.raises(InterruptedError):
        run_python("import time; time.sleep(60)", tmp_path / "log", watch=watch)
    assert len(found) == 1


STARTS = """
import sys
from pathlib import Path
from hpobench_nmt.core.system.processes import run_program
run_program(["sh", "-c", "echo $$; sleep 60 & echo $!; wait"], Path(sys.argv[1]))
"""


@linux
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_program_and_its_group_end_with_this_process(tmp_path, number):
    log = tmp_path / "log"
    process = subprocess.Popen([sys.executable, "-c", STARTS, str(log)])
    deadline = time.monotonic() + 30
    while (not log.exists() or log.read_text().count("\n") < 2) and time.monotonic() < deadline:
        time.sleep(0.01)
    pids = [int(pid) for pid in log.read_text().split()]
    process.send_signal(number)
    process.wait()
    deadline = time.monotonic() + 10
    while any(map(runs, pids)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(map(runs, pids))
