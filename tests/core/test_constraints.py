"""Constraints are read as written, and methods are told of violations apart from failures."""

import numpy as np
import pytest

from hpobench_nmt.core.constraints import Constraint, is_feasible, parse_constraints, teller
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial

LOSSES = np.array([[3.0], [1.0], [4.0], [np.nan], [2.0], [0.0]])
VIOLATIONS = np.array([[0.5], [-1.0], [0.0], [-1.0], [np.nan], [2.0]])
PROBLEM = Problem(np.zeros((6, 1)), 1, 6, 6, constraints=("seconds<=60",))


@pytest.mark.parametrize(
    ("text", "shown", "values", "expected"),
    [
        ("seconds<=60", "seconds<=60", [50.0, 60.0, 61.5, np.nan], [-10.0, 0.0, 1.5, np.nan]),
        (" dev_bleu >= 2e1 ", "dev_bleu>=20", [19.0, 20.0, 25.0], [1.0, 0.0, -5.0]),
        ("ratio<=-0.25", "ratio<=-0.25", [0.0, -1.0], [0.25, -0.75]),
    ],
)
def test_what_a_text_says(text, shown, values, expected):
    constraint = Constraint.parse(text)
    assert str(constraint) == shown
    assert Constraint.parse(shown) == constraint
    np.testing.assert_array_equal(constraint.violations(np.array(values)), expected)


@pytest.mark.parametrize(
    "text",
    ["", "seconds", "seconds<60", "<=60", "seconds<=", "seconds<=1h", "s<=inf", "s<=nan", "a<=b>=3", ">=3"],
)
def test_what_is_no_constraint_is_refused(text):
    with pytest.raises(InputError, match="write METRIC<=NUMBER or METRIC>=NUMBER"):
        Constraint.parse(text)


def test_a_bound_that_is_met_exactly_is_kept_and_a_missing_value_is_not():
    assert is_feasible(VIOLATIONS).tolist() == [False, True, True, True, False, False]


def told_to(method: type) -> list[tuple[object, ...]]:
    method.told = []
    trial = run_trial(
        PROBLEM,
        Trainings.whole(LOSSES),
        lambda problem, rng: method(),
        np.random.default_rng(0),
        range(6),
        violations=VIOLATIONS.__getitem__,
    )
    assert trial.failure == ""
    np.testing.assert_array_equal(trial.losses, LOSSES)  # what is kept is what was measured
    return method.told


def test_a_method_that_knows_constraints_is_told_losses_and_violations_as_they_are():
    class Knows:
        def ask(self): ...

        def tell(self, row, losses):
            raise AssertionError("it has tell_constrained")

        def tell_constrained(self, row, losses, violations):
            self.told.append((row, *losses, *violations))
            losses[:] = violations[:] = 99.0  # its own to change

    told = told_to(Knows)
    expected = [(row, LOSSES[row, 0], VIOLATIONS[row, 0]) for row in range(6)]
    np.testing.assert_array_equal(np.array(told), np.array(expected))


def test_a_method_that_does_not_is_told_the_worst_feasible_loss_so_far():
    class Plain:
        def ask(self): ...

        def tell(self, row, losses):
            self.told.append((row, *losses))

    # Row 0 violates before any feasible row; row 3 failed; 4 has no known violation, and 5 violates.
    expected = [(0, np.nan), (1, 1.0), (2, 4.0), (3, np.nan), (4, 4.0), (5, 4.0)]
    np.testing.assert_array_equal(np.array(told_to(Plain)), np.array(expected))


# Of two rows with three checkpoints each; the second violates.
CURVES = Trainings(
    np.array([0, 3, 6]),
    np.array([1.0, 2.0, 3.0] * 2),
    np.array([1.0, 2.0, 3.0] * 2),
    np.array([[5.0], [4.0], [6.0], [1.0], [0.5], [0.7]]),
)


def told_on_a_clock(method: type, violations) -> list[tuple[object, ...]]:
    """What a method is told that trains row 0 to resources 1 and 3, row 1 to 2 and to its end."""
    method.told, method.wanted = [], [(0, 1.0), (1, 2.0), (0, 3.0), (1, np.inf)]
    problem = Problem(np.zeros((2, 1)), 1, 2, 0, resources=np.arange(1.0, 4), constraints=("seconds<=60",))
    trial = run_trial(
        problem,
        CURVES,
        lambda problem, rng: method(),
        np.random.default_rng(0),
        violations=violations.__getitem__,
    )
    assert trial.failure == ""
    # What is kept are the losses as they are, of each row's best checkpoint so far.
    np.testing.assert_array_equal(trial.losses[:, 0], [5.0, 0.5, 4.0, 0.5])
    return method.told


class Asks:
    def suggest(self, running):
        return self.wanted.pop(0) if self.wanted else None

    def tell(self, row, losses):
        self.told.append((row, *losses))


def test_on_a_clock_violations_are_told_whenever_a_training_has_come_as_far_as_was_asked():
    class Knows(Asks):
        def tell_constrained(self, row, losses, violations):
            self.told.append((row, *losses, *violations))
            losses[:] = violations[:] = 99.0  # its own to change

    violations = np.array([[-1.0], [2.0]])
    assert told_on_a_clock(Knows, violations) == [(0, 5, -1), (1, 0.5, 2), (0, 4, -1), (1, 0.5, 2)]
    # The worst feasible row so far is row 0 as it was then, at its first checkpoint.
    assert told_on_a_clock(Asks, violations) == [(0, 5), (1, 5), (0, 4), (1, 5)]
    found = np.array(told_on_a_clock(Asks, np.array([[np.nan], [-1.0]])))
    np.testing.assert_array_equal(found, [(0, np.nan), (1, 0.5), (0, 0.5), (1, 0.5)])


def test_on_a_clock_a_method_that_learns_curves_is_told_nan_of_a_row_that_violates():
    class Observes(Asks):
        def observe(self, progress):
            assert not progress.losses.flags.writeable and not progress.best.flags.writeable
            self.told.append((progress.row, progress.losses[:, 0].tolist(), *progress.best, progress.done))

    told = told_on_a_clock(Observes, np.array([[-1.0], [2.0]]))
    nan = np.nan
    expected = [
        (0, [5.0], 5.0, False),
        (1, [nan, nan], nan, False),
        (0, [5.0, 4.0, 6.0], 4.0, True),
        (1, [nan, nan, nan], nan, True),
    ]
    for found, wanted in zip(told, expected, strict=True):
        np.testing.assert_equal(found, wanted)


def test_each_of_two_losses_has_its_own_worst_and_a_failed_row_none():
    """Rows 0 to 2 keep the bound, the others do not; a method may change what it is told."""
    violations = np.array([[-1.0, 0.0], [0.0, -1.0], [-1.0, -1.0], [-1.0, 0.5], [np.nan, -1.0], [0.5, -1.0]])
    heard = []

    def tell(row, losses):
        heard.append(losses.tolist())
        losses[:] = 99.0

    told = teller(object(), tell, violations.__getitem__)
    for row, losses in enumerate(
        [(1.0, 8.0), (5.0, 2.0), (9.0, np.nan), (0.0, 0.0), (0.0, 0.0), (np.nan, 0.0)]
    ):
        told(row, np.array(losses))
    expected = [[1.0, 8.0], [5.0, 2.0], [9.0, np.nan], [5.0, 8.0], [5.0, 8.0], [np.nan, 8.0]]
    np.testing.assert_array_equal(heard, expected)


def test_several_texts_and_what_one_row_misses():
    least, most = parse_constraints(["a>=0.5", "a<=1"], "here")
    assert (str(least), str(most)) == ("a>=0.5", "a<=1")
    assert (least.missed_by({"a": 0.25}), most.missed_by({"a": 3.0, "b": 0.0})) == (0.25, 2.0)
    assert np.isnan([least.missed_by({}), most.missed_by({"b": 0.0})]).all()
    assert parse_constraints((), "here") == []
    with pytest.raises(InputError, match=r"^here: two bounds of one kind on the same metric\.$"):
        parse_constraints(["a<=1", "b<=1", "a<=2"], "here")
