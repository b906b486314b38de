"""What BO_auto expects: the gain of one more evaluation, and how much each hyperparameter explains."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import hpobench_nmt as hb
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.space import Hyperparameter, Space
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.exports.optimizer import Optimizer
from hpobench_nmt.exports.optimizer_parts import main_effects
from hpobench_nmt.methods.auto import AutoBO, bank_of
from hpobench_nmt.methods.surrogates.kernel_bank import BankPosterior, points_of
from hpobench_nmt.methods.surrogates.warping import warped

GRID = {"x": list(range(12)), "y": list(range(8))}


def bowl(config):
    return (config["x"] - 5.0) ** 2 + 0.5 * (config["y"] - 3.0) ** 2


def told(losses_of, count=12, space=GRID, **settings):
    optimizer = Optimizer(space, **settings)
    for _ in range(count):
        config = optimizer.ask()
        optimizer.tell(config, losses_of(config))
    return optimizer


def test_the_gain_is_the_largest_mean_ei_in_units_of_the_loss():
    rng = np.random.default_rng(3)
    features, losses = rng.uniform(size=(40, 2)), rng.normal(5.0, 2.0, size=9)
    problem, rows = Problem(features, 1, 40, 0), list(range(0, 36, 4))
    method, bank = AutoBO(problem, rng), BankPosterior(bank_of(problem), points_of(features, (1, 1)))
    for row, loss in zip(rows, losses, strict=True):
        method.tell(row, np.array([loss]))
        bank.observe(row, list)
    y = warped(losses)
    weights, values = bank.weigh(y), np.zeros(40)
    members = weights.heaviest(0.95)
    for member, mean, var in zip(members, *bank.fields(members, weights, [7]), strict=True):
        u = (y.min() - mean) / np.sqrt(var)
        values += np.exp(weights.log_weights[member]) * np.sqrt(var) * (u * norm.cdf(u) + norm.pdf(u))
    low = np.argsort(losses)[:2]  # both below the median, where the warp is linear
    unit = np.diff(losses[low]) / np.diff(y[low])
    free = [row for row in range(40) if row not in [*rows, 7]]
    assert method.expected_gain({7: 1.0}) == pytest.approx(float(unit[0]) * values[free].max(), rel=1e-9)


def test_the_gain_has_the_unit_of_the_loss_whatever_diverged():
    plain = told(bowl)
    scaled = told(lambda c: 1000.0 * bowl(c) - 7.0)
    assert scaled.expected_gain() == pytest.approx(1000.0 * plain.expected_gain(), rel=1e-6)
    diverged = told(lambda c: 1e16 if c["x"] == 11 else bowl(c))
    assert 0.0 < diverged.expected_gain() < 100.0


def test_the_gain_is_infinite_at_first_and_0_at_the_end():
    optimizer = Optimizer({"x": [1, 2, 3]})
    assert optimizer.expected_gain() == math.inf
    for x in (1, 2, 3):
        assert optimizer.expected_gain() == math.inf  # all losses are equal
        optimizer.tell({"x": x}, 4.0)
    assert optimizer.expected_gain() == 0.0
    bounded = told(lambda c: None, 3, constraints=["size<=3"])
    bounded.tell({"x": 0, "y": 0}, 1.0, {"size": 9.0})
    bounded.tell({"x": 0, "y": 1}, 2.0, {"size": 8.0})
    assert bounded.expected_gain() == math.inf  # no configuration keeps the bound
    bounded.tell({"x": 1, "y": 1}, 2.5, {"size": 1.0})
    assert bounded.expected_gain() < math.inf


def test_minimize_stops_once_little_is_to_be_gained():
    found = hb.minimize(bowl, GRID, budget=96, least_gain=0.05)
    assert found.loss == 0.0 and len(found.configs) < 40
    assert hb.minimize(bowl, GRID, budget=20).configs[: len(found.configs)] == found.configs[:20]
    at_once = hb.minimize(bowl, GRID, budget=96, n_initial=4, least_gain=1e9)
    assert len(at_once.configs) == 4  # after the initial design
    with pytest.raises(InputError, match="least_gain must be a number of 0 or more, not nan"):
        hb.minimize(bowl, GRID, least_gain=math.nan)
    calls = []
    with pytest.raises(InputError, match="least_gain needs BO_auto and one loss"):
        hb.minimize(calls.append, GRID, "RS", least_gain=0.1)
    assert not calls  # refused before an evaluation is paid for


def test_importance_orders_hyperparameters_by_what_they_do():
    space = {"rate": (1e-4, 1e-1, "log"), "layers": [1, 2, 4], "nothing": ["a", "b"]}
    loss = lambda c: 3.0 * (math.log10(c["rate"]) + 2.3) ** 2 + 0.3 * c["layers"]  # noqa: E731
    shares = told(lambda c: 1e16 if c["rate"] > 0.06 else loss(c), 40, space, n_initial=30).importance()
    assert list(shares) == ["rate", "layers", "nothing"]
    assert shares["rate"] > 2 * shares["layers"] and shares["nothing"] < 0.05
    with pytest.raises(InputError, match="no losses yet"):
        Optimizer(space).importance()
    with pytest.raises(InputError, match="BO_auto and one loss"):
        Optimizer(space, objectives=2).importance()


def test_main_effects_are_those_of_groups():
    rng = np.random.default_rng(1)
    space = Space(
        (
            Hyperparameter("kind", ("a", "b"), kind="categorical"),
            Hyperparameter("size", (1, 2, 3), active_if=(("kind", ("b",)),)),
            Hyperparameter("rate", (0.0, 1.0), continuous=True),
        )
    )
    kind = rng.integers(2, size=120).astype(float)
    codes = np.column_stack(
        [kind, np.where(kind == 1, rng.integers(1, 4, size=120), np.nan), rng.random(120)]
    )
    values = rng.normal(size=120) + codes[:, 2] + kind
    found = main_effects(space, codes, values)
    tenths = pd.qcut(codes[:, 2], 12, labels=False)
    for name, group in (("kind", kind), ("size", codes[:, 1]), ("rate", tenths)):
        means = pd.Series(values).groupby(np.nan_to_num(group, nan=9.0)).transform("mean")
        assert found[name] == pytest.approx(means.var(ddof=0) / values.var(), rel=1e-9)
    assert set(main_effects(space, codes, np.ones(120)).values()) == {0.0}


def test_labels_are_never_put_together():
    """Each of 24 labels is a part of its own: the loss is whether a label's number is odd."""
    space = Space((Hyperparameter("kind", tuple(f"k{i:02}" for i in range(24)), kind="categorical"),))
    codes = np.arange(96.0)[:, None] % 24
    assert main_effects(space, codes, codes[:, 0] % 2) == {"kind": pytest.approx(1.0)}
