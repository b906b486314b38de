"""The conformance checks must catch what they say they catch."""

import numpy as np
import pytest

from hpobench_nmt import testing
from hpobench_nmt.testing import CONFORMANCE_CHECKS, NonConformance


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


@pytest.mark.parametrize("check", CONFORMANCE_CHECKS, ids=lambda check: check.__name__)
def test_a_good_method_passes(check):
    check(Good)


@pytest.mark.parametrize(
    ("method", "check"),
    [
        (AsksAnew, testing.repeats_an_unanswered_question),
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


def test_the_global_state_is_put_back():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    testing.depends_on_its_generator_alone(Good)
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002
