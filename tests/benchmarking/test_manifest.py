"""The manifest of a results folder: written, read, and compared with that of another run."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import msgspec
import numpy as np
import pytest

from hpobench_nmt.benchmarking.contestants.plugins import resolve_methods
from hpobench_nmt.benchmarking.records.manifest import (
    Manifest,
    MethodEntry,
    TableEntry,
    check_same_run,
    manifest_of,
    read_manifest,
)
from hpobench_nmt.benchmarking.task.instance import make_instance
from hpobench_nmt.benchmarking.task.suite import Suite, changed
from hpobench_nmt.core.problem import Source
from hpobench_nmt.core.system.errors import InputError

SUITE = Suite(
    "s", ("ftb", "fb"), trials=30, tables=("toy", "other"), methods=("RS",), score_at={"default": 5}
)


@pytest.fixture
def made(two) -> Manifest:
    """Of a run of two methods on two tables, one of which was loaded from a folder."""
    instances = {t.name: make_instance(SUITE, t) for t in two}
    return manifest_of(SUITE, instances, resolve_methods(["RS", "BO_EI_M"]), 4, {"other": "/somewhere"})


def write(folder, manifest):
    content = manifest.to_json() if isinstance(manifest, Manifest) else json.dumps(manifest).encode()
    folder.mkdir(exist_ok=True)
    (folder / "manifest.json").write_bytes(content)


def test_what_is_written(made, two):
    content = made.to_json()
    assert content.endswith(b"}\n")
    assert content.startswith(b'{\n "format": 4,\n "suite": {\n  "name": "s",')
    best = {t.name: int(np.sum(t.column("bleu") == np.nanmax(t.column("bleu")))) for t in two}
    libraries = [
        "hpobench-nmt",
        "numpy",
        "scipy",
        "scikit-learn",
        "numba",
        "pymoo",
        "moocore",
        "pandas",
        "pyarrow",
    ]
    libraries += ["george"] if find_spec("george") else []
    common = [
        {
            "sha256": t.sha256,
            "rows": 36,
            "objectives": ["bleu:max"],
            "targets": dict.fromkeys(["ftb", "fb"], best[t.name]),
        }
        for t in two
    ]
    written = json.loads(content)
    own = b',\n "sha256": "'
    assert written.pop("sha256") == hashlib.sha256(content[: content.rindex(own)]).hexdigest()
    assert written == {
        "format": 4,
        "suite": {
            "name": "s",
            "scores": ["ftb", "fb"],
            "objectives": [],
            "trials": 30,
            "n_initial": 3,
            "ties": "any",
            "stop": "settled",
            "lookups": None,
            "tolerance": {},
            "budget": {"default": 5},
            "published": "",
        },
        "seed": 4,
        "tables": {"toy": common[0], "other": common[1] | {"source": "/somewhere"}},
        "methods": {
            "RS": {"spec": "RS", "rows_version": 1},
            "BO_EI_M": {"spec": "BO_EI_M", "rows_version": 1},
        },
        "versions": {library: version(library) for library in libraries},
        "trial_version": 1,
        "observations": {},
    }


def test_what_is_written_is_read(made, tmp_path):
    write(tmp_path, made)
    found = read_manifest(tmp_path)
    assert found == made
    # The suite of a manifest is of its tables and methods.
    assert found.make_suite() == changed(SUITE, methods=("RS", "BO_EI_M"))
    # score_at is read under its own name too.
    content = json.loads(made.to_json())
    del content["sha256"]
    content["suite"]["score_at"] = content["suite"].pop("budget")
    write(tmp_path, content)
    assert read_manifest(tmp_path) == made
    full = changed(SUITE, objectives=("bleu",), lookups=9, tolerance={"toy": 0.5}, ties="first")
    settings = msgspec.structs.replace(
        made.suite, objectives=("bleu",), lookups=9, tolerance={"toy": 0.5}, ties="first"
    )
    write(tmp_path, msgspec.structs.replace(made, suite=settings))
    assert read_manifest(tmp_path).make_suite() == changed(full, methods=("RS", "BO_EI_M"))


def test_hashes_are_written_in_the_order_of_tables_and_methods_and_an_old_format_has_none(made, tmp_path):
    one, two, three = "1" * 64, "2" * 64, "3" * 64
    full = made.with_hash("other", "BO_EI_M", one).with_hash("other", "RS", two).with_hash("toy", "RS", three)
    assert json.loads(full.to_json())["observations"] == {
        "toy": {"RS": three},
        "other": {"RS": two, "BO_EI_M": one},
    }
    assert list(json.loads(full.to_json())["observations"]["other"]) == ["RS", "BO_EI_M"]
    assert (full.sha256_of("other", "RS"), full.sha256_of("toy", "BO_EI_M")) == (two, "")
    assert full.with_hash("other", "RS", three).sha256_of("other", "RS") == three
    write(tmp_path, full)
    assert read_manifest(tmp_path) == full
    old = msgspec.structs.replace(full, format=2)
    assert old.sha256_of("other", "RS") is None
    assert not json.loads(old.to_json()).keys() & {"observations", "sha256"}
    write(tmp_path, old)
    assert read_manifest(tmp_path) == msgspec.structs.replace(made, format=2)


@pytest.mark.parametrize(
    ("package", "method", "rows_version"),
    [
        ("1.0.0", "BO_levels", 1),
        ("1.1.0", "BO_levels", 2),
        ("1.0.0", "BO_M+length_scale-0.5", 1),
        ("1.1.0", "CQR", 1),
        ("1.0.0", "CQR", 0),  # a user's class, because that version had no CQR
        ("0.1.0", "RS", 0),
        ("1.1.0", "pymoo.NSGA2", 1),
    ],
)
def test_versions_stand_for_the_hashes_of_earlier_formats(made, package, method, rows_version):
    old = MethodEntry(spec=method, fingerprint="0" * 64)
    versions = made.versions | {"hpobench-nmt": package}
    found = msgspec.structs.replace(made, format=3, methods={method: old, "Mine": old}, versions=versions)
    libraries = {"pymoo": made.versions["pymoo"]} if method.startswith("pymoo") else {}
    assert found.entry(method) == MethodEntry(spec=method, rows_version=rows_version, libraries=libraries)
    assert found.entry("Mine") == old
    assert msgspec.structs.replace(found, format=4).entry(method) == old


def test_a_manifest_that_was_edited_is_refused(made, tmp_path):
    content = made.to_json()
    (tmp_path / "manifest.json").write_bytes(content.replace(b'"seed": 4', b'"seed": 5'))
    with pytest.raises(
        InputError, match=r"was changed: it does not have the SHA-256 .* into another folder\.$"
    ):
        read_manifest(tmp_path)


@pytest.mark.parametrize(
    ("files", "shown"), [("aba", "a, b"), ("abc", "a, b, c"), ("abcd", "a, b, c, …"), (["\n"], "\\n")]
)
def test_files_that_a_fingerprint_does_not_cover_are_named(files, shown):
    paths = [Path("folder", name) for name in files]
    entry = MethodEntry(spec="A", fingerprint="one").marked(paths)
    assert (entry.spec, entry.unmarked.fingerprint, entry.not_covered) == ("A", "one", shown)
    assert entry.marked(paths) == entry
    assert MethodEntry(spec="A", fingerprint="one").not_covered == ""


def test_up_to_three_results_folders_nearby_are_named(made, tmp_path):
    for number, shown in enumerate(("0", "0, 1", "0, 1, 2", "0, 1, 2 and others")):
        write(tmp_path / str(number), made)
        with pytest.raises(InputError) as error:
            read_manifest(tmp_path)
        assert str(error.value).replace(f"{tmp_path}/", "").endswith(f" There is {shown}.")


def test_targets_are_those_of_each_score(toy):
    suite = Suite("s", ("fto", "fta"))
    entry = TableEntry.of(make_instance(suite, toy), "/x")
    front = len(toy.front(["bleu", "seconds"]))
    assert entry.targets == {"fto": front, "fta": front}
    assert entry.objectives == ("bleu:max", "seconds:min")
    assert (entry.sha256, entry.rows, entry.source) == (toy.sha256, 36, "/x")
    assert TableEntry.of(make_instance(suite, toy)).source == ""


def test_an_entry_has_the_hash_of_what_methods_may_learn_from(toy):
    instance = make_instance(Suite("s", ("ftb",)), toy)
    assert TableEntry.of(instance).sources == ""
    found = set()
    for loss in (1.0, 2.0):
        source = Source("x", np.zeros((1, 2)), np.full((1, 1), loss))
        problem = dataclasses.replace(instance.problem, sources=(source,))
        found.add(TableEntry.of(dataclasses.replace(instance, problem=problem)).sources)
    assert len(found) == 2 and "" not in found


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "is damaged: it has no format number. Run it again into another folder."),
        ([], "is damaged: it has no format number"),
        ({"format": True}, "is damaged: it has no format number"),
        ({"format": 0}, "is damaged: it has no format number"),
        ({"format": 1.0}, "is damaged: it has no format number"),
        ({"format": 5}, "has format 5, newer than this version reads: update hpobench-nmt."),
        ({"format": 1, "suite": 3}, ": suite must be a section, not 3. Run it again into another folder."),
        ({"format": 1}, "suite is missing"),
    ],
)
def test_a_manifest_that_cannot_be_read_is_named(tmp_path, content, message):
    write(tmp_path, content)
    with pytest.raises(InputError) as error:
        read_manifest(tmp_path)
    assert str(error.value).startswith(f"{tmp_path}/manifest.json: ")
    assert message in str(error.value)


def test_a_manifest_that_is_no_json_is_named(tmp_path):
    (tmp_path / "manifest.json").write_bytes(b"{")
    with pytest.raises(InputError, match=rf"^{tmp_path}/manifest\.json: not valid JSON"):
        read_manifest(tmp_path)


def test_what_is_no_results_folder_is_named(made, tmp_path):
    for folder in (tmp_path / "no", tmp_path / ("x" * 5000)):
        with pytest.raises(InputError, match=r": no such folder\."):
            read_manifest(folder)
    with pytest.raises(
        InputError, match=rf"{tmp_path}: has no manifest\.json, so it is not a results folder"
    ):
        read_manifest(tmp_path)
    write(tmp_path / "real", made)
    beside = rf"There is {tmp_path}/real\.$"
    for folder, problem in ((tmp_path, "has no manifest"), (tmp_path / "rael", "no such folder")):
        with pytest.raises(InputError, match=f"{folder}: {problem}.*{beside}"):
            read_manifest(folder)
    (tmp_path / "manifest.json").symlink_to(tmp_path / "real" / "manifest.json")
    with pytest.raises(InputError, match=r"manifest\.json: is a symbolic link"):
        read_manifest(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: {"tables": {}}, "there is no table or no method"),
        (lambda m: {"methods": {}}, "there is no table or no method"),
        (lambda m: {"tables": m.tables | {"../x": m.tables["toy"]}}, "table name '../x' cannot be used"),
        (lambda m: {"methods": m.methods | {"../x": m.methods["RS"]}}, "method name '../x' cannot be used"),
        (
            lambda m: {"tables": m.tables | {"TOY": m.tables["toy"]}},
            "two tables differ in upper and lower case",
        ),
        (lambda m: {"methods": m.methods | {"rs": m.methods["RS"]}}, "two methods differ in upper and lower"),
        (lambda m: {"suite": msgspec.structs.replace(m.suite, scores=("x",))}, "unknown score 'x'"),
    ],
)
def test_names_that_paths_are_made_of_are_checked(made, change, message):
    with pytest.raises(InputError, match=message):
        msgspec.structs.replace(made, **change(made))


def test_a_run_is_the_same_if_only_tables_and_methods_differ(made, tmp_path):
    check_same_run(tmp_path, made, made)
    new = MethodEntry(spec="X", fingerprint="x")
    more = msgspec.structs.replace(
        made,
        tables=made.tables | {"third": made.tables["toy"]},
        methods=made.methods | {"X": new, "RS": new},
        versions=made.versions,
    )
    check_same_run(tmp_path, made, more)
    check_same_run(tmp_path, more, made)
    old = msgspec.structs.replace(made, versions=made.versions | {"joblib": "1"})
    check_same_run(tmp_path, old, made)  # a library that is no longer noted
    elsewhere = msgspec.structs.replace(made.tables["toy"], source="/elsewhere", rows=0)
    check_same_run(tmp_path, made, msgspec.structs.replace(made, tables={"toy": elsewhere}))
    # Learning curves may change where nothing depends on them any more, and published figures always.
    curves = msgspec.structs.replace(made.tables["toy"], curves="c")
    check_same_run(tmp_path, msgspec.structs.replace(made, tables={"toy": curves}), made)
    published = msgspec.structs.replace(made.suite, published="moved.csv")
    check_same_run(tmp_path, made, msgspec.structs.replace(made, suite=published))


def settings(**changes):
    return lambda m: {"suite": msgspec.structs.replace(m.suite, **changes)}


def entry(**changes):
    return lambda m: {"tables": m.tables | {"other": msgspec.structs.replace(m.tables["other"], **changes)}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (settings(name="u"), "suite 's', but this run has 'u'"),
        (lambda m: {"seed": 5}, "seed 4, but this run has 5"),
        (settings(scores=("ftb",)), "scores ['ftb', 'fb'], but this run has ['ftb']"),
        (settings(objectives=("bleu",)), "objectives [], but this run has ['bleu']"),
        (settings(trials=31), "trials 30, but this run has 31"),
        (settings(n_initial=2), "n_initial 3, but this run has 2"),
        (settings(ties="first"), "ties any, but this run has first"),
        (settings(stop="exhausted"), "stop settled, but this run has exhausted"),
        (settings(lookups=9), "lookups none, but this run has 9"),
        (settings(tolerance={"toy": 1.0}), "tolerance {}, but this run has {'toy': 1.0}"),
        (settings(score_at={"default": 6}), "score_at {'default': 5}, but this run has {'default': 6}"),
        (lambda m: {"versions": m.versions | {"numpy": "0.1"}}, ", but this run has 0.1"),
        (lambda m: {"versions": m.versions | {"new": "3"}}, "new none, but this run has 3"),
        (entry(sha256="a" * 64), "table 'other' of hash "),
        (
            entry(objectives=("seconds:min",)),
            "objectives on 'other' ['bleu:max'], but this run has ['seconds:min']",
        ),
        (entry(targets={"ftb": 2, "fb": 1}), "targets on 'other' {"),
        (entry(curves="c"), "learning curves of 'other' of hash , but this run has c"),
        (entry(sources="s"), "sources of 'other' of hash , but this run has s"),
        (entry(trainings="t"), "trainings of 'other' of hash , but this run has t"),
    ],
)
def test_another_run_is_refused(made, change, message, tmp_path):
    other = msgspec.structs.replace(made, **change(made))
    with pytest.raises(InputError) as error:
        check_same_run(tmp_path, made, other)
    text = str(error.value)
    assert text.startswith(f"{tmp_path}: has a run with ")
    assert message in text
    assert text.endswith(". Choose another folder with --out.")
