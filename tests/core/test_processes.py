"""The server that forks processes: it ends with this process, whatever it is at."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from hpobench_nmt.core.processes import Process, Server, ignore_sigterm, outcome

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")

PREPARES = """
import time
from hpobench_nmt.core.processes import Process, Server
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
