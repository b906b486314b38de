"""An archive: what it holds, what stands beside one's own results, and bad files."""

import dataclasses
import json
from importlib.metadata import version

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_archives import MINE, PLAIN, changed, renamed, same

import hpobench_nmt as hb
from hpobench_nmt.arena import beside as beside_module
from hpobench_nmt.arena.archive import Card, archive_bytes, read_archive
from hpobench_nmt.arena.beside import beside
from hpobench_nmt.arena.boards import arena_tracks
from hpobench_nmt.arena.submissions import install_archive
from hpobench_nmt.benchmarking.contestants.plugins import resolve_methods
from hpobench_nmt.benchmarking.records.frozen import pin_of, suite_hash
from hpobench_nmt.benchmarking.run import run_suite
from hpobench_nmt.benchmarking.task.instance import make_instance, suite_instances
from hpobench_nmt.benchmarking.task.suite import Suite
from hpobench_nmt.benchmarking.task.suite import changed as suite_with
from hpobench_nmt.benchmarking.task.suite_files import load_suite
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trial_loop import TRIAL_VERSION


@pytest.mark.parametrize("track", ["plain", "early"])
def test_trials_come_back_as_they_were(runs, archive, track):
    """On a clock too, where SH waits for a whole rung before it starts the next one."""
    results = runs[track][0]
    for (table, method), trials in results.trials.items():
        again = archive.trials(track, method, results.instances[table])
        assert len(again) == len(trials)
        assert all(map(same, again, trials)), (method, table)
    stored = [each.as_py() is not None for each in archive.lines.column("starts")]
    assert 0 < sum(stored) < len(stored)
    assert archive_bytes(runs) == archive_bytes(runs)


def test_failed_trials_and_empty_ones_come_back(runs, tmp_path):
    results = runs["plain"][0]
    key = ("sotu-gpt-30k", "RS")
    failed = [dataclasses.replace(t, failure="it broke") for t in results.trials[key]]
    broken = dataclasses.replace(results, trials={**results.trials, key: failed})
    (tmp_path / "a.parquet").write_bytes(archive_bytes({"plain": [broken]}))
    again = read_archive(tmp_path / "a.parquet").trials("plain", "RS", results.instances[key[0]])
    assert [t.failure for t in again] == ["it broke"] * 3


def test_versions_of_a_methods_own_libraries_are_kept(tmp_path):
    nevergrad = pytest.importorskip("nevergrad", reason="pip install 'hpobench-nmt[nevergrad]'")
    results = hb.run(**PLAIN, methods=["RS", "nevergrad.OnePlusOne"])
    (tmp_path / "a.parquet").write_bytes(archive_bytes({"plain": [results]}))
    kept = read_archive(tmp_path / "a.parquet")
    assert kept.versions("plain", "RS") == results.manifest.versions
    own = {"nevergrad": nevergrad.__version__, "cma": version("cma")}
    assert kept.versions("plain", "nevergrad.OnePlusOne") == results.manifest.versions | own
    entries = results.manifest.methods | {"nevergrad.OnePlusOne": results.manifest.methods["RS"]}
    other = dataclasses.replace(results, manifest=msgspec.structs.replace(results.manifest, methods=entries))
    (tmp_path / "b.parquet").write_bytes(archive_bytes({"plain": [other]}))
    kept = read_archive(tmp_path / "b.parquet")
    assert kept.versions("plain", "nevergrad.OnePlusOne") == results.manifest.versions


def test_results_that_restart_paused_trainings_are_refused(runs):
    results = runs["early"][0]
    restarts = dataclasses.replace(results, suite=msgspec.structs.replace(results.suite, resume=False))
    with pytest.raises(InputError, match="track early: an archive cannot have results with resume = false"):
        archive_bytes({"early": [restarts]})


def test_beside_puts_the_archive_into_the_figure(archive, tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    mine = hb.run(**{**PLAIN, "trials": 2}, methods=["RS", f"{tmp_path / 'mine.py'}:Mine"])
    whole = hb.run(**{**PLAIN, "trials": 2}, methods=["RS", f"{tmp_path / 'mine.py'}:Mine", "BO_EI_M_std"])
    notes = []
    found = beside(mine, archive, notes.append)
    assert found.methods == ("RS", "Mine", "BO_EI_M_std")
    assert notes == []
    for name in ("methods", "cells", "tests"):
        assert getattr(hb.fewer_trainings(found), name).equals(getattr(hb.fewer_trainings(whole), name))


def test_what_cannot_stand_beside(archive, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(MINE.replace("Mine", "Other"))
    with pytest.raises(InputError, match="suite 'quick' is not a track of lm-2026"):
        beside(hb.run("quick", tables="sotu-ngram", methods=["RS"], trials=1), archive)
    with pytest.raises(InputError, match="has seed 0, not 1: only trials with the same seed"):
        beside(hb.run(**PLAIN, methods=["RS"], seed=1), archive)
    with pytest.raises(InputError, match="has 3 trials of a method, the run has 4: run with --trials 3"):
        beside(hb.run(**{**PLAIN, "trials": 4}, methods=["RS"]), archive)
    other = hb.run(**{**PLAIN, "tables": ["sotu-gpt-30k", "sotu-lstm"]}, methods=["RS"])
    notes = []
    assert beside(other, archive, notes.append).methods == ("RS",)
    assert notes == ["Left out, because the archive lacks some of these tables: BO_EI_M_std."]
    with pytest.raises(InputError, match="has no track 'multi', only plain, early"):
        beside(hb.run("lm-2026", track="multi", tables="sotu-ngram", methods=["RS"], trials=1), archive)
    own = hb.run(**PLAIN, methods=["RS", f"{tmp_path / 'mine.py'}:Other"])
    taken = changed(archive, tmp_path / "b.parquet", lambda lines, about: renamed(lines, about, "Other"))
    with pytest.raises(InputError, match="has another method 'Other': rename yours"):
        beside(own, taken)
    monkeypatch.setattr(beside_module, "_CLONE", tmp_path)
    monkeypatch.setenv("HPOBENCH_NMT_HOME", str(tmp_path))
    with pytest.raises(InputError, match="the archive of lm-2026 is not installed"):
        beside(own)


def test_a_method_of_another_version_is_named(runs, archive, tmp_path):
    def edit(lines, about):
        renamed(lines, about, "BO_EI_M_std")

    notes = []
    beside(hb.run(**PLAIN, methods=["RS"]), changed(archive, tmp_path / "a.parquet", edit), notes.append)
    assert notes == ["Results of other versions than the installed one: BO_EI_M_std."]


def test_methods_whose_trials_were_run_otherwise_are_named(archive, tmp_path):
    def edit(lines, about):
        for run in about["runs"]:
            manifest = {k: v for k, v in json.loads(run["manifest"]).items() if k != "sha256"}
            run["manifest"] = json.dumps(manifest | {"trial_version": TRIAL_VERSION + 1})

    notes = []
    beside(hb.run(**PLAIN, methods=["RS"]), changed(archive, tmp_path / "a.parquet", edit), notes.append)
    assert notes == ["Results of other versions than the installed one: BO_EI_M_std."]


def row_of_another_table(lines, about):
    lines["rows"][0][0] = 300


def twice(lines, about):
    lines["rows"][0][0] = lines["rows"][0][1]


def no_such_checkpoint(lines, about):
    at = next(i for i, steps in enumerate(lines["steps"]) if steps)
    lines["steps"][at][0] = 10


def no_such_worker(lines, about):
    at = next(i for i, steps in enumerate(lines["steps"]) if steps)
    lines["workers"][at][0] = 8


def earlier(lines, about):
    at = next(i for i, starts in enumerate(lines["starts"]) if starts)
    lines["starts"][at][-1] = 0.0


def no_times(lines, about):
    lines["workers"] = [None] * len(lines["workers"])


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (row_of_another_table, "its look-ups are not those of table 'sotu-gpt-30k'"),
        (twice, "looked up a row twice"),
        (no_such_checkpoint, "has checkpoints that are not in the table"),
        (no_such_worker, "has more workers than the suite"),
        (no_times, "its times are missing"),
        (earlier, "not in the order of finishing|trains two rows at a time"),
    ],
)
def test_trials_that_cannot_be(archive, runs, tmp_path, edit, message):
    wrong = changed(archive, tmp_path / "a.parquet", edit)
    with pytest.raises(InputError, match=message):
        for track, (results,) in runs.items():
            for method in results.methods:
                wrong.trials(track, method, results.instances["sotu-gpt-30k"])


def newer(lines, about):
    about["format"] = 2


def key(lines, about):
    about["runs"][0]["program"] = "rm"


def trial_missing(lines, about):
    for column in lines.values():
        del column[1]


def unnamed(lines, about):
    lines["method"] = ["../../x" if m == "RS" else m for m in lines["method"]]


def odd_track(lines, about):
    about["runs"][0]["track"] = "[/]"


def two_runs(lines, about):
    about["runs"].append(about["runs"][0])


def tampered(lines, about):
    about["runs"][0]["manifest"] = about["runs"][0]["manifest"].replace('"seed": 0', '"seed": 1')


def hostile(lines, about):
    about["runs"][0]["cards"] = {"RS": dict.fromkeys(Card.__struct_fields__, "\x1b[2J")}


def other_suite(lines, about):
    for run in about["runs"]:
        manifest = json.loads(run["manifest"])
        manifest.pop("sha256")
        manifest["suite"]["n_initial"] = 5
        run["manifest"] = json.dumps(manifest)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (newer, "has format 2, newer than this version reads: update hpobench-nmt"),
        (key, r"unknown key 'runs\[0\].program'"),
        (trial_missing, "is a damaged archive"),
        (unnamed, "trials of a method that is not in any of its manifests"),
        (odd_track, "is a damaged archive"),
        (two_runs, "a method is in track plain twice"),
        (tampered, "was changed: it does not have the SHA-256 at its end"),
        (hostile, "card: what must be a line of 1 to 500 characters"),
    ],
)
def test_files_that_are_refused(archive, tmp_path, edit, message):
    with pytest.raises(InputError, match=message) as refused:
        changed(archive, tmp_path / "a.parquet", edit)
    assert "a.parquet" in str(refused.value)


def test_an_archive_with_a_column_twice_is_damaged(archive, tmp_path):
    whole = pq.read_table(archive.path)
    pq.write_table(whole.append_column("rows", whole["rows"]), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"a\.parquet: is a damaged archive"):
        read_archive(tmp_path / "a.parquet")


def test_an_archive_of_another_suite(archive, tmp_path):
    wrong = changed(archive, tmp_path / "a.parquet", other_suite)
    with pytest.raises(InputError, match="another version of lm-2026-plain than the installed one"):
        beside(hb.run(**PLAIN, methods=["RS"]), wrong)
    with pytest.raises(InputError, match="another version of lm-2026-plain than the installed one"):
        install_archive(wrong.path)


def test_tracks_of_version_1_1_are_read_and_scored_but_not_run(home, tmp_path):
    """On whole tables, under their own hash, and never beside the tracks of this version."""
    table, by_table = "sotu-gpt-30k", {"tolerance": 1.654, "time": 60, "score_at": 30}
    old = Suite("lm-2026-plain", ("ftc", "fb"), tables=(table,), trials=2)
    old = suite_with(old, **{key: {table: value} for key, value in by_table.items()})
    old = suite_with(old, pinned={table: pin_of(old, make_instance(old, hb.load_table(table)))})
    with pytest.raises(InputError, match=r"of version 1\.1 can be read and scored, but not run"):
        hb.run(old, methods=["RS"])
    folder = tmp_path / "old"
    run_suite(old, suite_instances(old), resolve_methods(["RS", "BO_EI_M_std"]), folder=folder)
    results = hb.load_results(folder)
    with pytest.raises(InputError, match=r"of version 1\.1, which can be read, but not resumed"):
        hb.run(**PLAIN, methods=["RS"], out=folder)
    (tmp_path / "old.parquet").write_bytes(archive_bytes({"plain": [results]}))
    archived = read_archive(tmp_path / "old.parquet")
    assert suite_hash(archived.suite("plain")) == suite_hash(old) != suite_hash(load_suite("lm-2026-plain"))
    (track,) = arena_tracks(archived)
    assert track.found.aim == "a row within the tolerance of ftc"
    assert track.found.methods.equals(hb.fewer_trainings(results).methods)
    with pytest.raises(InputError, match="another version of lm-2026-plain than the installed one"):
        beside(hb.run(**PLAIN, methods=["RS"]), archived)


def test_what_is_no_archive(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 nothing")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r"a.parquet: is a damaged archive. Get it again"):
        read_archive(tmp_path / "a.parquet")
    with pytest.raises(InputError, match="is not an archive of hpobench-nmt"):
        read_archive(tmp_path / "b.parquet")


@pytest.mark.parametrize("name", ["track", "table", "method", "failure"])
def test_texts_that_are_lists_are_refused(archive, tmp_path, name):
    lines = archive.lines
    place = lines.column_names.index(name)
    lists = pa.array([["x"]] * len(lines))
    pq.write_table(lines.set_column(place, name, lists), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"a\.parquet: is (a damaged|not an) archive"):
        read_archive(tmp_path / "a.parquet")


def test_a_manifest_that_is_no_text_is_refused(archive, tmp_path):
    def edit(lines, about):
        about["runs"][0]["manifest"] = "\ud800"

    with pytest.raises(InputError, match=r"a\.parquet"):
        changed(archive, tmp_path / "a.parquet", edit)


def test_adapters_of_the_package_are_its_own_methods(archive, tmp_path):
    def edit(lines, about):
        renamed(lines, about, "pymoo.NSGA2")

    mine = hb.run(**PLAIN, methods=["RS"])
    taken = changed(archive, tmp_path / "a.parquet", edit)
    methods = {**mine.manifest.methods, "pymoo.NSGA2": mine.manifest.methods["RS"]}
    own = msgspec.structs.replace(mine.manifest, methods=methods)
    ran = dataclasses.replace(mine, methods=("RS", "pymoo.NSGA2"), manifest=own)
    assert beside(ran, taken).methods == ("RS", "pymoo.NSGA2")


def test_a_text_that_recurs_takes_its_memory_once(archive, tmp_path):
    """A long reason in every line is a small file."""

    def edit(lines, about):
        lines["failure"] = ["x" * 3_000_000] * len(lines["trial"])

    assert changed(archive, tmp_path / "a.parquet", edit).lines.nbytes < 4_000_000
