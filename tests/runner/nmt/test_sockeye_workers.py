"""One training in several processes: the end of one is the end of all."""

import subprocess
import sys

import pytest

FIRST = """
import subprocess, sys, time
from hpobench_nmt.runner.nmt.sockeye_workers import end_with

other = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE)
over = end_with([other])
if sys.argv[2] == "over":
    over.set()
other.wait()
time.sleep(60 if sys.argv[2] == "waits" else 0.2)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
@pytest.mark.parametrize(
    ("other", "state", "code", "told"),
    [
        ("raise SystemExit(3)", "waits", 1, "worker 1 failed with exit code 3\n"),
        ("import os; os.kill(os.getpid(), 9)", "waits", -9, "worker 1 failed with exit code -9\n"),
        ("", "goes on", 0, ""),
        ("raise SystemExit(3)", "over", 0, ""),
    ],
)
def test_the_first_worker_does_not_wait_for_one_that_failed(other, state, code, told):
    command = [sys.executable, "-c", FIRST, other, state]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, told, "")
