"""An archive: what it holds, what stands beside one's own results, bad files, and additions."""

import dataclasses
import json
from importlib.metadata import version

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hpobench_nmt as hb
from hpobench_nmt.benchmarking import beside as beside_module
from hpobench_nmt.benchmarking import suite_files
from hpobench_nmt.benchmarking.archive import Card, archive_bytes, read_archive
from hpobench_nmt.benchmarking.frozen import pin_of
from hpobench_nmt.benchmarking.instance import make_instance
from hpobench_nmt.benchmarking.submissions import (
    add_to_archive,
    install_archive,
    join_parts,
    rerun,
    save_archive,
    verify_archive,
    with_results,
)
from hpobench_nmt.core.errors import InputError

PLAIN = {"suite": "lm-2026", "track": "plain", "tables": ["sotu-gpt-30k"], "trials": 3}
EARLY = {"suite": "lm-2026", "track": "early", "tables": ["sotu-gpt-30k"], "trials": 2}
MINE = """
class Mine:
    def __init__(self, problem, rng):
        self.rng, self.left = rng, list(range(len(problem.features)))

    def ask(self):
        return self.left[int(self.rng.integers(len(self.left)))]

    def tell(self, index, losses):
        self.left.remove(index)
"""
CARD = """
what = "Random search, again <script>alert(1)</script>"
source = "https://example.org/mine"
licence = "MIT"
hardware = "a laptop"
tuned_on = "none"
"""


@pytest.fixture(scope="module")
def runs():
    """Results of two tracks."""
    return {
        "plain": [hb.run(**PLAIN, methods=["RS", "BO_EI_M_std"])],
        "early": [hb.run(**EARLY, methods=["RS", "SH", "ASHA"])],
    }


@pytest.fixture(scope="module")
def archive(runs, tmp_path_factory):
    path = tmp_path_factory.mktemp("archive") / "lm-2026.parquet"
    path.write_bytes(archive_bytes(runs))
    return read_archive(path)


def changed(archive, path, edit):
    """The archive's file after `edit` changed its columns or its metadata, read again."""
    lines = archive.lines.to_pydict()
    about = json.loads(archive.lines.schema.metadata[b"hpobench_nmt"])
    edit(lines, about)
    schema = archive.lines.schema.with_metadata({b"hpobench_nmt": json.dumps(about).encode()})
    pq.write_table(pa.Table.from_pydict(lines, schema=schema), path)
    return read_archive(path)


def same(a, b):
    columns = ("starts", "finishes", "costs", "resources", "workers")
    return (
        a.failure == b.failure
        and np.array_equal(a.rows, b.rows)
        and np.array_equal(a.losses, b.losses, equal_nan=True)
        and all(np.array_equal(getattr(a.timeline, c), getattr(b.timeline, c)) for c in columns)
    )


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
    found = hb.beside(mine, archive, notes.append)
    assert found.methods == ("RS", "Mine", "BO_EI_M_std")
    assert notes == []
    for name in ("methods", "cells", "tests"):
        assert getattr(hb.fewer_trainings(found), name).equals(getattr(hb.fewer_trainings(whole), name))


def test_what_cannot_stand_beside(archive, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(MINE.replace("Mine", "Other"))
    with pytest.raises(InputError, match="suite 'quick' is not a track of lm-2026"):
        hb.beside(hb.run("quick", tables="sotu-ngram", methods=["RS"], trials=1), archive)
    with pytest.raises(InputError, match="has seed 0, not 1: only trials with the same seed"):
        hb.beside(hb.run(**PLAIN, methods=["RS"], seed=1), archive)
    with pytest.raises(InputError, match="has 3 trials of a method, the run has 4: run with --trials 3"):
        hb.beside(hb.run(**{**PLAIN, "trials": 4}, methods=["RS"]), archive)
    other = hb.run(**{**PLAIN, "tables": ["sotu-gpt-30k", "sotu-gpt-80k"]}, methods=["RS"])
    notes = []
    assert hb.beside(other, archive, notes.append).methods == ("RS",)
    assert notes == ["Left out, because the archive lacks some of these tables: BO_EI_M_std."]
    with pytest.raises(InputError, match="has no track 'scale', only plain, early"):
        hb.beside(hb.run("lm-2026", track="scale", tables="sotu-gpt-80k", methods=["RS"], trials=1), archive)
    own = hb.run(**PLAIN, methods=["RS", f"{tmp_path / 'mine.py'}:Other"])
    taken = changed(archive, tmp_path / "b.parquet", lambda lines, about: renamed(lines, about, "Other"))
    with pytest.raises(InputError, match="has another method 'Other': rename yours"):
        hb.beside(own, taken)
    monkeypatch.setattr(beside_module, "_CLONE", tmp_path)
    monkeypatch.setenv("HPOBENCH_NMT_HOME", str(tmp_path))
    with pytest.raises(InputError, match="the archive of lm-2026 is not installed"):
        hb.beside(own)


def renamed(lines, about, name):
    """BO_EI_M_std under another name."""
    lines["method"] = [name if m == "BO_EI_M_std" else m for m in lines["method"]]
    for run in about["runs"]:
        manifest = json.loads(run["manifest"])
        manifest.pop("sha256")
        methods = manifest["methods"]
        if "BO_EI_M_std" in methods:
            methods[name] = {**methods.pop("BO_EI_M_std"), "fingerprint": "0" * 64}
        run["manifest"] = json.dumps(manifest)


def test_a_method_of_another_version_is_named(runs, archive, tmp_path):
    def edit(lines, about):
        renamed(lines, about, "BO_EI_M_std")

    notes = []
    hb.beside(hb.run(**PLAIN, methods=["RS"]), changed(archive, tmp_path / "a.parquet", edit), notes.append)
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
        (two_runs, "a method is in track plain twice"),
        (tampered, "was changed: it has not the SHA-256 that it ends with"),
        (hostile, "card: what must be a line of 1 to 500 characters"),
    ],
)
def test_files_that_are_refused(archive, tmp_path, edit, message):
    with pytest.raises(InputError, match=message):
        changed(archive, tmp_path / "a.parquet", edit)


def test_an_archive_of_another_suite(archive, tmp_path):
    wrong = changed(archive, tmp_path / "a.parquet", other_suite)
    with pytest.raises(InputError, match="another version of lm-2026-plain than the installed one"):
        hb.beside(hb.run(**PLAIN, methods=["RS"]), wrong)
    with pytest.raises(InputError, match="another version of lm-2026-plain than the installed one"):
        install_archive(wrong.path)


def test_what_is_no_archive(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 nothing")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r"a.parquet: is a damaged archive. Get it again"):
        read_archive(tmp_path / "a.parquet")
    with pytest.raises(InputError, match="is not an archive of hpobench-nmt"):
        read_archive(tmp_path / "b.parquet")


def test_verifying_runs_trials_again(archive, tmp_path):
    found = verify_archive(archive, "plain", trials=2)
    assert [(each.method, each.trials, each.equal) for each in found] == [("RS", 2, 2), ("BO_EI_M_std", 2, 2)]

    def edit(lines, about):
        lines["rows"][0] = list(range(60))  # a trial that nothing here would make

    wrong = changed(archive, tmp_path / "a.parquet", edit)
    assert sum(each.trials - each.equal for each in verify_archive(wrong, "plain", trials=2)) == 1
    with pytest.raises(InputError, match="'Mine' is not a method of this package"):
        verify_archive(archive, "plain", ["Mine"])
    with pytest.raises(InputError, match="has 3 trials of a method, not 4"):
        verify_archive(archive, "plain", ["RS"], trials=4)
    with pytest.raises(InputError, match=r"unknown table 'sotu-gpt-31k'\. Did you mean 'sotu-gpt-30k'"):
        verify_archive(archive, "plain", ["RS"], ["sotu-gpt-30k", "sotu-gpt-31k"])


def without(method):
    """An edit of an archive that removes a method's trials, but not the method."""

    def edit(lines, about):
        kept = [i for i, name in enumerate(lines["method"]) if name != method]
        lines.update({name: [cells[i] for i in kept] for name, cells in lines.items()})

    return edit


def test_methods_without_trials_are_named(archive, tmp_path, submission):
    wrong = changed(archive, tmp_path / "a.parquet", without("RS"))
    with pytest.raises(InputError, match="has 0 trials of a method, not 1"):
        verify_archive(wrong, "plain", ["RS"])
    wrong = changed(wrong, tmp_path / "b.parquet", without("BO_EI_M_std"))
    with pytest.raises(InputError, match="method 'RS' of track plain has no trials"):
        join_parts([wrong.path])
    mine = hb.run(**PLAIN, methods=[f"{submission / 'mine.py'}:Mine"])
    wrong.path.write_bytes(archive_bytes({"plain": [mine]}))
    with pytest.raises(InputError, match="has no method of this package in track plain"):
        verify_archive(read_archive(wrong.path), "plain")


def test_another_seed_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(archive_bytes({"plain": [hb.run(**PLAIN, methods=["RS"], seed=1)]}))
    for refused in (install_archive, lambda path: join_parts([path])):
        with pytest.raises(InputError, match="has seed 1, not 0: only trials with the same seed"):
            refused(path)


def test_a_manifest_that_is_no_text_is_refused(archive, tmp_path):
    def edit(lines, about):
        about["runs"][0]["manifest"] = "\ud800"

    with pytest.raises(InputError, match=r"a\.parquet"):
        changed(archive, tmp_path / "a.parquet", edit)


def test_a_new_archive_that_cannot_be_read_leaves_the_old_one(archive, tmp_path, monkeypatch):
    path, content = tmp_path / "kept.parquet", archive.path.read_bytes()
    save_archive(content, path)
    with pytest.raises(InputError, match="is a damaged archive"):
        save_archive(content[:-9], path)
    monkeypatch.setattr("hpobench_nmt.benchmarking.submissions.MOST_BYTES", 1000)
    with pytest.raises(InputError, match="larger than 1,000 bytes"):
        save_archive(content, path)
    assert path.read_bytes() == content


def test_adapters_of_the_package_are_its_own_methods(archive, tmp_path):
    def edit(lines, about):
        renamed(lines, about, "pymoo.NSGA2")

    mine = hb.run(**PLAIN, methods=["RS"])
    taken = changed(archive, tmp_path / "a.parquet", edit)
    methods = {**mine.manifest.methods, "pymoo.NSGA2": mine.manifest.methods["RS"]}
    own = msgspec.structs.replace(mine.manifest, methods=methods)
    ran = dataclasses.replace(mine, methods=("RS", "pymoo.NSGA2"), manifest=own)
    assert hb.beside(ran, taken).methods == ("RS", "pymoo.NSGA2")


def test_a_text_that_recurs_takes_its_memory_once(archive, tmp_path):
    """A long reason in every line is a small file."""

    def edit(lines, about):
        lines["failure"] = ["x" * 3_000_000] * len(lines["trial"])

    assert changed(archive, tmp_path / "a.parquet", edit).lines.nbytes < 4_000_000


SMALL = """
scores = ["ftc", "fb"]
trials = 4
score_at = {default = 5}
lookups = 9
[tables]
sotu-gpt-30k = {pinned = "PIN"}
"""


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A benchmark lm-2026 whose track `plain` has one table, and an archive of it."""
    suites = tmp_path / "suites"
    suites.mkdir()
    monkeypatch.setattr(suite_files, "_FOLDER", suites)
    path = suites / "lm-2026-plain.toml"
    path.write_text(SMALL)
    suite = suite_files.load_suite(str(path))
    pin = pin_of(suite, make_instance(suite, hb.load_table("sotu-gpt-30k")))
    path.write_text(SMALL.replace("PIN", pin))
    (tmp_path / "small.parquet").write_bytes(
        archive_bytes({"plain": [hb.run("lm-2026", track="plain", methods=["RS"])]})
    )
    return read_archive(tmp_path / "small.parquet")


def test_a_submission_is_added_after_its_trials_ran_again(small, submission):
    method = f"{submission / 'mine.py'}:Mine"
    out, card = submission / "out", submission / "card.toml"
    hb.run("lm-2026", track="plain", methods=["RS", method], out=out)
    told = []
    (submission / "new.parquet").write_bytes(add_to_archive(small, out, method, card, told.append))
    assert told == ["Running 3 trials of Mine again on 1 table."]
    added = read_archive(submission / "new.parquet")
    assert list(added.methods("plain")) == ["RS", "Mine"]
    assert added.card("plain", "Mine").licence == "MIT"
    assert hb.beside(hb.run("lm-2026", track="plain", methods=["RS"]), added).methods == ("RS", "Mine")
    with pytest.raises(InputError, match="the name 'Mine' is taken in track plain: rename the method"):
        add_to_archive(added, out, method, card, str)
    for trials, message in ((2, "has 2 trials instead of 4"), (4, "differ from those that were run again")):
        text = (
            MINE.replace("rng", "_", 1)
            .replace("= rng", "= __import__('random')")
            .replace("integers", "randrange")
        )
        (submission / "mine.py").write_text(text)
        hb.run("lm-2026", track="plain", methods=[method], out=submission / f"{trials}", trials=trials)
        with pytest.raises(InputError, match=message):
            add_to_archive(small, submission / f"{trials}", method, card, str)


@pytest.fixture
def submission(archive, tmp_path, monkeypatch):
    """A method's file, its card, and its results: all tables of a benchmark of one."""
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "card.toml").write_text(CARD)
    return tmp_path


def test_a_submission_of_a_part_is_refused(archive, submission):
    hb.run(**PLAIN, methods=[f"{submission / 'mine.py'}:Mine"], out=submission / "out")
    how = (archive, submission / "out", f"{submission / 'mine.py'}:Mine", submission / "card.toml")
    with pytest.raises(
        InputError,
        match=r"lacks 28 tables of lm-2026-plain, such as .*A submission needs "
        r"all",
    ):
        add_to_archive(*how, notify=str)
    (submission / "card.toml").write_text(CARD.replace("licence", "license"))
    with pytest.raises(InputError, match=r"unknown key 'license'. Did you mean 'licence'"):
        add_to_archive(*how, notify=str)
    (submission / "card.toml").write_text(CARD)
    with pytest.raises(InputError, match="has no results of 'RS'"):
        add_to_archive(archive, submission / "out", "RS", submission / "card.toml", notify=str)


def test_a_card_goes_with_its_method(archive, runs, submission):
    card = msgspec.convert(dict.fromkeys(Card.__struct_fields__, "x") | {"what": "<b>"}, Card)
    mine = hb.run(**PLAIN, methods=[f"{submission / 'mine.py'}:Mine"])
    (submission / "a.parquet").write_bytes(with_results(archive, "plain", mine, card))
    found = read_archive(submission / "a.parquet")
    assert list(found.methods("plain")) == ["RS", "BO_EI_M_std", "Mine"]
    assert found.card("plain", "Mine") == card
    assert found.card("plain", "RS") is None
    again = found.trials("plain", "Mine", mine.instances["sotu-gpt-30k"])
    assert all(map(same, again, mine.trials["sotu-gpt-30k", "Mine"]))
    with pytest.raises(InputError, match="track plain has method 'Mine' already"):
        with_results(found, "plain", mine, card)
    changed_run = hb.run(**PLAIN, methods=[f"{submission / 'mine.py'}:Mine"], seed=2)
    assert [each.equal for each in rerun(mine, changed_run)] == [0]


def test_installing_an_archive(archive, home):
    assert install_archive(archive.path) == beside_module.archive_path()
    mine = hb.run(**PLAIN, methods=["RS"])
    assert hb.beside(mine).methods == ("RS", "BO_EI_M_std")
    tables = hb.report([mine, "archive"], home / "tables", format="latex")
    assert "BO\\_EI\\_M\\_std" in tables[0].read_text()
    with pytest.raises(InputError, match="an archive alone cannot make a report"):
        hb.report("archive")
