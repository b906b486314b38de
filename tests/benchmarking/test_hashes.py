"""Hashes of a results folder, down to its tables: a byte that changes is noticed."""

import copy
import hashlib
import json
import random
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor

import pytest
import tomli_w

import hpobench_nmt as hb
from hpobench_nmt.benchmarking.contestants.plugins import resolve_methods
from hpobench_nmt.benchmarking.run import run_suite
from hpobench_nmt.benchmarking.task.instance import suite_instances
from hpobench_nmt.benchmarking.task.suite import Suite
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.files import locked_folder


@pytest.fixture
def results(toy_home, tmp_path):
    run(tmp_path / "r")
    return tmp_path / "r"


def run(folder, methods=("RS",), **options):
    suite = Suite("s", ("ftb", "fb"), tables=("toy",), trials=10, score_at={"default": 5})
    return run_suite(suite, suite_instances(suite), resolve_methods(methods), folder=folder, **options)


def test_the_manifest_has_the_hash_of_each_file_of_observations(results):
    run(results, ("BO_EI_M",))
    manifest = json.loads((results / "manifest.json").read_text())
    folder = results / "observations" / "toy"
    found = {
        method: hashlib.sha256((folder / f"{method}.parquet").read_bytes()).hexdigest()
        for method in ("RS", "BO_EI_M")
    }
    assert manifest["observations"] == {"toy": found}


@pytest.mark.parametrize("name", ["manifest.json", "observations/toy/RS.parquet"])
def test_a_byte_that_changes_is_noticed(results, name):
    path = results / name
    whole = path.read_bytes()
    draw = random.Random(0)
    for place in draw.sample(range(len(whole)), 60):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ draw.choice([1, 2, 32])]) + whole[place + 1 :])
        with pytest.raises(InputError):
            hb.load_results(results)
    path.write_bytes(whole)
    hb.load_results(results)


def test_a_file_of_observations_from_elsewhere_is_refused(results):
    whole = results / "observations" / "toy" / "RS.parquet"
    run(results, ("BO_EI_M",))
    other = whole.read_bytes()
    suite = Suite("s", ("ftb", "fb"), tables=("toy",), trials=10, score_at={"default": 5})
    run_suite(suite, suite_instances(suite), resolve_methods(["RS"]), folder=results.with_name("q"), seed=1)
    whole.write_bytes((results.with_name("q") / "observations" / "toy" / "RS.parquet").read_bytes())
    with pytest.raises(InputError, match="was changed: its SHA-256 is"):
        hb.load_results(results)
    with pytest.raises(InputError, match=r"was changed: .* Delete it and run again"):
        run(results)
    whole.unlink()
    run(results)
    assert whole.read_bytes() == other
    manifest = json.loads((results / "manifest.json").read_text())
    del manifest["observations"]["toy"]["RS"], manifest["sha256"]
    (results / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="the manifest does not have its hash"):
        hb.load_results(results)


def test_a_file_that_a_manifest_without_hashes_does_not_name_is_refused_before_anything_changes(results):
    path = results / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["observations"], manifest["sha256"]
    manifest["methods"] = {"other": manifest["methods"]["RS"]}
    path.write_text(json.dumps(manifest | {"format": 1}))
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"RS\.parquet: the manifest does not have its hash\. Delete it"):
        run(results)
    assert path.read_bytes() == before


def test_score_verify_says_what_it_compared(results, run_here):
    done = run_here("score", results, "--check")
    assert f"{results}: the hashes of the manifest and of 1 file of observations are correct." in done.stderr
    assert "the hashes of table.csv are correct" in done.stderr
    manifest = json.loads((results / "manifest.json").read_text())
    del manifest["observations"], manifest["sha256"]
    (results / "manifest.json").write_text(json.dumps(manifest | {"format": 1}))
    run_here("score", results)
    done = run_here("score", results, "--check", check=2)
    assert "has no hashes, because an earlier version wrote it" in done.stderr
    run(results)
    run_here("score", results, "--check")


def test_a_datasheet_that_was_changed_is_refused(toy_home):
    path = toy_home / "tables" / "toy" / "datasheet.toml"
    whole = tomllib.loads(path.read_text())

    def write(edit):
        sheet = copy.deepcopy(whole)
        edit(sheet)
        path.write_text(tomli_w.dumps(sheet))

    for edit in (
        lambda sheet: sheet["metrics"]["seconds"].update(direction="max"),
        lambda sheet: sheet["metrics"]["bleu"].update(tolerance=3.5),
        lambda sheet: sheet["metrics"]["bleu"].update(missing=20.5),
        lambda sheet: sheet.update(objectives=["seconds"]),
        lambda sheet: sheet["hyperparameters"]["width"].update(scale="log"),
    ):
        write(edit)
        with pytest.raises(
            InputError, match=r"was changed, because claims\.sections_sha256 .* remove that line"
        ):
            hb.load_table("toy")
    write(lambda sheet: (sheet["metrics"]["bleu"].update(tolerance=3.5), sheet.pop("claims")))  # on purpose
    assert hb.load_table("toy").metric("bleu").tolerance == 3.5
    write(lambda sheet: sheet["metrics"]["bleu"].update(description="of sacrebleu"))  # changes no result
    assert hb.load_table("toy").metric("bleu").description == "of sacrebleu"
    assert "sections_sha256" not in hb.load_table("toy").claims


_RUN = """
import sys
from hpobench_nmt.cli.main import main
main(["run", "quick", "--tables", "toy", "--methods", "RS", "--trials", "40", "--jobs", "1", "--quiet",
      "--out", sys.argv[1]])
"""


def test_a_second_run_into_a_folder_waits_for_the_first(results, run_here):
    told = []
    with ThreadPoolExecutor(1) as pool, locked_folder(results):
        run_here("score", results)  # who reads needs no lock
        run(results.with_name("other"))
        second = pool.submit(run, results, ("BO_EI_M",), notify=told.append)
        deadline = time.monotonic() + 30
        while not told and time.monotonic() < deadline:
            time.sleep(0.01)
        assert told == [f"another run writes into {results}: waiting until it has ended."]
        assert not second.done()
    second.result()
    assert hb.load_results(results).methods == ("RS", "BO_EI_M")


def test_two_runs_into_one_folder_at_once_both_end_well(toy_home, tmp_path):
    for folder in (tmp_path / "a", tmp_path / "b"):
        both = [subprocess.Popen([sys.executable, "-c", _RUN, folder]) for _ in range(2)]
        assert [process.wait(120) for process in both] == [0, 0]
        assert len(hb.load_results(folder).trials) == 1
