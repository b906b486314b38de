"""What makes a surface easy or misleading: edges, sums of effects, idle hyperparameters, double values."""

import itertools

import numpy as np
import pytest

from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.lookup.checks.surface_checks import (
    additive_share,
    additivity,
    edges_of_best,
    nearer_to_the_middle,
    surface_facts,
    total_effects,
)
from hpobench_nmt.lookup.table import Table

AXES = (
    Hyperparameter("a", (1, 2, 4, 8), "log"),
    Hyperparameter("b", (0, 1, 2)),
    Hyperparameter("c", ("x", "y", "z"), kind="categorical"),
)
GRID = np.array(list(itertools.product((1, 2, 4, 8), (0, 1, 2), (0, 1, 2))), dtype=float)


def table(losses, axes=AXES, configs=GRID):
    values = np.asarray(losses, dtype=float)[:, None]
    return Table("t", axes, (Metric("loss", "min"),), configs, values, ("loss",))


def facts(*given):
    return [fact for _, fact, _ in surface_facts(table(*given), "loss")]


def test_the_ends_of_the_best_row():
    a, b, _ = GRID.T
    assert edges_of_best(table(np.log2(a) + (b - 1) ** 2 + 0.1 * GRID[:, 2]), "loss") == ["the least a, 1"]
    assert edges_of_best(table(-a - b), "loss") == ["the largest a, 8", "the largest b, 2"]
    middle = (np.log2(a) - 1) ** 2 + (b - 1) ** 2
    assert edges_of_best(table(middle), "loss") == []
    two = np.where((a == 1) | (a == 8), 0.0, 1.0)  # the best rows are at both ends
    assert edges_of_best(table(two + (b - 1) ** 2), "loss") == []


def test_additive_against_a_plain_analysis_of_variance():
    a, b, c = GRID.T
    losses = np.sin(a) + b**2 + c + 0.3 * np.random.default_rng(0).normal(size=36)
    effects = sum(
        np.array([losses[column == v].mean() for v in column]) - losses.mean() for column in (a, b, c)
    )
    left = ((losses - losses.mean() - effects) ** 2).sum() / (36 - 1 - 3 - 2 - 2)
    assert additivity(table(losses), "loss") == pytest.approx(1 - left / losses.var(ddof=1))
    assert any("nearly additive: the hyperparameters one by one explain 9" in fact for fact in facts(losses))
    product = (np.log2(a) - 1.5) * (b - 1)
    assert additivity(table(product), "loss") < 0.1
    assert not any("additive" in fact for fact in facts(product))


def test_too_few_rows_tell_nothing():
    levels = [np.arange(6), np.arange(6)]
    assert np.isnan(additive_share(levels, np.arange(6.0)))


def test_the_effect_of_what_only_interacts_counts():
    a, b, _ = GRID.T
    shares = total_effects(GRID, (np.log2(a) - 1.5) * (b - 1))
    assert shares[2] == 0 and min(shares[:2]) > 0.5
    assert any(
        fact.startswith("c (0.00%) explains less than 1%") for fact in facts((np.log2(a) - 1.5) * (b - 1))
    )
    assert np.isnan(total_effects(np.random.default_rng(0).random((50, 3)), np.arange(50.0))).all()


def test_what_diverged_explains_nothing():
    a, b, _ = GRID.T
    losses = (np.log2(a) - 1.5) * (b - 1)
    losses[[0, 1]] = 1e16
    assert not any("additive" in fact for fact in facts(losses))
    assert facts(np.full(36, np.nan)) == facts(np.ones(36)) == []


def test_values_that_are_one_rounded_in_two_ways():
    rates = (0.000345, 0.0003453, 0.000488)
    axes = (Hyperparameter("rate", rates, "log"), Hyperparameter("b", tuple(range(6))))
    configs = np.array(list(itertools.product(rates, range(6))))
    losses = np.random.default_rng(1).random(18)
    found = "rate has values that differ by less than 1%: 0.000345 and 0.0003453"
    assert found in facts(losses, axes, configs)
    linear = (Hyperparameter("rate", rates), axes[1])
    assert found not in facts(losses, linear, configs)
    drawn = np.sort(np.random.default_rng(0).uniform(1, 1.1, 18))  # no grid, but values drawn at random
    axes = (Hyperparameter("rate", tuple(drawn), "log"), axes[1])
    assert not any("differ by" in f for f in facts(losses, axes, np.column_stack([drawn, np.arange(18) % 6])))


def test_a_best_row_near_the_middle_of_the_grid_is_warned_of():
    axes = (Hyperparameter("a", (1, 10, 100), "log"), Hyperparameter("b", tuple(range(21))), AXES[2])
    configs = np.array(list(itertools.product((1, 10, 100), range(21), (0, 1, 2))), dtype=float)
    middle = (np.log10(configs[:, 0]) - 1) ** 2 + (configs[:, 1] - 10) ** 2 + np.abs(configs[:, 2] - 1)
    assert nearer_to_the_middle(table(middle, axes, configs), "loss") == (2, 189)  # the other two labels
    assert "only 2 of the other 188 rows are as near to the middle" in " ".join(facts(middle, axes, configs))
    corner = (configs[:, 1] - 10) ** 2 + configs[:, 0]
    corner[0] = -1.0
    assert nearer_to_the_middle(table(corner, axes, configs), "loss") == (188, 189)
    assert "middle" not in " ".join(facts(corner, axes, configs))
