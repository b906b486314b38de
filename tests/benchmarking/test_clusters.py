"""Clusters of Dask and Ray on this machine that lose a worker in the middle of a run."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hpobench_nmt.lookup.disk.folder import save_folder

# What the processes of workers call themselves while they work.
# Dask's workers have their title only if setproctitle is installed; they are spawned by multiprocessing.
BUSY = {"dask": (b"dask worker", b"spawn_main"), "ray": (b"ray::_numbered",)}

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds the workers in /proc"),
]


def busy_workers(root, parts):
    """The workers among the descendants of a process."""
    children, titles = {}, {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(path.name))
            titles[int(path.name)] = (path / "cmdline").read_bytes()
    found, waiting = [], [root]
    while waiting:
        for process in children.get(waiting.pop(), ()):
            waiting.append(process)
            found += [process] if any(part in titles[process] for part in parts) else []
    return found


def wait_for(condition):
    deadline = time.monotonic() + 120
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)


@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_a_run_goes_on_without_a_worker_that_is_killed(
    toy_home, toy, tmp_path, run_command, contents, backend
):
    module = {"dask": "distributed"}.get(backend, backend)
    pytest.importorskip(module, reason=f"needs: pip install 'hpobench-nmt[{backend}]'")
    for number in range(4):
        save_folder(replace(toy, name=f"toy{number}"), toy_home / "tables" / f"toy{number}")
    run = ("run", "quick", "--tables", "toy,toy0,toy1,toy2,toy3", "--trials", "150", "--jobs", "2")
    run += ("--methods", "RS,BO_EI_M,GB_EIF_M", "--quiet")
    out = tmp_path / "out"
    process = subprocess.Popen(
        [sys.executable, "-m", "hpobench_nmt", *run, "--backend", backend, "--out", str(out)],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    wait_for(lambda: len(list(out.rglob("*.parquet"))) > 1 or process.poll() is not None)
    killed = False
    while not killed and process.poll() is None:
        for worker in busy_workers(process.pid, BUSY[backend])[:1]:
            os.kill(worker, signal.SIGKILL)
            killed = True
    assert killed, "it ended before a worker could be killed"
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    run_command(*run, "--out", tmp_path / "undisturbed")
    assert contents(out) == contents(tmp_path / "undisturbed")
