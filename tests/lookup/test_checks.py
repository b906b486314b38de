"""Checks of the rows of a table: gaps, ties, faults, twins and the grid."""

import dataclasses

import numpy as np
import pytest
from findings_of_checks import ADDITIVE, COMPLETE, FRONT, told, with_values

from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.lookup.checks.facts import check_table, twins
from hpobench_nmt.lookup.table import Table


def kinds(table):
    return {(f.kind, f.fact.split(" (")[0]) for f in check_table(table)}


def tangled(toy):
    """A table whose first metric is no sum of effects, and best in the middle of the grid."""
    values = toy.values.copy()
    values[:, 0] = np.random.default_rng(3).permutation(np.arange(10.0, 10.0 + len(toy)))
    middle = [h.numbers[len(h.numbers) // 2] for h in toy.hyperparameters]
    best = int(np.abs(toy.configs - middle).sum(axis=1).argmin())
    values[best, 0] = values[:, 0].max() + 0.1
    return with_values(toy, values)


def test_a_clean_table_has_no_warning(toy):
    found = check_table(tangled(toy))
    assert {f.kind for f in found} <= {"ok", "note"}
    assert all(f.meaning and f.table == "toy" for f in found)


def test_missing_and_constant_metrics_are_found(toy):
    values = toy.values.copy()
    values[:3, 2] = np.nan
    values[:, 1] = 7.0
    found = kinds(with_values(toy, values))
    assert ("warning", "no memory in 3 of 36 rows") in found
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


IN_ORDER = ("ok", "hash, types and ranges are in order", "nothing to watch for.")


def test_every_finding_on_a_clean_table(toy):
    assert told(toy) == [COMPLETE, FRONT, ADDITIVE]
    assert told(dataclasses.replace(toy, objectives=("bleu",))) == [COMPLETE, ADDITIVE]
    assert told(tangled(toy))[::2] == [COMPLETE, IN_ORDER]
    assert told(dataclasses.replace(toy, objectives=())) == [COMPLETE, IN_ORDER]


def test_every_finding_on_a_table_with_many_faults(toy):
    values = toy.values.copy()
    values[:3, 2] = np.nan
    values[:, 1] = 7.0
    values[5:17, 0] = 30.0
    claims = {"front": [1, 2], "front_objectives": ["bleu", "memory"]}
    assert told(with_values(toy, values, claims=claims)) == [
        COMPLETE,
        ("warning", "seconds is 7 in every row", "it cannot be optimised."),
        (
            "warning",
            "no memory in 3 of 36 rows (written as 0)",
            "if it is an objective, these rows are never best and never on a front.",
        ),
        (
            "warning",
            "12 rows share the best bleu, 30: rows 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, …",
            "ftb depends on whether any of them or only the first meets the target: random search needs 2.8 "
            "look-ups on average for any, and 18.5 for the first.",
        ),
        (
            "warning",
            "36 rows share the best seconds, 7: rows 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …",
            "ftb depends on whether any of them or only the first meets the target: random search needs 1.0 "
            "look-ups on average for any, and 18.5 for the first.",
        ),
        (
            "note",
            "12 rows are on the Pareto front of bleu:max and seconds:min",
            "fta and fbp count this many rows.",
        ),
        (
            "warning",
            "the published Pareto front of bleu and memory differs from a recomputation: rows 1, 2, 9, 10, "
            "11 are on only one of them",
            "scores of fronts cannot be compared with published ones.",
        ),
        (
            "warning",
            "12 of 36 rows fall into 3 groups that agree exactly in bleu, seconds, memory and differ only in "
            "layers, learning_rate (rows 5, 12, 13, 14, for one)",
            "each group is probably one training that was entered several times: layers, learning_rate has "
            "no effect there, the table has fewer independent rows than it seems, and ties are likely.",
        ),
    ]


def test_a_sentinel_is_named_only_where_there_is_one(toy):
    values = toy.values.copy()
    values[0, 0] = np.nan
    (found,) = [f for f in check_table(with_values(toy, values)) if "no bleu" in f.fact]
    assert found.fact == "no bleu in 1 of 36 rows"


def test_one_value_is_no_constant_and_ten_are_all_listed(toy):
    values = np.full_like(toy.values, np.nan)
    values[0] = (1.0, 2.0, 3.0)
    assert not any(
        "in every row" in f.fact and " is " in f.fact and "missing" not in f.fact
        for f in check_table(with_values(toy, values))
    )
    values = toy.values.copy()
    values[:10, 0] = 30.0
    assert any(
        f.fact.endswith("rows 0, 1, 2, 3, 4, 5, 6, 7, 8, 9") for f in check_table(with_values(toy, values))
    )


def test_a_best_row_ahead_by_exactly_the_tolerance_is_not_lonely(toy):
    values = toy.values.copy()
    values[:, 0] = np.round(values[:, 0])
    best = values[:, 0].max()
    for lead, lonely in ((0.5, False), (0.75, True)):
        values[7, 0] = best + lead
        found = [f for f in told(with_values(toy, values)) if "ahead of" in f[1]]
        assert found == (
            [
                (
                    "warning",
                    f"the best bleu is {lead:.3g} ahead of the next, more than the tolerance of 0.5",
                    "ftc is the same as ftb unless a suite sets a larger tolerance.",
                )
            ]
            if lonely
            else []
        )
    # Missing values come last, whichever way is better.
    values[:, 0] = np.nan
    values[3, 0] = 1.0
    assert not any("ahead of" in f.fact for f in check_table(with_values(toy, values)))


def test_a_grid_with_holes_says_what_is_absent(toy):
    axes = (dataclasses.replace(toy.hyperparameters[0], values=(1.0, 2.0, 4.0, 8.0, *range(16, 28))),)
    part = dataclasses.replace(toy, hyperparameters=axes + toy.hyperparameters[1:])
    assert told(part)[:2] == [
        (
            "note",
            "36 of the 144 configurations of the grid have a row (25%)",
            "a method can only choose among these, so it avoids configurations that failed to train.",
        ),
        (
            "note",
            "no row has layers of 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, …",
            "this part of the search space is empty.",
        ),
    ]


def test_a_grid_of_any_size_is_counted():
    axes = tuple(Hyperparameter(f"h{j}", (0.0, 1.0)) for j in range(1100))
    table = Table("t", axes, (Metric("m", "min"),), np.eye(2, 1100), np.ones((2, 1)))
    assert told(table)[0][1] == "2 of the about 10^331 configurations of the grid have a row (0%)"


def test_twins_need_an_objective_and_enough_metrics(toy):
    values = np.round(toy.values)
    values[:] = values[0]
    assert len(twins(with_values(toy, values))) == 1
    assert twins(with_values(toy, values, objectives=())) == []
    one = dataclasses.replace(toy, metrics=toy.metrics[:1], values=values[:, :1], objectives=("bleu",))
    assert twins(one) == []
    apart = values.copy()
    apart[:, 0] = np.arange(36)  # the first objective tells them apart
    assert twins(with_values(toy, apart)) == []


def test_twins_in_a_table_of_many_rows():
    n = 3000
    axes = (Hyperparameter("x", tuple(map(float, range(n)))), Hyperparameter("y", (0.0, 1.0)))
    configs = np.array([(i, y) for i in range(n) for y in (0, 1)], dtype=float)
    rng = np.random.default_rng(0)
    values = rng.normal(size=(2 * n, 5))
    values[1::2][: n // 2] = values[::2][: n // 2]  # half of the rows do not depend on y
    table = Table("t", axes, tuple(Metric(f"m{j}", "min") for j in range(5)), configs, values, ("m0",))
    assert [g.tolist() for g in twins(table)] == [[2 * i, 2 * i + 1] for i in range(n // 2)]
    (found,) = [f for f in check_table(table) if "groups" in f.fact]
    assert found.fact.startswith(
        f"{n:,} of {2 * n:,} rows fall into {n // 2:,} groups that agree exactly in m0, m1, m2, m3"
    )
    assert found.fact.endswith("differ only in y (rows 0, 1, for one)")


def test_small_tables_have_findings_too():
    axis = Hyperparameter("x", (1.0, 2.0))
    metric = Metric("m", "min", tolerance=0.5)
    one = Table("t", (axis,), (metric,), np.array([[1.0]]), np.array([[3.0]]), ("m",))
    assert [fact for _, fact, _ in told(one)] == [
        "1 of the 2 configurations of the grid has a row (50%)",
        "no row has x of 2",
        "hash, types and ranges are in order",
    ]
    two = Table("t", (axis,), (metric,), np.array([[1.0], [2.0]]), np.array([[3.0], [4.0]]), ("m",))
    assert [fact for _, fact, _ in told(two)] == [
        "all 2 configurations of the grid have a row",
        "the best m is 1 ahead of the next, more than the tolerance of 0.5",
    ]
    assert "m is 3 in every row" in [fact for _, fact, _ in told(with_values(two, np.array([[3.0], [3.0]])))]
    nothing = told(with_values(two, np.full((2, 1), np.nan)))
    assert nothing[1] == ("warning", "m is missing in every row", "it cannot be an objective.")


def test_only_the_whole_grid_is_all_of_it():
    axes = (Hyperparameter("x", tuple(range(1000))),)
    for rows, share in ((999, "more than 99%"), (995, "more than 99%"), (994, "99%"), (4, "less than 1%")):
        configs = np.arange(float(rows))[:, None]
        table = Table("t", axes, (Metric("m", "min"),), configs, configs)
        found = {finding.fact for finding in check_table(table)}
        assert f"{rows} of the 1,000 configurations of the grid have a row ({share})" in found
