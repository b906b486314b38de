from __future__ import annotations

import math

import numpy as np
import pytest

from hpobench_nmt.core.objectives import Metric, Objective
from hpobench_nmt.core.system.errors import InputError


@pytest.mark.parametrize(
    ("name", "unit", "label"),
    [
        ("bleu", "", "bleu"),
        ("time", "s", "time (s)"),
        ("BLEU", "BLEU", "BLEU"),
        ("bleu", "BLEU", "bleu (BLEU)"),
    ],
)
def test_label_has_the_unit_where_it_says_more(name, unit, label):
    assert Metric(name, "min", unit).label == label


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"direction": "up"}, "direction must be 'min' or 'max', not 'up'"),
        ({"direction": ""}, "direction must be 'min' or 'max', not ''"),
        ({"tolerance": -1e-9}, "tolerance must be 0 or more, not -1e-09"),
        ({"tolerance": math.inf}, "tolerance must be 0 or more, not inf"),
        ({"tolerance": math.nan}, "tolerance must be 0 or more, not nan"),
        ({"missing": math.nan}, "missing must be a finite number, not nan"),
        ({"missing": -math.inf}, "missing must be a finite number, not -inf"),
    ],
)
def test_metrics_that_make_no_sense(settings, message):
    with pytest.raises(InputError, match=message) as caught:
        Metric("ppl", **({"direction": "min"} | settings))
    assert "metric 'ppl'" in str(caught.value)


@pytest.mark.parametrize(
    "settings", [{"tolerance": 0.0}, {"tolerance": 1e300}, {"missing": 0.0}, {"missing": -1.0}]
)
def test_limits_of_what_makes_sense(settings):
    metric = Metric("ppl", "max", **settings)
    assert {key: getattr(metric, key) for key in settings} == settings


@pytest.mark.parametrize(("direction", "sign"), [("min", 1.0), ("max", -1.0)])
def test_losses_are_minimised_and_turned_back(direction, sign):
    objective = Objective("bleu", direction)
    values = np.array([[1.5, -2.0], [math.nan, math.inf]])
    np.testing.assert_array_equal(objective.to_loss(values), sign * values)
    np.testing.assert_array_equal(objective.to_raw(objective.to_loss(values)), values)
    assert objective.to_loss(3.0) == objective.to_raw(3.0) == sign * 3.0
    assert str(objective) == f"bleu:{direction}"
    np.testing.assert_array_equal(values, [[1.5, -2.0], [math.nan, math.inf]])  # not changed in place


def test_an_objective_has_one_of_two_directions():
    with pytest.raises(InputError, match="objective 'ppl': direction must be 'min' or 'max', not 'minimise'"):
        Objective("ppl", "minimise")


@pytest.mark.parametrize(("name", "unit"), [("a\x1b[31m", ""), ("ppl", "\u202e"), ("", "")])
def test_names_and_units_that_cannot_be_shown(name, unit):
    with pytest.raises(InputError, match="metric"):
        Metric(name, "min", unit)
