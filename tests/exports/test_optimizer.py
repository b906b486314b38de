"""Our methods on live functions: ask and tell, minimize, several pending, and going on from a file."""

import json
import math
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import hpobench_nmt as hb
from hpobench_nmt.core.errors import InputError, RunError
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.seeds import generator
from hpobench_nmt.core.space import Hyperparameter, Space
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.exports.optimizer import Optimizer

SPACE = {"layers": [1, 2, 4, 8], "rule": ["sgd", "adam", "rms"], "rate": [0.1, 0.2, 0.4, 0.8]}


def loss(config):
    return abs(config["layers"] - 4) + {"sgd": 2.0, "adam": 0.0, "rms": 1.0}[config["rule"]] + config["rate"]


@pytest.mark.parametrize("method", ["RS", "BO_EI_M", "BO_EI_M_std", "GB_EI_M", "GB_EIF_M"])
def test_it_asks_for_what_the_benchmarks_loop_looks_up(method):
    optimizer = Optimizer(SPACE, method, seed=3)
    configs = []
    for _ in range(30):
        configs.append(optimizer.ask())
        optimizer.tell(configs[-1], loss(configs[-1]))
    space = Space.of(SPACE)
    codes = np.array([space.encode(c) for c in (optimizer._live.problem.config(r) for r in range(48))])
    problem = Problem(space.features(codes), 1, 48, 3, space, codes)
    rng = generator(3, "method", "optimizer", method)
    initial = generator(3, "initial", "optimizer").choice(48, size=3, replace=False)
    losses = np.array([[loss(problem.config(row))] for row in range(48)])
    factory = optimizer._method.load()
    rows = run_trial(problem, Trainings.whole(losses), factory, rng, initial.tolist()).rows[:30]
    assert configs == [problem.config(row) for row in rows]


def test_every_candidate_is_asked_for_once_and_then_no_more():
    optimizer = Optimizer(SPACE, "BO_EI_M_std")
    seen = [optimizer.ask() for _ in range(48)]  # all pending at once
    assert len({tuple(c.items()) for c in seen}) == 48 == optimizer.n_candidates
    with pytest.raises(InputError, match="all 48 candidates have been asked for or told"):
        optimizer.ask()


@pytest.mark.parametrize("method", ["RS", "BO_EI_M_std", "GB_EI_M", "GB_EIF_M"])
def test_pending_configurations_are_not_asked_for_again_and_results_may_come_in_any_order(method):
    optimizer = Optimizer(SPACE, method, seed=1)
    rng = np.random.default_rng(0)
    told = []
    while len(told) < 40:
        while len(optimizer.pending) < 4 and len(told) + len(optimizer.pending) < 48:
            asked = optimizer.ask()
            assert asked not in told
        config = optimizer.pending[rng.integers(len(optimizer.pending))]
        optimizer.tell(config, loss(config))
        told.append(config)
    assert len({tuple(c.items()) for c in told}) == 40


def test_several_pending_ones_do_not_crowd_together():
    optimizer = Optimizer({"x": [float(i) for i in range(101)]}, "BO_EI_M_std", seed=0)
    for x in (0.0, 30.0, 60.0, 100.0):
        optimizer.tell({"x": x}, (x - 42) ** 2)
    batch = [optimizer.ask()["x"] for _ in range(6)][3:]  # after the initial design
    assert len(set(batch)) == 3


def test_what_is_told_need_not_have_been_asked_for():
    optimizer = Optimizer(SPACE, "BO_EI_M_std")
    config = {"rule": "adam", "rate": 0.1, "layers": 4}
    optimizer.tell(config, 0.0)
    assert optimizer.told[0][0] == config
    assert all(optimizer.ask() != config for _ in range(47))
    assert repr(optimizer) == "Optimizer(BO_EI_M_std, 1 told, 47 pending)"


def test_results_of_an_earlier_search_are_told_at_any_point_of_the_space(tmp_path):
    space = {"lr": (1e-5, 1e-1, "log"), "dropout": (0.0, 0.5), "rule": ["a", "b"]}
    value = lambda c: abs(math.log10(c["lr"]) + 3) + c["dropout"] + (c["rule"] == "a")  # noqa: E731
    earlier = [
        {"lr": lr, "dropout": d, "rule": r} for lr in (3e-4, 1.23456789e-3) for d in (0.1, 0.25) for r in "ab"
    ]
    optimizer = Optimizer(space, seed=1, n_initial=0, candidates=200)
    first = optimizer.ask()
    for config in earlier:
        optimizer.tell(config, value(config))
    assert optimizer.n_candidates == 208 and [c for c, _ in optimizer.told] == earlier
    assert optimizer.pending == [first]
    with pytest.raises(InputError, match="are known already"):
        optimizer.tell(earlier[0], 1.0)
    optimizer.save(tmp_path / "state.json")
    again = Optimizer.load(tmp_path / "state.json")
    asked = optimizer.ask()
    assert again.pending == [first] and again.ask() == asked
    assert asked["rule"] == "b" and asked["dropout"] < 0.25  # it has learnt from them
    for _ in range(5):
        assert asked not in earlier and asked != first
        optimizer.tell(asked, value(asked))
        asked = optimizer.ask()
    with pytest.raises(InputError, match=r"lr is 0\.5, which is not between"):
        optimizer.tell({"lr": 0.5, "dropout": 0.1, "rule": "a"}, 1.0)


@pytest.mark.parametrize("rounded", [np.float32, lambda x: float(np.float32(x))])
def test_a_number_that_float32_has_rounded_is_the_candidate_that_it_was_made_of(rounded):
    grid = Optimizer({"lr": [0.001, 0.01, 0.1]})
    grid.tell({"lr": rounded(0.1)}, 1.0)
    assert grid.told[0][0] == {"lr": 0.1} and grid.n_candidates == 3
    ranges = Optimizer({"lr": (1e-5, 1e-1, "log"), "n": (1, 10**8)})
    asked = ranges.ask()
    ranges.tell({**asked, "lr": rounded(asked["lr"])}, 1.0)
    assert ranges.pending == [] and ranges.told[0][0] == asked and ranges.n_candidates == 1000
    asked = ranges.ask()
    ranges.tell({**asked, "n": asked["n"] + 1}, 1.0)  # another whole number, however near
    assert ranges.pending == [asked] and ranges.n_candidates == 1001


def test_none_and_tuples_are_labels(tmp_path):
    space = {"depth": [None, 3, 5], "sizes": [(64,), (64, 64), (None, True)]}
    found = hb.minimize(
        lambda c: (c["depth"] is None) + len(c["sizes"]), space, budget=9, state=tmp_path / "state.json"
    )
    assert found.loss == 1 and found.best["sizes"] == (64,) and len(found.configs) == 9
    again = Optimizer.load(tmp_path / "state.json")
    assert tuple(c for c, _ in again.told) == found.configs
    assert {(c["depth"], c["sizes"]) for c in found.configs} == {
        (d, s) for d in space["depth"] for s in space["sizes"]
    }


def test_failures_two_losses_and_conditions():
    space = Space.of({**SPACE, "decay": Hyperparameter("decay", (0.5, 0.9), active_if=(("rule", ("rms",)),))})
    optimizer = Optimizer(space, objectives=2)
    assert optimizer.n_candidates == 4 * 4 * (2 + 2)
    for step in range(20):
        config = optimizer.ask()
        assert ("decay" in config) == (config["rule"] == "rms")
        optimizer.tell(config, None if step % 5 == 0 else [loss(config), -config["layers"]])
    assert sum(np.isnan(losses).all() for _, losses in optimizer.told) == 4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda o: o.tell({**o.ask(), "rule": "add"}, 1.0), "unknown value of rule 'add'"),
        (
            lambda o: o.tell(o.ask(), [1.0, 2.0]),
            r"1 loss expected, not \[1.0, 2.0\]. For 2 losses, pass objectives=2",
        ),
        (lambda o: o.tell(o.ask(), [[1.0]]), r"1 loss expected, not \[\[1.0\]\]\.$"),
        (lambda o: hb.minimize(lambda config: (1, 2), SPACE), r"For 2 losses, pass objectives=2\.$"),
        (
            lambda o: Optimizer(SPACE, objectives=2).tell(o.ask(), 1),
            r"2 losses expected, not \[1.0\]. For 1 loss,",
        ),
        (
            lambda o: o.tell(None, 1),
            "a configuration must be values by name, such as {'layers': …}, not None",
        ),
        (lambda o: o.tell("layers", 1), "a configuration must be values by name, .* not 'layers'"),
        (lambda o: hb.minimize(5, SPACE), "minimize needs a function of a configuration, not 5"),
        (lambda o: hb.minimize(loss, ["x"]), r"a search space must be .* not \['x'\]"),
        (lambda o: hb.minimize(loss, SPACE, seed="1"), "seed must be a whole number of 0 or more, not '1'"),
        (lambda o: o.tell(o.ask(), {"loss": 1.0}), r"1 loss expected, as a number, not \{'loss': 1.0\}"),
        (lambda o: [o.tell(c, 1.0) for c in [o.ask()] * 2], "are known already"),
        (lambda o: Optimizer(SPACE, "BO_EI_Mstd"), "unknown method 'BO_EI_Mstd'. Did you mean 'BO_EI_M_std'"),
        (lambda o: Optimizer(SPACE, "BO_EI_M", objectives=2), "BO_EI_M is for 1 objective, not 2"),
        (lambda o: Optimizer(SPACE, "ASHA"), "method ASHA trains part of the way"),
        (lambda o: Optimizer(SPACE, "BO_M", objectives=11), "method BO_M is for 2 to 10 objectives, not 11"),
        (
            lambda o: Optimizer(SPACE, candidates=0),
            "candidates must be a whole number from 1 to 100,000, not 0",
        ),
        (lambda o: Optimizer({"x": "abc"}), "hyperparameter 'x' must be a list of values"),
        (lambda o: hb.minimize(loss, SPACE, budget=0), "budget must be a whole number of 1 or more, not 0"),
        (lambda o: Optimizer(SPACE, budget=0), "budget must be a whole number of 1 or more, not 0"),
        (
            lambda o: hb.minimize(loss, SPACE, budget=2.5),
            "budget must be a whole number of 1 or more, not 2.5",
        ),
        (lambda o: Optimizer({1: [1, 2]}), "the name of a hyperparameter must be a text, not 1"),
        (lambda o: Optimizer(SPACE, seed=-1), "seed must be a whole number of 0 or more, not -1"),
        (lambda o: Optimizer(SPACE, seed=None), "seed must be a whole number of 0 or more, not None"),
        (lambda o: Optimizer(SPACE, n_initial=-1), "n_initial must be a whole number of 0 or more, not -1"),
        (lambda o: Optimizer(SPACE, Watching), "method Watching has no tell, and a function is evaluated"),
    ],
)
def test_what_is_wrong_is_told(call, message):
    with pytest.raises(InputError, match=message):
        call(Optimizer(SPACE))


class Watching:
    """Whole rows from the last one on, in pairs; it has only what parallel methods need."""

    def __init__(self, problem, rng):
        self.rows = list(range(len(problem.features)))

    def suggest(self, running):
        return None if len(running) == 2 else (self.rows[-1 - len(running)], math.inf)

    def observe(self, progress):
        raise NotImplementedError


class Telling(Watching):
    def tell(self, index, losses):
        self.rows.remove(index)


def test_a_method_that_suggests_may_wait_for_what_is_pending():
    optimizer = Optimizer({"x": [float(i) for i in range(9)]}, Telling, n_initial=0)
    assert [optimizer.ask()["x"] for _ in range(2)] == [8.0, 7.0]
    with pytest.raises(RunError, match=r"Telling waits for the losses of what is pending, 2 configuration"):
        optimizer.ask()
    optimizer.tell({"x": 8.0}, 1.0)
    optimizer.tell({"x": 7.0}, 1.0)
    assert optimizer.ask() == {"x": 6.0}


def test_a_method_that_only_asks_is_told_of_what_is_pending():
    """The mean of the losses that are known stands for those that are not; 0 where none is known."""
    lies = []

    class Asks:
        def __init__(self, problem, rng):
            self.told = {}

        def ask(self):
            return len(self.told)

        def tell(self, index, losses):
            self.told[index] = losses.tolist()
            lies.append((index, *losses.tolist()))

    optimizer = Optimizer({"x": [float(i) for i in range(9)]}, Asks, n_initial=0)
    first, second = optimizer.ask(), optimizer.ask()
    assert (first, second, lies) == ({"x": 0.0}, {"x": 1.0}, [(0, 0.0)])
    optimizer.tell(first, 3.0)
    optimizer.tell(second, 5.0)
    assert [optimizer.ask(), optimizer.ask()] == [{"x": 2.0}, {"x": 3.0}]
    assert lies[-1] == (2, 4.0)


class Stubborn:
    def __init__(self, problem, rng):
        self.row = 0

    def ask(self):
        return self.row

    def tell(self, index, losses):
        self.row = index


def test_a_method_that_answers_nonsense_is_named():
    optimizer = Optimizer(SPACE, Stubborn)
    for _ in range(3):
        optimizer.tell(optimizer.ask(), 1.0)
    with pytest.raises(RunError, match=r"method Stubborn failed: ask returned row \d+, which was"):
        optimizer.ask()


def test_ranges_are_sampled_and_large_grids_too():
    found = hb.minimize(
        lambda c: (math.log10(c["rate"]) + 2) ** 2 + (c["size"] - 40) ** 2 / 100 + (c["rule"] == "sgd"),
        {"rate": (1e-4, 1.0, "log"), "size": (16, 64), "rule": ["sgd", "adam"]},
        budget=40,
    )
    assert found.loss < 0.2 and found.best["rule"] == "adam" and len(found.configs) == 40
    assert all(isinstance(c["size"], int) and 16 <= c["size"] <= 64 for c in found.configs)
    large = Optimizer({f"x{j}": list(range(10)) for j in range(6)}, "RS", candidates=500)
    assert 490 <= large.n_candidates <= 500


@pytest.mark.parametrize(
    ("space", "size"),
    [
        ({f"f{i}": (0, 1) for i in range(8)}, 256),
        ({"a": (1, 10), "b": (1, 10), "c": (1, 10)}, 1000),
        ({"n": (1, 1024, "log")}, 1024),
    ],
)
def test_ranges_of_whole_numbers_are_covered(space, size):
    optimizer = Optimizer(space, "RS")
    assert optimizer.n_candidates == size
    assert len({tuple(optimizer.ask().values()) for _ in range(size)}) == size


def test_the_optimum_of_whole_numbers_and_labels_is_found_by_a_budget_that_covers_them():
    target = {"n": 23, "k": "a"}
    found = hb.minimize(lambda c: float(c != target), {"n": (1, 100), "k": ["a", "b"]}, "RS", budget=5000)
    assert found.best == target and found.loss == 0 and len(found.configs) == 200


def test_the_best_of_what_was_evaluated():
    found = hb.minimize(lambda c: None if c["rule"] == "sgd" else loss(c), SPACE, budget=48)
    assert found.best == {"layers": 4, "rule": "adam", "rate": 0.1} and found.loss == pytest.approx(0.1)
    assert np.isnan(found.losses).sum() == 16
    frame = found.to_frame()
    assert list(frame.columns) == ["layers", "rule", "rate", "loss_1"]
    np.testing.assert_array_equal(frame["loss_1"], found.losses[:, 0])
    assert frame["rule"].tolist() == [config["rule"] for config in found.configs]
    assert "after 48 evaluations" in repr(found)
    nothing = hb.minimize(lambda c: math.nan, SPACE, budget=4)
    assert nothing.best is None and math.isnan(nothing.loss) and len(nothing.front) == 0


BAD = (math.inf, -math.inf, math.nan, None, 1.1e150, -1.1e150)


def test_every_kind_of_failed_evaluation_is_one(tmp_path):
    optimizer = Optimizer(SPACE, "RS")
    for bad in BAD:
        optimizer.tell(optimizer.ask(), bad)
    optimizer.tell(optimizer.ask(), -1e150)
    assert np.isnan([losses for _, losses in optimizer.told]).ravel().tolist() == [True] * len(BAD) + [False]
    optimizer.save(tmp_path / "state.json")
    again = Optimizer.load(tmp_path / "state.json")
    np.testing.assert_equal(again.told, optimizer.told)
    two = Optimizer(SPACE, objectives=2)
    two.tell(two.ask(), [math.inf, 2.0])
    np.testing.assert_array_equal(two.told[0][1], [math.nan, 2.0])


def test_minimize_goes_on_after_evaluations_that_failed_and_does_not_ask_for_them_again(tmp_path):
    asked, answers = [], iter([*BAD, *map(float, range(6))])

    def diverges(config):
        asked.append(config["x"])
        return next(answers)

    options = {"space": {"x": (0.0, 1.0)}, "budget": 12, "state": tmp_path / "state.json"}
    found = hb.minimize(diverges, **options)
    assert len(set(asked)) == 12 and found.loss == 0.0 and np.isnan(found.losses[:6]).all()
    assert hb.minimize(diverges, **options).configs == found.configs and len(asked) == 12


def test_an_exception_is_a_failed_evaluation_where_the_caller_chose_so():
    def fails(config):
        if config["rule"] == "sgd":
            raise FloatingPointError("diverged")
        return loss(config)

    found = hb.minimize(fails, SPACE, budget=48, catch=ArithmeticError)
    assert np.isnan(found.losses).sum() == 16 and len(found.configs) == 48
    with pytest.raises(FloatingPointError):
        hb.minimize(fails, SPACE, budget=48)
    with pytest.raises(FloatingPointError):
        hb.minimize(fails, SPACE, budget=48, catch=(ValueError, KeyError))


def test_two_losses_have_a_front():
    found = hb.minimize(lambda c: (loss(c), c["layers"]), SPACE, budget=48, objectives=2)
    assert {(c["layers"], c["rule"]) for c in (found.configs[i] for i in found.front)} == {
        (1, "adam"), (2, "adam"), (4, "adam"),
    }  # fmt: skip


@pytest.mark.parametrize("method", ["RS", "BO_EI_M_std", "GB_EIF_M", "NSGA2", "pymoo.NSGA2"])
def test_a_file_goes_on_where_it_was(method, tmp_path):
    objectives = 2 if "NSGA2" in method else 1
    value = (lambda c: [loss(c), c["rate"]]) if objectives == 2 else loss

    def drive(optimizer, steps):
        asked = []
        for step in range(steps):
            asked.append(optimizer.ask())
            if step % 3 != 2:  # every third stays pending for a while
                optimizer.tell(asked[-1], value(asked[-1]))
            elif optimizer.pending:
                optimizer.tell(optimizer.pending[0], None)
        return asked

    whole = Optimizer(SPACE, method, objectives=objectives, seed=2)
    first = drive(whole, 12)
    whole.save(tmp_path / "state.json")
    again = Optimizer.load(tmp_path / "state.json")
    assert again.pending == whole.pending and [c for c, _ in again.told] == [c for c, _ in whole.told]
    assert drive(again, 12) == drive(whole, 12)
    assert json.loads((tmp_path / "state.json").read_text())["events"][0] == {"config": first[0]}


MINE = """
class Last:
    def __init__(self, problem, rng):
        self.left = list(range(len(problem.features)))

    def ask(self):
        return self.left[-1]

    def tell(self, row, losses):
        self.left.remove(row)
"""


def test_a_method_of_ones_own_is_named_again(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    spec = f"{tmp_path / 'mine.py'}:Last"
    optimizer = Optimizer(SPACE, spec)
    for _ in range(5):
        optimizer.tell(optimizer.ask(), 1.0)
    optimizer.save(tmp_path / "state.json")
    again = Optimizer.load(tmp_path / "state.json", spec)
    assert again.ask() == optimizer.ask()
    with pytest.raises(InputError, match="is not one of the package's"):
        Optimizer.load(tmp_path / "state.json")
    with pytest.raises(InputError, match=r"state\.json: is of the method '.*:Last'"):
        Optimizer.load(tmp_path / "state.json", "RS")


def test_a_file_from_elsewhere_is_checked(tmp_path):
    path = tmp_path / "state.json"
    optimizer = Optimizer(SPACE)
    optimizer.tell(optimizer.ask(), 1.0)
    optimizer.save(path)
    good = json.loads(path.read_text())
    for change, message in [
        ({"format": 9, "new": 1}, "format 9 is not supported"),
        ({"method": "os:system"}, "the method 'os:system' is not one of the package's. If you trust it"),
        ({"method": "nowhere/x.py:A\x1b"}, r"the method 'nowhere/x.py:A.x1b' is not"),
        ({"events": [{"config": {"layers": 3}}]}, "state.json"),
        ({"events": good["events"] * 2}, "asked for twice|are known already"),
        ({"space": []}, "at least one hyperparameter"),
        ({"space": [{"name": "x", "values": [2, 1]}]}, "ascending"),
        ({"seed": -1}, "seed must be a whole number of 0 or more"),
        ({"candidates": 10**9}, "candidates must be"),
        ({"sed": 1}, "unknown key 'sed'. Did you mean 'seed'"),
    ]:
        path.write_text(json.dumps({**good, **change}))
        with pytest.raises(InputError, match=message) as error:
            Optimizer.load(path)
        assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="was given as an object"):
        Optimizer(SPACE, Stubborn).save(path)


def test_what_was_asked_is_kept_as_it_was(tmp_path):
    optimizer = Optimizer(SPACE)
    first = dict(config := optimizer.ask())
    config.clear()
    optimizer.save(tmp_path / "state.json")
    assert Optimizer.load(tmp_path / "state.json").pending == optimizer.pending == [first]


KILLED = """
import sys, time
import hpobench_nmt as hb

def loss(config):
    with open("log", "a") as log:
        log.write(f"{sorted(config.items())}\\n")
    if len(open("log").readlines()) == int(sys.argv[1]):
        print("now", flush=True)
        time.sleep(60)
    return abs(config["x"] - 7.3)

found = hb.minimize(loss, {"x": [float(i) for i in range(40)]}, budget=12, state="state.json")
print(found.loss)
"""


def test_minimize_goes_on_after_a_kill(tmp_path):
    (tmp_path / "run.py").write_text(KILLED)
    run = lambda at: [sys.executable, str(tmp_path / "run.py"), str(at)]  # noqa: E731
    whole = tmp_path / "whole"
    whole.mkdir()
    subprocess.run(run(0), cwd=whole, check=True, capture_output=True)
    killed = tmp_path / "killed"
    killed.mkdir()
    process = subprocess.Popen(run(7), cwd=killed, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"now\n"
    time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    subprocess.run(run(0), cwd=killed, check=True, capture_output=True)
    log = (killed / "log").read_text().splitlines()
    assert log[6] == log[7]  # what was interrupted is evaluated again
    assert log[:7] + log[8:] == (whole / "log").read_text().splitlines()
    assert (killed / "state.json").read_bytes() == (whole / "state.json").read_bytes()
    with pytest.raises(InputError, match=r"the state of another call, with another seed"):
        hb.minimize(
            loss, {"x": [float(i) for i in range(40)]}, budget=12, seed=1, state=killed / "state.json"
        )


def test_minimize_goes_on_after_an_error_and_only_with_the_same_call(tmp_path):
    path, called = tmp_path / "state.json", []

    def value(config):
        # What is being evaluated is in the file before it is.
        assert json.loads(path.read_text())["events"][-1] == {"config": config}
        called.append(config)
        if len(called) == 7:
            raise OSError("no space left on device")
        return loss(config)

    with pytest.raises(OSError, match="no space left"):
        hb.minimize(value, SPACE, "RS", budget=12, state=str(path))
    found = hb.minimize(value, SPACE, "RS", budget=12, state=path)
    whole = hb.minimize(loss, SPACE, "RS", budget=12, state=tmp_path / "whole.json")
    assert called[6] == called[7] and tuple(called[:6] + called[7:]) == found.configs == whole.configs
    assert path.read_bytes() == (tmp_path / "whole.json").read_bytes()
    again = hb.minimize(value, SPACE, "RS", budget=12, state=path)  # all is there
    assert len(called) == 13 and again.losses.tolist() == whole.losses.tolist()
    longer = hb.minimize(value, SPACE, "RS", budget=15, state=path)
    assert longer.configs[:12] == whole.configs and len(longer.configs) == 15 and len(called) == 16
    assert longer.configs == hb.minimize(loss, SPACE, "RS", budget=15).configs
    assert hb.minimize(value, SPACE, "RS", budget=4, state=path).configs == longer.configs
    tried = tmp_path / "tried.json"
    hb.minimize(loss, SPACE, "RS", budget=1, state=tried)
    assert hb.minimize(loss, SPACE, "RS", budget=15, state=tried).configs == longer.configs
    for other in ({"seed": 1}, {"n_initial": 4}, {"candidates": 999}):
        (key,) = other
        with pytest.raises(
            InputError, match=rf"state\.json: the state of another call, with another {key}\."
        ):
            hb.minimize(value, SPACE, "RS", state=path, **({"budget": 12} | other))


def answering(*answers):
    """A method that has only `ask`, gives these answers, and notes what each one that is made is told."""

    class Answering:
        made = []  # noqa: RUF012

        def __init__(self, problem, rng):
            self.problem, self.told = problem, []
            self.made.append(self)

        def ask(self):
            return answers[min(len(self.told), len(answers)) - 1]

        def tell(self, index, losses):
            self.told.append((index, losses.tolist()))
            losses[:] = 99.0  # its own to change

    return Answering


def test_a_method_that_only_asks_is_told_that_what_is_pending_is_of_average_loss():
    method = answering(0, 1, 2, 3, 4, 5)
    optimizer = Optimizer({"x": [float(i) for i in range(9)]}, method, objectives=2, n_initial=0)
    for x, losses in ((8.0, [1.0, 5.0]), (7.0, None), (6.0, [3.0, 9.0])):
        optimizer.tell({"x": x}, losses)
    assert [optimizer.ask()["x"] for _ in range(3)] == [2.0, 3.0, 4.0]
    told = [repr(one.told) for one in method.made]
    seen = "(8, [1.0, 5.0]), (7, [nan, nan]), (6, [3.0, 9.0])"
    assert told == [f"[{seen}]", f"[{seen}, (2, [2.0, 7.0])]", f"[{seen}, (2, [2.0, 7.0]), (3, [2.0, 7.0])]"]
    optimizer.tell({"x": 3.0}, [0.0, 0.0])
    optimizer.tell({"x": 2.0}, [4.0, 4.0])
    assert optimizer.pending == [{"x": 4.0}]
    optimizer.tell({"x": 4.0}, None)
    assert optimizer.ask() == {"x": 5.0}  # nothing is pending: the first one is asked, and told all
    assert [row for row, _ in method.made[0].told] == [8, 7, 6, 3, 2, 4]
    nothing = Optimizer({"x": [0.0, 1.0, 2.0]}, answering(0, 1), objectives=1, n_initial=1)
    first = nothing.ask()["x"]
    assert nothing.tell({"x": first}, None) is None and nothing.ask()["x"] in {0.0, 1.0} - {first}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (9, "row 9, but rows go from 0 to 8"),
        (-1, "row -1, but rows go from 0 to 8"),
        ("x", "str 'x', not a row number"),
        (None, "NoneType None, not a row number"),
        (2.5, "float 2.5, not a row number"),
        (1, "row 1, which was asked for or told before"),
    ],
)
def test_an_answer_that_is_no_candidate_that_is_left(answer, reason):
    optimizer = Optimizer({"x": [float(i) for i in range(9)]}, answering(answer), n_initial=0)
    optimizer.tell({"x": 1.0}, 0.0)
    with pytest.raises(RunError, match=f"method Answering failed: ask returned {reason}"):
        optimizer.ask()


class Fresh:
    """It draws anew whenever it is asked, and fails once seven rows were told."""

    def __init__(self, problem, rng):
        self.rng, self.left = rng, set(range(len(problem.features)))

    def ask(self):
        return int(self.rng.choice(sorted(self.left)))

    def tell(self, index, losses):
        self.left.remove(index)
        if len(self.left) == 2:
            raise ValueError("enough")


def test_what_a_method_raises_is_its_failure_and_what_it_drew_is_kept_until_it_is_told(tmp_path):
    optimizer = Optimizer({"x": [float(i) for i in range(9)]}, Fresh, n_initial=2)
    for _ in range(6):
        asked = optimizer.ask()
        assert optimizer.pending == [asked]
        optimizer.tell(asked, asked["x"])
    optimizer.tell(optimizer.ask(), 1.0)
    with pytest.raises(RunError, match="method Fresh failed: tell raised ValueError: enough"):
        optimizer.ask()


def test_what_is_told_is_kept_as_it_was():
    optimizer = Optimizer(SPACE, objectives=2)
    config, losses = dict(optimizer.ask()), np.array([1.0, 2.0])
    optimizer.tell(config, losses)
    losses[:] = 9.0
    optimizer.told[0][1][:] = 9.0
    assert optimizer.told[0][1].tolist() == [1.0, 2.0] and optimizer.pending == []


def test_numbers_of_numpys_types_can_be_saved(tmp_path):
    names = ("seed", "budget", "objectives", "n_initial", "candidates")
    made = [
        Optimizer(SPACE, **dict(zip(names, kind((4, 9, 2, 3, 50)), strict=True))) for kind in (list, np.array)
    ]
    made[1].tell(made[1].ask(), np.array([1, 2]))
    made[1].save(tmp_path / "state.json")
    assert made[0].ask() == Optimizer.load(tmp_path / "state.json").told[0][0]


def test_budgets_initial_designs_and_usual_methods():
    class Seen(Stubborn):
        def __init__(self, problem, rng):
            super().__init__(problem, rng)
            Seen.rules = (problem.lookups, problem.n_initial, problem.n_objectives, len(problem.features))
            assert not (problem.features.flags.writeable or problem.configs.flags.writeable)

    for options, rules in (
        ({}, (48, 3, 1, 48)),
        ({"budget": 10}, (10, 3, 1, 48)),
        ({"budget": 2}, (2, 2, 1, 48)),
        ({"budget": 99, "n_initial": 60, "objectives": 3}, (48, 48, 3, 48)),
    ):
        Optimizer(SPACE, Seen, **options)
        assert Seen.rules == rules
    assert {repr(Optimizer(SPACE, objectives=m)).split(",")[0] for m in (1, 2, 3, 10)} == {
        "Optimizer(BO_auto"
    }
    with pytest.raises(InputError, match="candidates must be a whole number from 1 to 100,000, not 100001"):
        Optimizer(SPACE, candidates=100_001)


def test_minimize_is_a_loop_of_ask_and_tell_and_stops_when_all_is_evaluated():
    space = {"x": (0.0, 1.0), "rule": ["a", "b"]}

    def value(config):
        return (config.pop("x") - 0.3) ** 2 + (config.pop("rule") == "b")  # the function's own to change

    options = {"seed": 4, "n_initial": 5, "candidates": 50}
    found = hb.minimize(value, space, "RS", 12, **options)
    by_hand = Optimizer(space, "RS", budget=12, **options)
    for config in found.configs:
        assert by_hand.ask() == config
        by_hand.tell(config, value(dict(config)))
    assert [losses[0] for _, losses in by_hand.told] == found.losses[:, 0].tolist()
    others = [hb.minimize(value, space, "RS", 12, **(options | change)).configs for change in (
        {"seed": 5}, {"n_initial": 4}, {"candidates": 49},
    )]  # fmt: skip
    assert all(configs != found.configs for configs in others)
    assert len(hb.minimize(lambda c: c["x"], {"x": [1, 2, 3]}, budget=9).configs) == 3
