"""A method on any search space, one configuration at a time: ask, evaluate, tell.

A method chooses among N candidates. In a space of whole numbers and labels, these are all configurations. If
the space has ranges of real numbers or is large, they are drawn at random (`live_method.py`). A saved file
needs only the list of what `ask` returned and `tell` received, because the method is constructed again from
the seed and receives the same.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import overload

import numpy as np

from hpobench_nmt.core.arrays import Floats, frozen
from hpobench_nmt.core.candidates import MOST_CANDIDATES
from hpobench_nmt.core.constraints import parse_constraints
from hpobench_nmt.core.known_values import described, known_prior
from hpobench_nmt.core.priors import guess_prior
from hpobench_nmt.core.problem import MethodFactory, Problem
from hpobench_nmt.core.seeds import check_seed, generator
from hpobench_nmt.core.space import Config, Space, Value
from hpobench_nmt.core.space_exchange import prior_of_configspace
from hpobench_nmt.core.system.errors import InputError, check_whole, prefixed
from hpobench_nmt.core.system.text import brief
from hpobench_nmt.exports.candidates import Candidates
from hpobench_nmt.exports.live_method import Known, LiveMethod
from hpobench_nmt.exports.optimizer_parts import (
    as_nulls,
    checked_losses,
    checked_prior,
    known_values,
    main_effects,
    named_method,
    violations_of,
    warn_of_ignored,
)
from hpobench_nmt.exports.optimizer_state import Event, State, method_of, read_state, told_in, write_state
from hpobench_nmt.exports.repeats import checked_repeats, may_repeat, row_to_evaluate_again, row_to_recommend

N_INITIAL = 3
N_CANDIDATES = 1000


class Optimizer:
    """A method in a loop of your own: `ask` returns configurations, and `tell` receives their losses.

        optimizer = hb.Optimizer({"layers": [1, 2, 4], "rate": (1e-4, 1e-1, "log")})
        for _ in range(20):
            config = optimizer.ask()
            optimizer.tell(config, train_and_measure(**config))

    Any number of configurations may be pending, which means that `ask` has returned them, and `tell` has not
    received them yet. The same seed, with results told in the same order, gives the same configurations.

    Args:
        space: a Space, or what `Space.of` takes: a short description, Optuna's distributions by name, or a
            ConfigSpace, whose normal and beta distributions are a prior.
        method: a name that `hpobench-nmt methods` lists, FILE.py:CLASS, or a class. By default, BO_auto.
        objectives: number of losses that `tell` receives.
        budget: number of evaluations that the method can plan with. By default, all candidates.
        seed: seed of the initial design, the method, and the candidates.
        n_initial: number of random configurations at the start.
        constraints: bounds of metrics that `tell` receives, such as "seconds<=60". A configuration that
            violates a bound is not a solution; the method receives the excess.
        candidates: number of configurations to draw if the space has ranges of real numbers or more than
            100,000 configurations. A method that has `renew` draws as many again at every step.
        prior: values of some or all hyperparameters that you expect to be good, by name. A pair of numbers
            means that you expect the best value between them with a probability of 80%. piBO_M_std and
            BO_known start near them; the other methods of this package ignore them, with a warning.
        repeats: "auto" to let `ask` return a configuration again if noise hides which of the best two is
            better, for at most 15% of the evaluations, or if every candidate has been evaluated. The losses
            of a configuration are averaged for the method, and `recommend` returns the configuration with
            the smallest expected loss, given all evaluations. For one loss.
        start: a configuration to evaluate first, such as the one that you use today.
    """

    def __init__(
        self,
        space: Space | Mapping[str, object],
        method: str | MethodFactory | None = None,
        *,
        objectives: int = 1,
        budget: int | None = None,
        seed: int = 0,
        n_initial: int = N_INITIAL,
        candidates: int = N_CANDIDATES,
        constraints: Sequence[str] = (),
        prior: Mapping[str, Value] | None = None,
        repeats: str | None = None,
        start: Config | None = None,
    ) -> None:
        self.space = space if isinstance(space, Space) else Space.of(space)
        check_whole("objectives", objectives, 1)
        self._method = named_method(method, objectives)
        check_seed(seed)
        if budget is not None:
            check_whole("budget", budget, 1)
        check_whole("n_initial", n_initial, 0)
        check_whole("candidates", candidates, 1, MOST_CANDIDATES)
        self._candidates, self._n_drawn = Candidates(self.space, candidates, seed), candidates
        self._n_even = len(self._candidates)  # without candidates that are added later, often near the best
        self._rules = parse_constraints(constraints, "constraints")
        of_space = prior_of_configspace(space)
        self._guess = checked_prior(self.space, of_space) | checked_prior(self.space, prior)
        warn_of_ignored(self._method, self._guess)
        self._expected = known_values(self.space, self._method, self._guess)
        self._seed, self._budget, self._n_initial = seed, budget, n_initial
        self._repeats = checked_repeats(repeats, objectives)
        if not isinstance(start, Mapping | None):
            raise InputError(f"start must be a configuration, values by name, not {brief(start)}.")
        self._start = None if start is None else dict(start)
        with prefixed("start"):
            self._initial = self._candidates.initial(n_initial, self._start)
        self._known = Known(objectives, len(self._rules))
        self._events: list[Event] = []
        self._live = LiveMethod(
            self._method, self._candidates, self._known, self._problem_among, self._generator, seed
        )

    def __repr__(self) -> str:
        told, pending = len(self._known.losses), len(self._known.pending)
        expects = f"; expects {described(self._expected)}" if self._expected else ""
        return f"Optimizer({self._method.name}, {told} told, {pending} pending{expects})"

    @property
    def told(self) -> list[tuple[dict[str, Value], Floats]]:
        """Configurations and their losses (NaN if failed), in the order in which `tell` received them.

        A configuration that was evaluated again has the mean of the evaluations that did not fail.
        """
        return [(self._candidates.config(row), losses.copy()) for row, losses in self._known.losses.items()]

    @property
    def evaluations(self) -> list[tuple[dict[str, Value], Floats]]:
        """The configuration and the losses of each call of `tell`, in order, with repeats."""
        return [(self._candidates.config(row), losses.copy()) for row, losses, _ in self._known.evaluations]

    @property
    def n_evaluations(self) -> int:
        """How often `tell` received losses, with repeats."""
        return len(self._known.evaluations)

    @property
    def violations_of_evaluations(self) -> Floats:
        """The amount by which each of `evaluations` misses each bound, shape (n, c)."""
        missed = [each[2] for each in self._known.evaluations]
        return np.array(missed).reshape(len(missed), len(self._rules))

    def count(self, config: Config) -> int:
        """How often a configuration was evaluated."""
        row = self._candidates.row(config)
        return sum(each[0] == row for each in self._known.evaluations)

    @property
    def violations(self) -> Floats:
        """The amount by which each configuration of `told` misses each bound, shape (n, c); see `tell`."""
        return self._known.violations

    @property
    def pending(self) -> list[dict[str, Value]]:
        """Configurations that `ask` has returned and `tell` has not received yet, oldest first."""
        return [self._candidates.config(row) for row in self._known.pending]

    @overload
    def ask(self) -> dict[str, Value]: ...
    @overload
    def ask(self, n: int) -> list[dict[str, Value]]: ...
    def ask(self, n: int | None = None) -> dict[str, Value] | list[dict[str, Value]]:
        """Return the next configuration to evaluate, or a list of the next n; each is pending until `tell`.

        Raises:
            InputError: every candidate is pending or has been evaluated, or fewer than n are left.
            RunError: the method fails, its answer is not a candidate, or it waits for pending evaluations. In
                that case none of the n is pending.
        """
        if n is not None:
            check_whole("n", n, 1)
            return self._batch(n)
        again = self._row_again()
        if again is None and self.exhausted:
            raise InputError(f"all {self.n_candidates:,} candidates are pending or evaluated.")
        row = self._next_row() if again is None else again
        self._known.pending.append(row)
        config = self._candidates.config(row)
        self._events.append(Event(dict(config)))  # a copy, because the caller may change the configuration
        return config

    def _row_again(self) -> int | None:
        if not self._repeats:
            return None
        return row_to_evaluate_again(self.space, self._candidates, self._known, self.exhausted)

    def _batch(self, n: int) -> list[dict[str, Value]]:
        if 0 < self._left < n and not self._repeats:
            raise InputError(f"ask({n:,}): {self._left:,} of {self.n_candidates:,} candidates are left.")
        pending, events = len(self._known.pending), len(self._events)
        try:
            return [self.ask() for _ in range(n)]
        except Exception:
            del self._known.pending[pending:], self._events[events:]
            raise

    def tell(
        self,
        config: Config,
        losses: float | Sequence[float] | Floats | None,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        """Receive the losses of a configuration, to be minimised.

        The configuration need not come from `ask`, so you can add results of an earlier search at any
        point of the space. A configuration that is not a candidate becomes one.

        Args:
            config: values by name. Values rounded to float32 are recognised as the candidate's values.
            losses: a number, or a number for each objective. The evaluation failed if this is None, or if a
                loss is NaN, infinite or beyond 1e150.
            metrics: the metrics that have constraints, by name; NaN if a metric is missing. Not needed if the
                evaluation failed.

        Raises:
            InputError: the configuration is not in the space, its losses are known already and `repeats` is
                None, the number of losses is wrong, or a metric that has a constraint is missing.
        """
        values = checked_losses(losses, self._known.n_losses)
        self._tell(config, values, violations_of(self._rules, values, metrics))

    def _tell(self, config: Config, values: Floats, missed: Floats) -> None:
        row = self._candidates.row(config)
        known = self._known
        again = row in known.losses
        if again and not self._repeats:
            raise InputError(
                f'the losses of {dict(config)} are known already; to evaluate it again, pass repeats="auto".'
            )
        violations = as_nulls(missed) if self._rules else None
        event = Event(self._candidates.config(row), as_nulls(values), violations)
        known.add(row, values, missed)
        if again:
            self._live.start_again()
        if row in known.pending:
            known.pending.remove(row)
        self._events.append(event)

    @property
    def n_candidates(self) -> int:
        """N, the number of configurations that the method chooses among, without those drawn at a step."""
        return len(self._candidates)

    @property
    def exhausted(self) -> bool:
        """Whether every candidate is pending or evaluated, and no new candidates are drawn."""
        return self._left <= 0

    @property
    def _is_done(self) -> bool:
        """Whether nothing is left to evaluate, not even again."""
        return self.exhausted and not (self._repeats and may_repeat(self._known))

    @property
    def _left(self) -> float:
        """How many candidates `ask` can still return; infinite if new candidates are drawn."""
        met = len(self._known.losses) + len(self._known.running)
        return math.inf if self._live.draws_anew else self.n_candidates - met

    def recommend(self) -> dict[str, Value]:
        """The evaluated configuration to use in the end, of those that satisfy all constraints; for one loss.

        With repeats or with `BO_auto`, it is the configuration that the model expects to be best, because
        with noisy losses the smallest loss often comes from a lucky evaluation. Otherwise, it has the
        smallest loss.

        Raises:
            InputError: no evaluation can be recommended, or there are several losses.
            RunError: the method fails, or its answer is not one of these evaluations.
        """
        row = row_to_recommend(self.space, self._candidates, self._known, self._live, self._repeats)
        return self._candidates.config(row)

    def expected_gain(self) -> float:
        """The amount by which the next evaluation is expected to lower the smallest loss, in its unit.

        It is the expected improvement of `BO_auto`. Stop when it is not worth an evaluation. It is infinite
        as long as all losses are equal, or no evaluated configuration satisfies the constraints.

        Raises InputError with another method, or several losses.
        """
        self._refuse_without("expected_gain", "the expected gain")
        return float(self._live.call("expected_gain", of_next=True))

    def importance(self) -> dict[str, float]:
        """Share of the variance of the loss that each hyperparameter explains alone, by name, largest first.

        It uses the warped loss that `BO_auto` predicts for every candidate, so that diverged evaluations do
        not dominate. If hyperparameters interact, the shares sum to less than 1.

        Raises InputError with another method, with several losses, or before the first evaluation.
        """
        self._refuse_without("expected", "the importance")
        if not self._known.losses:
            raise InputError("there are no losses yet, so importance is unknown.")
        expected = self._live.call("expected")
        even = bisect_left(self._live.numbers, self._n_even)
        shares = main_effects(self.space, self._live.problem.configs[:even], expected[:even])
        return dict(sorted(shares.items(), key=lambda item: -item[1]))

    def _refuse_without(self, function: str, what: str) -> None:
        """Raise InputError with several losses, or if the method lacks a function that `BO_auto` has."""
        if self._known.n_losses > 1 or not hasattr(self._live.made, function):
            raise InputError(f"{what} needs BO_auto and one loss.")

    @property
    def state(self) -> State:
        """Everything that `save` writes.

        Raises InputError if the method was given as an object, which a file cannot name.
        """
        if self._method.factory is not None:
            raise InputError(
                f"method {self._method.name!r} was given as an object; give it as FILE.py:CLASS to save it."
            )
        return State(
            list(self.space),
            self._method.source,
            int(self._known.n_losses),
            None if self._budget is None else int(self._budget),
            int(self._seed),
            len(self._initial),
            int(self._n_drawn),
            list(self._events),
            list(map(str, self._rules)),
            self._guess,
            "auto" if self._repeats else None,
            self._start,
        )

    def save(self, path: str | Path) -> None:
        """Write a JSON file from which `load` resumes. It is written completely or not at all."""
        write_state(Path(path), self.state)

    @classmethod
    def load(
        cls, path: str | Path, method: str | MethodFactory | None = None, *, budget: int | None = None
    ) -> Optimizer:
        """Load an optimizer from a file of `save`, including pending configurations.

        All calls are repeated, so the method continues as if it had not been interrupted. (With other
        versions of the libraries, its next choices may differ.)

        Args:
            path: the file.
            method: the method that the file names, if it is not a method of this package, because a file must
                not choose the code to run.
            budget: a new budget instead of the file's, to continue for longer.

        Raises:
            InputError: the file is wrong; the message states how.
        """
        where = Path(path)
        return cls.resumed(read_state(where), where, method, budget)

    @classmethod
    def resumed(
        cls, state: State, where: Path, method: str | MethodFactory | None, budget: int | None
    ) -> Optimizer:
        """An optimizer from the content of a file. Errors name the file."""
        named = method_of(state, where) if method is None else method
        with prefixed(where):
            made = cls(
                Space(tuple(state.space)),
                named,
                objectives=state.objectives,
                budget=state.budget if budget is None else budget,
                seed=state.seed,
                n_initial=state.n_initial,
                candidates=state.candidates,
                constraints=state.constraints,
                prior=state.prior,
                repeats=state.repeats,
                start=state.start,
            )
            if made.state.method != state.method:
                raise InputError(f"is of the method '{state.shown_method}'.")
            for event in state.events:
                made._replay(event)
        return made

    def _replay(self, event: Event) -> None:
        if event.losses is not None:
            self._tell(event.config, *told_in(event, self._known.n_losses, len(self._rules)))
            return
        row = self._candidates.row(event.config)
        again = row in self._known.losses
        if (again and not self._repeats) or row in self._known.pending:
            raise InputError(f"{event.config} is pending twice.")
        # If the method draws anew, later draws do not depend on this one.
        if not again and not (self._live.draws_anew and self._known.losses):
            self._next_row()  # advances the method's generator
        self._known.pending.append(row)
        self._events.append(event)

    def _next_row(self) -> int:
        for row in self._initial:
            if row not in self._known.losses and row not in self._known.pending:
                return int(row)
        return self._live.answer()

    def _problem_among(self, configs: Floats) -> Problem:
        """The problem of choosing among configurations, shape (N, H); without a budget, all of them.

        The prior is the user's guess, and what is expected of other hyperparameters.
        """
        n = len(configs)
        lookups = n if self._budget is None else min(self._budget, n)
        configs.setflags(write=False)  # the method may be constructed again from these arrays
        prior = None
        if self._guess:
            known = known_prior(self.space, configs, self._expected)
            prior = frozen(guess_prior(self.space, configs, self._guess, "the space") + known)
        return Problem(
            frozen(self.space.features(configs)),
            self._known.n_losses,
            lookups,
            min(self._n_initial, lookups),
            self.space,
            configs,
            constraints=tuple(map(str, self._rules)),
            prior=prior,
        )

    def _generator(self) -> np.random.Generator:
        """The method's generator in its initial state."""
        return generator(self._seed, "method", "optimizer", self._method.name)
