"""The files of a results folder, step by step in this process, with trials that were made up."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import signal
import subprocess
import sys
import time
from threading import Thread

import msgspec
import numpy as np
import pytest
from made_up_runs import A, B, made, named, same

from hpobench_nmt.benchmarking.contestants.fingerprints import MethodEntry
from hpobench_nmt.benchmarking.records.manifest import read_manifest
from hpobench_nmt.benchmarking.records.observations import read_trials
from hpobench_nmt.benchmarking.records.results_folder import ResultsFolder
from hpobench_nmt.benchmarking.running.trials import Took
from hpobench_nmt.core.system.errors import InputError, RunError
from hpobench_nmt.core.trajectory import Trials


@pytest.fixture
def run(tmp_path, two):
    return made(tmp_path / "r", two, [A, B])


def names(run):
    root = run.files.path
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())


def test_blocks_are_kept_read_again_and_joined(run):
    run.files.start(run.manifest())
    assert names(run) == ["manifest.json"]
    assert run.files.finished(run.blocks, run.instances) == {}
    first, second, third = run.of("toy", "A")
    (lone,) = run.of("other", "B")[1:2]
    done = run.keep(first, third, lone)
    assert names(run) == [
        "manifest.json",
        "timings/other/B.csv",
        "timings/toy/A.csv",
        "unfinished/other/B/000025.parquet",
        "unfinished/toy/A/000000.parquet",
        "unfinished/toy/A/000050.parquet",
    ]
    timing = (run.files.path / "timings" / "toy" / "A.csv").read_text()
    assert timing == (
        "first_trial,trials,seconds,own_seconds,steps\n0,25,0.125000,0.250000,10\n50,10,0.250000,0.500000,10\n"
    )
    assert run.files.step_seconds("toy", "A") == 0.75 / 20
    again = run.files.finished(run.blocks, run.instances)
    assert again.keys() == done.keys() == {("toy", "A", 0), ("toy", "A", 50), ("other", "B", 25)}
    for key, trials in done.items():
        same(again[key], trials)
    run.files.merge(run.of("toy", "A"), done)  # not all of them are done: nothing happens
    assert not (run.files.path / "observations").exists()
    done |= run.keep(second)
    run.files.merge(run.of("toy", "A"), done)
    assert "observations/toy/A.parquet" in names(run)
    assert not [name for name in names(run) if name.startswith("unfinished/toy")]
    whole = read_trials(run.files.observations("toy", "A"), 0, 60, "A", run.instances["toy"])
    same(whole, Trials.joined([done[b.key] for b in (first, second, third)]))
    again = run.files.finished(run.blocks, run.instances)
    assert again.keys() == done.keys()
    for key, trials in done.items():
        same(again[key], trials)
    assert len(again["toy", "A", 50]) == 10
    # One method is joined on both tables, another is not, and a table of times was damaged.
    (run.files.path / "timings" / "other").mkdir(exist_ok=True)
    (run.files.path / "timings" / "other" / "A.csv").write_bytes(b"\xff\n")
    done |= run.keep(*run.of("other", "A"))
    run.files.merge(run.of("other", "A"), done)
    assert run.files.finished(run.blocks, run.instances).keys() == done.keys()


@pytest.mark.parametrize(
    ("lines", "seconds"),
    [
        ("first_trial,trials,seconds,own_seconds,steps\n0,25,9,2.5,100\n25,5,9,0.5,50\n", 3 / 150),
        ("0,25,9,7,100\n0,25,9,2.5,100\n", 0.025),  # the block was run again
        ("first_trial,trials,seconds\n0,25,9\n25,5,9,0.5,50\n", 0.01),  # begun by an older version
        ("0,25,9,2.5,0\n0,25,a lot,2.5,4\n", np.nan),
        ("0,25,9,2.5,-4\n0,25,9,a lot,4\n0,25,9,2.5,4,4\n\n\xff,\n", np.nan),
    ],
)
def test_times_that_were_kept(run, lines, seconds):
    path = run.files.path / "timings" / "toy" / "A.csv"
    path.parent.mkdir(parents=True)
    path.write_text(lines)
    np.testing.assert_equal(run.files.step_seconds("toy", "A"), seconds)
    np.testing.assert_equal(run.files.step_seconds("toy", "B"), np.nan)


def test_the_last_block_of_a_killed_run_is_joined_on_the_next(run):
    run.files.start(run.manifest())
    done = run.keep(*run.of("toy", "A"))
    found = run.files.finished(run.blocks, run.instances)
    assert found.keys() == done.keys()
    assert [n for n in names(run) if "toy" in n] == ["observations/toy/A.parquet", "timings/toy/A.csv"]


def test_closing_removes_what_is_unfinished_of_its_own_blocks_only(run):
    run.files.start(run.manifest())
    run.keep(run.of("toy", "A")[0], run.of("toy", "B")[0], run.of("other", "A")[0])
    run.files.close(run.of("toy", "A") + run.of("other", "A"))
    assert [n for n in names(run) if n.startswith("unfinished")] == ["unfinished/toy/B/000000.parquet"]
    assert not (run.files.path / "unfinished" / "other").exists()
    run.files.close(run.blocks)
    assert not (run.files.path / "unfinished").exists()
    run.files.close(run.blocks)


def test_a_changed_method_loses_its_files_and_no_other_does(run, tmp_path, two):
    run.files.start(run.manifest())
    done = run.keep(*run.blocks)
    for table in ("toy", "other"):
        run.files.merge(run.of(table, "A"), done)
    before = names(run)
    told = []
    run.files.start(run.manifest(), told.append)
    assert told == []
    assert names(run) == before
    changed = made(run.files.path, two[:1], [named("A", "changed")])
    changed.files.start(changed.manifest(), told.append)
    assert told == [
        f"method 'A' or its libraries may have changed since {tmp_path}/r was written: it runs again."
    ]
    # Of tables too that are not part of this run.
    left = [n for n in before if "/A" not in n]
    assert names(run) == left
    # And where its blocks were not joined yet.
    changed = made(run.files.path, two, [named("B", "changed")])
    changed.files.start(changed.manifest())
    assert not [n for n in names(run) if n.startswith("unfinished")]


def test_results_of_a_method_that_read_files_are_made_again(run, tmp_path):
    run.files.start(run.manifest())
    run.keep(*run.blocks)
    entry = read_manifest(run.files.path).methods["B"].marked([tmp_path / "data.csv"])
    run.files.mark("B", entry)
    marked = read_manifest(run.files.path)
    assert marked.methods == run.manifest().methods | {"B": entry} and marked.tables == run.manifest().tables
    transcript = run.files.path / "transcripts" / "toy" / "B" / "0.jsonl"
    transcript.parent.mkdir(parents=True)
    transcript.touch()
    told = []
    run.files.start(run.manifest(), told.append)
    assert told == ["method 'B' read data.csv in its trials, which may have changed since: it runs again."]
    left = [name.split("/") for name in names(run) if name.count("/")]
    assert {(parts[0], parts[2]) for parts in left} == {
        ("timings", "A.csv"),
        ("unfinished", "A"),
    }
    assert read_manifest(run.files.path) == run.manifest()


def test_files_of_a_run_without_hashes_have_them_from_the_next_run_on(run):
    old = msgspec.structs.replace(run.manifest(), format=2)
    run.files.start(old)
    done = run.keep(*run.of("toy", "A"), *run.of("other", "B"))
    for table, method in (("toy", "A"), ("other", "B")):
        run.files.merge(run.of(table, method), done)
    run.files.start(run.manifest())
    hashes = read_manifest(run.files.path).observations
    sha256 = {
        table: {method: hashlib.sha256(run.files.observations(table, method).read_bytes()).hexdigest()}
        for table, method in (("toy", "A"), ("other", "B"))
    }
    assert hashes == sha256
    run.files.start(run.manifest())
    assert read_manifest(run.files.path).observations == sha256


def test_all_trials_of_a_method_may_be_kept_at_once(run):
    run.files.start(run.manifest())
    blocks = run.of("toy", "A")
    whole = Trials.joined([run.trials(block) for block in blocks])
    run.files.keep_all("toy", "A", whole, Took(1.0, 0.5, 20))
    assert names(run) == ["manifest.json", "observations/toy/A.parquet", "timings/toy/A.csv"]
    assert (run.files.path / "timings" / "toy" / "A.csv").read_text().splitlines()[
        1
    ] == "0,60,1.000000,0.500000,20"
    found = run.files.finished(run.blocks, run.instances)
    same(Trials.joined([found[block.key] for block in blocks]), whole)


def test_a_second_run_waits_until_the_first_has_ended(run):
    other, told, order = ResultsFolder(run.files.path), [], []

    def second():
        with other.writing(told.append):
            order.append("second")

    with run.files.writing(lambda message: pytest.fail(message)):
        assert run.files.path.is_dir()
        waiting = Thread(target=second)
        waiting.start()
        deadline = time.monotonic() + 30
        while not told and time.monotonic() < deadline:
            time.sleep(0.01)
        order.append("first")
    waiting.join(30)
    assert told == [f"another run writes into {run.files.path}: waiting until it has ended."]
    assert order == ["first", "second"]


def test_only_programs_have_transcripts(run):
    program = named("P", "three")
    assert run.files.transcripts("toy", program) is None
    program = dataclasses.replace(program, entry=MethodEntry(spec="cmd:./p"))
    assert run.files.transcripts("toy", program) == run.files.path / "transcripts" / "toy" / "P"


def test_tables_and_methods_stay_in_the_manifest(run, two):
    run.files.start(run.manifest())
    other = made(run.files.path, two[1:], [named("C", "three")])
    other.files.start(other.manifest(sources={"other": "/moved"}))
    found = read_manifest(run.files.path)
    assert list(found.tables) == ["toy", "other"]
    assert {name: entry.fingerprint for name, entry in found.methods.items()} == {
        "A": "one",
        "B": "two",
        "C": "three",
    }
    assert (found.seed, found.tables["toy"].source, found.tables["other"].source) == (3, "", "/moved")
    assert found.versions == run.manifest().versions
    assert found.suite == run.manifest().suite


def test_a_place_that_cannot_be_a_results_folder(run, tmp_path):
    run.files.path.write_text("a file")
    with pytest.raises(InputError, match=r"/r: is a file, not a folder\. Choose another with --out\."):
        run.files.start(run.manifest())
    run.files.path.unlink()
    run.files.path.mkdir()
    run.files.start(run.manifest())  # an empty folder is fine
    (run.files.path / "manifest.json").rename(run.files.path / "thesis.tex")
    with pytest.raises(InputError, match=r"/r: not empty and not a results folder\. Choose another"):
        run.files.start(run.manifest())
    assert names(run) == ["thesis.tex"]
    (run.files.path / "thesis.tex").rename(run.files.path / "manifest.json")
    with pytest.raises(InputError, match=r"/r: has a run with seed 3, but this run has 4"):
        run.files.start(run.manifest(seed=4))


def test_a_run_that_was_killed_with_its_first_file_goes_on(run):
    code = (
        "import os, signal, sys\nfrom pathlib import Path\n"
        "from hpobench_nmt.core.system.files import write_whole\n"
        "os.fsync = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_whole(Path(sys.argv[1]) / 'manifest.json', b'{')"
    )
    killed = subprocess.run([sys.executable, "-c", code, run.files.path], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(names(run)) == 1
    run.files.start(run.manifest())
    assert names(run) == ["manifest.json"]


def test_what_cannot_be_written_or_removed_is_one_line(run, monkeypatch):
    run.files.start(run.manifest())
    done = run.keep(*run.of("toy", "A"))
    part = run.files.path / "unfinished" / "toy" / "A" / "000050.parquet"
    part.unlink()
    part.mkdir()
    with pytest.raises(RunError, match=r"000050\.parquet: cannot be removed: "):
        run.files.merge(run.of("toy", "A"), done)
    (run.files.path / "timings" / "other").write_text("in the way")
    with pytest.raises(RunError, match=r"A\.csv: cannot be written: .*\. Finished work is kept; run the"):
        run.keep(run.of("other", "A")[0])


@pytest.mark.parametrize("place", ["observations", "observations/toy", "unfinished/toy", "timings"])
def test_nothing_is_written_outside_the_folder(run, tmp_path, place):
    outside = tmp_path / "outside"
    outside.mkdir()
    link = run.files.path / place
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    message = r"leads out of the results folder through a symbolic link\. Remove it\."
    (run.files.path / "manifest.json").write_bytes(run.manifest().to_json())
    with pytest.raises(InputError, match=message):
        run.files.merge(run.of("toy", "A"), run.keep(*run.of("toy", "A")))
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("kind", ["unfinished", "transcripts"])
def test_nothing_of_a_changed_method_is_removed_if_a_link_leads_out(run, two, tmp_path, kind):
    run.files.start(run.manifest())
    run.files.merge(run.of("toy", "A"), run.keep(*run.of("toy", "A")))
    (tmp_path / "outside").mkdir()
    link = run.files.path / kind / "other" / "A"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(tmp_path / "outside")
    before = names(run)
    changed = made(run.files.path, two, [named("A", "changed")])
    with pytest.raises(InputError, match=r"leads out of the results folder"):
        changed.files.start(changed.manifest())
    assert names(run) == before


def test_a_pipe_in_the_place_of_a_folder_or_of_times_is_not_waited_for(run, two):
    """Of a changed method, whose files a run removes; what it cannot read it refuses before that."""
    run.files.start(run.manifest())
    run.files.merge(run.of("toy", "A"), run.keep(*run.of("toy", "A")))
    changed = made(run.files.path, two, [named("A", "changed")])
    times, part = run.files.path / "timings" / "toy" / "A.csv", run.files.path / "unfinished" / "toy" / "A"
    times.unlink()
    os.mkfifo(times)
    before = names(run)
    with pytest.raises(InputError, match=r"A\.csv: is not a file\.$"):
        changed.files.start(changed.manifest())
    assert names(run) == before and read_manifest(run.files.path).methods["A"].fingerprint == "one"
    times.unlink()
    part.rmdir()
    os.mkfifo(part)
    changed.files.start(changed.manifest())
    assert not run.files.observations("toy", "A").exists() and part.is_fifo()
    changed.files.close(changed.blocks)
    with pytest.raises(RunError, match="cannot be written"):
        changed.keep(changed.of("toy", "A")[0])


def test_the_folder_itself_may_be_a_link(run, tmp_path, two):
    (tmp_path / "real").mkdir()
    run.files.path.symlink_to(tmp_path / "real")
    run.files.start(run.manifest())
    run.keep(run.blocks[0])
    assert (tmp_path / "real" / "unfinished").is_dir()
