"""Our methods on live functions: ask and tell, several pending, and spaces of every kind."""

import json
import math

import numpy as np
import pytest

import hpobench_nmt as hb
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.seeds import generator
from hpobench_nmt.core.space import Hyperparameter, Space
from hpobench_nmt.core.system.errors import InputError, RunError
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.exports.optimizer import Optimizer
from hpobench_nmt.methods.random_search import RandomSearch

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
    with pytest.raises(InputError, match="all 48 candidates are pending or evaluated"):
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


class Mute:
    """It has what parallel methods need, but cannot be told of a loss."""

    def __init__(self, problem, rng):
        pass

    def suggest(self, running):
        return None

    def observe(self, progress):
        raise NotImplementedError


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
        (
            lambda o: Optimizer(SPACE, "ASHA"),
            "method ASHA stops trainings early, but evaluations of a function",
        ),
        (lambda o: Optimizer(SPACE, "BO_M", objectives=11), "method BO_M is for 2 to 10 objectives, not 11"),
        (
            lambda o: Optimizer(SPACE, candidates=0),
            "candidates must be a whole number from 1 to 100,000, not 0",
        ),
        (lambda o: Optimizer(SPACE, constraints={"size<=1"}), "constraints must be a list, not {'size<=1'}"),
        (lambda o: Optimizer({"x": "abc"}), "hyperparameter 'x' must be a list of values"),
        (lambda o: Optimizer({"x": ("a", "b")}), r"'x' must be a list of values, .*, not \('a', 'b'\)"),
        (lambda o: o.tell(o.ask(), "1.0"), "1 loss expected, as a number, not '1.0'"),
        (lambda o: o.tell(o.ask(), ["1.0"]), r"1 loss expected, as a number, not \['1.0'\]"),
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
        (lambda o: Optimizer(SPACE, Mute), "method Mute has no tell, but evaluations of a function"),
    ],
)
def test_what_is_wrong_is_told(call, message):
    with pytest.raises(InputError, match=message):
        call(Optimizer(SPACE))


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
    two.tell(two.ask(), (10**400, 2))
    two.tell(two.ask(), [None, -(10**400)])
    np.testing.assert_array_equal([v for _, v in two.told[1:]], [[math.nan, 2.0], [math.nan, math.nan]])
    with pytest.raises(InputError, match="2 losses expected, as numbers"):
        two.tell(two.ask(), [10**400, "much"])


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
    with pytest.raises(InputError, match="is not a method of this package"):
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
        ({"method": "os:system"}, "the method 'os:system' is not a method of this package. If you trust it"),
        ({"method": "nowhere/x.py:A\x1b"}, r"the method 'nowhere/x.py:A.x1b' is not"),
        ({"events": [{"config": {"layers": 3}}]}, "state.json"),
        ({"events": good["events"] * 2}, "is pending twice|are known already"),
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
        Optimizer(SPACE, RandomSearch).save(path)


def test_what_was_asked_is_kept_as_it_was(tmp_path):
    optimizer = Optimizer(SPACE)
    first = dict(config := optimizer.ask())
    config.clear()
    optimizer.save(tmp_path / "state.json")
    assert Optimizer.load(tmp_path / "state.json").pending == optimizer.pending == [first]


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


def test_a_batch_of_more_than_are_left_asks_for_none(tmp_path):
    optimizer = Optimizer({"x": [1, 2, 3, 4, 5]}, "RS")
    with pytest.raises(InputError, match=r"ask\(8\): 5 of 5 candidates are left"):
        optimizer.ask(8)
    assert optimizer.pending == [] and len(optimizer.ask(5)) == 5
    with pytest.raises(InputError, match="all 5 candidates are pending or evaluated"):
        optimizer.ask(2)


def test_a_batch_in_which_the_method_fails_leaves_nothing_pending():
    class Twice:
        def __init__(self, problem, rng):
            pass

        def ask(self):
            return 3

        def tell(self, index, losses):
            pass

    optimizer = Optimizer({"x": [1, 2, 3, 4, 5]}, Twice, n_initial=0)
    with pytest.raises(RunError):
        optimizer.ask(4)
    assert optimizer.pending == []


def test_a_file_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot be written: "):
        Optimizer({"x": [1, 2]}, "RS").save(tmp_path / "file" / "state.json")
