"""The digest of an archive gives the figures that its trials give."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hpobench_nmt as hb
from hpobench_nmt.arena import beside as beside_module
from hpobench_nmt.arena import digest as digest_module
from hpobench_nmt.arena.archive import archive_bytes, read_archive
from hpobench_nmt.arena.beside import beside
from hpobench_nmt.arena.digest import DIGEST, archive_or_digest, digest_bytes, load_digest
from hpobench_nmt.arena.verification import check_hashes
from hpobench_nmt.benchmarking.records.frozen import suite_hash
from hpobench_nmt.benchmarking.task.suite import changed
from hpobench_nmt.benchmarking.task.suite_files import load_suite, tracks
from hpobench_nmt.core.system.errors import InputError

TABLES = ["sotu-gpt-30k", "sotu-lstm"]


@pytest.fixture
def archive(home, tmp_path):
    runs = {
        track: [hb.run("lm-2026", track=track, tables=TABLES, methods=methods, trials=3)]
        for track, methods in (("plain", ["RS", "BO_EI_M_std"]), ("early", ["RS", "ASHA"]))
    }
    (tmp_path / "lm-2026.parquet").write_bytes(archive_bytes(runs))
    return read_archive(tmp_path / "lm-2026.parquet")


@pytest.fixture
def digest(archive, tmp_path, monkeypatch):
    path = tmp_path / "digest.parquet"
    path.write_bytes(digest_bytes(archive))
    monkeypatch.setattr(digest_module, "DIGEST", path)
    monkeypatch.setattr(beside_module, "_CLONE", tmp_path / "none")
    return load_digest(path)


@pytest.mark.parametrize("track", ["plain", "early"])
def test_its_figures_are_those_of_the_archive(archive, digest, track):
    mine = hb.run("lm-2026", track=track, tables=TABLES, methods=["RS"], trials=2)
    whole = hb.fewer_trainings(beside(mine, archive))
    found = digest.beside(mine)
    assert found.methods["method"].tolist() == whole.methods["method"].tolist()
    for column in ("times_fewer", "low", "high", "capped"):
        assert found.methods[column].tolist() == pytest.approx(whole.methods[column].tolist(), rel=1e-6)
    assert found.tests["p"].tolist() == pytest.approx(whole.tests["p"].tolist(), nan_ok=True)


def test_it_stands_in_for_an_archive_that_is_not_installed(digest, run_here, home):
    command = ("run", "lm-2026", "--track", "plain", "-t", ",".join(TABLES), "-m", "RS", "--trials", "2")
    done = run_here(*command, "--beside", "archive", "--out", home / "out", "-j", 1)
    assert "its methods appear only in the figure" in done.stderr
    ranked, mine = done.stdout.split("Your methods alone:")
    assert "BO_EI_M_std" in ranked
    assert "BO_EI_M_std" not in mine
    suite = changed(load_suite("lm-2026-plain"), trials=2)
    assert archive_or_digest("archive", suite, 0).archive == digest.archive
    with pytest.raises(InputError, match="suite 'quick' is not a track"):
        archive_or_digest("archive", load_suite("quick"), 0)


def test_results_of_another_version_are_refused(digest):
    rules = {"tables": TABLES[:1], "methods": ["RS"], "trials": 1}
    with pytest.raises(InputError, match="the digest has results of seed 0 only, and this run has seed 4"):
        digest.beside(hb.run("lm-2026", track="plain", seed=4, **rules))
    with pytest.raises(InputError, match="the digest: has 3 trials of a method, the run has 4: run with --t"):
        digest.beside(hb.run("lm-2026", track="plain", **{**rules, "trials": 4}))
    with pytest.raises(InputError, match="another version of lm-2026-multi"):
        digest.beside(hb.run("lm-2026", track="multi", **{**rules, "tables": ["sotu-ngram"]}))


def test_what_does_not_fit_is_named_before_a_trial_runs(digest, run_here, home):
    command = ("run", "lm-2026", "--track", "plain", "-t", ",".join(TABLES), "-m", "RS")
    done = run_here(*command, "--trials", "4", "--beside", "archive", "--out", home / "out", check=2)
    assert "run with --trials 3" in done.stderr
    assert not (home / "out").exists()


def test_files_that_are_no_digest(archive, tmp_path):
    whole = pq.read_table(pa.BufferReader(digest_bytes(archive)))
    path = tmp_path / "d.parquet"
    for metadata, message in (
        ({b"hpobench_nmt": b'{"format": 99, "archive": "", "suites": {}}'}, "another format"),
        ({b"hpobench_nmt": b"[]"}, r"d\.parquet"),
        ({}, "is not a digest, or is damaged"),
    ):
        pq.write_table(whole.replace_schema_metadata(metadata), path)
        with pytest.raises(InputError, match=message):
            load_digest(path)
    numbers, missing = pa.array(range(len(whole))), pa.nulls(len(whole), whole.schema.field("runtimes").type)
    for other in (
        *(whole.drop_columns([column]) for column in whole.column_names),
        whole.set_column(0, "track", numbers),
        whole.set_column(3, "runtimes", numbers),
        whole.set_column(3, "runtimes", missing),
    ):
        pq.write_table(other, path)
        with pytest.raises(InputError, match="is not a digest, or is damaged"):
            load_digest(path)
    for content in (b"", b"PAR1"):
        path.write_bytes(content)
        with pytest.raises(InputError, match="is not a digest, or is damaged"):
            load_digest(path)


def test_format_1_had_no_hashes(archive, digest, tmp_path):
    whole = pq.read_table(pa.BufferReader(digest_bytes(archive))).drop_columns(["sha256"])
    about = json.loads(whole.schema.metadata[b"hpobench_nmt"])
    old = whole.replace_schema_metadata({b"hpobench_nmt": json.dumps({**about, "format": 1}).encode()})
    pq.write_table(old, tmp_path / "old.parquet")
    found = load_digest(tmp_path / "old.parquet")
    assert not found.hashes
    assert {key: each.tolist() for key, each in found.runtimes.items()} == {
        key: each.tolist() for key, each in digest.runtimes.items()
    }
    assert "has format 1, without hashes" in check_hashes(archive, tmp_path / "old.parquet")


def test_the_archive_of_this_repository_is_that_of_the_digest():
    path = Path(__file__).parents[2] / "archive" / "lm-2026.parquet"
    if not path.is_file():
        pytest.skip("the archive lies in a clone of the project")
    found = read_archive(path)
    assert path.stat().st_size < 6_000_000
    assert found.sha256 == load_digest().archive
    assert set(found.groups) == set(load_digest().runtimes)
    assert load_digest().changed(found) == []
    for track, manifests in found.manifests.items():
        assert {suite_hash(each.suite) for each in manifests} == {load_digest().suites[track]}


def test_the_digest_of_the_package_is_small_and_of_its_suites():
    assert DIGEST.stat().st_size < 300_000
    about = json.loads(pq.read_schema(DIGEST).metadata[b"hpobench_nmt"])
    assert about["suites"] == {t: suite_hash(load_suite(name)) for t, name in tracks("lm-2026").items()}
    found = load_digest()
    for track, suite in tracks("lm-2026").items():
        tables = {table for of, table, _ in found.runtimes if of == track}
        assert tables == set(load_suite(suite).tables)
