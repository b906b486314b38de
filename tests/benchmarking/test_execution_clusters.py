"""Blocks on a cluster of Dask: one that is there, one of this machine, and errors."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import os
import socket
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from hpobench_nmt.benchmarking.contestants.plugins import resolve_methods
from hpobench_nmt.benchmarking.running import execution
from hpobench_nmt.benchmarking.running.execution import run_blocks
from hpobench_nmt.benchmarking.running.trials import plan, run_block
from hpobench_nmt.benchmarking.task.instance import make_instance
from hpobench_nmt.benchmarking.task.suite import Suite
from hpobench_nmt.core.system import clusters
from hpobench_nmt.core.system.errors import InputError


def blocks_of(tables, trials):
    suite = Suite("s", ("ftb",), trials=trials)
    instances = {t.name: make_instance(suite, t) for t in tables}
    return plan(suite, instances, resolve_methods(["RS"]), 7)


@pytest.fixture
def distributed():
    return pytest.importorskip("distributed", reason="Dask is an extra: pip install 'hpobench-nmt[dask]'")


def test_blocks_on_a_cluster_that_is_there(two, distributed, monkeypatch):
    """Dask takes the client that the user has connected, here with threads of this process."""
    blocks = blocks_of(two, 26)
    first, threads = threading.Event(), []

    def run(block):
        """All blocks but the two that start wait until one has been handed out."""
        assert len(threads) < 2 or first.wait(30)
        threads.append(threading.current_thread())
        return run_block(block)

    monkeypatch.setattr(execution, "run_block", run)
    found = []
    settings = {"processes": False, "n_workers": 2, "threads_per_worker": 1, **clusters.NO_DASHBOARD}
    with distributed.Client(**settings):
        for result in run_blocks(blocks, 2, "dask"):
            found.append(result)
            first.set()
    assert {block.key for block, _, _ in found} == {block.key for block in blocks}
    assert len(threads) == 4
    assert threading.main_thread() not in threads
    for block, trajectories, seconds in found:
        assert seconds > 0
        here, _ = run_block(block)
        for one, other in zip(trajectories, here, strict=True):
            assert one.rows.tolist() == other.rows.tolist()
            np.testing.assert_array_equal(one.losses, other.losses)


def test_a_local_cluster_and_one_by_its_address(distributed):
    import dask

    with clusters.cluster("dask", 2, processes=False):
        workers = distributed.get_client().scheduler_info()["workers"]
        assert [w["nthreads"] for w in workers.values()] == [1, 1]
        outer = distributed.get_client()
        with clusters.cluster("dask", 5, processes=False):
            assert distributed.get_client() is outer
    settings = {"processes": False, "n_workers": 1, **clusters.NO_DASHBOARD}
    with (
        distributed.LocalCluster(**settings) as local,
        dask.config.set({"scheduler-address": local.scheduler_address}),
        clusters.cluster("dask", 3),
    ):
        assert distributed.get_client().scheduler.address == local.scheduler_address
        assert len(distributed.get_client().scheduler_info()["workers"]) == 1


def test_several_clusters_run_on_one_machine(distributed):
    """Warnings are errors here, such as that of a port in use."""
    with socket.socket() as other:
        with contextlib.suppress(OSError):  # perhaps another program has the usual port of Dask's pages
            other.bind(("127.0.0.1", 8787))
            other.listen()
        with clusters.cluster("dask", 1, processes=False):
            assert len(distributed.get_client().scheduler_info()["workers"]) == 1


def test_equal_problems_that_were_sent_are_one_object(two):
    """Methods cache by it."""
    execution._problems.clear()
    sent = [copy.deepcopy(block) for block in blocks_of(two, 50)]
    for number, block in enumerate(sent):
        assert execution._numbered(number, block)[0] == number
    assert len(execution._problems) == 2
    other = dataclasses.replace(sent[0].data.problem, lookups=9)
    third = dataclasses.replace(sent[0], data=dataclasses.replace(sent[0].data, problem=other))
    _, trajectories, _ = execution._numbered(0, third)
    assert len(execution._problems) == 3
    assert max(len(t.rows) for t in trajectories) == 9
    execution._problems.clear()


def test_a_cluster_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr(clusters.importlib.util, "find_spec", lambda name: None)
    for backend in ("dask", "ray"):
        message = rf"backend '{backend}' is not installed: pip install 'hpobench-nmt\[{backend}\]'"
        with pytest.raises(InputError, match=message), clusters.cluster(backend, 1):
            pass
    assert list(run_blocks([], 1, "dask")) == []


def findable(monkeypatch):
    """Let workers import this module. Where the package is installed, it is not the one beside the tests."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(Path(__file__).parents[2])])


@pytest.mark.hosts
def test_workers_that_cannot_import_the_package_are_named(distributed, tmp_path, monkeypatch):
    (tmp_path / "hpobench_nmt").mkdir()
    (tmp_path / "hpobench_nmt" / "__init__.py").write_text("raise ImportError('damaged')")
    settings = {"n_workers": 1, "threads_per_worker": 1, **clusters.NO_DASHBOARD}
    with monkeypatch.context() as patched:
        patched.syspath_prepend(tmp_path)
        local = distributed.LocalCluster(**settings)
    message = (
        r"cannot import hpobench_nmt\.benchmarking\.running\.execution \(.*damaged.*\)\. Install the same"
    )
    with local, distributed.Client(local), pytest.raises(InputError, match=message):
        list(clusters.cluster_results("dask", execution._numbered, [(0, None)], 1))


def _where(number):
    time.sleep(0.2)
    return number, os.getpid()


@pytest.mark.hosts
def test_a_cluster_of_one_core_does_the_work_and_workers_that_join_later_are_used(distributed, monkeypatch):
    """As one of jobs with one core each; joblib would compute in this process."""
    findable(monkeypatch)
    settings = {"n_workers": 1, "threads_per_worker": 1, **clusters.NO_DASHBOARD}
    found = []
    with distributed.LocalCluster(**settings) as local, distributed.Client(local):
        for result in clusters.cluster_results("dask", _where, ((number,) for number in range(40)), 4):
            found.append(result)
            if len(found) == 2:
                local.scale(2)
    assert sorted(number for number, _ in found) == list(range(40))
    processes = {process for _, process in found}
    assert len(processes) == 2
    assert os.getpid() not in processes


def _fails(number):
    if number == 2:
        raise InputError("nothing to train")
    return number


def test_an_error_on_a_cluster_is_raised_as_it_is(distributed):
    settings = {"processes": False, "n_workers": 1, "threads_per_worker": 1, **clusters.NO_DASHBOARD}
    with distributed.Client(**settings), pytest.raises(InputError, match="nothing to train"):
        list(clusters.cluster_results("dask", _fails, ((number,) for number in range(9)), 2))
