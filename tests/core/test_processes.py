"""The server that forks processes: it ends with this process, whatever it is at."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")

PREPARES = """
import time
from hpobench_nmt.core.processes import Process, Server
server = Server("time:sleep", 60)
process = Process(server, print)
print(server._process.pid, flush=True)
time.sleep(60)
"""


def runs(pid):
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_a_server_that_imports_and_compiles_ends_with_its_parent():
    """Which takes seconds, and in which it answers nobody."""
    process = subprocess.Popen([sys.executable, "-c", PREPARES], stdout=subprocess.PIPE)
    server = int(process.stdout.readline())
    deadline = time.monotonic() + 30
    while b"time:sleep" not in Path(f"/proc/{server}/cmdline").read_bytes() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.5)  # it is asleep by now, or loads this package: in both cases it is to end
    assert runs(server)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    deadline = time.monotonic() + 10
    while runs(server) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not runs(server)
