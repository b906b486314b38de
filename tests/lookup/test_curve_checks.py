from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hpobench_nmt.benchmarking.task.instance import make_instance
from hpobench_nmt.benchmarking.task.suite import Suite
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.lookup.checks.curve_checks import best_places, curve_facts
from hpobench_nmt.lookup.checks.facts import check_table
from hpobench_nmt.lookup.curves import Curves
from hpobench_nmt.lookup.table import Table

PPL, BLEU, UPDATES = Metric("ppl", "min"), Metric("bleu", "max"), Metric("num_updates", "min")


def facts(ppl, own="best", row_values=None, metric=PPL, updates=None, resource="update"):
    """What is found of curves with these values, one list for each row; 10 updates a checkpoint."""
    lengths = [len(curve) for curve in ppl]
    steps = np.concatenate([10.0 * np.arange(1, n + 1) for n in lengths])
    better = min if metric.direction == "min" else max
    values = [better(c, default=5.0) for c in ppl] if row_values is None else row_values
    ends = [10.0 * n for n in lengths] if updates is None else updates
    table = Table(
        "t",
        (Hyperparameter("x", tuple(float(i) for i in range(len(ppl)))),),
        (metric, UPDATES),
        np.arange(float(len(ppl)))[:, None],
        np.column_stack([values, ends]),
    )
    flat = np.array([v for curve in ppl for v in curve], dtype=float)[:, None]
    curves = Curves(resource, (metric,), (own,), np.cumsum([0, *lengths]), steps, steps, flat, "updates")
    return list(curve_facts(table, curves))


def found(words, *arguments, **options):
    """The kinds of the facts that hold these words, with the facts."""
    return [(kind, fact) for kind, fact, _ in facts(*arguments, **options) if words in fact]


SOUND = [[9, 7, 8], [9, 5, 6, 7]]


def test_what_is_said_of_sound_curves():
    kinds = [kind for kind, *_ in facts(SOUND)]
    assert kinds == ["note", "ok", "ok"]
    assert found("checkpoints (", SOUND) == [
        (
            "note",
            "7 checkpoints (resource: update): 3 to 4 a row, 3.5 in the median; "
            "all trainings cost 70 in updates",
        )
    ]


@pytest.mark.parametrize(
    ("own", "values", "kind", "wrong"),
    [
        ("best", [7, 5], "ok", ""),
        ("last", [8, 7], "ok", ""),
        ("last", [7, 5], "warning", "rows 0, 1"),
        ("best", [7, 6], "warning", "row 1"),
        ("best", [7.0, np.nan], "ok", ""),  # it failed later
    ],
)
def test_the_rows_own_values_are_those_of_their_curves(own, values, kind, wrong):
    ((found_kind, fact),) = found("of its curve", SOUND, own, values)
    assert found_kind == kind
    assert wrong in fact


@pytest.mark.parametrize(
    ("value", "kind"), [(7.12, "ok"), (7.13, "ok"), (7.11, "warning"), (7.14, "warning")]
)
def test_rounded_values_agree_to_their_digits(value, kind):
    assert found("of its curve", [[9, 7.125], [8, 5.01, 6]], "best", [value, 5.01])[0][0] == kind


def test_a_failed_training_agrees_with_a_curve_that_ends_in_nothing():
    assert found("of its curve", [[9, 7, np.nan], [9, 5, 6]], "last", [np.nan, 6])[0][0] == "ok"


def test_rounded_values_agree_beside_a_failed_training():
    ((kind, _),) = found("of its curve", [[9, 7.004], [np.nan]], row_values=[7.0, np.nan])
    assert kind == "ok"


def test_what_is_missing_is_no_fault_of_the_curves():
    nothing = [*SOUND, [np.nan, np.nan]]
    kinds = [kind for kind, *_ in facts(nothing, row_values=[7, 5, np.nan], updates=[30, 40, np.nan])]
    assert kinds == ["note", "ok", "ok"]


@pytest.mark.parametrize("digits", [1, 5, 6])
def test_a_table_may_hold_rounded_values(digits):
    curves = [[9.123456789, 7.987654321], [5.55555555, 4.123454321]]
    rounded = [round(min(curve), digits) for curve in curves]
    assert [kind for kind, _ in found("of its curve", curves, "best", rounded)] == ["ok"]


def test_a_metric_that_was_measured_in_another_way():
    assert found("row's curve", SOUND, None, [6.9, 5]) == [
        ("note", "ppl of 1 row is not on the row's curve (row 0)")
    ]
    ((_, fact),) = found("row's curve", [*SOUND, [np.nan, np.nan]], None, [7.5, np.nan, 3])
    assert fact == "ppl of 2 rows is not on the row's curve (rows 0, 2)"


def test_checkpoints_that_were_chosen_by_another_metric():
    curves = [[9, 7, 8], [8, 5, 6], [4, 3, np.nan], [2]]
    assert found("on its curve", curves, None, [7, 6, np.nan, 2]) == [
        (
            "note",
            "ppl of every row that has it is on its curve, but not the best of it in 1 of 3 (row 1), and not "
            "the last in 1 of 3 (row 0)",
        )
    ]
    ((_, fact),) = found("its curve", SOUND, None, [9, 6])
    assert fact.startswith("ppl of every row is on its curve, but not the best of it in 2 of 2 (rows 0, 1), ")


def test_the_best_of_every_curve_is_found_without_the_datasheets_word():
    assert found("of its curve", SOUND, None, [7, 5]) == [("ok", "ppl of every row is the best of its curve")]
    assert not found("its curve", SOUND, None, [np.nan, np.nan])


def test_the_last_of_every_curve_is_found_without_the_datasheets_word():
    last = ("ok", "ppl of every row is the last of its curve")
    assert found("its curve", SOUND, None, [8, 7]) == [last]
    assert found("its curve", [[9, 7], [9, 5]], None, [7, 5]) == [last]  # also the best
    some = ("ok", "ppl of every row that has it is the last of its curve")
    assert found("its curve", SOUND, None, [8, np.nan]) == [some]


@pytest.mark.parametrize("which", ["best", "last"])
def test_rounded_values_are_found_on_their_curves_without_the_datasheets_word(which):
    curves = [[9.123456789, 7.987654321, 8.4567891], [5.55555555, 4.123454321, 4.2345678]]
    rounded = [round(min(curve) if which == "best" else curve[-1], 3) for curve in curves]
    assert found("its curve", curves, None, rounded) == [
        ("ok", f"ppl of every row is the {which} of its curve")
    ]
    ((_, fact),) = found("its curve", curves, None, [7.988, 4.235])
    assert fact.endswith("not the best of it in 1 of 2 (row 1), and not the last in 1 of 2 (row 0)")


def test_rows_without_a_curve_are_counted():
    assert found("no learning curve", [[9, 7, 8], [], [6, 5, 7], []]) == [
        ("warning", "2 of 4 rows have no learning curve (rows 1, 3)")
    ]
    ((_, ten),) = found("no learning curve", [[]] * 10 + [[6, 5, 7]])
    ((_, eleven),) = found("no learning curve", [[]] * 11 + [[6, 5, 7]])
    assert ten.endswith("(rows 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)")
    assert eleven.endswith("(rows 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …)")
    only = facts([[], [], [3.0]])
    assert [kind for kind, *_ in only] == ["warning", "note", "ok", "ok"]


def test_curves_that_rise_from_the_start_and_curves_that_are_cut():
    curves = [[5, 6, 7], [9, 8, 7], [7, 5, 6], [4], [6, 6, 6]]
    ((kind, fact),) = found("never better than at the first", curves)
    assert (kind, fact) == (
        "warning",
        "ppl is never better than at the first checkpoint in 2 of 5 curves (rows 0, 4)",
    )
    assert found("best at the end", curves) == [("note", "ppl is best at the end in 1 of 5 curves (row 1)")]
    assert found("best at the end", [[1, 2, 3], [3, 2, 1]], metric=BLEU)[0][1].endswith("(row 0)")


@pytest.mark.parametrize(
    ("curve", "counts"),
    [
        ([34, 27.3, 28.8, 42.1, 62.8, 78.9, 28.3, 32.8, 41.7], True),
        ([62.6, 56.3, 70.8, 78.5, 78.2, 52.1, 51.8], True),
        ([30, 20, 22, 21, 20.5, 23, 19], False),  # it goes up and down a little
        ([30, 20, 24, 28, 32, 30, 28, 26, 24, 22, 19], False),  # it comes back step by step
        ([30, 20, 60, 50, 55, 58], False),  # it never comes back
        ([90, 20, 19, 18], False),  # it falls at the start
        ([30, 20, 25.01, 20], True),  # a little more than a quarter above its best, and back
        ([30, 20, 25, 20], False),
        ([30, 20, 30, 22], True),  # four fifths of the way back
        ([30, 20, 30, 22.01], False),
        ([-10, -20, -14, -20], True),  # a loss below 0
    ],
)
def test_curves_that_go_back_in_one_step(curve, counts):
    lines = found("in one step", [curve, SOUND[1]])
    assert bool(lines) == counts
    if counts:
        assert lines == [
            ("warning", "ppl returns to its best value in one step in 1 of 2 curves (row 0)"),
        ]


def test_curves_that_do_not_end_where_the_training_did():
    assert found("num_updates", SOUND) == [("ok", "every curve ends at its row's num_updates")]
    assert found("num_updates", SOUND, updates=[30.0, 50.0]) == [
        ("warning", "the curves of 1 row do not end at its num_updates (row 1)")
    ]
    assert found("num_updates", SOUND, updates=[3.0, 5.0], resource="epoch") == []


def test_best_places_take_the_earliest_and_never_nan():
    losses = np.array([3.0, 2.0, 2.0, np.nan, 1.0, np.nan])
    assert best_places(losses, np.array([0, 3, 5, 6])).tolist() == [1, 4, 5]


def test_rows_without_the_metric_whose_checkpoints_count_are_said(curved):
    values = curved.values.copy()
    values[[3, 5], 0] = np.nan
    failed = replace(curved, values=values)
    (meaning,) = [f.meaning for f in check_table(failed) if f.fact.startswith("no bleu in 2 of 36 rows")]
    assert meaning.endswith("never on a front. Along curves, the best checkpoint counts in 2 of them.")
    trained = make_instance(Suite("s", ("ftb",), clock="cost", curves=True), failed)
    assert not np.isnan(trained.losses[[3, 5]]).any()
    assert np.isnan(make_instance(Suite("s", ("ftb",)), failed).losses[[3, 5]]).all()
