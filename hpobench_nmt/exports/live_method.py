"""A method that chooses among a growing number of candidates, while evaluations are pending.

The method receives new results only when it is asked for a configuration. If candidates were added since it
was constructed, it is constructed again and receives all results again. A method with `renew` is not
constructed again, but receives the new candidates. At every step it also chooses among freshly drawn
candidates, half of them near the best so far. After REFINED_AFTER evaluations, each answer is refined: the
method is asked again with candidates near it, REFINEMENTS times.

To keep steps fast, such a method is told fewer than MODELLED evaluations. When the limit is reached, it is
constructed again with FORGOTTEN fewer. An eighth of those that it keeps are the best so far; with several
losses, up to three quarters are the front. The others are spread evenly over the search, so that the method
does not lose sight of other regions. From then on, half as many candidates are drawn, and later a quarter.

A method with `suggest` also receives the pending evaluations. Any other method is constructed again while
evaluations are pending. It receives all results, and their mean as the result of each pending configuration
(a "constant liar", Ginsbourger et al. 2010), so that it asks for another configuration.
"""

from __future__ import annotations

import math
from bisect import bisect_left
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
MODELLED, FORGOTTEN = 256, 64


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
        numbers: the candidates' numbers of its first rows, ascending. The other rows were drawn for the step.
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
        self.draws_anew = False
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
                self._renew(self._candidates.near(codes, self._draws(f"near {turn}"), self._part))
                row = self._asked()
        if row < len(self.numbers):
            return self.numbers[row]
        return self._candidates.adopt(self.problem.configs[row])

    def _draws(self, *parts: str) -> np.random.Generator:
        """A generator that depends only on the seed and on the calls of `ask` and `tell` so far."""
        number = len(self._known.losses) + len(self._known.pending)
        return generator(self._seed, "candidates", str(number), *parts)

    @property
    def _part(self) -> int:
        """The share of the usual candidates that is drawn is 1 / `_part`."""
        return min(max(2 * self._cut() // MODELLED, 1), 4)

    def _asked(self) -> int:
        """The row of the method's answer, in `problem`."""
        running = self._running()
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
        if row in running or (row < len(self.numbers) and self.numbers[row] in self._known.losses):
            raise MethodFailure(f"{name} returned row {row}, which is pending or evaluated already")
        return row

    def call(self, name: str, of_next: bool = False) -> Any:
        """What a function of the method returns, when the method has received all results.

        Args:
            name: of the function.
            of_next: whether it is about the next answer: new candidates are drawn first, and the function
                receives the pending rows.
        """
        with self._naming_failures():
            self._catch_up(among_new=of_next)
            return guarded(name, getattr(self.made, name), *([self._running()] if of_next else []))

    def recommended(self, rows: Sequence[int]) -> int:
        """The one of some evaluated configurations that the method's `recommend` names."""
        with self._naming_failures():
            self._catch_up(among_new=False)
            known = [self._row(number) for number in rows if number not in self._left_out]
            return self.numbers[recommended_row(self.made, known, len(self.numbers))]

    @contextmanager
    def _naming_failures(self) -> Iterator[None]:
        """Turn a failure of the method's code into a RunError that names the method."""
        try:
            yield
        except MethodFailure as error:
            raise RunError(f"method {self._method.name} failed: {error}.") from error

    def _catch_up(self, among_new: bool) -> None:
        """Pass on candidates that were added or are drawn now, and then the results that the method lacks."""
        grown = len(self._candidates) != self._settled
        if self._cut() != self._last_cut or (grown and not self.draws_anew):
            self.start_again()
        if self.draws_anew and among_new:
            around = self._candidates.codes[self._known.best]
            self._renew(self._candidates.new(around, self._draws(), self._part))
        elif self.draws_anew and grown:
            self._renew(self._candidates.codes[:0])
        self._tell_all(self._tell, self._told)

    def start_again(self) -> None:
        """Construct the method with all candidates, including those that `tell` has added.

        It receives the results when it is next used.
        """
        self._settled, self._last_cut = len(self._candidates), self._cut()
        self._left_out = self._forgotten()
        self.numbers = [number for number in range(self._settled) if number not in self._left_out]
        self.problem = self._problem_of(self._candidates.codes[self.numbers])
        with self._naming_failures():
            self.made, self._told = self._new(), set(self._left_out)
            self.draws_anew = hasattr(self.made, "renew") and not is_small(list(self.problem.space))
            if self.draws_anew:  # it must know this before its first result
                guarded("renew", self.made.renew, self.problem)
        self._tell = self._teller(self.made)

    def _cut(self) -> int:
        """The number of evaluated configurations, the first ones, of which some are forgotten."""
        n = len(self._known.losses)
        return n - n % FORGOTTEN if self.draws_anew and n >= MODELLED else 0

    def _forgotten(self) -> set[int]:
        """The numbers of evaluated configurations that the method is not told."""
        first, kept = list(self._known.losses)[: self._cut()], MODELLED - FORGOTTEN
        if not first:
            return set()
        losses = np.array([self._known.losses[number] for number in first])
        best = set(best_rows(losses, self._known.violations[: len(first)], kept // 8)[: kept * 3 // 4])
        others = [k for k in range(len(first)) if k not in best]
        spread = np.linspace(0, len(others) - 1, kept - len(best)).astype(int)
        return set(first) - {first[k] for k in best} - {first[others[k]] for k in spread}

    def _row(self, number: int) -> int:
        """The row of a candidate, in `problem`."""
        return bisect_left(self.numbers, number)

    def _running(self) -> dict[int, float]:
        """The rows of pending configurations, and infinity for each."""
        return dict.fromkeys(map(self._row, self._known.running), math.inf)

    def _renew(self, drawn: Floats) -> None:
        """Choose among the candidates and new draws from now on."""
        self.numbers += range(self._settled, len(self._candidates))
        self._settled = len(self._candidates)
        self.problem = self._problem_of(np.vstack([self._candidates.codes[self.numbers], drawn]))
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
        self._tell_all(tell, set(self._left_out))
        known = np.array([v for v in self._known.losses.values() if not np.isnan(v).any()])
        lie = known.mean(axis=0) if len(known) else np.zeros(self._known.n_losses)
        for row in self._running():
            guarded("tell", tell, row, lie.copy())
        return other

    def _tell_all(self, tell: Any, done: set[int]) -> None:
        for number, losses in self._known.losses.items():
            if number not in done:
                guarded("tell", tell, self._row(number), losses.copy())
                done.add(number)

    def _teller(self, method: Any) -> Any:
        """The function to call with each row and its losses; None if the method has no `tell`."""
        tell, at_the_bounds = getattr(method, "tell", None), np.zeros(self._known.n_rules)
        if tell is None or not self._known.n_rules:
            return tell
        return teller(method, tell, lambda row: self._known.missed.get(self.numbers[row], at_the_bounds))
