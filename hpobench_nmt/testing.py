"""Does a method behave? Checks for authors of methods, for pytest or any other runner.

    import pytest
    from hpobench_nmt.testing import CONFORMANCE_CHECKS

    @pytest.mark.parametrize("check", CONFORMANCE_CHECKS, ids=lambda check: check.__name__)
    def test_conformance(check):
        check(MyMethod)

A check takes a class or function that constructs a method from (problem, rng), and the number of objectives
(by default 1). It returns nothing, or raises NonConformance with a message that states what is wrong and what
is expected.

A method that runs several trainings at a time, or stops them early, has `suggest`. PARALLEL_CHECKS are for
such methods. `checks_for(MyMethod)` returns the checks for a method, depending on its functions.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.constraints import Violations
from hpobench_nmt.core.guard import MethodFailure, failure_text, function_of, guarded, row_number
from hpobench_nmt.core.problem import MethodFactory, Problem
from hpobench_nmt.core.system.deprecated import warn_deprecated
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trajectory import Trajectory
from hpobench_nmt.core.trial_loop import run_trial

Check = Callable[..., None]


class NonConformance(AssertionError):
    """A method breaks a rule of the interface; the message states which."""


def _grid_problem(n_objectives: int, per_axis: int = 4, n_initial: int = 3) -> tuple[Problem, Floats]:
    axes = np.meshgrid(*[np.linspace(0.0, 1.0, per_axis)] * 3, indexing="ij")
    features = np.stack([a.ravel() for a in axes], axis=1)
    features.setflags(write=False)
    slopes = np.random.default_rng(7).normal(size=(3, n_objectives))
    losses = np.sin(3.0 * features @ slopes) + (features - 0.4) ** 2 @ np.abs(slopes)
    return Problem(features, n_objectives, len(features), n_initial), losses


@contextmanager
def _failures_told() -> Iterator[None]:
    """Raise a method's failure, which the loop describes, as NonConformance."""
    try:
        yield
    except MethodFailure as failure:
        raise NonConformance(failure_text(str(failure))) from failure


def _trial(
    factory: MethodFactory,
    problem: Problem,
    trainings: Trainings,
    seed: int = 0,
    violations: Violations | None = None,
) -> Trajectory:
    initial = list(range(problem.n_initial))
    rng = np.random.default_rng(seed)
    trajectory = run_trial(problem, trainings, factory, rng, initial, violations=violations)
    if trajectory.failure:
        raise NonConformance(trajectory.failure)
    return trajectory


def _rows(factory: MethodFactory, problem: Problem, trainings: Trainings, seed: int = 0) -> list[int]:
    rows: list[int] = _trial(factory, problem, trainings, seed).rows.tolist()
    return rows


def _draws_from_its_generator_alone(trials: Callable[[], object]) -> None:
    """Raise NonConformance if the trials depend on the global random state, or change it."""

    def state() -> list[object]:
        numpys = np.random.get_state(legacy=True)  # noqa: NPY002
        return [*(np.asarray(part).tolist() for part in numpys), random.getstate()]

    legacy, builtin = np.random.get_state(), random.getstate()  # noqa: NPY002
    found = []
    try:
        for seed in (1, 2):
            np.random.seed(seed)  # noqa: NPY002
            random.seed(seed)
            before = state()
            found.append(trials())
        if found[0] != found[1]:
            raise NonConformance("two trials with the same generator differ: take all randomness from rng.")
        if before != state():
            raise NonConformance("it changes the global random state: take all randomness from rng.")
    finally:
        np.random.set_state(legacy)  # noqa: NPY002
        random.setstate(builtin)


def looks_up_every_row_once(factory: MethodFactory, n_objectives: int = 1) -> None:
    """Until the table is exhausted, the method returns every row exactly once, as an integer."""
    problem, losses = _grid_problem(n_objectives)
    rows = _rows(factory, problem, Trainings.whole(losses))
    if sorted(rows) != list(range(len(losses))):
        raise NonConformance(f"looked up {len(set(rows))} of {len(losses)} rows.")


def depends_on_its_generator_alone(factory: MethodFactory, n_objectives: int = 1) -> None:
    """The same generator gives the same rows; the global random state is neither used nor changed."""
    problem, losses = _grid_problem(n_objectives)
    _draws_from_its_generator_alone(lambda: _rows(factory, problem, Trainings.whole(losses), seed=5))


def keeps_trials_apart(factory: MethodFactory, n_objectives: int = 1) -> None:
    """A trial does not change the next one on the same problem."""
    problem, losses = _grid_problem(n_objectives)
    alone, _, again = (_rows(factory, problem, Trainings.whole(losses), seed) for seed in (3, 4, 3))
    if again != alone:
        raise NonConformance("a trial differs after another one: keep no state in the class or the module.")


def survives_failed_trainings(factory: MethodFactory, n_objectives: int = 1) -> None:
    """NaN losses, in the initial design or later, do not stop the method or make it return the row again."""
    problem, losses = _grid_problem(n_objectives)
    for failed in (slice(0, 2), slice(0, None, 3), slice(0, None)):
        patchy = losses.copy()
        patchy[failed] = np.nan
        _trial(factory, problem, Trainings.whole(patchy))


def survives_odd_losses(factory: MethodFactory, n_objectives: int = 1) -> None:
    """Constant, huge and tiny losses do not stop the method."""
    problem, losses = _grid_problem(n_objectives)
    for odd in (np.zeros_like(losses), losses * 1e9, losses * 1e-9, losses + 1e6):
        _trial(factory, problem, Trainings.whole(odd))


def survives_small_tables(factory: MethodFactory, n_objectives: int = 1) -> None:
    """Tables barely larger than the initial design, and rows with equal features, do not stop the method."""
    for n_rows in (3, 4, 5, 9):
        features = np.zeros((n_rows, 2))
        features[n_rows // 2 :, 0] = 1.0
        losses = np.arange(n_rows * n_objectives, dtype=float).reshape(n_rows, n_objectives) % 3
        _trial(factory, Problem(features, n_objectives, n_rows, 3), Trainings.whole(losses))


def leaves_its_input_alone(factory: MethodFactory, n_objectives: int = 1) -> None:
    """The method changes neither the features nor the losses that it receives."""
    problem, losses = _grid_problem(n_objectives)
    features = problem.features.copy()
    given = Problem(features, n_objectives, problem.lookups, problem.n_initial)
    with _failures_told():
        method = guarded("making it", factory, given, np.random.default_rng(0))
        ask, tell = function_of(method, "ask"), function_of(method, "tell")
        for step in range(20):
            initial = step < problem.n_initial
            row = step if initial else row_number("ask", guarded("ask", ask), len(losses))
            told = losses[row].copy()
            guarded("tell", tell, row, told)
            if not np.array_equal(told, losses[row]):
                raise NonConformance("tell changed the losses that it was given.")
    if not np.array_equal(features, problem.features):
        raise NonConformance("it changed problem.features.")


def _keeps_on_under_constraints(factory: MethodFactory, free: Problem, trainings: Trainings) -> None:
    """Two constraints, with rows where one is unknown; first no row is feasible, and then some rows are."""
    problem, rng = replace(free, constraints=("a<=0", "b<=0")), np.random.default_rng(3)
    for kept in (0.0, 0.5):  # the share of constraints that are kept
        shape = len(trainings), 2
        violations = np.where(rng.random(shape) < kept, -1.0, 1.0) * rng.random(shape)
        violations[5:9, 0] = np.nan
        done = _trial(factory, problem, trainings, violations=violations.__getitem__)
        if len(set(done.rows.tolist())) < len(trainings):
            raise NonConformance(f"it began {len(set(done.rows.tolist()))} of {len(trainings)} rows.")


def keeps_on_under_constraints(factory: MethodFactory, n_objectives: int = 1) -> None:
    """Under constraints, the method looks up every row once, whether rows are feasible or not."""
    problem, losses = _grid_problem(n_objectives, per_axis=3)
    _keeps_on_under_constraints(factory, problem, Trainings.whole(losses))


CONFORMANCE_CHECKS: tuple[Check, ...] = (
    looks_up_every_row_once,
    depends_on_its_generator_alone,
    keeps_trials_apart,
    survives_failed_trainings,
    survives_odd_losses,
    survives_small_tables,
    leaves_its_input_alone,
    keeps_on_under_constraints,
)


# --- methods that have `suggest` ---------------------------------------------------------------------


def _timed_problem(
    n_objectives: int, workers: int, resume: bool = True, per_axis: int = 4
) -> tuple[Problem, Trainings]:
    """Curves of 3 to 9 checkpoints over a grid, and the problem that goes with them."""
    grid, final = _grid_problem(n_objectives, per_axis, n_initial=2)
    rng = np.random.default_rng(11)
    lengths = rng.integers(3, 10, len(final))
    steps = np.concatenate([np.arange(1.0, n + 1) for n in lengths])
    falling = rng.uniform(0.2, 2.0, len(steps))[:, None] / steps[:, None]
    trainings = Trainings(
        np.concatenate([[0], np.cumsum(lengths)]),
        steps,
        steps * np.repeat(rng.uniform(1.0, 3.0, len(final)), lengths),
        np.repeat(final, lengths, axis=0) + falling,
        resume,
    )
    problem = Problem(
        grid.features,
        n_objectives,
        grid.lookups,
        grid.n_initial,
        workers=workers,
        resources=np.arange(1.0, 10),
        resume=resume,
        clock="cost",
    )
    return problem, trainings


def _rows_that_ended(trial: Trajectory, trainings: Trainings) -> int:
    """How many rows were trained to their end."""
    furthest = np.zeros(len(trainings))
    np.maximum.at(furthest, trial.rows, trial.timeline.resources)
    return int((furthest == trainings.resources[trainings.starts[1:] - 1]).sum())


def trains_every_row_to_its_end(factory: MethodFactory, n_objectives: int = 1) -> None:
    """With enough time, every row is trained to its end, for any number of workers, resumable or not."""
    for workers, resume in ((1, True), (1, False), (5, True), (5, False), (100, True)):
        problem, trainings = _timed_problem(n_objectives, workers, resume)
        done = _trial(factory, problem, trainings)
        ended = _rows_that_ended(done, trainings)
        if ended < len(trainings):
            raise NonConformance(
                f"with {counted(workers, 'worker')} it trained {ended} of {len(trainings)} rows to the end."
            )


def depends_on_its_generator_alone_on_a_clock(factory: MethodFactory, n_objectives: int = 1) -> None:
    """As without a clock, and a trial does not change the next one."""
    problem, trainings = _timed_problem(n_objectives, workers=4)
    _draws_from_its_generator_alone(lambda: [_rows(factory, problem, trainings, seed) for seed in (3, 4)])


def survives_failed_trainings_on_a_clock(factory: MethodFactory, n_objectives: int = 1) -> None:
    """Curves that end in NaN, or consist of NaN, do not stop the method."""
    problem, given = _timed_problem(n_objectives, workers=4)
    last = given.starts[1:] - 1
    for failed in (last[::3], last, slice(0, None)):
        losses = given.losses.copy()
        losses[failed] = np.nan
        _trial(factory, problem, replace(given, losses=losses))


def keeps_on_under_constraints_on_a_clock(factory: MethodFactory, n_objectives: int = 1) -> None:
    """Under constraints, the method continues to train, whether rows are feasible or not."""
    _keeps_on_under_constraints(factory, *_timed_problem(n_objectives, workers=4, per_axis=3))


def keeps_to_its_budget_of_rows(factory: MethodFactory, n_objectives: int = 1) -> None:
    """If only a few rows may be started, the method starts exactly this many and trains them to their end.

    The rule is in the docstring of `hpobench_nmt.core.problem.ParallelMethod`.
    """
    problem, trainings = _timed_problem(n_objectives, workers=3)
    limited = Problem(
        problem.features, n_objectives, 7, 2, workers=3, resources=problem.resources, clock="cost"
    )
    done = _trial(factory, limited, trainings)
    begun, ended = len(set(done.rows.tolist())), _rows_that_ended(done, trainings)
    if begun != limited.lookups:
        raise NonConformance(f"it started {counted(begun, 'row')}, but problem.lookups is {limited.lookups}.")
    if ended < begun:
        raise NonConformance(
            f"of {counted(begun, 'row')} that problem.lookups allows, it trained {ended} to the end. Once "
            "this many have started, `suggest` may only return rows among them."
        )


PARALLEL_CHECKS: tuple[Check, ...] = (
    trains_every_row_to_its_end,
    depends_on_its_generator_alone_on_a_clock,
    survives_failed_trainings_on_a_clock,
    keeps_on_under_constraints_on_a_clock,
    keeps_to_its_budget_of_rows,
)


def checks_for(factory: MethodFactory, n_objectives: int = 1) -> tuple[Check, ...]:
    """The checks for a method, by the functions that it has: `ask`, `suggest` or both."""
    problem, _ = _timed_problem(n_objectives, workers=1)
    with _failures_told():
        method = guarded("making it", factory, problem, np.random.default_rng(0))
    parallel = PARALLEL_CHECKS if callable(getattr(method, "suggest", None)) else ()
    sequential = CONFORMANCE_CHECKS if callable(getattr(method, "ask", None)) or not parallel else ()
    return sequential + parallel


# --- deprecated ------------------------------------------------------------------------------------


def repeats_an_unanswered_question(factory: MethodFactory, n_objectives: int = 1) -> None:
    """Deprecated: passes for every method, because the loop keeps an answer until it is used."""
    _deprecated("repeats_an_unanswered_question")


def suggests_the_same_again(factory: MethodFactory, n_objectives: int = 1) -> None:
    """Deprecated: passes for every method, because the loop keeps an answer until it is used."""
    _deprecated("suggests_the_same_again")


def _deprecated(check: str) -> None:
    warn_deprecated(
        check, "no check, because methods need not repeat an answer", since="1.1", removed_in="2.0"
    )
