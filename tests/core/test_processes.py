"""The server that forks processes: it ends with this process, whatever it is at."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

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
