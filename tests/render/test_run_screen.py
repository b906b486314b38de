"""What `run` prints at its end: one screen of at most 40 lines of 80 columns."""

from __future__ import annotations

import dataclasses
import io

import numpy as np
import pytest
from rich.console import Console

import hpobench_nmt as hb
from hpobench_nmt.render.terminal.run_screen import print_run


def printed(results, width=80):
    console = Console(file=io.StringIO(), width=width)
    print_run(results, console)
    return console.file.getvalue()


@pytest.fixture(scope="module")
def results():
    methods = ["RS", "BO_EI_M", "BO_EI_M_std", "corner", "centre", "maximin"]
    return hb.run("quick", tables=["sotu-gpt-30k", "sotu-awd-lstm"], methods=methods, trials=6)


def test_one_screen(results):
    text = printed(results)
    lines = text.splitlines()
    assert all(len(line) <= 80 for line in lines)
    fixed = len(lines) - len(results.instances)
    assert fixed + 11 <= 40  # with the eleven tables that ship
    assert "times fewer trainings than random search" in lines[0]
    found = hb.fewer_trainings(results)
    for i, table in enumerate(results.instances):
        (line,) = (line for line in lines if line.startswith(table))
        times = found.paired.runtimes[table].mean(axis=1)
        methods = [m for m in results.methods if m not in ("corner", "centre", "maximin")]
        best = min(methods, key=lambda m: times[found.paired.methods.index(m)])
        assert line.split()[1] == best
        assert float(line.split()[3]) == pytest.approx(found.tables["random_search"][i], rel=5e-3)


def test_methods_that_are_as_fast_are_those_of_paired_tests(results):
    paired = hb.fewer_trainings(results).paired
    for table in results.instances:
        first, *others = paired.ranked_on(table)
        assert set(paired.as_fast_on(table)) <= set(others)
        twin = dataclasses.replace(
            paired, runtimes={table: np.repeat(paired.runtimes[table][:1], len(paired.methods), axis=0)}
        )
        assert twin.as_fast_on(table) == [m for m in paired.methods[1:] if m in others or m == first]


class Fails:
    def __init__(self, problem, rng):
        self.rng = rng

    def ask(self):
        raise ValueError("no more")

    def tell(self, index, losses):
        pass


def test_failures_are_told_and_have_no_figure():
    results = hb.run("quick", tables=["sotu-awd-lstm"], methods=["RS", "BO_EI_M", Fails], trials=3)
    text = printed(results)
    assert "failed: Fails on sotu-awd-lstm" in text and "no more" in text
    assert "No figure: Fails failed in 3 trials" in " ".join(text.split())
