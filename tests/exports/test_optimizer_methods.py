"""Methods in an `Optimizer`: what they learn of pending configurations, and those that misbehave."""

import math

import pytest

from hpobench_nmt.core.system.errors import InputError, RunError
from hpobench_nmt.exports.optimizer import Optimizer

SPACE = {"layers": [1, 2, 4, 8], "rule": ["sgd", "adam", "rms"], "rate": [0.1, 0.2, 0.4, 0.8]}


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
    with pytest.raises(
        RunError, match=r"Telling waits for losses of pending configurations \(2 configuration"
    ):
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
    with pytest.raises(
        RunError, match=r"method Stubborn failed: ask returned row \d+, which is pending or evaluated already"
    ):
        optimizer.ask()


class Recommending(Stubborn):
    """Recommends the first row that was not told."""

    def recommend(self, rows):
        return next(row for row in range(len(rows) + 1) if row not in rows)


class Confused(Stubborn):
    def recommend(self, rows):
        raise KeyError("loss")


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        (
            Recommending,
            r"Recommending failed: recommend returned row \d, which is not among the rows it was given",
        ),
        (Confused, r"Confused failed: recommend raised KeyError: 'loss'"),
    ],
)
def test_a_recommendation_is_checked(method, reason):
    optimizer = Optimizer(SPACE, method)
    optimizer.tell(optimizer.ask(), 1.0)
    with pytest.raises(RunError, match=f"method {reason}"):
        optimizer.recommend()


def answering(*answers):
    """A class whose `ask` gives these answers in turn. It lists its instances, and each lists its results."""

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
        (1, "row 1, which is pending or evaluated already"),
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


class Rebuilt(Stubborn):
    """Constructed again for each pending configuration, and at the second time no more."""

    made = 0

    def __init__(self, problem, rng):
        Rebuilt.made += 1
        if Rebuilt.made == 2:
            raise KeyError("boom")
        super().__init__(problem, rng)


def test_a_constructor_that_fails_is_the_methods_failure():
    Rebuilt.made = 0
    optimizer = Optimizer(SPACE, Rebuilt, n_initial=1)
    optimizer.ask()
    with pytest.raises(RunError, match="method Rebuilt failed: the constructor raised KeyError: 'boom'"):
        optimizer.ask()
    Rebuilt.made = 1
    with pytest.raises(RunError, match="method Rebuilt failed: the constructor raised KeyError: 'boom'"):
        Optimizer(SPACE, Rebuilt)


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
