"""Priors in `Optimizer` and `minimize`."""

import json
import math
import warnings

import numpy as np
import pytest

import hpobench_nmt as hb
from hpobench_nmt.core.system.errors import InputError

SPACE = {"x": (0.0, 1.0), "kind": ["a", "b"]}


def loss(config):
    return (config["x"] - 0.3) ** 2 + (config["kind"] == "b")


def test_a_prior_guides_the_first_rows_and_is_saved(tmp_path):
    def begun(prior):
        optimizer = hb.Optimizer(SPACE, "piBO_M_std", n_initial=0, prior=prior)
        for _ in range(4):
            config = optimizer.ask()
            optimizer.tell(config, loss(config))
        return optimizer

    guided = begun({"x": 0.9})
    assert guided.told[0][0]["x"] > 0.5
    assert [c for c, _ in guided.told] != [c for c, _ in begun(None).told]
    guided.save(tmp_path / "state.json")
    again = hb.Optimizer.load(tmp_path / "state.json")
    assert again.state.prior == {"x": 0.9}
    assert again.ask() == guided.ask()


def test_minimize_with_a_prior_resumes_with_the_same_one_alone(tmp_path):
    state = tmp_path / "state.json"
    found = hb.minimize(loss, SPACE, "piBO_M_std", budget=5, prior={"x": 0.25}, state=state)
    assert len(found.configs) == 5
    with pytest.raises(InputError, match="the state of another call, with another prior"):
        hb.minimize(loss, SPACE, "piBO_M_std", budget=6, state=state)
    with pytest.raises(InputError, match="unknown hyperparameter 'y'"):
        hb.minimize(loss, SPACE, "piBO_M_std", prior={"y": 1})
    with pytest.raises(InputError, match="the space: prior: "):
        hb.minimize(loss, SPACE, "piBO_M_std", prior={"kind": "c"})


def test_a_pair_of_numbers_is_a_prior_that_a_file_keeps(tmp_path):
    space = {"lr": (1e-6, 1.0, "log"), "beta1": (0.0, 0.999), "x": (0.0, 1.0)}
    optimizer = hb.Optimizer(space, "BO_known", prior={"lr": [1e-5, 1e-4]})
    assert repr(optimizer) == "Optimizer(BO_known, 0 told, 0 pending; expects beta1 around 0.9)"
    for _ in range(4):
        config = optimizer.ask()
        optimizer.tell(config, config["x"])
    optimizer.save(tmp_path / "state.json")
    again = hb.Optimizer.load(tmp_path / "state.json")
    assert again.state.prior == optimizer.state.prior == {"lr": (1e-5, 1e-4)}
    config = again.ask()
    assert config == optimizer.ask() and 1e-6 < config["lr"] < 1e-3
    with pytest.raises(InputError, match=r"lr = .* must be two numbers, the smaller one first"):
        hb.Optimizer(space, "BO_known", prior={"lr": (1e-4, 1e-5)})


def test_what_ignores_a_prior_says_so():
    with pytest.warns(UserWarning, match=r"BO_auto ignores the prior; BO_known and piBO_M_std use it\."):
        hb.Optimizer(SPACE, prior={"x": 0.25})
    with warnings.catch_warnings(action="error"):
        hb.Optimizer(SPACE, "BO_known", prior={"x": 0.25})
        hb.Optimizer(SPACE)


AXES = {"x": (0.0, 1.0), "n": [1, 2, 4], "shape": [(1, 2), (3,)], "kind": ["a", "b"]}


def test_a_prior_in_numpys_types_or_with_lists_is_the_same_prior(tmp_path):
    plain = {"x": 0.25, "n": 2, "shape": (3,), "kind": "b"}
    given = {"x": np.float64(0.25), "n": np.int64(2), "shape": [3], "kind": np.str_("b")}
    call = {"function": lambda config: config["x"], "space": AXES, "method": "piBO_M_std", "candidates": 50}
    state = tmp_path / "state.json"
    first = hb.minimize(**call, budget=4, prior=given, state=state)
    assert json.loads(state.read_text())["prior"] == plain | {"shape": [3]}
    for again in (given, plain):
        assert hb.minimize(**call, budget=4, prior=again, state=state).configs == first.configs
    assert hb.Optimizer(AXES, "piBO_M_std", prior=given).state.prior == plain
    between = hb.Optimizer(AXES, "piBO_M_std", prior={"n": np.float32(2.5)})  # it need not be on the grid
    assert between.state.prior == {"n": 2.5} and type(between.state.prior["n"]) is float


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ("x", r"prior must be values by name, such as \{'x': …\}, not 'x'\."),
        ([0.1], r"prior must be values by name, .* not \[0\.1\]"),
        (0.1, "prior must be values by name, .* not 0.1"),
        (0, "prior must be values by name, .* not 0"),
        ({5: 0.1}, "unknown hyperparameter '5'"),
        ({"x": "much"}, "the space: prior: x is 'much', which is not between 0 and 1"),
        ({"x": math.nan}, "the space: prior: hyperparameter 'x' is always active: give it a value"),
        ({"n": math.inf}, "the space: prior: n = inf is not possible on the linear scale"),
        ({"x": 10**400}, "the space: prior: x = inf is not possible on the linear scale"),
    ],
)
def test_a_wrong_prior_is_told(prior, message):
    with pytest.raises(InputError, match=message):
        hb.Optimizer(AXES, "piBO_M_std", prior=prior)
