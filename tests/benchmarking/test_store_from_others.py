"""Results folders from somebody else, and of the first version: links, edited manifests, wrong look-ups."""

import hashlib
import json
import os
import shutil
from importlib.metadata import version

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hpobench_nmt as hb
from hpobench_nmt.analysis.leaderboard import cells
from hpobench_nmt.analysis.run_notes import trial_notes
from hpobench_nmt.benchmarking.contestants.plugins import resolve_methods
from hpobench_nmt.benchmarking.records.observations import to_parquet
from hpobench_nmt.benchmarking.run import run_suite
from hpobench_nmt.benchmarking.task.instance import suite_instances
from hpobench_nmt.benchmarking.task.suite import Suite
from hpobench_nmt.benchmarking.task.suite_files import published_figures
from hpobench_nmt.core.system.errors import InputError


@pytest.fixture
def small(toy_home, tmp_path, toy):
    """A results folder of RS on toy, made in this process, and a folder beside it that nobody may touch."""
    victim = tmp_path / "victim"
    (victim / "RS").mkdir(parents=True)
    (victim / "RS" / "thesis.tex").write_text("years of work")
    (victim / "RS.parquet").write_text("years of work")
    folder = tmp_path / "results"
    again(folder)
    of_the_first_version(folder)
    return folder


def of_the_first_version(folder):
    """Make the manifest what the first version wrote: without hashes."""

    def edit(manifest):
        manifest["format"] = 1
        manifest["versions"]["hpobench-nmt"] = "1.0.0"
        del manifest["observations"], manifest["sha256"], manifest["trial_version"]
        for entry in manifest["methods"].values():
            if entry.pop("rows_version", 0):
                entry["fingerprint"] = "0" * 64

    edited(folder, edit)


def again(folder, methods=("RS",), published="", **options):
    """Run a small suite into the folder."""
    suite = Suite(
        "s", ("ftb", "fb"), tables=("toy",), trials=30, score_at={"default": 5}, published=published
    )
    instances = suite_instances(suite)
    return run_suite(suite, instances, resolve_methods(methods), folder=folder, **options)


def edited(folder, edit):
    """Change the manifest in place."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    edit(manifest)
    path.write_text(json.dumps(manifest))


@pytest.mark.parametrize("where", ["../../victim", "../victim", "ABSOLUTE"])
@pytest.mark.parametrize("kind", ["tables", "methods"])
def test_a_changed_method_removes_nothing_outside_the_folder(small, contents, tmp_path, where, kind):
    name = str(tmp_path / "victim") if where == "ABSOLUTE" else where

    def edit(manifest):
        manifest["versions"]["hpobench-nmt"] = "0.1"
        (entry,) = manifest[kind].values()
        manifest[kind][name] = entry

    edited(small, edit)
    before = contents(tmp_path)
    with pytest.raises(InputError, match=r"name .* cannot be used"):
        again(small)
    assert contents(tmp_path) == before


INNER = ["observations", "observations/toy", "unfinished", "unfinished/toy", "timings", "timings/toy"]


@pytest.mark.parametrize("inner", INNER)
def test_links_in_the_folder_are_not_followed(small, contents, tmp_path, inner):
    before = (small / "observations" / "toy" / "RS.parquet").read_bytes()
    edited(small, lambda m: m["versions"].update({"hpobench-nmt": "0.1"}))
    link = small / inner
    if link.exists():
        link.rename(tmp_path / "moved")
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(tmp_path / "victim")
    (tmp_path / "victim" / "toy").symlink_to(".")
    with pytest.raises(InputError, match="leads out of the results folder through a symbolic link"):
        again(small)
    assert (tmp_path / "victim" / "RS" / "thesis.tex").read_text() == "years of work"
    assert (tmp_path / "victim" / "RS.parquet").read_text() == "years of work"
    if inner.startswith("timings"):  # nothing was put in place before the link was found
        shutil.rmtree(small / "unfinished", ignore_errors=True)
        assert contents(small / "observations") in ({}, {"toy/RS.parquet": before})


def test_a_link_in_a_circle_is_one_line(small):
    path = small / "observations" / "toy"
    shutil.rmtree(path)
    path.symlink_to(path)
    with pytest.raises(InputError, match="nothing is finished yet"):
        hb.load_results(small)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda m: m.update(format=5), "format 5, newer than this version reads: update"),
        (lambda m: m.pop("format"), "no format number"),
        (lambda m: m.update(format="1"), "no format number"),
        (lambda m: m.update(seed="0"), "seed must be a whole number"),
        (lambda m: m.update(extra=1), "unknown key 'extra'"),
        (lambda m: m["suite"].update(scores="ftb"), "suite.scores must be a list of strings"),
        (lambda m: m["suite"].update(scores=["ftb", 3]), r"suite.scores\[1\] must be a string, not 3"),
        (lambda m: m["suite"].update(tolerance={"toy": "a"}), "suite.tolerance.toy must be a finite number"),
        (
            lambda m: m["suite"].update(budget={"toy": 1.5}),
            "score_at of .toy. must be a whole number, not 1.5",
        ),
        (lambda m: m["suite"].update(published="../x.csv"), "published must be the name of a file"),
        (lambda m: m["tables"]["toy"].update(sha256=5), "tables.toy.sha256 must be a string"),
        (lambda m: m["tables"]["toy"].update(sha256="abc"), "tables.toy.sha256 must be a string"),
        (lambda m: m["tables"]["toy"].update(source=["x"]), "tables.toy.source must be a string"),
        (lambda m: m["tables"]["toy"].update(source="toy"), "loaded from 'toy', where there is no table now"),
        (lambda m: m["tables"]["toy"].update(source="/\0"), "where there is no table now"),
        (lambda m: m["tables"]["toy"].update(source="/nowhere"), "where there is no table now"),
        (lambda m: m["methods"]["RS"].update(fingerprint=None), "methods.RS.fingerprint must be a string"),
        (lambda m: m["methods"]["RS"].update(rows_version=-1), "methods.RS.rows_version must be"),
        (lambda m: m["methods"]["RS"].update(libraries=["optuna"]), "methods.RS.libraries must be a section"),
        (lambda m: m["methods"].update(rs=m["methods"]["RS"]), "upper and lower case only"),
        (lambda m: m["methods"].clear(), "no table or no method"),
    ],
)
def test_wrong_content_of_a_manifest_is_named(small, edit, message):
    edited(small, edit)
    with pytest.raises(InputError, match=message) as error:
        published_figures(hb.load_results(small).suite)
    assert "\n" not in str(error.value)


def lookups(folder):
    return folder / "observations" / "toy" / "RS.parquet"


def changed(frame, column, value, where=0):
    frame = frame.copy()
    if isinstance(value, str) or value is None:
        frame[column] = frame[column].astype(object)
    frame.loc[where, column] = value
    return frame


def repeated_row(frame):
    """The second look-up of the first trial is its first again."""
    first = frame.loc[0, ["row", "loss_1"]]
    frame = frame.copy()
    frame.loc[1, ["row", "loss_1"]] = first
    return frame


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: changed(f, "row", 10**6), "are not those of table 'toy'"),
        (lambda f: changed(f, "row", -1), "are not those of table 'toy'"),
        (lambda f: changed(f, "loss_1", 1.25), "are not those of table 'toy'"),
        (lambda f: changed(f, "loss_1", np.nan), "are not those of table 'toy'|is damaged"),
        (lambda f: f.assign(row=f.row.astype(str)), "is damaged"),
        (lambda f: changed(f, "table", None), "is damaged"),
        (lambda f: changed(f, "step", 2), "steps are not numbered"),
        (lambda f: changed(f, "step", 7, len(f) - 1), "steps are not numbered"),
        (lambda f: f.assign(trial=f.trial + 1), "trials are not numbered from 0 to 29"),
        (lambda f: f[f.trial < 29], "has 29 trials instead of 30"),
        (lambda f: f.iloc[:0], "is damaged"),
        (lambda f: f.assign(method="BO_EI_M"), "holds look-ups of ['BO_EI_M'] on ['toy'], not of RS on toy"),
        (lambda f: changed(f, "table", "other", len(f) - 1), "holds look-ups of"),
        (lambda f: f.drop(columns="failure"), "is damaged"),
        (lambda f: f.assign(loss_2=0.0), "is damaged"),
        (repeated_row, "looked up a row twice"),
        (lambda f: changed(f, "failed", True), "failures are not the same"),
        (lambda f: changed(f, "failure", "no"), "failures are not the same"),
        (lambda f: changed(f, "failure", "no", f.trial == 1), "failures are not the same"),
    ],
)
def test_well_formed_files_with_wrong_look_ups_are_refused(small, change, message):
    change(pq.read_table(lookups(small)).to_pandas()).to_parquet(lookups(small), index=False)
    for read in (lambda: hb.load_results(small), lambda: again(small)):
        with pytest.raises(InputError) as error:
            read()
        assert any(part in str(error.value) for part in message.split("|"))
        assert "Delete it and run again" in str(error.value)
        assert "\n" not in str(error.value)


def test_files_that_another_program_wrote_again_can_be_read(small):
    """Plain strings for dictionaries, wider numbers, row groups: the same content."""
    before = [t.rows.tolist() for t in hb.load_results(small).trials["toy", "RS"]]
    frame = pq.read_table(lookups(small)).to_pandas()
    frame["table"], frame["failure"] = frame["table"].astype(str), frame["failure"].astype(str)
    frame["row"] = frame["row"].astype("int64")
    frame.to_parquet(lookups(small), index=False, row_group_size=100)
    assert [t.rows.tolist() for t in hb.load_results(small).trials["toy", "RS"]] == before


def test_a_folder_is_read_as_it_was_run(toy_home, toy, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "sulky.py").write_text(
        "class Sulky:\n"
        "    def __init__(self, problem, rng):\n"
        "        self.rows, self.left = list(range(36)), int(rng.integers(9))\n"
        "    def ask(self):\n"
        "        self.left -= 1\n"
        "        if self.left < 0: raise ValueError(f'enough of {len(self.rows)}')\n"
        "        return self.rows[-1]\n"
        "    def tell(self, index, losses):\n"
        "        self.rows.remove(index)\n"
    )
    ran = again(tmp_path / "r", ("RS", f"{tmp_path / 'sulky.py'}:Sulky"))
    read = hb.load_results(str(tmp_path / "r"))
    assert 0 < len(ran.failures()) <= 30
    assert read.failures() == ran.failures()
    for key, trials in ran.trials.items():
        assert len(trials) == len(read.trials[key]) == 30
        for a, b in zip(trials, read.trials[key], strict=True):
            np.testing.assert_array_equal(a.rows, b.rows)
            np.testing.assert_array_equal(a.losses, toy.losses(["bleu"])[a.rows])
            np.testing.assert_array_equal(a.losses, b.losses)
            assert (a.failure, a.rows.dtype) == (b.failure, b.rows.dtype)
    pd.testing.assert_frame_equal(read.scores(), ran.scores())


def test_a_run_of_the_first_version_is_read_and_its_budget_kept(small, contents):
    """The manifest's suite says `budget` for score_at, as in the first version."""
    manifest = json.loads((small / "manifest.json").read_text())
    assert manifest["format"] == 1
    assert list(manifest["suite"]) == [
        "name",
        "scores",
        "objectives",
        "trials",
        "n_initial",
        "ties",
        "stop",
        "lookups",
        "tolerance",
        "budget",
        "published",
    ]
    assert manifest["suite"]["budget"] == {"default": 5}
    assert list(manifest["tables"]["toy"]) == ["sha256", "rows", "objectives", "targets"]
    assert list(manifest["methods"]["RS"]) == ["spec", "fingerprint"]
    assert hb.load_results(small).suite.score_at == {"default": 5}
    before = contents(small)
    again(small)
    after = contents(small)
    new = json.loads(after.pop("manifest.json"))
    old = json.loads(before.pop("manifest.json"))
    assert after == before
    # The run has added hashes, and versions in place of a hash of sources.
    found = hashlib.sha256(lookups(small).read_bytes()).hexdigest()
    assert new.pop("observations") == {"toy": {"RS": found}}
    assert len(new.pop("sha256")) == 64
    assert new.pop("trial_version") == 1
    assert new.pop("methods") == {"RS": {"spec": "RS", "rows_version": 1}}
    old["versions"]["hpobench-nmt"] = version("hpobench-nmt")
    assert new == {k: v for k, v in old.items() if k != "methods"} | {"format": 4}
    hb.load_results(small)


def test_published_figures_may_move_or_be_elsewhere(small, tmp_path):
    edited(small, lambda m: m["suite"].update(published=str(tmp_path / "gone.csv")))
    results = hb.load_results(small)
    assert np.isnan([cell.published_mean for cell in cells(results)]).all()
    wanted = f"Published figures are left out. {tmp_path / 'gone.csv'}: cannot be read"
    assert any(note.startswith(wanted) for note in trial_notes(results))
    (tmp_path / "found.csv").write_text("method,table,metric,mean,std\nRS,toy,ftb,18.5,10\n")
    again(small, published=str(tmp_path / "found.csv"))
    results = hb.load_results(small)
    assert {cell.published_mean for cell in cells(results) if cell.score == "ftb"} == {18.5}
    assert not any("Published" in note for note in trial_notes(results))


def test_a_run_of_other_methods_at_the_same_time_loses_none(small):
    """Both have read the manifest before either has written its own methods into it."""
    path = small / "manifest.json"
    of_the_other = path.read_bytes()
    again(small, methods=("BO_EI_M",), progress=lambda done, total: path.write_bytes(of_the_other))
    assert hb.load_results(small).methods == ("RS", "BO_EI_M")


def test_two_hashes_that_begin_alike_are_two(small):
    edited(small, lambda m: m["tables"]["toy"].update(sha256=m["tables"]["toy"]["sha256"][:-1] + "x"))
    with pytest.raises(InputError):
        again(small)
    digit = json.loads((small / "manifest.json").read_text())["tables"]["toy"]["sha256"][0]
    good = hb.load_table("toy").sha256
    edited(small, lambda m: m["tables"]["toy"].update(sha256=good[:-1] + ("0" if good[-1] != "0" else "1")))
    assert digit == good[0]
    with pytest.raises(InputError, match="table 'toy' of hash"):
        again(small)


def test_blocks_that_are_all_there_are_joined_without_running(small, contents, tmp_path):
    """A run that was killed between its last block and the joined file."""
    before = contents(small)
    whole = hb.load_results(small).trials["toy", "RS"]
    lookups(small).unlink()
    for first, stop in ((0, 25), (25, 30)):
        part = small / "unfinished" / "toy" / "RS" / f"{first:06d}.parquet"
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(to_parquet("toy", "RS", first, whole.part(first, stop)))
    seen = []
    again(small, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(30 * 36, 30 * 36)]
    assert contents(small).keys() == before.keys()
    assert contents(small)["observations/toy/RS.parquet"] == before["observations/toy/RS.parquet"]


def test_rows_are_counted_before_they_are_read(small, monkeypatch):
    found = pq.read_table(lookups(small))
    pq.write_table(pa.concat_tables([found] * 100), lookups(small))

    def read(*arguments, **options):
        raise AssertionError("the values were read")

    monkeypatch.setattr(pq.ParquetFile, "read", read)
    with pytest.raises(InputError, match=r"RS\.parquet: is damaged"):
        hb.load_results(small)


def test_times_that_are_no_regular_file_or_too_large_are_refused(small):
    timing = small / "timings" / "toy" / "RS.csv"
    timing.unlink(missing_ok=True)
    os.mkfifo(timing)
    for message in ("is not a file", "larger than"):
        with pytest.raises(InputError, match=message):
            hb.load_results(small)
        timing.unlink()
        with timing.open("wb") as file:
            file.truncate(2**40)
