"""Declared collections: the settings on small made-up files, and the real ones from copies of their files."""

import hashlib
import io
import json
import tarfile
import tomllib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from small_collections import clone, nanogpt

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.checks.facts import find_check
from hpobench_nmt.lookup.collections import COLLECTIONS, declared
from hpobench_nmt.lookup.collections.collection import csv_frame
from hpobench_nmt.lookup.disk.folder import load_folder

SOURCES = Path(__file__).parents[3] / "shared" / "sources"
FOLDERS = {
    "autoresearch": "autoresearch-automl",
    "gemstones": "gemstones",
    "llm-inference-bench": "llm-inference-bench",
    "llm-pilot": "ibm-llm-pilot",
    "llmsys": "llmsys-hpobench",
    "marin-optimizers": "marin-optimizers",
    "mlperf-training": "mlperf-training-v5.1",
    "nanogpt-track-3": "modded-nanogpt-track3",
    "peft": "peft-metamathqa",
}
# These have a file test_NAME.py.
OTHERS = {"algoperf", "nas-bench-nlp", "nmthpo", "nmtlc", "steplaw", "taskset"}
HERE = Path(declared.__file__).parent
# AlgoPerf has 27 hyperparameters, and metrics of two tasks.
LONG = {"algoperf": 120}


def fetched(collection, folder, target):
    return {path.name: load_folder(path) for path in collection.fetch(target, folder)}


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """A function that fetches the tables of a collection from the copies of the authors' files, once."""
    known = {}

    def tables(name):
        folder = SOURCES / FOLDERS[name]
        if not folder.is_dir():
            pytest.skip("the authors' files are not in ../shared/sources")
        if name not in known:
            known[name] = fetched(COLLECTIONS[name], folder, tmp_path_factory.mktemp(name))
        return known[name]

    return tables


def test_every_declaration_is_short_and_has_a_test():
    paths = sorted(HERE.glob("*.toml"))
    assert {path.stem for path in paths} == {*FOLDERS} | OTHERS
    for path in paths:
        lines = [line for line in path.read_text().splitlines() if line.strip()]
        assert len(lines) <= LONG.get(path.stem, 60), path.name


@pytest.mark.parametrize("name", FOLDERS)
def test_check_finds_what_is_claimed(real, name):
    facts = [f for t in real(name).values() for f in find_check(name, [(t, None)])]
    told = [f.fact for f in facts]
    claimed = tomllib.loads((HERE / f"{name}.toml").read_text())["tables"]
    for table, sections in claimed.items():
        for what, number in sections["claims"].items():
            assert f"{number:,} {what}, as the source says" in told, table


def test_random_search_of_autoresearch(real):
    """Against the authors' file, read in another way: each setting's trainings, and which of them failed."""
    table = real("autoresearch")["autoresearch-random"]
    axes = [h.name for h in table.hyperparameters]
    upstream = json.loads((SOURCES / "autoresearch-automl" / "trials.json").read_text())["Random"]
    losses = {}
    for trainings in upstream.values():
        for training in trainings:
            loss = training["val_bpb"] if training["success"] else np.nan
            losses.setdefault(tuple(training[axis] for axis in axes), []).append(loss)
    place, again = table.replicates.by_row(table.configs)
    for row in range(len(table)):
        config = table.config(row)
        found = [table.values[row, 0], *again[place == row, 0]]
        expected = losses[tuple(config[axis] for axis in axes)]
        np.testing.assert_array_equal(np.sort(found), np.sort(expected))
    assert len(table) == len(losses) == 1163
    assert np.isnan(table.column("val_bpb")).sum() == 649 and np.nanmax(table.column("val_bpb")) < 3
    assert np.isfinite(table.column("seconds")).all()  # also of failed trainings
    assert "borrows the deviations of settings with a similar loss" in table.provenance["noise"]


def test_the_pool_of_autoresearch_says_that_it_is_biased(real):
    pool = real("autoresearch")["autoresearch-pool"]
    assert "random search is fast" in pool.provenance["biased"]
    place, values = pool.replicates.by_row(pool.configs)
    several = np.unique(place[~np.isnan(values[:, 0])])
    assert len(several) == 736  # settings with two results or more
    assert Counter(place.tolist()).most_common(1)[0][1] == 46


def test_the_systems_of_llmsys(real):
    tables = real("llmsys")
    sizes = {name: (len(t), len(t.hyperparameters)) for name, t in tables.items()}
    assert sizes == {
        "llmsys-lightrag": (1005, 23),
        "llmsys-sglang": (185, 14),
        "llmsys-html-rag": (1000, 15),
    }
    sglang = tables["llmsys-sglang"]
    assert np.isfinite(sglang.column("output_throughput")).sum() == 51
    directions = {m.name: m.direction for m in tables["llmsys-lightrag"].metrics}
    assert directions["f1_score"] == "max" and directions["test_time"] == directions["total_time"] == "min"
    failed = np.isnan(tables["llmsys-lightrag"].column("f1_score"))
    assert failed.sum() == 54 and (tables["llmsys-lightrag"].column("recall")[failed] == 0).all()


def test_a_second_measurement_is_a_replicate(real):
    table = real("llm-inference-bench")["llm-inference-bench-all"]
    frame = csv_frame((SOURCES / "llm-inference-bench" / "All_results.csv").read_bytes(), "it")
    place, values = table.replicates.by_row(table.configs)
    held = np.concatenate([table.column("throughput"), values[:, 0]])
    np.testing.assert_array_equal(np.sort(held), np.sort(frame["Throughput"].to_numpy()))
    assert len(place) == 57


def own_curves(table):
    """Each training's metrics by name, and its curve: of the rows, and of the replicates."""
    again = table.replicates.rows
    names = [metric.name for metric in table.metrics]
    for curves, values in ((table.curves, table.values), (again.curves, again.values)):
        for row, own in enumerate(values):
            yield dict(zip(names, own, strict=True)), curves[row]


def test_every_training_of_mlperf_keeps_its_curve(real):
    checkpoints = 0
    for table in real("mlperf-training").values():
        for own, curve in own_curves(table):
            checkpoints += len(curve.costs)
            if len(curve.costs):
                assert curve.values[-1, 0] == own["eval_loss"]
                assert curve.costs[-1] / 60 == pytest.approx(own["minutes"], rel=0.05)
            else:
                assert np.isnan(own["samples"])
    frame = csv_frame((SOURCES / FOLDERS["mlperf-training"] / "curves.csv").read_bytes(), "it")
    assert checkpoints == len(frame) == 9152


def test_a_log_of_nanogpt_may_hold_several_trainings(real):
    (table,) = real("nanogpt-track-3").values()
    ends = [(own["val_loss"], curve.values[-1, 0]) for own, curve in own_curves(table)]
    assert len(ends) == 525 and all(own == last for own, last in ends)
    config = {"optimizer": "muown", "steps": 3090}
    place, _ = table.replicates.by_row(table.configs)
    assert (place == table.row(config)).sum() == 29  # 30 trainings in one file
    assert table.curve(table.row(config)).costs[-1] == 3090


def test_recipes_of_peft_are_told_by_their_features(real):
    (table,) = real("peft").values()
    assert table.objectives == ("test_accuracy", "mem_max", "time")
    assert [h.name for h in table.descriptors.axes] == ["peft_type", "lr", "params_trainable"]
    row = table.row({"name": "lora/llama-3.2-3B-rank32"})
    assert table.values[row, :2].tolist() == [0.4783927217589083, 22292725760.0]
    assert table.curve(row).resources.tolist() == [250.0 * n for n in range(1, 21)]


def test_optimizers_of_marin_have_settings_of_their_own(real):
    (table,) = real("marin-optimizers").values()
    sizes = {}
    for row in range(len(table)):
        config = table.config(row)
        sizes.setdefault(config["optimizer"], Counter())[len(config)] += 1
    assert sizes == {
        "adamw": {9: 19}, "lion": {8: 26}, "mars": {10: 22}, "muon": {13: 33}, "soape": {12: 22}
    }  # fmt: skip
    assert "one hyperparameter at a time" in table.provenance["biased"]


DECLARATION = """
title = "made up"
licence = "none"
repository = "someone/something"
commit = "abc"
folder = "data"
levels = ["method"]

[files."runs.json"]
path = "deep/runs.json"
sha256 = "{sha256}"

[tables.made-up]
file = "runs.json"
renamed = {{lr = "cfg-rate"}}
prefixes = {{cfg-id = "other", cfg- = "hyperparameter", obj- = "metric", cost- = "metric"}}
failed = {{ok = [false]}}
only = {{method = ["a", "b"]}}
objectives = ["score", "time"]
hyperparameters = {{rate = {{scale = "log"}}}}
claims = {{rows = 2}}
provenance = {{title = "made up"}}
"""


def training(lr, score, ok=True, **more):
    return {
        "lr": lr, "cfg-id": score, "cfg-same": 1, "cfg-kind": "x" if lr else "y", "obj-score+": score,
        "obj-ok": ok, "cost-time-": 9 - score, **more,
    }  # fmt: skip


def declaration(folder, content, text=DECLARATION):
    path = folder / "made.toml"
    path.write_text(text.format(sha256=hashlib.sha256(content).hexdigest()))
    return declared.read_declaration(path)


RUNS = {
    "a": [training(0.5, 3.0, ok=False), training(0.1, 1.0), training(0.5, 2.0)],
    "b": [training(0.1, 4.0), training(None, 5.0)],
    "c": [training(0.2, 6.0)],
}


@pytest.mark.parametrize("name", ["runs.json", "data/deep/runs.json"])
def test_settings_of_a_declaration(tmp_path, name):
    """From a copy with the short name, and from a clone."""
    content = json.dumps(RUNS).encode()
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_bytes(content)
    collection = declaration(tmp_path, content)
    table = fetched(collection, tmp_path, tmp_path / "tables")["made-up"]
    assert collection.address.endswith("someone/something/abc/data")
    assert [table.config(row) for row in range(len(table))] == [
        {"rate": rate, "kind": "x"} for rate in (0.5, 0.1)
    ]
    assert table.hyperparameters[0].scale == "log"
    assert [(m.name, m.direction) for m in table.metrics] == [("score", "max"), ("time", "min")]
    # The first training of 0.5 failed, so the second is the row. The first has no result, and is a replicate.
    assert table.values.tolist() == [[2.0, 7.0], [1.0, 8.0]]
    place, values = table.replicates.by_row(table.configs)
    assert place.tolist() == [0, 1] and np.isnan(values[0]).all() and values[1].tolist() == [4.0, 5.0]
    assert table.claims == {"collection": "made", "collection_tables": 1, "rows": 2}


def test_what_is_wrong_is_named(tmp_path):
    content = json.dumps(RUNS).encode()
    (tmp_path / "runs.json").write_bytes(content)
    for old, new, message in (
        ("{{ok = [false]", "{{okay = [1]", r"unknown column 'okay'\. .*\[tables\.made-up\]"),
        ('levels = ["method"]', 'levels = ["method", "seed"]', "a part of it is not an object by seed"),
        ('commit = "abc"', 'commits = "abc"', "unknown key 'commits'. Did you mean 'commit'?"),
        ('sha256 = "{sha256}"', 'sha256 = "{sha256}0"', "not the published file"),
        (
            '{{title = "made up"}}',
            "{{}}",
            r"\[tables\.made-up\]: needs a title of the table, as provenance\.title",
        ),
    ):
        with pytest.raises(InputError, match=message):
            declaration(tmp_path, content, DECLARATION.replace(old, new)).fetch(tmp_path / "t", tmp_path)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("place", [0, 1], ids=["row", "replicate"])
def test_damage_is_named_in_the_file_that_users_have(tmp_path, place):
    """Rows and replicates are written to files in between, which users do not have."""
    trainings = [training(0.1, 2.0), training(0.1, 3.0), training(0.5, 1.0)]
    trainings[place]["obj-score+"] = "x"
    content = json.dumps({"a": trainings}).encode()
    (tmp_path / "runs.json").write_bytes(content)
    with pytest.raises(InputError, match=r"runs\.json, table 'made-up': .*, line 2: 'score' is 'x'"):
        declaration(tmp_path, content).fetch(tmp_path / "t", tmp_path)
    assert not (tmp_path / "t").exists()


def small(name, folder):
    """The tables of a collection from made-up files in the form of its authors'."""
    return fetched(COLLECTIONS[name], clone(name, folder), folder / "t")


def test_a_load_test_from_its_requests(tmp_path):
    """LLM-Pilot's requests. The one that was not answered counts for time only."""
    table = small("llm-pilot", tmp_path)["llm-pilot-serving"]
    assert table.config(0) == {"model": "a__b_c-1B", "gpu": "a10", "n_gpus": 2, "users": 16}
    measured = {"throughput": 50.0, "latency_p95_ms": 290.0, "itl_ms": 30.0, "ok": 2.0}
    assert table.lookup(table.config(0)) == measured and len(table) == 2


def test_a_training_from_its_log(tmp_path):
    """MLPerf's logs, two of one setting, of which one never reached the target."""
    table = small("mlperf-training", tmp_path)["mlperf-llama2-lora"]
    assert table.lookup({"batch_size": 8, "learning_rate": 0.0004, "steps": 1024, "accumulation": 1}) == {
        "samples": 208.0, "minutes": 2.0, "eval_loss": 0.92
    }  # fmt: skip
    assert table.curve(0).costs.tolist() == [60.0, 120.0] and len(table) == 2
    again = table.replicates.rows
    assert np.isnan(again.values).all() and again.curves[0].values.tolist() == [[0.95]]


def test_trainings_of_a_log_begin_at_step_0(tmp_path):
    (table,) = small("nanogpt-track-3", tmp_path).values()
    assert table.config(0) == {"optimizer": "adamh", "steps": 9} and len(table) == 2
    assert table.values.tolist() == [[3.3], [3.1]]
    again = table.replicates.rows
    assert again.values.tolist() == [[3.2]] and again.curves[0].values.tolist() == [[10.8], [3.2]]


def test_recipes_from_the_results_of_peft(tmp_path):
    """One as its authors write results today, and one as they once did, of training all parameters."""
    (table,) = small("peft", tmp_path).values()
    measured = {"test_accuracy": 0.45, "mem_max": 7.0, "time": 21.5, "file_size": 3.0}
    assert table.lookup({"name": "a/b"}) == table.lookup({"name": "full"}) == measured
    assert table.curve(1).costs.tolist() == [9.5, 20.0]


def test_a_star_around_the_best_setting(tmp_path):
    (table,) = small("marin-optimizers", tmp_path).values()
    best = table.config(0)
    names = ("beta1", "beta2", "weight_decay", "warmup", "train_batch_size", "max_grad_norm", "epsilon")
    assert best == {"optimizer": "adamw", **dict.fromkeys(("learning_rate", *names), 0.5)}
    assert table.lookup(best | {"learning_rate": 0.25}) == {"eval_loss": 3.75} and len(table) == 10


@pytest.mark.parametrize(
    ("name", "file", "content"),
    [
        ("peft", "a.json", "{"),
        ("peft", "a.json", '{"run_info": {}}'),
        ("marin-optimizers", "muon/130m/1/result.json", "[]"),
        ("llm-pilot", "results_a_gpu2_a10_u16.csv", "status\n200\n"),
    ],
)
def test_other_files_than_the_authors_are_refused(tmp_path, name, file, content):
    """The message names the file, which is one of many."""
    clone(name, tmp_path)
    place = tmp_path / COLLECTIONS[name].given.folder / file
    place.write_text(content)
    with pytest.raises(InputError, match=rf"{file}: (not the file of commit|not valid JSON)"):
        fetched(COLLECTIONS[name], tmp_path, tmp_path / "t")


def test_an_archive_is_read_like_a_clone(tmp_path, monkeypatch):
    """Only the wanted members, without the folder that a host of archives adds."""
    packed = io.BytesIO()
    wanted = f"{COLLECTIONS['nanogpt-track-3'].given.folder}/20260430_adamh/a.txt"
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in (
            (wanted, "step:9/9 val_loss:3.25 x"),
            ("records/b.txt", "step:9/9 val_loss:1.0 x"),
        ):
            info = tarfile.TarInfo(f"modded-nanogpt-f411b3d3/{name}")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    monkeypatch.setattr(declared, "download", lambda address, sha256, limits: packed.getvalue())
    (table,) = fetched(COLLECTIONS["nanogpt-track-3"], None, tmp_path / "t").values()
    assert table.config(0) == {"optimizer": "adamh", "steps": 9} and table.values.tolist() == [[3.25]]


def test_an_archive_that_was_cut_is_named_not_its_last_file(tmp_path, monkeypatch):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, text in nanogpt().items():
            info = tarfile.TarInfo(
                f"modded-nanogpt-f411b3d3/{COLLECTIONS['nanogpt-track-3'].given.folder}/{name}"
            )
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    content = packed.getvalue()[:1600]  # in the second file
    monkeypatch.setattr(declared, "download", lambda address, sha256, limits: content)
    with pytest.raises(InputError, match=r"^https://codeload[^ ]+: not a tar archive that can be read"):
        fetched(COLLECTIONS["nanogpt-track-3"], None, tmp_path / "t")
