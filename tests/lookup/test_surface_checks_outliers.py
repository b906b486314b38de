from dataclasses import replace

import numpy as np
import pytest

from hpobench_nmt.lookup.checks.facts import check_table
from hpobench_nmt.lookup.checks.surface_checks import far_rows, variance_share


def losses(far=(), n=100):
    values = np.random.default_rng(0).normal(10.0, 1.0, n)
    values[list(far)] = [50.0 + row for row in far]
    return values


def test_few_rows_far_from_the_rest_are_found_worst_first():
    assert far_rows(losses([3, 7, 90])).tolist() == [90, 7, 3]
    with_holes = losses([3, 7, 90])
    with_holes[20] = np.nan
    assert far_rows(with_holes).tolist() == [90, 7, 3]


@pytest.mark.parametrize(
    "values",
    [
        losses(),
        np.append(losses(), 15.5),  # beyond the fence, but one row among many with little of the variance
        -losses([3, 7, 90]),  # far better is no fault
        losses(range(11)),  # more than a tenth: a part of the space, not outliers
        np.full(5, 3.0),
        np.array([1.0]),
        np.full(4, np.nan),
    ],
)
def test_other_rows_are_not(values):
    assert values[far_rows(values)].tolist() == []


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_losses_too_small_for_a_variance_have_no_far_rows():
    assert far_rows(losses([3]) * 1e-200).tolist() == []


def test_an_objective_may_say_its_direction(toy):
    values = toy.values.copy()
    values[5, 0] = 1000.0
    (found,) = [
        f for f in check_table(replace(toy, values=values, objectives=("bleu:min",))) if "far" in f.fact
    ]
    assert found.fact.startswith("1 of 36 rows is far worse in bleu:min than the rest, 1000 or worse")


def test_rows_that_are_alike_come_in_their_order():
    values = losses(n=500)
    values[100:140] = np.where(np.arange(40) % 3 == 0, 50.0, 60.0)
    rows = list(range(100, 140))
    assert far_rows(values).tolist() == sorted(rows, key=lambda row: -values[row])


def test_the_share_of_the_variance_is_what_is_not_there_without_the_rows():
    values = np.array([1.0, 2.0, 3.0, 10.0])
    assert variance_share(values, np.array([3])) == pytest.approx(1 - (2 / 3) / 12.5)


def test_the_check_names_them(toy):
    table = toy
    name = table.objectives[0]
    column = [m.name for m in table.metrics].index(name)
    values = table.values.copy()
    values[4, column] = -400.0  # quality: more is better
    found = [f for f in check_table(replace(table, values=values)) if "far worse" in f.fact]
    assert [f.kind for f in found] == ["warning"]
    assert f"1 of 36 rows is far worse in {name} than the rest, -400 or worse" in found[0].fact
    assert "(row 4)" in found[0].fact


def test_a_tenth_of_the_rows_is_few_and_the_fence_is_three_times_the_distance_of_the_quartiles():
    assert sorted(far_rows(losses(range(10))).tolist()) == list(range(10))
    base = np.arange(101.0)  # quartiles at 25 and 75: the fence is at 225
    base[[20, 60]] = 225.0, 3000.0
    base[26] = 20.0  # the quartiles stay where they were
    lower, upper = np.percentile(base, [25, 75])
    fence = upper + 3 * (upper - lower)
    base[20] = fence
    assert np.percentile(base, [25, 75]).tolist() == [lower, upper]
    assert far_rows(base).tolist() == [60]
    base[20] = np.nextafter(fence, np.inf)
    assert far_rows(base).tolist() == [60, 20]
