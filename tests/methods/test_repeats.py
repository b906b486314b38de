import numpy as np
import pytest

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.methods.random_search import RandomSearch
from hpobench_nmt.methods.repeats import Repeating, RepeatingBO

POINTS = np.random.default_rng(3).random((60, 2))
POINTS.setflags(write=False)
TRUE = ((POINTS - 0.4) ** 2).sum(axis=1)


class Alone(RandomSearch):
    """Random search that records the losses, and has no `suggest`."""

    suggest = None

    def __init__(self, problem, rng):
        super().__init__(problem, rng)
        self.told = {}

    def ask(self):
        return RandomSearch.suggest(self, {})

    def tell(self, index, losses):
        self.told[index] = losses[0]
        super().tell(index, losses)


def search(make, n, sd, again=True, failing=()):
    """The rows and losses of n trainings, and the method."""
    method = Repeating(make, Problem(POINTS, 1, n, 0, again=again), np.random.default_rng(1))
    rng, rows, losses = np.random.default_rng(2), [], []
    for step in range(n):
        rows.append(method.ask())
        failed = step in failing
        losses.append(np.nan if failed else TRUE[rows[-1]] + sd * rng.standard_normal())
        method.tell(rows[-1], np.array(losses[-1:]))
    return np.array(rows), np.array(losses), method


@pytest.mark.parametrize("make", [Alone, RandomSearch])
def test_the_method_sees_means_of_trainings_and_at_most_15_percent_are_repeats(make):
    rows, losses, method = search(make, 50, 0.1)
    again = len(rows) - len(set(rows))
    assert 1 < again <= 7 and len(set(rows[:11])) == 11
    if make is Alone:
        means = {row: losses[rows == row].mean() for row in rows}
        assert method._method.told == pytest.approx(means)


def test_nothing_is_repeated_where_rows_may_not_be_trained_again_and_once_if_losses_are_exact():
    rows, _, _ = search(Alone, 40, 0.1, again=False)
    assert len(set(rows)) == 40
    rows, _, _ = search(Alone, 40, 0.0)
    assert len(set(rows)) == 39


def test_where_noise_hides_nothing_repeats_are_seldom():
    rows, _, _ = search(Alone, 60, 1e-6)
    again = [step - again for again, step in enumerate(s for s in range(60) if rows[s] in rows[:s])]
    assert again == [11, 20, 40]  # rows by then


def test_a_repeat_that_failed_does_not_count():
    rows, losses, _ = search(Alone, 40, 0.1)
    first = next(step for step in range(40) if rows[step] in rows[:step])
    rows, losses, method = search(Alone, 40, 0.1, failing=[first])
    assert method._method.told[rows[first]] == pytest.approx(np.nanmean(losses[rows == rows[first]]))


def test_running_rows_are_not_repeated_and_the_smallest_mean_is_recommended():
    problem = Problem(POINTS, 1, 60, 0, again=True)
    method = RepeatingBO(problem, np.random.default_rng(0))
    for row in range(20):
        method.tell(row, TRUE[[row]])
    best = int(TRUE[:20].argmin())
    assert method.suggest({}) == best and method.suggest({best: np.inf}) >= 20
    assert method.recommend(list(range(20))) == best and method.recommend([3, 4]) in (3, 4)


def test_a_row_that_misses_a_constraint_is_not_repeated():
    problem = Problem(POINTS, 1, 60, 0, again=True, constraints=("seconds<=60",))
    method = RepeatingBO(problem, np.random.default_rng(0))
    best, second = np.argsort(TRUE[:20])[:2]
    for row in range(20):
        method.tell_constrained(row, TRUE[[row]], np.array([1.0 if row == best else -1.0]))
    assert method.suggest({}) == second
