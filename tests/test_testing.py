"""The conformance checks must catch what they say they catch."""

import random

import numpy as np
import pytest

from hpobench_nmt import testing
from hpobench_nmt.testing import CONFORMANCE_CHECKS, PARALLEL_CHECKS, NonConformance, checks_for


class Good:
    def __init__(self, problem, rng):
        self.rng = rng
        self.left = list(range(len(problem.features)))
        self.next = None

    def ask(self):
        if self.next is None:
            self.next = int(self.rng.choice(self.left))
        return self.next

    def tell(self, index, losses):
        self.left.remove(index)
        self.next = None


class AsksAnew(Good):
    def ask(self):
        return int(self.rng.choice(self.left))


class Global(Good):
    def ask(self):
        if self.next is None:
            self.next = self.left[np.random.randint(len(self.left))]  # noqa: NPY002
        return self.next


class Remembers(Good):
    seen = 0

    def ask(self):
        type(self).seen += 1
        return self.left[type(self).seen % len(self.left)]


class NeedsLosses(Good):
    def tell(self, index, losses):
        super().tell(index, losses)
        if np.isnan(losses).any():
            raise ValueError("NaN")


class WritesLosses(Good):
    def tell(self, index, losses):
        super().tell(index, losses)
        losses *= -1


class WritesFeatures(Good):
    def __init__(self, problem, rng):
        super().__init__(problem, rng)
        if problem.features.flags.writeable:
            problem.features[:] = 0


class GivesUp(Good):
    def ask(self):
        if len(self.left) < 10:
            raise RuntimeError("enough")
        return super().ask()


class Divides(Good):
    def tell(self, index, losses):
        super().tell(index, losses)
        if losses[0] == 0.0:
            raise ZeroDivisionError


class Evolves:
    """As somebody would write it first: each question draws a child of one of the best rows afresh."""

    def __init__(self, problem, rng):
        self.problem, self.rng, self.told = problem, rng, {}

    def ask(self):
        left = np.setdiff1d(np.arange(len(self.problem.features)), list(self.told))
        best = sorted(self.told, key=self.told.get)[:3]
        if not best:
            return self.rng.choice(left)
        parent = self.problem.features[self.rng.choice(best)]
        child = parent + self.rng.normal(0, 0.2, len(parent))
        return left[((self.problem.features[left] - child) ** 2).sum(axis=1).argmin()]

    def tell(self, row, losses):
        self.told[row] = np.nan_to_num(losses[0], nan=np.inf)


@pytest.mark.parametrize("check", CONFORMANCE_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("method", [Good, AsksAnew, Evolves])
def test_a_good_method_passes(method, check):
    check(method)


@pytest.mark.parametrize(
    ("method", "check"),
    [
        (Global, testing.depends_on_its_generator_alone),
        (Remembers, testing.keeps_trials_apart),
        (NeedsLosses, testing.survives_failed_trainings),
        (WritesLosses, testing.leaves_its_input_alone),
        (WritesFeatures, testing.leaves_its_input_alone),
        (GivesUp, testing.looks_up_every_row_once),
        (GivesUp, testing.survives_small_tables),
        (Divides, testing.survives_odd_losses),
    ],
    ids=lambda value: value.__name__,
)
def test_a_bad_method_is_caught(method, check):
    with pytest.raises(NonConformance) as error:
        check(method)
    assert str(error.value)


class Nonsense(Good):
    answer = None

    def ask(self):
        return type(self).answer


@pytest.mark.parametrize("answer", [None, -1, 10_000, 1.5, "row", True, np.zeros(3), (1, 2)], ids=str)
@pytest.mark.parametrize("check", CONFORMANCE_CHECKS, ids=lambda check: check.__name__)
def test_an_answer_that_is_no_row_is_the_methods_fault(check, answer):
    Nonsense.answer = answer
    with pytest.raises(NonConformance, match="ask returned"):
        check(Nonsense)


@pytest.mark.parametrize("missing", ["ask", "tell"])
def test_a_method_that_lacks_a_function_is_told(missing):
    lacking = type("Lacking", (Good,), {missing: None})
    for check in checks_for(lacking):
        with pytest.raises(NonConformance, match=f"has no {missing}"):
            check(lacking)


def test_the_global_state_is_put_back():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    testing.depends_on_its_generator_alone(Good)
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


# --- methods that have `suggest` ---------------------------------------------------------------------


class Parallel:
    """Trains every row to its third checkpoint, then the best of them to their end."""

    def __init__(self, problem, rng):
        self.problem, self.left = problem, rng.permutation(len(problem.features)).tolist()
        self.loss, self.ended, self.begun = {}, set(), set()

    def suggest(self, running):
        self.begun |= set(running)
        new = [row for row in self.left if row not in self.begun]
        if new and len(self.begun) < self.problem.lookups:
            return new[0], 3.0
        rest = [row for row in self.loss if row not in self.ended and row not in running]
        return min(rest, key=self.loss.__getitem__) if rest else None

    def observe(self, progress):
        self.begun.add(progress.row)
        self.loss[progress.row] = float(np.nan_to_num(progress.best[0], nan=1e9))
        if progress.done:
            self.ended.add(progress.row)


class SuggestsAnew(Parallel):
    def suggest(self, running):
        self.left.append(self.left.pop(0))
        return super().suggest(running)


class StopsForGood(Parallel):
    def suggest(self, running):
        answer = super().suggest(running)
        return answer if isinstance(answer, tuple) else None


class RemembersOthers(Parallel):
    made = 0

    def __init__(self, problem, rng):
        super().__init__(problem, rng)
        type(self).made += 1
        self.left = self.left[type(self).made % 7 :] + self.left[: type(self).made % 7]


class DrawsGlobally(Parallel):
    """Its rows do not depend on what it draws."""

    def suggest(self, running):
        np.random.random()  # noqa: NPY002
        return super().suggest(running)


class ShufflesGlobally(Parallel):
    def __init__(self, problem, rng):
        super().__init__(problem, rng)
        random.shuffle(self.left)


class NeedsNumbers(Parallel):
    def observe(self, progress):
        super().observe(progress)
        if np.isnan(progress.losses).any():
            raise ValueError("NaN")


class BeginsTooFew(Parallel):
    def __init__(self, problem, rng):
        super().__init__(problem, rng)
        self.problem = type("P", (), {"lookups": min(problem.lookups, 5) if problem.lookups < 10 else 10**9})


class BeginsTooMany(Parallel):
    """Its rows beyond the budget are refused, and then it is never asked again."""

    def __init__(self, problem, rng):
        super().__init__(problem, rng)
        self.problem = type("P", (), {"lookups": 10**9})


@pytest.mark.parametrize("check", PARALLEL_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("method", [Parallel, SuggestsAnew])
def test_a_good_parallel_method_passes(method, check):
    check(method)
    check(method, 2)


@pytest.mark.parametrize(
    ("method", "check"),
    [
        (StopsForGood, testing.trains_every_row_to_its_end),
        (RemembersOthers, testing.depends_on_its_generator_alone_on_a_clock),
        (DrawsGlobally, testing.depends_on_its_generator_alone_on_a_clock),
        (ShufflesGlobally, testing.depends_on_its_generator_alone_on_a_clock),
        (NeedsNumbers, testing.survives_failed_trainings_on_a_clock),
        (BeginsTooFew, testing.keeps_to_its_budget_of_rows),
        (BeginsTooMany, testing.keeps_to_its_budget_of_rows),
        (Good, testing.trains_every_row_to_its_end),
    ],
    ids=lambda value: value.__name__,
)
def test_a_bad_parallel_method_is_caught(method, check):
    with pytest.raises(NonConformance) as error:
        check(method)
    assert str(error.value)


def test_the_checks_that_a_method_needs():
    class Both(Parallel, Good):
        pass

    assert checks_for(Good) == CONFORMANCE_CHECKS
    assert checks_for(Parallel) == PARALLEL_CHECKS
    assert checks_for(Both) == CONFORMANCE_CHECKS + PARALLEL_CHECKS
    assert checks_for(lambda problem, rng: None) == CONFORMANCE_CHECKS
    with pytest.raises(NonConformance):
        checks_for(lambda problem, rng: 1 / 0)


@pytest.mark.parametrize("name", ["repeats_an_unanswered_question", "suggests_the_same_again"])
def test_checks_of_version_1_0_pass_with_a_warning(name):
    with pytest.warns(
        FutureWarning, match=f"^{name} is deprecated since version 1.1 .* use no check, because"
    ):
        getattr(testing, name)(object)
