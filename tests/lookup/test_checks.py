import dataclasses
import hashlib

import numpy as np
import pytest

from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.lookup.catalogue import shipped_folder
from hpobench_nmt.lookup.checks import check_collection, check_table, twins
from hpobench_nmt.lookup.folder import load_folder
from hpobench_nmt.lookup.table import Table


def kinds(table):
    return {(f.kind, f.fact.split(" (")[0]) for f in check_table(table)}


def with_values(table, values, **kwargs):
    return dataclasses.replace(table, values=values, **kwargs)


def test_a_clean_table_has_no_warning(toy):
    found = check_table(toy)
    assert {f.kind for f in found} <= {"ok", "note"}
    assert all(f.meaning and f.table == "toy" for f in found)


def test_missing_and_constant_metrics_are_found(toy):
    values = toy.values.copy()
    values[:3, 2] = np.nan
    values[:, 1] = 7.0
    found = kinds(with_values(toy, values))
    assert ("warning", ["3 row(s) have no memory", "written as 0)"][0]) in found
    assert ("warning", "seconds is 7 in every row") in found
    values[:, 2] = np.nan
    assert ("warning", "memory is missing in every row") in kinds(with_values(toy, values))


def test_ties_and_a_lonely_best_row_are_found(toy):
    values = toy.values.copy()
    values[[4, 9], 0] = 30.0
    (tied,) = [f for f in check_table(with_values(toy, values)) if "share the best" in f.fact]
    assert "rows 4, 9" in tied.fact
    assert f"{37 / 3:.1f} look-ups" in tied.meaning
    values[9, 0] = 3.0
    assert any(
        "ahead of the next, more than the tolerance" in f.fact for f in check_table(with_values(toy, values))
    )


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


def test_a_ledger_that_has_gone_on_is_found(toy, tmp_path):
    (tmp_path / "ledger.jsonl").write_text("one\n")
    built = dataclasses.replace(toy, provenance={"ledger_sha256": hashlib.sha256(b"one\n").hexdigest()})

    def found():
        return [(f.kind, f.fact) for f in check_table(built, tmp_path) if "ledger" in f.fact]

    assert found() == [("ok", "built from the ledger beside it")]
    (tmp_path / "ledger.jsonl").write_text("one\ntwo\n")
    assert found() == [("warning", "the ledger beside it is not the one that it was built from")]
    (tmp_path / "ledger.jsonl").unlink()
    assert found() == []


@pytest.mark.parametrize(
    "folder",
    sorted(f.parent for f in shipped_folder().glob("*/datasheet.toml")),
    ids=lambda folder: folder.name,
)
def test_the_tables_that_ship_are_those_of_their_ledgers(folder):
    table = load_folder(folder)
    assert (folder / "ledger.jsonl").is_file() == ("ledger_sha256" in table.provenance)
    assert not [f.fact for f in check_table(table, folder) if "ledger" in f.fact and f.kind != "ok"]


def test_holes_in_the_grid_are_found(toy):
    part = dataclasses.replace(toy, configs=toy.configs[9:], values=toy.values[9:])
    found = [f.fact for f in check_table(part)]
    assert "27 of the 36 configurations of the grid have a row (75%)" in found
    assert "no row has layers of 1" in found


def test_twins_must_differ_in_one_hyperparameter_only(toy):
    values = toy.values.copy()
    values[1] = values[0]  # differ in the learning rate
    values[35] = values[20]  # differ in more than that
    found = twins(with_values(toy, values))
    assert [g.tolist() for g in found] == [[0, 1]]


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
    assert found.fact == "the 2 tables hold 72 rows, the source speaks of 80 systems"


def naive_twins(table):
    """By the definition: every pair of rows, then groups of linked rows."""
    needed = max(min(4, len(table.metrics)), 2)
    if len(table.metrics) < needed:
        return []
    objective = [m.name for m in table.metrics].index(table.objectives[0])
    group = list(range(len(table)))
    for i in range(len(table)):
        for j in range(i):
            same = table.values[i] == table.values[j]
            if (table.configs[i] != table.configs[j]).sum() == 1 and same.sum() >= needed and same[objective]:
                group = [group[i] if g == group[j] else g for g in group]
    return sorted(
        rows for g in set(group) if len(rows := [r for r in range(len(table)) if group[r] == g]) > 1
    )


@pytest.mark.parametrize("n_metrics", [1, 2, 3, 5, 6, 7])
@pytest.mark.parametrize("values", [2, 3, 6])
def test_twins_are_those_of_the_definition(n_metrics, values):
    rng = np.random.default_rng(10 * n_metrics + values)
    grid = np.stack(np.meshgrid([1.0, 2, 3], [0.5, 1, 2, 4], range(5), range(4), indexing="ij"), -1).reshape(
        -1, 4
    )
    rows = np.sort(rng.choice(len(grid), size=180, replace=False))
    measured = rng.integers(values, size=(180, n_metrics)).astype(float)
    measured[rng.random(measured.shape) < 0.05] = np.nan
    names = [f"m{j}" for j in range(n_metrics)]
    table = Table(
        "t",
        tuple(Hyperparameter(f"h{j}", tuple(np.unique(column).tolist())) for j, column in enumerate(grid.T)),
        tuple(Metric(name, "min") for name in names),
        grid[rows],
        measured,
        objectives=(names[-1],),
    )
    found = [group.tolist() for group in twins(table)]
    assert found == naive_twins(table)
    assert found or n_metrics == 1 or values > 2
