"""A method that chooses among a growing number of candidates, while evaluations are pending.

The method receives new results only when it is asked for a configuration. If candidates were added since it
was constructed, it is constructed again and receives all results again. A method with `renew` is not
constructed again, but receives the new candidates. At every step it also chooses among freshly drawn
candidates, half of them near the best so far. After REFINED_AFTER evaluations, each answer is refined: the
method is asked again with candidates near it, REFINEMENTS times.

A method with `suggest` also receives the pending evaluations. Any other method is constructed again while
evaluations are pending. It receives all results, and their mean as the result of each pending configuration
(a "constant liar", Ginsbourger et al. 2010), so that it asks for another configuration.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hpobench_nmt.benchmarking.contestants.plugins import NamedMethod
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.candidates import is_small
from hpobench_nmt.core.constraints import teller
from hpobench_nmt.core.guard import MethodFailure, as_failure, guarded, recommended_row, row_number
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.seeds import generator
from hpobench_nmt.core.system.compiled import starting
from hpobench_nmt.core.system.errors import InputError, RunError
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.exports.candidates import Candidates
from hpobench_nmt.exports.optimizer_parts import best_rows

REFINED_AFTER, REFINEMENTS = 10, 3
"""In many dimensions, draws are far from the best point. A few evaluations do not tell where it is."""


@dataclass(frozen=True)
class Known:
    """The calls of `ask` and `tell` so far. This grows.

    Attributes:
        n_losses: number of losses of each configuration.
        n_rules: number of constraints.
        losses: by the configuration's number, shape (n_losses,), in the order of `tell`; the mean of its
            evaluations that did not fail.
        missed: by how much each configuration misses the constraints, shape (n_rules,); likewise.
        pending: numbers of configurations that `ask` has returned and `tell` has not received, oldest first.
        evaluations: the configuration, losses and violations of each call of `tell`.
    """

    n_losses: int
    n_rules: int
    losses: dict[int, Floats] = field(default_factory=dict)
    missed: dict[int, Floats] = field(default_factory=dict)
    pending: list[int] = field(default_factory=list)
    evaluations: list[tuple[int, Floats, Floats]] = field(default_factory=list)

    def add(self, row: int, losses: Floats, missed: Floats) -> None:
        """One more evaluation of a configuration."""
        self.evaluations.append((row, losses, missed))
        own = [each for each in self.evaluations if each[0] == row]
        done = [each for each in own if not np.isnan(each[1]).any()] or own
        self.losses[row] = np.mean([each[1] for each in done], axis=0)
        self.missed[row] = np.mean([each[2] for each in done], axis=0)

    @property
    def trainings(self) -> dict[int, Floats]:
        """The first loss of each evaluation, by configuration; NaN if it failed."""
        found: dict[int, list[float]] = {row: [] for row in self.losses}
        for row, losses, _ in self.evaluations:
            found[row].append(float(losses[0]))
        return {row: np.array(own) for row, own in found.items()}

    @property
    def running(self) -> list[int]:
        """The pending configurations that have not been evaluated yet."""
        return [row for row in self.pending if row not in self.losses]

    @property
    def violations(self) -> Floats:
        """`missed` of all evaluated configurations, shape (n, n_rules)."""
        return np.array(list(self.missed.values())).reshape(len(self.missed), self.n_rules)

    @property
    def best(self) -> list[int]:
        """Numbers of the best configurations."""
        losses = np.array(list(self.losses.values())).reshape(len(self.losses), self.n_losses)
        rows = list(self.losses)
        return [rows[k] for k in best_rows(losses, self.violations)]


class LiveMethod:
    """The current object of a method, and what it has received.

    Args:
        method: the named method.
        candidates, known: those of the optimizer, which grow.
        problem_of: makes the problem from codes, shape (N, H).
        generator_of: makes the method's generator in its initial state.
        seed: the seed of new candidates.

    Attributes:
        problem: the problem with the candidates of the last step.
        made: the method's object.
        draws_anew: whether it chooses among new candidates at every step.

    Every function raises RunError, which names the method, if the method's code fails.
    """

    def __init__(
        self,
        method: NamedMethod,
        candidates: Candidates,
        known: Known,
        problem_of: Callable[[Floats], Problem],
        generator_of: Callable[[], np.random.Generator],
        seed: int,
    ) -> None:
        self._method, self._candidates, self._known = method, candidates, known
        self._problem_of, self._generator_of, self._seed = problem_of, generator_of, seed
        self.start_again()
        if not callable(self._tell):
            raise InputError(
                f"method {method.name} has no tell, but evaluations of a function cannot be stopped early."
            )

    def answer(self) -> int:
        """The number of the configuration that the method asks for. A newly drawn one gets a new number.

        Raises RunError if the method waits for pending evaluations.
        """
        with self._naming_failures(), starting():
            self._catch_up(among_new=True)
            row = self._asked()
            refines = self.draws_anew and len(self._known.losses) >= REFINED_AFTER
            for turn in range(REFINEMENTS if refines else 0):
                codes = self.problem.configs[row]
                self._renew(self._candidates.and_near(codes, self._draws(f"near {turn}")))
                row = self._asked()
        return row if row < len(self._candidates) else self._candidates.adopt(self.problem.configs[row])

    def _draws(self, *parts: str) -> np.random.Generator:
        """A generator that depends only on the seed and on the calls of `ask` and `tell` so far."""
        number = len(self._known.losses) + len(self._known.pending)
        return generator(self._seed, "candidates", str(number), *parts)

    def _asked(self) -> int:
        """The number of the method's answer, in `problem`."""
        running = dict.fromkeys(self._known.running, math.inf)
        suggests = hasattr(self.made, "suggest")
        name = "suggest" if suggests else "ask"
        if suggests:
            answer = guarded(name, self.made.suggest, running)
        else:
            answer = guarded(name, (self._told_of_pending() if running else self.made).ask)
        if answer is None and running and suggests:
            raise RunError(
                f"method {self._method.name} waits for losses of pending configurations "
                f"({counted(len(running), 'configuration')}): tell some of them."
            )
        answer = answer[0] if isinstance(answer, tuple) and answer else answer
        row = row_number(name, answer, len(self.problem.configs))
        if row in self._known.losses or row in running:
            raise MethodFailure(f"{name} returned row {row}, which is pending or evaluated already")
        return row

    def call(self, name: str, *arguments: object, among_new: bool = False) -> Any:
        """What a function of the method returns, when the method has received all results.

        Args:
            name: of the function.
            arguments: of the function.
            among_new: whether new candidates are drawn first.
        """
        with self._naming_failures():
            self._catch_up(among_new)
            return guarded(name, getattr(self.made, name), *arguments)

    def recommended(self, rows: Sequence[int]) -> int:
        """The one of some evaluated configurations that the method's `recommend` names."""
        with self._naming_failures():
            self._catch_up(among_new=False)
            return recommended_row(self.made, rows, len(self._candidates))

    @contextmanager
    def _naming_failures(self) -> Iterator[None]:
        """Turn a failure of the method's code into a RunError that names the method."""
        try:
            yield
        except MethodFailure as error:
            raise RunError(f"method {self._method.name} failed: {error}.") from error

    def _catch_up(self, among_new: bool) -> None:
        """Pass on candidates that were added or are drawn now, and then the results that the method lacks."""
        if self.draws_anew and among_new:
            around = self._candidates.codes[self._known.best]
            self._renew(self._candidates.and_new(around, self._draws()))
        elif len(self._candidates) != self._settled:
            if self.draws_anew:
                self._renew(self._candidates.codes)
            else:
                self.start_again()
        self._tell_all(self._tell, self._told)

    def start_again(self) -> None:
        """Construct the method with all candidates, including those that `tell` has added.

        It receives the results when it is next used.
        """
        self._settled = len(self._candidates)
        self.problem = self._problem_of(self._candidates.codes)
        with self._naming_failures():
            self.made, self._told = self._new(), set[int]()
            self.draws_anew = hasattr(self.made, "renew") and not is_small(list(self.problem.space))
            if self.draws_anew:  # it must know this before its first result
                guarded("renew", self.made.renew, self.problem)
        self._tell = self._teller(self.made)

    def _renew(self, codes: Floats) -> None:
        self._settled = len(self._candidates)
        self.problem = self._problem_of(codes)
        guarded("renew", self.made.renew, self.problem)

    def _new(self) -> Any:
        try:
            return self._method.load()(self.problem, self._generator_of())
        except InputError:  # what the method does not support, in its own words
            raise
        except BaseException as error:
            raise as_failure("the constructor", error) from error

    def _told_of_pending(self) -> Any:
        """The method, constructed again, with the mean of the known losses as result of each pending row."""
        other = self._new()
        tell = self._teller(other)
        self._tell_all(tell, set())
        known = np.array([v for v in self._known.losses.values() if not np.isnan(v).any()])
        lie = known.mean(axis=0) if len(known) else np.zeros(self._known.n_losses)
        for row in self._known.running:
            guarded("tell", tell, row, lie.copy())
        return other

    def _tell_all(self, tell: Any, done: set[int]) -> None:
        for row, losses in self._known.losses.items():
            if row not in done:
                guarded("tell", tell, row, losses.copy())
                done.add(row)

    def _teller(self, method: Any) -> Any:
        """The function to call with each row and its losses; None if the method has no `tell`."""
        tell, at_the_bounds = getattr(method, "tell", None), np.zeros(self._known.n_rules)
        if tell is None or not self._known.n_rules:
            return tell
        return teller(method, tell, lambda row: self._known.missed.get(row, at_the_bounds))
