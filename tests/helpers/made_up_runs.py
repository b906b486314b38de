"""Runs into a results folder in which nothing runs: their trials are made up."""

from __future__ import annotations

import dataclasses

import numpy as np

from hpobench_nmt.benchmarking.contestants.fingerprints import MethodEntry
from hpobench_nmt.benchmarking.contestants.plugins import NamedMethod
from hpobench_nmt.benchmarking.records.manifest import manifest_of
from hpobench_nmt.benchmarking.records.results_folder import ResultsFolder
from hpobench_nmt.benchmarking.running.trials import Took, plan
from hpobench_nmt.benchmarking.task.instance import make_instance
from hpobench_nmt.benchmarking.task.suite import Suite
from hpobench_nmt.core.trajectory import Trajectory, Trials

SUITE = Suite("s", ("ftb", "fb"), trials=60, tables=("toy", "other"), score_at={"default": 5})


def named(name, fingerprint):
    return NamedMethod(name, MethodEntry(spec=name, fingerprint=fingerprint))


A, B = named("A", "one"), named("B", "two")


@dataclasses.dataclass
class Run:
    """A run of methods on tables into a folder, without anything that runs."""

    files: ResultsFolder
    instances: dict
    blocks: list
    methods: list

    def manifest(self, seed=3, sources=None):
        return manifest_of(SUITE, self.instances, self.methods, seed, sources or {})

    def of(self, table, method):
        return [b for b in self.blocks if (b.table, b.method.name) == (table, method)]

    def trials(self, block):
        """Of each trial 5 rows; the last trial of a block failed."""
        found = []
        for trial in range(block.first, block.stop):
            rows = np.random.default_rng([trial, len(block.method.name)]).permutation(36)[:5]
            reason = f"no {block.first}" if trial == block.stop - 1 else ""
            found.append(Trajectory(rows, block.data.losses[rows], reason))
        return Trials.of(block.data.losses, found)

    def keep(self, *blocks):
        done = {b.key: self.trials(b) for b in blocks}
        for number, block in enumerate(blocks, start=1):
            self.files.keep(block, done[block.key], Took(number / 8, number / 4, 10))
        return done


def made(folder, tables, methods):
    instances = {t.name: make_instance(SUITE, t) for t in tables}
    return Run(ResultsFolder(folder), instances, plan(SUITE, instances, methods, 3), methods)


def same(one, other):
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a.rows, b.rows)
        assert a.failure == b.failure
