"""A results folder is read again: what is finished, and what has changed since."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from made_up_runs import SUITE, A, B, Run, made, named, same

from hpobench_nmt.benchmarking.records.manifest import manifest_of
from hpobench_nmt.benchmarking.records.results_folder import ResultsFolder
from hpobench_nmt.benchmarking.records.store import load_results, unfinished
from hpobench_nmt.benchmarking.task.instance import make_instance
from hpobench_nmt.benchmarking.task.suite import changed
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trajectory import Trials
from hpobench_nmt.lookup.disk.folder import save_folder


@pytest.fixture
def run(tmp_path, two):
    return made(tmp_path / "r", two, [A, B])


@pytest.fixture
def whole(run, home, two):
    """A finished run of A, and of B on one table only; `toy` is installed, `other` in a folder."""
    save_folder(two[0], home / "tables" / "toy")
    save_folder(two[1], home / "elsewhere")
    run.files.start(run.manifest(sources={"other": str(home / "elsewhere")}))
    finished = run.of("toy", "A") + run.of("other", "A") + run.of("toy", "B")
    done = run.keep(*finished)
    for table, method in (("toy", "A"), ("other", "A"), ("toy", "B")):
        run.files.merge(run.of(table, method), done)
    run.keep(run.of("other", "B")[0])
    return run


def test_a_folder_is_loaded_as_far_as_it_is_finished(whole):
    found = load_results(str(whole.files.path))
    assert list(found.trials) == [("toy", "A"), ("toy", "B"), ("other", "A")]
    for (table, method), trials in found.trials.items():
        same(trials, Trials.joined([whole.trials(b) for b in whole.of(table, method)]))
    assert (found.seed, found.methods, list(found.instances)) == (3, ("A", "B"), ["toy", "other"])
    assert found.suite == changed(SUITE, methods=("A", "B"))
    assert found.loaded == {}
    assert found.instances["other"].table.sha256 == whole.instances["other"].table.sha256
    assert unfinished(found) == [("other", "B")]
    whole.keep(*whole.of("other", "B"))
    whole.files.finished(whole.blocks, whole.instances)
    assert unfinished(load_results(whole.files.path)) == []


def test_methods_that_the_caller_brings(whole):
    mine = [A, named("C", "three")]
    assert load_results(whole.files.path, mine).loaded == {"A": A}
    with pytest.raises(InputError, match=r"/r: was made with another version of method 'A'\. Run it again\."):
        load_results(whole.files.path, [named("A", "changed")])


def test_nothing_finished_is_said(run, home, two):
    save_folder(two[0], home / "tables" / "toy")
    alone = made(run.files.path, two[:1], [A])
    alone.files.start(alone.manifest())
    alone.keep(alone.blocks[0])
    with pytest.raises(
        InputError, match=r"/r: nothing is finished yet\. Run the same command again to resume"
    ):
        load_results(run.files.path)


def test_a_table_that_is_another_one_now(whole, home, two):
    path = whole.files.path
    moved = dataclasses.replace(two[1], values=two[1].values + 1)
    save_folder(moved, home / "elsewhere")
    was, now = two[1].sha256[:12], moved.sha256[:12]
    with pytest.raises(
        InputError,
        match=rf"{path}: was made with another version of table 'other' \(hash {was}…, installed {now}…\)",
    ):
        load_results(path)
    save_folder(dataclasses.replace(two[1], name="third"), home / "elsewhere")
    with pytest.raises(InputError, match="table 'other' was loaded from a folder that now has table 'third'"):
        load_results(path)
    (home / "elsewhere").rename(home / "moved")
    with pytest.warns(UserWarning, match="left out other, which is not installed now"):
        assert list(load_results(path).instances) == ["toy"]
    content = json.loads((path / "manifest.json").read_text())
    del content["sha256"]
    for source in ("moved", "x" * 5000, "\0"):
        content["tables"]["other"]["source"] = source
        (path / "manifest.json").write_text(json.dumps(content))
        with pytest.warns(UserWarning, match="left out other, which is not installed now"):
            load_results(path)
    assert Path("moved").exists() is False


@pytest.mark.parametrize("change", [{"objectives": ("seconds",)}, {"tolerance": 5.0}])
def test_a_datasheet_that_asks_for_something_else_now(whole, home, two, change):
    table = two[0]
    if "tolerance" in change:
        suite = changed(SUITE, scores=("ftc",), score_at={})
        again = Run(ResultsFolder(home / "r2"), {"toy": make_instance(suite, table)}, [], [A])
        again.files.start(manifest_of(suite, again.instances, [A], 3, {}))
        path = home / "r2"
        first = dataclasses.replace(table.metrics[0], **change)
        table = dataclasses.replace(table, metrics=(first, *table.metrics[1:]))
    else:
        path = whole.files.path
        table = dataclasses.replace(table, **change)
    save_folder(table, home / "tables" / "toy")
    with pytest.raises(
        InputError, match=r"made with other objectives or tolerances of table 'toy' than its datash"
    ):
        load_results(path)
