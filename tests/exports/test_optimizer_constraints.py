"""Optimizer and minimize under constraints."""

import json
import math

import numpy as np
import pytest

import hpobench_nmt as hb
from hpobench_nmt.core.constraints import Constraint
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.seeds import generator
from hpobench_nmt.core.space import Space
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.exports.optimizer import Optimizer

SPACE = {"layers": [1, 2, 4, 8], "rule": ["sgd", "adam", "rms"], "rate": [0.1, 0.2, 0.4, 0.8]}


def loss(config):  # the best has 8 layers, and the best that is fast enough 4
    return -config["layers"] - (config["rule"] == "adam") + config["rate"]


def seconds(config):
    return 10.0 * config["layers"] + (config["rule"] == "rms")


@pytest.mark.parametrize("method", ["RS", "BO_EI_M_std", "GB_EI_M"])
def test_it_asks_for_what_the_benchmarks_loop_looks_up(method):
    optimizer = Optimizer(SPACE, method, seed=3, constraints=["seconds<=45"])
    configs = []
    for _ in range(25):
        configs.append(optimizer.ask())
        optimizer.tell(configs[-1], loss(configs[-1]), {"seconds": seconds(configs[-1])})
    problem = optimizer._live.problem
    every = [problem.config(row) for row in range(48)]
    rule = Constraint.parse("seconds<=45")
    violations = np.array([[rule.missed_by({"seconds": seconds(config)})] for config in every])
    same = Problem(problem.features, 1, 48, 3, problem.space, problem.configs, constraints=("seconds<=45",))
    rng = generator(3, "method", "optimizer", method)
    initial = generator(3, "initial", "optimizer").choice(48, size=3, replace=False)
    trainings = Trainings.whole(np.array([[loss(config)] for config in every]))
    found = run_trial(
        same, trainings, optimizer._method.load(), rng, initial.tolist(), violations=violations.__getitem__
    )
    assert configs == [problem.config(row) for row in found.rows[:25]]


def test_only_what_keeps_the_constraints_is_a_solution(tmp_path):
    asked = []

    def measure(config):
        asked.append(config)
        if config["rule"] == "sgd":
            return None  # it failed
        if config["rate"] == 0.8:
            return loss(config), {"seconds": math.nan if config["layers"] > 1 else None}
        return loss(config), {"seconds": seconds(config), "other": 1.0}

    options = {"budget": 48, "constraints": ["seconds<=45"], "state": tmp_path / "state.json"}
    found = hb.minimize(measure, SPACE, **options)
    assert found.best == {"layers": 4, "rule": "adam", "rate": 0.1} and found.loss == pytest.approx(-4.9)
    assert [found.configs[i] for i in found.front] == [found.best]
    rule = [c["rule"] != "sgd" and c["rate"] < 0.8 and c["layers"] < 8 for c in found.configs]
    assert found.feasible.tolist() == rule == found.to_frame()["feasible"].tolist()
    again = hb.minimize(measure, SPACE, **options)
    np.testing.assert_array_equal(again.violations, found.violations)
    assert len(asked) == 48 and json.loads((tmp_path / "state.json").read_text())["format"] == 3
    with pytest.raises(InputError, match="the state of another call, with another constraints"):
        hb.minimize(measure, SPACE, **options | {"constraints": ["seconds<=46"]})
    free = hb.minimize(loss, SPACE, budget=48)
    assert free.feasible.all() and free.best["layers"] == 8 and "feasible" not in free.to_frame()


def test_a_search_under_constraints_resumes_as_if_it_had_not_stopped(tmp_path):
    def drive(optimizer, steps):
        asked = []
        for step in range(steps):
            asked.append(optimizer.ask())
            if step % 3:  # every third stays pending
                config = optimizer.pending[0]
                optimizer.tell(config, loss(config), {"seconds": seconds(config)})
        return asked

    for method in ("BO_EI_M_std", "GB_EIF_M"):
        whole = Optimizer(SPACE, method, constraints=["seconds<=45", "seconds>=15"])
        drive(whole, 12)
        whole.save(tmp_path / "state.json")
        again = Optimizer.load(tmp_path / "state.json")
        np.testing.assert_array_equal(again.violations, whole.violations)
        assert again.violations.shape == (8, 2) and drive(again, 9) == drive(whole, 9)


class Knowing:
    """It has `ask` alone, and notes what it is told of constraints."""

    told = []  # noqa: RUF012

    def __init__(self, problem, rng):
        self.constraints, self.left = problem.constraints, set(range(len(problem.features)))
        Knowing.told.clear()

    def ask(self):
        return min(self.left)

    def tell(self, index, losses):
        raise AssertionError("there are constraints")

    def tell_constrained(self, index, losses, violations):
        assert self.constraints == ("seconds<=45", "bleu>=20")
        self.left.remove(index)
        Knowing.told.append((losses.tolist(), violations.tolist()))


def test_a_method_that_knows_constraints_is_told_by_how_much_they_are_missed():
    optimizer = Optimizer(SPACE, Knowing, n_initial=0, constraints=["seconds<=45", "bleu>=20"])
    optimizer.tell(optimizer.ask(), 1.0, {"seconds": 50, "bleu": 25.0})
    optimizer.tell(optimizer.ask(), None)
    optimizer.ask()
    optimizer.ask()  # one is pending, told as of average loss and at the bounds
    expected = [([1.0], [5.0, -5.0]), ([math.nan], [math.nan, math.nan]), ([1.0], [0.0, 0.0])]
    np.testing.assert_equal(Knowing.told, expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda o: o.tell(o.ask(), 1.0),
            "seconds<=45 needs the metric 'seconds'; given: none",
        ),
        (lambda o: o.tell(o.ask(), 1.0, {"second": 3}), "needs the metric 'seconds'; given: second"),
        (lambda o: o.tell(o.ask(), 1.0, {"seconds": "3"}), "metrics must be numbers, not {'seconds': '3'}"),
        (lambda o: Optimizer(SPACE, constraints=["seconds<45"]), "write METRIC<=NUMBER"),
        (lambda o: Optimizer(SPACE, constraints=["s<=4_5"]), "write METRIC<=NUMBER"),
        (lambda o: Optimizer(SPACE, constraints=["s<=4", "s<=5"]), "two bounds of one kind"),
        (
            lambda o: hb.minimize(loss, SPACE, constraints=["seconds<=45"]),
            r"under constraints the function returns \(loss, ",
        ),
    ],
)
def test_what_is_wrong_is_told(call, message):
    with pytest.raises(InputError, match=message):
        call(Optimizer(SPACE, constraints=["seconds<=45"]))


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ({"seconds": [1.0, 2.0]}, r"metrics must be numbers, not \{'seconds': \[1.0, 2.0\]\}"),
        ({"seconds": np.ones((2, 1))}, "metrics must be numbers, not"),
        ({"seconds": {}}, "metrics must be numbers, not"),
        (5.0, r"metrics must be numbers by name, such as \{'seconds': 12.5\}, not 5.0"),
        (["seconds"], r"metrics must be numbers by name, such as .*, not \['seconds'\]"),
        ([], "metrics must be numbers by name"),
    ],
)
def test_metrics_that_are_not_numbers_change_nothing(metrics, message, tmp_path):
    optimizer = Optimizer(SPACE, constraints=["seconds<=45"])
    config = optimizer.ask()
    with pytest.raises(InputError, match=message):
        optimizer.tell(config, 0.5, metrics)
    assert optimizer.told == [] and optimizer.pending == [config]
    optimizer.save(tmp_path / "state.json")
    optimizer.tell(config, 0.5, {"seconds": 40})
    assert Optimizer.load(tmp_path / "state.json").pending == [config]


@pytest.mark.parametrize(
    ("given", "missed"),
    [
        (np.array([50.0]), 5.0),
        (np.array(50), 5.0),
        (np.float32(50), 5.0),
        pytest.param(10**400, math.nan, id="huge"),  # beyond 1e150, as any other such value
        (-math.inf, math.nan),
        (None, math.nan),
    ],
)
def test_metrics_may_be_numbers_of_any_type(given, missed, tmp_path):
    optimizer = Optimizer(SPACE, constraints=["seconds<=45"])
    optimizer.tell(optimizer.ask(), 0.5, {"seconds": given, "other": "not used"})
    np.testing.assert_array_equal(optimizer.violations, [[missed]])
    optimizer.save(tmp_path / "state.json")
    np.testing.assert_array_equal(Optimizer.load(tmp_path / "state.json").violations, [[missed]])


def test_a_state_whose_violations_are_not_of_its_constraints_is_refused(tmp_path):
    path = tmp_path / "state.json"
    optimizer = Optimizer(Space.of(SPACE), constraints=["seconds<=45"])
    optimizer.tell(optimizer.ask(), 1.0, {"seconds": 3})
    optimizer.save(path)
    content = json.loads(path.read_text())
    content["constraints"] = []
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match="has 1 violations of 0 constraints"):
        Optimizer.load(path)
    content.pop("constraints")
    del content["events"][1]["violations"]
    path.write_text(json.dumps(content | {"format": 1}))  # as 1.0 wrote it
    assert len(Optimizer.load(path).told) == 1
