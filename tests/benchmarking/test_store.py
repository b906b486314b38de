"""Runs that are killed, results that must be the same to the byte, and changed methods, tables and disks."""

import contextlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

import pyarrow.parquet as pq
import pytest

from hpobench_nmt.lookup.disk.folder import save_folder

RUN = ("run", "quick", "--tables", "toy", "--trials", "60", "--quiet", "--jobs", "1")
METHODS = ("--methods", "RS,BO_EI_M,GB_EIF_M")

SLOW = """
import time

class Slow:
    def __init__(self, problem, rng):
        self.rows = rng.permutation(len(problem.features)).tolist()

    def ask(self):
        time.sleep(0.002)
        return self.rows[-1]

    def tell(self, index, losses):
        self.rows.remove(index)
"""


@pytest.fixture(scope="module")
def undisturbed(toy_tables, run_here, tmp_path_factory):
    """The folder of an undisturbed run, to be copied."""
    out = tmp_path_factory.mktemp("undisturbed") / "reference"
    run_here(*RUN, *METHODS, "--out", out, HPOBENCH_NMT_HOME=str(toy_tables))
    return out


@pytest.fixture
def reference(toy_home, undisturbed, contents, tmp_path):
    """Files of an undisturbed run, which stand in tmp_path / "reference"."""
    shutil.copytree(undisturbed, tmp_path / "reference")
    return contents(tmp_path / "reference")


def test_the_files_say_what_was_looked_up(reference, tmp_path, toy):
    manifest = json.loads((tmp_path / "reference" / "manifest.json").read_text())
    assert manifest["tables"]["toy"]["sha256"] == toy.sha256
    assert list(manifest["methods"]) == ["RS", "BO_EI_M", "GB_EIF_M"]
    observations = pq.read_table(tmp_path / "reference" / "observations" / "toy" / "BO_EI_M.parquet")
    assert observations.schema.metadata == {b"loss_1": b"bleu:max"}
    frame = observations.to_pandas()
    assert list(frame.columns) == ["table", "method", "trial", "step", "row", "loss_1", "failed", "failure"]
    assert frame["trial"].nunique() == 60
    assert not frame["failed"].any()
    losses = toy.losses(["bleu"])[:, 0]
    assert (frame["loss_1"] == losses[frame["row"]]).all()
    first = frame[frame["trial"] == 0]
    assert first["step"].tolist() == list(range(1, len(first) + 1))
    assert not first["row"].duplicated().any()
    best = int(toy.best_rows("bleu")[0])
    assert best in set(first["row"])


def test_every_method_starts_from_the_same_rows(reference, tmp_path):
    def initial(method):
        frame = pq.read_table(
            tmp_path / "reference" / "observations" / "toy" / f"{method}.parquet"
        ).to_pandas()
        return frame[frame["step"] <= 3].groupby("trial")["row"].apply(list).tolist()

    assert initial("RS") == initial("BO_EI_M") == initial("GB_EIF_M")
    assert len({tuple(rows) for rows in initial("RS")}) > 50


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (("--jobs", "2"), {}),
        pytest.param(("--jobs", "1"), {"PYTHONHASHSEED": "1"}, marks=pytest.mark.hosts),
        (("--jobs", "1"), {"PYTHONHASHSEED": "2", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}),
        pytest.param(
            ("--jobs", "1"), {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}, marks=pytest.mark.oracle
        ),
        pytest.param(("--jobs", "2", "--backend", "dask"), {}, marks=pytest.mark.hosts),
    ],
    ids=["two workers", "hash seed 1", "hash seed 2, one BLAS thread", "two BLAS threads", "dask"],
)
def test_the_same_bytes_however_it_is_run(reference, run_command, contents, tmp_path, arguments, environment):
    if "dask" in arguments:
        pytest.importorskip("distributed", reason="Dask is an extra: pip install 'hpobench-nmt[dask]'")
    run_command(*RUN[:-2], *METHODS, *arguments, "--out", tmp_path / "again", **environment)
    assert contents(tmp_path / "again") == reference


@pytest.mark.hosts
def test_ray_gives_the_same_bytes(reference, run_command, contents, tmp_path):
    pytest.importorskip("ray", reason="Ray is an extra: pip install 'hpobench-nmt[ray]'")
    run_command(*RUN[:-2], *METHODS, "--jobs", "2", "--backend", "ray", "--out", tmp_path / "again")
    assert contents(tmp_path / "again") == reference


def test_another_seed_gives_other_rows(reference, run_here, contents, tmp_path):
    run_here(*RUN, "--methods", "RS", "--seed", "1", "--out", tmp_path / "other")
    name = "observations/toy/RS.parquet"
    assert contents(tmp_path / "other")[name] != reference[name]


@pytest.mark.parametrize(
    "delays",
    [(0.0, 0.4), pytest.param((0.0, 0.1, 0.4, 0.0, 0.9, 0.2, 1.5), marks=pytest.mark.hosts)],
    ids=["twice", "often"],
)
def test_a_run_killed_at_any_moment_goes_on_and_ends_in_the_same_files(
    toy_home, run_here, contents, tmp_path, delays
):
    (tmp_path / "slow.py").write_text(SLOW)
    arguments = (*RUN, "--methods", f"RS,BO_EI_M,{tmp_path / 'slow.py'}:Slow,GB_EI_R")
    run_here(*arguments, "--out", tmp_path / "whole")
    out = tmp_path / "killed"
    kills = 0
    for delay in delays:
        process = subprocess.Popen(
            [sys.executable, "-m", "hpobench_nmt", *map(str, arguments), "--out", str(out)],
            start_new_session=True,
            stderr=subprocess.PIPE,
        )
        deadline = time.monotonic() + 30
        while not list(out.rglob("*.parquet")) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(delay)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            kills += 1
        process.communicate()
    assert kills >= min(len(delays) - 1, 3)
    run_here(*arguments, "--out", out)
    assert contents(out) == contents(tmp_path / "whole")


@pytest.mark.hosts
@pytest.mark.parametrize("suite", ["parallel-4", "multi-fidelity"])
def test_workers_and_curves_killed_late_in_their_course(toy_home, curved, contents, tmp_path, suite):
    save_folder(curved, toy_home / "tables" / "toy")
    command = [sys.executable, "-m", "hpobench_nmt", "run", suite, "--tables", "toy", "--trials", "60"]
    command += ["--jobs", "2", "--quiet", "--out"]
    started = time.monotonic()
    subprocess.run([*command, str(tmp_path / "whole")], check=True)
    took = time.monotonic() - started
    for part in (0.6, 0.75, 0.9, 0.97):
        out = tmp_path / f"killed {part}"
        process = subprocess.Popen([*command, str(out)], start_new_session=True)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(part * took)
        process.kill()
        process.wait()
        subprocess.run([*command, str(out)], check=True)
        assert contents(out) == contents(tmp_path / "whole")


def test_methods_can_be_added_to_a_folder(reference, run_here, contents, tmp_path):
    out = tmp_path / "grown"
    run_here(*RUN, "--methods", "RS", "--out", out)
    run_here(*RUN, "--methods", "BO_EI_M,GB_EIF_M", "--out", out)
    found = contents(out)
    for name, content in reference.items():
        if name != "manifest.json":
            assert found[name] == content
    assert list(json.loads(found["manifest.json"])["methods"]) == ["RS", "BO_EI_M", "GB_EIF_M"]


def test_a_changed_method_is_run_again(toy_home, run_command, contents, tmp_path):
    source = tmp_path / "slow.py"
    quick = SLOW.replace("0.002", "0")
    source.write_text(quick)
    arguments = (*RUN, "--methods", f"{source}:Slow", "--out", tmp_path / "out")
    run_command(*arguments)
    before = contents(tmp_path / "out")["observations/toy/Slow.parquet"]
    source.write_text(
        quick.replace("rng.permutation(len(problem.features)).tolist()", "list(range(len(problem.features)))")
    )
    run_command(*arguments)
    assert contents(tmp_path / "out")["observations/toy/Slow.parquet"] != before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("run", "modern-single", "--tables", "toy", "--trials", "60"),
            "suite 'quick', but this run has 'modern-single'",
        ),
        ((*RUN, "--seed", "5"), "seed 0, but this run has 5"),
        (("run", "quick", "--tables", "toy", "--trials", "61"), "trials 60, but this run has 61"),
        ((*RUN, "--objectives", "seconds"), "objectives [], but this run has ['seconds']"),
    ],
)
def test_a_folder_of_another_run_is_refused(reference, run_here, contents, tmp_path, arguments, message):
    done = run_here(*arguments, "--quiet", "--out", tmp_path / "reference", check=2)
    assert message in done.stderr
    assert "--out" in done.stderr
    assert contents(tmp_path / "reference") == reference


def test_a_folder_of_another_table_version_is_refused(reference, run_here, tmp_path, toy_home):
    import dataclasses

    from hpobench_nmt.lookup.catalogue import load_table
    from hpobench_nmt.lookup.disk.folder import save_folder

    toy = load_table("toy")
    values = toy.values.copy()
    values[0, 0] += 1
    save_folder(dataclasses.replace(toy, values=values), toy_home / "tables" / "toy")
    done = run_here(*RUN, *METHODS, "--out", tmp_path / "reference", check=2)
    assert "table 'toy' of hash" in done.stderr
    done = run_here("score", tmp_path / "reference", check=2)
    assert "another version of table 'toy'" in done.stderr


def test_a_datasheet_with_other_objectives_is_refused(reference, run_here, tmp_path, toy_home):
    sheet = toy_home / "tables" / "toy" / "datasheet.toml"
    text = re.sub(r"\nsections_sha256 = .*", "", sheet.read_text())  # as whoever edits it by hand has to
    sheet.write_text(text.replace('"bleu",\n    "seconds"', '"seconds",\n    "bleu"'))
    assert sheet.read_text() != text
    done = run_here(*RUN, *METHODS, "--out", tmp_path / "reference", check=2)
    assert "objectives on 'toy'" in done.stderr
    assert "other objectives" in run_here("score", tmp_path / "reference", check=2).stderr
    sheet.write_text(text.replace("tolerance = 0.5", "tolerance = 2.5"))
    assert "targets on 'toy'" in run_here(*RUN, *METHODS, "--out", tmp_path / "reference", check=2).stderr


def test_a_run_of_other_methods_keeps_the_blocks_of_an_unfinished_one(toy_home, run_here, tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    out = tmp_path / "out"
    slow = ("--methods", f"{tmp_path / 'slow.py'}:Slow", "--out", str(out))
    process = subprocess.Popen(
        [sys.executable, "-m", "hpobench_nmt", *map(str, RUN), *slow], start_new_session=True
    )
    while not list(out.rglob("unfinished/toy/Slow/*.parquet")) and process.poll() is None:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    kept = list(out.rglob("unfinished/toy/Slow/*.parquet"))
    run_here(*RUN, "--methods", "RS", "--out", out)
    assert kept == list(out.rglob("unfinished/toy/Slow/*.parquet")) != []
    run_here(*RUN, *slow)
    assert not (out / "unfinished").exists()


def test_a_folder_that_holds_something_else_is_refused(toy_home, run_here, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").write_text("years of work")
    done = run_here(*RUN, "--out", tmp_path / "thesis", check=2)
    assert "not empty and not a results folder" in done.stderr
    assert [p.name for p in (tmp_path / "thesis").iterdir()] == ["chapter1.tex"]


def test_damaged_results_are_named(reference, run_here, tmp_path):
    path = tmp_path / "reference" / "observations" / "toy" / "RS.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    done = run_here("score", tmp_path / "reference", check=2)
    assert "RS.parquet: was changed" in done.stderr
    manifest = tmp_path / "reference" / "manifest.json"
    good = json.loads(manifest.read_text())
    for damage in (
        "{",
        "[]",
        "{}",
        json.dumps(good | {"tables": {"toy": {}}}),
        json.dumps(good | {"suite": {}}),
    ):
        manifest.write_text(damage)
        assert "manifest.json: " in run_here("score", tmp_path / "reference", check=2).stderr


@pytest.mark.parametrize("full", ["results", pytest.param("compiler cache", marks=pytest.mark.hosts)])
def test_a_full_disk_stops_the_run_and_loses_nothing(reference, contents, tmp_path, run_here, full):
    out = tmp_path / "full"
    environment = {"NUMBA_CACHE_DIR": str(tmp_path / "numba")} if full == "compiler cache" else {}

    def small_files():
        # What a write to a full disk meets: an error in the middle of a file.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    done = subprocess.run(
        [sys.executable, "-m", "hpobench_nmt", *RUN, *METHODS, "--out", str(out)],
        capture_output=True,
        text=True,
        preexec_fn=small_files,
        env=os.environ | environment,
    )
    assert done.returncode == 1, done.stderr
    assert "the same command again" in done.stderr
    assert "Traceback" not in done.stderr
    assert not [p for p in out.rglob("*") if p.is_file() and p.name.startswith(".")]
    run_here(*RUN, *METHODS, "--out", out)
    assert contents(out) == reference


def test_a_run_stopped_with_ctrl_c_says_how_to_go_on(toy_home, tmp_path):
    (tmp_path / "slow.py").write_text(SLOW.replace("0.002", "0.05"))
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "hpobench_nmt",
            *RUN,
            "--methods",
            f"{tmp_path / 'slow.py'}:Slow",
            "--out",
            "out",
        ],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    time.sleep(4)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130, errors
    assert "Run the same command again" in errors
    assert "Traceback" not in errors
