"""A problem's candidates by row and by configuration."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.space import Hyperparameter, Space
from hpobench_nmt.core.system.errors import InputError

FEATURES = np.array([[0.5, 0.0], [0.0, 1.0], [1.0, 1.0]])


def test_features_describe_themselves_where_no_space_is_given():
    problem = Problem(FEATURES, 2, 3, 1)
    assert problem.space == Space(
        (
            Hyperparameter("x1", (0.0, 0.5, 1.0), integer=False),
            Hyperparameter("x2", (0.0, 1.0), integer=False),
        )
    )
    assert problem.configs is problem.features
    config = problem.config(1)
    assert config == {"x1": 0.0, "x2": 1.0} and all(type(value) is float for value in config.values())
    assert [problem.row(problem.config(row)) for row in range(3)] == [0, 1, 2]
    with pytest.raises(InputError) as error:
        problem.row({"x1": 0.5, "x2": 1.0})
    assert str(error.value) == "none of the 3 candidates has x1=0.5, x2=1.0."
    with pytest.raises(InputError, match=r"x1 is 0\.25, which is not one of"):
        problem.row({"x1": 0.25, "x2": 1.0})


def test_a_space_needs_its_configurations_and_they_a_space():
    space = Space((Hyperparameter("a", (1, 2)),))
    for only in ({"space": space}, {"configs": np.ones((3, 1))}):
        with pytest.raises(InputError, match="a problem needs both space and configs, or neither"):
            Problem(FEATURES, 1, 3, 1, **only)
    both = Problem(FEATURES[:2], 1, 2, 1, space, np.array([[2.0], [1.0]]))
    assert both.config(0) == {"a": 2} and both.row({"a": 1}) == 1


def test_what_holds_where_nothing_is_said():
    problem = Problem(FEATURES, 1, 3, 2)
    assert problem.resources.tolist() == [1.0] and not problem.resources.flags.writeable
    assert (problem.workers, problem.resume, problem.clock, problem.time) == (1, True, "lookups", math.inf)
    assert (problem.lookups, problem.constraints, problem.sources) == (3, (), ())
    assert problem != Problem(FEATURES, 1, 3, 2) and len({problem, problem}) == 1  # by identity


def test_a_default_stands_for_a_configuration_that_is_no_candidate():
    problem = Problem(FEATURES, 1, 3, 1)
    assert problem.row({"x1": 0.0, "x2": 1.0}, None) == 1
    assert problem.row({"x1": 0.5, "x2": 1.0}, default=None) is None
    assert problem.row({"x1": 0.25, "x2": 1.0}, default=-1) == -1
    with pytest.raises(InputError, match="unknown hyperparameter 'x3'"):
        problem.row({"x1": 0.5, "x3": 1.0}, default=None)


def test_neighbours_are_one_step_away_in_one_hyperparameter():
    space = Space(
        (
            Hyperparameter("layers", (1, 2, 4, 8)),
            Hyperparameter("rule", ("sgd", "adam", "rms"), kind="categorical"),
            Hyperparameter("decay", (0.5, 0.9), active_if=(("rule", ("adam",)),)),
        )
    )
    configs = [(layers, rule, None) for layers in (1, 2, 4, 8) for rule in ("sgd", "rms")]
    configs += [(layers, "adam", decay) for layers in (1, 2, 4, 8) for decay in (0.5, 0.9)]
    configs.remove((4, "sgd", None))  # an incomplete grid: from 2 layers the next step up is 8
    named = [{k: v for k, v in zip(space.names, config, strict=True) if v is not None} for config in configs]
    codes = space.encode_all(named)
    problem = Problem(space.features(codes), 1, len(codes), 3, space, codes)

    def around(*config):
        found = problem.neighbours(configs.index(config))
        assert found.tolist() == sorted(found)
        return {configs[row] for row in found}

    assert around(2, "sgd", None) == {
        (1, "sgd", None), (8, "sgd", None), (2, "rms", None), (2, "adam", 0.5), (2, "adam", 0.9),
    }  # fmt: skip
    assert around(8, "adam", 0.5) == {
        (4, "adam", 0.5), (8, "adam", 0.9), (8, "sgd", None), (8, "rms", None),
    }  # fmt: skip
    assert all(
        row in problem.neighbours(other) for row in range(len(codes)) for other in problem.neighbours(row)
    )
