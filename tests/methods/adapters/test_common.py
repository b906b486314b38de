from __future__ import annotations

import logging
import warnings

import numpy as np
import pytest

import hpobench_nmt.methods.adapters.common as common
from hpobench_nmt import methods
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.space import Hyperparameter, Space
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.lookup.descriptors import Descriptors
from hpobench_nmt.lookup.table import Table
from hpobench_nmt.methods.adapters.common import Adapter, has_failed, penalised, ranges
from hpobench_nmt.testing import CONFORMANCE_CHECKS

SPACE = Space(
    (
        Hyperparameter("rate", (0.001, 0.01, 0.1, 1.0), "log"),
        Hyperparameter("model", ("a", "b"), kind="categorical"),
        Hyperparameter("depth", (2, 4, 8), active_if=(("model", ("b",)),)),
    )
)
CONFIGS = [
    {"rate": 0.001, "model": "a"},
    {"rate": 0.1, "model": "a"},
    {"rate": 1.0, "model": "a"},
    {"rate": 0.001, "model": "b", "depth": 2},
    {"rate": 1.0, "model": "b", "depth": 8},
]


def problem(lookups=5):
    codes = SPACE.encode_all(CONFIGS)
    return Problem(SPACE.features(codes), 1, lookups, 1, SPACE, codes)


class Says(Adapter):
    """Proposes what it is told to."""

    answers = ()

    def start(self):
        self.learnt = []
        self.waiting = list(self.answers)

    def propose(self):
        return self.waiting.pop(0)

    def learn(self, row, losses):
        self.learnt.append((row, self.asked))


def saying(*answers):
    return type("Says", (Says,), {"answers": answers})(problem(), np.random.default_rng(0))


@pytest.mark.parametrize(
    ("proposed", "row"),
    [
        ({"rate": 0.1, "model": "a"}, 1),
        ({"rate": 0.05, "model": "a"}, 1),
        ({"rate": 0.011, "model": "a"}, 1),  # nearer on the log scale, and of equal kind
        ({"rate": 0.9, "model": "a", "depth": 8}, 2),  # what is inactive does not count
        ({"rate": 50.0, "model": "b", "depth": 9.7}, 4),
        ({"rate": 0.0011, "model": "b", "depth": 7}, 3),
        ({"rate": 1e-9, "model": "b", "depth": 1}, 3),
        (3, 3),
        (np.int64(4), 4),
        (SPACE.features(SPACE.encode_all(CONFIGS[2:3]))[0], 2),
    ],
)
def test_what_is_proposed_becomes_the_nearest_row(proposed, row):
    assert saying(proposed).ask() == row


def test_of_the_rows_that_are_left_those_of_equal_kind_come_first():
    method = saying({"rate": 1.0, "model": "b", "depth": 8}, {"rate": 1.0, "model": "b", "depth": 8}, 4)
    method.tell(4, np.zeros(1))
    assert method.ask() == 3  # model b, though 2 has the same rate
    method.tell(3, np.zeros(1))
    assert method.ask() == 2  # no other of model b is left
    method.tell(2, np.zeros(1))
    assert method.ask() in (0, 1)


def test_one_proposal_per_row_and_who_asked():
    method = saying(1, 2)
    method.tell(0, np.zeros(1))
    assert [method.ask(), method.ask()] == [1, 1]
    method.tell(1, np.zeros(1))
    assert method.ask() == 2
    assert method.learnt == [(0, False), (1, True)]
    assert method.rows_left().tolist() == [2, 3, 4]


@pytest.mark.parametrize(
    ("nonsense", "said"),
    [
        (None, "it proposed None, which is neither row, configuration nor point."),
        ("a", "it proposed 'a', which is neither row, configuration nor point."),
        (7, "it proposed row 7, but rows go from 0 to 4."),
        (-1, "it proposed row -1, but rows go from 0 to 4."),
        (True, "it proposed True, which is neither row, configuration nor point."),
        ({"model": "a"}, "it proposed no value of rate."),
        ({"rate": float("nan"), "model": "a"}, "it proposed rate = nan."),
        ({"rate": "much", "model": "a"}, "it proposed rate = 'much'."),
        ({"rate": 0.1, "model": "c"}, "unknown value of model 'c'. Known: a, b."),
        ({"rate": 0.1, "model": "b"}, "it proposed no value of depth."),
        (np.full(4, np.nan), "it proposed [nan, nan, nan, nan], which is not a point of the space."),
        (np.zeros(3), "it proposed [0.0, 0.0, 0.0], which is not a point of the space."),
    ],
)
def test_nonsense_is_one_line_that_fails_the_trial(nonsense, said):
    kind = type("Says", (Says,), {"answers": (nonsense,)})
    with pytest.raises(InputError) as raised:
        kind(problem(), np.random.default_rng(0)).ask()
    assert said in str(raised.value)
    trial = run_trial(problem(), Trainings.whole(np.zeros((5, 1))), kind, np.random.default_rng(0), [0])
    assert trial.rows.tolist() == [0]
    assert said.rstrip(".") in trial.failure
    assert "\n" not in trial.failure


def test_a_library_is_silent_and_what_it_changed_is_put_back(capfd, recwarn):
    class Loud(Adapter):
        logger = "a_library"

        def propose(self):
            logging.getLogger("a_library").error("I am working")
            warnings.warn("an experimental feature", stacklevel=1)
            return 2

    logging.getLogger("a_library").setLevel(logging.INFO)
    assert Loud(problem(), np.random.default_rng(0)).ask() == 2
    assert logging.getLogger("a_library").level == logging.INFO
    assert (capfd.readouterr(), list(recwarn)) == (("", ""), [])


class DrawsGlobally(Says):
    draws_globally = True

    def propose(self):
        return int(np.random.randint(5))  # noqa: NPY002 - as libraries do


@pytest.mark.parametrize("normals", [0, 1, 2])  # NumPy draws them in pairs, and keeps the second one
def test_numpys_global_state_goes_on_as_if_no_library_had_drawn_from_it(normals):
    def drawn(between):
        state = np.random.get_state()  # noqa: NPY002
        try:
            np.random.seed(3)  # noqa: NPY002
            first = np.random.normal(size=normals)  # noqa: NPY002
            between()
            return [*first, *np.random.normal(size=3), np.random.random()]  # noqa: NPY002
        finally:
            np.random.set_state(state)  # noqa: NPY002

    rows = []

    def tune(seed):
        method = DrawsGlobally(problem(), np.random.default_rng(seed))
        method.tell(0, np.array([1.0]))
        rows.append(method.ask())

    assert drawn(lambda: [tune(seed) for seed in (0, 1, 2, 3, 0)]) == drawn(lambda: None)
    assert rows[0] == rows[-1] and len(set(rows)) > 1


def test_a_library_may_warn_of_another_while_it_is_loaded(tmp_path, monkeypatch, recwarn):
    (tmp_path / "warning.py").write_text("import warnings\nwarnings.warn('old', FutureWarning)\nMade = int\n")
    monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(tmp_path)])
    made = methods.BuiltIn("a", "warning:Made", (1,), "one", libraries=("json",))
    assert made.load() is int and not list(recwarn)


def test_failed_trainings_are_worse_than_all_others():
    losses = np.array([[1.0, 5.0], [np.nan, 2.0], [3.0, 5.0]])
    assert penalised(losses).tolist() == [[1.0, 5.0], [5.0, 6.0], [3.0, 5.0]]
    assert penalised(np.full((2, 1), np.nan)).tolist() == [[1.0], [1.0]]
    assert penalised(losses[[0, 2]]).tolist() == [[1.0, 5.0], [3.0, 5.0]]
    assert [has_failed(row) for row in losses] == [False, True, False]


def test_ranges_keep_ends_scale_and_what_others_depend_on():
    space = Space(
        (*SPACE, Hyperparameter("k", (1, 2, 3)), Hyperparameter("l", (5, 6), active_if=(("k", (3,)),)))
    )
    assert ranges(Space((Hyperparameter("one", (7,)),)))["one"] == Hyperparameter("one", (7,))
    rate, model, depth, k, last = ranges(space)
    assert (rate.values, rate.scale, rate.continuous) == ((0.001, 1.0), "log", True)
    assert (depth.values, depth.whole, depth.active_if) == ((2.0, 8.0), True, SPACE["depth"].active_if)
    assert (model, k) == (SPACE["model"], space["k"])
    assert last.continuous


def test_the_adapter_of_the_docstring_conforms():
    pytest.importorskip("optuna")
    lines = common.__doc__.splitlines()
    begin = lines.index("    import optuna")
    end = next(i for i in range(begin, len(lines)) if lines[i].startswith("It is used"))
    found = {}
    exec("\n".join(line[4:] for line in lines[begin:end]), found)  # noqa: S102
    for check in CONFORMANCE_CHECKS:
        check(found["OptunaRandom"])


def described(axes, configs, described_by):
    """The problem of a table whose rows have one more feature, which is not a hyperparameter."""
    values = tuple(sorted(set(described_by)))
    codes = Space(axes).encode_all(configs)
    features = Descriptors((Hyperparameter("size", values),), np.array(described_by)[:, None])
    loss = (Metric("loss", "min"),)
    table = Table("t", axes, loss, codes, np.arange(len(codes), dtype=float)[:, None], descriptors=features)
    return Problem(table.features, 1, len(codes), 1, table.space, codes)


def test_with_descriptors_a_looked_up_row_stands_for_the_nearest_by_the_problems_features():
    axes = (Hyperparameter("network", ("a", "b", "c", "d"), kind="categorical"),)
    names = [{"network": name} for name in "abcd"]
    table = described(axes, names, [0.0, 5.0, 5.0, 9.0])
    assert table.features.shape == (4, 1)  # a name that only identifies rows is not a feature
    method = type("Says", (Says,), {"answers": names[2:3] * 4})(table, np.random.default_rng(0))
    assert method._placed(names[3]) == 3
    for row in (2, 1, 3, 0):  # itself, although b has the same features; then by size
        assert method.ask() == row
        method.tell(row, np.zeros(1))


def test_with_descriptors_a_point_between_rows_becomes_the_row_with_the_nearest_hyperparameters():
    axes = (
        Hyperparameter("rate", (0.001, 0.01, 0.1), "log"),
        Hyperparameter("kind", ("a", "b"), kind="categorical"),
    )
    configs = [{"rate": rate, "kind": kind} for kind in "ab" for rate in (0.001, 0.01, 0.1)]
    table = described(axes, configs, [0.0, 9.0, 0.0, 0.0, 9.0, 0.0])
    wanted = {"rate": 0.02, "kind": "b"}
    method = type("Says", (Says,), {"answers": [wanted] * 3})(table, np.random.default_rng(0))
    assert method.ask() == 4
    method.tell(4, np.zeros(1))
    assert method.ask() == 1  # another kind weighs 1, half of the rates and another size 1.25
    assert method.nearest(table.features[2]) == 2


def test_a_row_that_is_not_left_stands_for_the_nearest_one():
    method = saying(1, 0)
    method.tell(1, np.zeros(1))
    assert method.ask() in (0, 2)
    assert method.told[1].tolist() == [0.0]
    method.tell(method.ask(), np.zeros(1))
    assert method.ask() not in (1, *method.told)


def test_another_category_weighs_more_than_all_numbers_together():
    space = Space(
        (
            *(Hyperparameter(f"x{j}", (0, 1)) for j in range(5)),
            Hyperparameter("kind", ("a", "b"), kind="categorical"),
        )
    )
    configs = [{**{f"x{j}": number for j in range(5)}, "kind": kind} for number, kind in ((0, "a"), (1, "b"))]
    codes = space.encode_all(configs)
    method = Adapter(Problem(space.features(codes), 1, 2, 1, space, codes), np.random.default_rng(0))
    assert method.nearest(space.features(space.encode_all([{**configs[0], "kind": "b"}]))[0]) == 1
    only_numbers = Problem(np.array([[0.0], [1.0]]), 1, 2, 1)
    assert Adapter(only_numbers, np.random.default_rng(0)).nearest(np.array([0.6])) == 1


def test_what_a_library_draws_globally_depends_on_the_seed_alone_and_goes_on():
    class Draws(Adapter):
        draws_globally = True

        def start(self):
            self.drawn = [np.random.random()]  # noqa: NPY002

        def learn(self, row, losses):
            self.drawn.append(np.random.random())  # noqa: NPY002
            if np.isnan(losses).any():
                raise ValueError("it failed")

    found = []
    for seed, outside in ((0, 1), (0, 2), (3, 2)):
        np.random.seed(outside)  # noqa: NPY002
        method = Draws(problem(), np.random.default_rng(seed))
        method.tell(0, np.zeros(1))
        np.random.seed(outside)  # noqa: NPY002
        with pytest.raises(ValueError, match="it failed"):
            method.tell(1, np.full(1, np.nan))
        assert np.random.random() == np.random.RandomState(outside).random()  # noqa: NPY002
        found.append(method.drawn)
    assert found[0] == found[1]
    assert len({*found[1], *found[2]}) == 6


def test_after_an_error_a_library_is_as_loud_as_before():
    class Broken(Adapter):
        logger = "a_broken_library"

        def propose(self):
            assert logging.getLogger("a_broken_library").level == logging.CRITICAL
            raise ValueError("broken")

    logging.getLogger("a_broken_library").setLevel(logging.WARNING)
    filters = list(warnings.filters)
    method = Broken(problem(), np.random.default_rng(0))
    with pytest.raises(ValueError, match="broken"):
        method.ask()
    assert logging.getLogger("a_broken_library").level == logging.WARNING
    assert warnings.filters == filters
    with pytest.raises(NotImplementedError):
        Adapter(problem(), np.random.default_rng(0)).ask()


def test_a_library_gets_another_seed_of_31_bits_each_time():
    method, twin = (Adapter(problem(), np.random.default_rng(3)) for _ in range(2))
    seeds = [method.seed() for _ in range(200)]
    assert seeds == [twin.seed() for _ in range(200)] and len(set(seeds)) == 200
    assert 2**30 < max(seeds) < 2**31 and 0 <= min(seeds) < 2**25


def test_none_is_a_label_where_the_table_has_it():
    space = Space((Hyperparameter("norm", (None, "a", "b"), kind="categorical"),))
    codes = space.encode_all([{"norm": None}, {"norm": "a"}, {"norm": "b"}])
    adapter = Says(Problem(space.features(codes), 1, 3, 1, space, codes), np.random.default_rng(0))
    assert np.array_equal(adapter._placed({"norm": None}), adapter.problem.features[0])
    with pytest.raises(InputError, match="it proposed no value of norm"):
        adapter._placed({})
