"""Checks of what a table's datasheet, ledger and collection claim."""

import dataclasses
import hashlib
from pathlib import Path

import numpy as np
import pytest
from findings_of_checks import ADDITIVE, COMPLETE, FRONT, told, with_values

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.checks.facts import check_collection, check_table, find_check
from hpobench_nmt.lookup.disk.folder import load_folder, save_folder


def test_a_wrong_published_front_is_found(toy):
    front = toy.front(["bleu", "seconds"]).tolist()
    good = dataclasses.replace(toy, claims={"front": front, "front_objectives": ["bleu", "seconds"]})
    assert any(f.kind == "ok" and "agrees with a recomputation" in f.fact for f in check_table(good))
    bad = dataclasses.replace(toy, claims={"front": front[1:], "front_objectives": ["bleu", "seconds"]})
    (found,) = [f for f in check_table(bad) if "differs from a recomputation" in f.fact]
    assert f"rows {front[0]} are" in found.fact


def test_what_the_datasheet_says_was_trained_is_counted(toy):
    def found(**claims):
        return [
            (f.kind, f.fact)
            for f in check_table(dataclasses.replace(toy, claims=claims))
            if "spec" in f.fact or "complete," in f.fact
        ]

    assert found(configurations=40, failed=4, complete=True) == [
        ("ok", "all 40 configurations of its spec were trained; 4 failed and have no row")
    ]
    assert found(configurations=40, failed=3, complete=True) == [
        ("warning", "called complete, but 36 rows and 3 failures are 39 of 40 configurations")
    ]
    assert found(configurations=50, failed=4, complete=False) == [
        ("warning", "40 of the 50 configurations of its spec were trained so far (4 failed)")
    ]
    assert found() == []


def baseline(metric, value):
    return {"name": "a memory", "metric": metric, "value": float(value), "how": "the nearest sentence"}


def test_rows_that_beat_a_baseline_are_counted(toy, tmp_path):
    def found(metric, value):
        table = dataclasses.replace(toy, claims={"baseline": baseline(metric, value)})
        return [(f.kind, f.fact) for f in check_table(table) if "a memory" in f.fact]

    bleu, seconds = np.sort(toy.column("bleu")), np.sort(toy.column("seconds"))
    ((kind, fact),) = found("bleu", bleu[-4])  # larger is better
    assert (kind, fact.split(" beat")[0]) == ("note", "3 of 36 rows (8%)")
    ((kind, fact),) = found("seconds", seconds[5])  # smaller is better
    assert fact.startswith("5 of 36 rows (14%) beat a memory, whose seconds is")
    ((kind, fact),) = found("bleu", bleu[-1])
    assert (kind, fact.split(",")[0]) == ("warning", "no row beats a memory")


def test_a_baseline_is_kept_on_disk_and_must_name_a_metric(toy, tmp_path):
    claimed = baseline("bleu", 20)
    save_folder(dataclasses.replace(toy, claims={"baseline": claimed}), tmp_path / "toy")
    assert load_folder(tmp_path / "toy").claims["baseline"] == claimed
    assert load_folder(tmp_path / "toy").sha256 == toy.sha256
    save_folder(dataclasses.replace(toy, claims={"baseline": baseline("blue", 20)}), tmp_path / "wrong")
    with pytest.raises(InputError, match=r"'blue'.*bleu"):
        load_folder(tmp_path / "wrong")
    save_folder(dataclasses.replace(toy, claims={"baseline": {"name": "a memory"}}), tmp_path / "half")
    with pytest.raises(InputError, match="metric"):
        load_folder(tmp_path / "half")


def test_a_ledger_that_has_gone_on_is_found(toy, tmp_path):
    (tmp_path / "ledger.jsonl").write_text("one\n")
    built = dataclasses.replace(toy, provenance={"ledger_sha256": hashlib.sha256(b"one\n").hexdigest()})

    def found():
        return [(f.kind, f.fact) for f in check_table(built, tmp_path) if "ledger" in f.fact]

    assert found() == [("ok", "built from the ledger beside it")]
    (tmp_path / "ledger.jsonl").write_text("one\ntwo\n")
    assert found() == [("warning", "the ledger beside it is not the ledger from which it was built")]
    (tmp_path / "ledger.jsonl").unlink()
    assert found() == []


@pytest.mark.parametrize("name", ["replicates", "curves"])
def test_a_file_that_the_datasheet_does_not_describe_is_found(toy, tmp_path, name):
    save_folder(toy, tmp_path / "toy")

    def found():
        return [f.fact for f in check_table(toy, tmp_path / "toy") if f.kind == "warning" and name in f.fact]

    assert found() == []
    (tmp_path / "toy" / f"{name}.csv").write_text("anything\n")
    assert found() == [f"{name}.csv lies beside table.csv, and datasheet.toml has no section [{name}]"]


@pytest.mark.parametrize(
    "folder",
    sorted(f.parent for f in (Path(__file__).parents[2] / "tables").glob("*/datasheet.toml")),
    ids=lambda folder: folder.name,
)
def test_the_tables_that_ship_are_those_of_their_ledgers(folder):
    table = load_folder(folder)
    assert (folder / "ledger.jsonl").is_file() == ("ledger_sha256" in table.provenance)
    assert not [f.fact for f in check_table(table, folder) if "ledger" in f.fact and f.kind != "ok"]


def test_a_collection_is_counted(toy):
    claim = {"collection": "both", "collection_rows": 72, "collection_tables": 2}
    one = dataclasses.replace(toy, claims=claim)
    two = dataclasses.replace(toy, name="toy2", claims=claim)
    assert check_collection("both", [one, two])[0].kind == "ok"
    assert "of its 2 tables, 1 is installed" in check_collection("both", [one])[0].fact
    assert check_collection("toy", [one]) == []  # one table was asked for
    more = dataclasses.replace(two, claims=claim | {"collection_rows": 80})
    fewer = dataclasses.replace(one, claims=claim | {"collection_rows": 80})
    (found,) = check_collection("both", [more, fewer])
    assert found.fact == "the 2 tables hold 72 rows, but the source states 80 systems"


def test_a_published_front_that_is_right(toy):
    front = toy.front(["bleu", "seconds"]).tolist()
    # Without objectives of its own the front is that of the table's.
    for claims in ({"front": front}, {"front": front[::-1], "front_objectives": ["bleu", "seconds"]}):
        assert (
            "ok",
            "the published Pareto front of bleu and seconds agrees with a recomputation (8 rows)",
            "scores of fronts can be compared with published ones.",
        ) in told(dataclasses.replace(toy, claims=claims))


def test_what_was_trained_says_what_to_do(toy):
    meanings = [
        told(dataclasses.replace(toy, claims=claims))[2]
        for claims in (
            {"configurations": 1040, "failed": 1004, "complete": True},
            {"configurations": 1040, "failed": 1003, "complete": True},
            {"configurations": 1040, "failed": 3, "complete": False},
            {"configurations": 36},
        )
    ]
    assert meanings == [
        (
            "ok",
            "all 1,040 configurations of its spec were trained; 1,004 failed and have no row",
            "methods cannot choose configurations that are not in the table.",
        ),
        (
            "warning",
            "called complete, but 36 rows and 1,003 failures are 1,039 of 1,040 configurations",
            "build the table from its ledger again.",
        ),
        (
            "warning",
            "39 of the 1,040 configurations of its spec were trained so far (3 failed)",
            "the best configuration may not be in it yet.",
        ),
        (
            "warning",
            "36 of the 36 configurations of its spec were trained so far (0 failed)",
            "the best configuration may not be in it yet.",
        ),
    ]


def test_a_ledger_says_what_follows(toy, tmp_path):
    path = tmp_path / "ledger.jsonl"
    path.write_text("one\n")
    built = dataclasses.replace(toy, provenance={"ledger_sha256": hashlib.sha256(b"one\n").hexdigest()})
    assert ("ok", "built from the ledger beside it", "every row can be traced to its training.") in told(
        built, tmp_path
    )
    assert told(toy, tmp_path) == told(toy) == [COMPLETE, FRONT, ADDITIVE]
    path.write_text("two\n")
    assert (
        "warning",
        "the ledger beside it is not the ledger from which it was built",
        f"build it again: hpobench-nmt tables build {path}",
    ) in told(built, tmp_path)


def test_every_finding_on_a_collection(toy):
    claim = {"collection": "both", "collection_rows": 1072, "collection_tables": 2}
    values = toy.values.copy()
    values[:2, 2] = np.nan
    one = with_values(toy, values, claims=claim)
    two = with_values(toy, values, name="toy2", claims=claim)
    other = dataclasses.replace(toy, name="other", claims={"collection": "else", "collection_rows": 1})

    def found(*tables):
        return [(f.table, f.kind, f.fact, f.meaning) for f in check_collection("both", tables)]

    missing = ("both", "note", "4 rows in all have no memory", "see the tables above.")
    assert found(one, two, other) == [
        (
            "both",
            "warning",
            "the 2 tables hold 72 rows, but the source states 1,072 systems",
            "1,000 systems are missing: compare only with figures from these rows.",
        ),
        missing,
    ]
    assert found(one, other) == [
        (
            "both",
            "note",
            "of its 2 tables, 1 is installed",
            "statements of the source about all of them cannot be checked.",
        )
    ]
    three = [dataclasses.replace(t, claims=claim | {"collection_tables": 3}) for t in (one, two)]
    assert found(*three)[0][2] == "of its 3 tables, 2 are installed"
    right = [dataclasses.replace(t, claims={"collection": "both", "collection_rows": 72}) for t in (one, two)]
    assert found(*right) == [("both", "ok", "72 rows, as the source says", "no row is lacking."), missing]
    # Tables that contradict one another prove nothing.
    assert found(one, dataclasses.replace(two, claims=claim | {"collection_rows": 5})) == []
    assert found(dataclasses.replace(one, claims={"collection": "both"})) == []


def test_a_check_of_tables_says_all_of_them_and_of_the_collection(toy, tmp_path):
    claim = {"collection": "both", "collection_rows": 72, "collection_tables": 2}
    tables = [(dataclasses.replace(toy, name=name, claims=claim), tmp_path) for name in ("a", "b")]
    found = find_check("both", tables)
    assert [f.table for f in found] == ["a"] * 3 + ["b"] * 3 + ["both"]
    assert found[-1].fact == "72 rows, as the source says"
    assert [f.table for f in find_check("a", tables[:1])] == ["a"] * 3
    with pytest.raises(InputError, match="no table to check"):
        find_check("none", [])


def test_a_ledger_is_looked_for_beside_each_table_and_a_link_to_one_is_not_followed(toy, tmp_path):
    (tmp_path / "elsewhere").write_text("one\n")
    built = dataclasses.replace(toy, provenance={"ledger_sha256": hashlib.sha256(b"one\n").hexdigest()})
    (tmp_path / "ledger.jsonl").write_text("one\n")
    assert any(f.fact == "built from the ledger beside it" for f in find_check("toy", [(built, tmp_path)]))
    (tmp_path / "ledger.jsonl").unlink()
    (tmp_path / "ledger.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="symbolic link"):
        check_table(built, tmp_path)
