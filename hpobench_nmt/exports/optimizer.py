"""A method on any search space, one configuration at a time: ask, evaluate, tell.

A method picks among N candidates: all configurations of a space of whole numbers and labels or, where it has
ranges of real numbers or is large, configurations drawn at random. In such a space a method that has `renew`
picks at every step among new ones too, half of them near the best so far. A file only needs the list of what
was asked and told: the method is made again from the seed and told the same.

While evaluations are pending, a method that knows parallel workers (`suggest`) is told of them. Any other is
made again and told all results, and their mean for each pending configuration (a "constant liar", Ginsbourger
et al. 2010), so that it asks for something else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import msgspec
import numpy as np

from hpobench_nmt.benchmarking.method_settings import split_spec
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.candidates import MOST_CANDIDATES, is_small
from hpobench_nmt.core.constraints import parse_constraints, teller
from hpobench_nmt.core.errors import InputError, RunError, check_whole
from hpobench_nmt.core.files import write_whole
from hpobench_nmt.core.guard import MethodFailure, guarded, row_number
from hpobench_nmt.core.objectives import measured
from hpobench_nmt.core.priors import guess_prior
from hpobench_nmt.core.problem import MethodFactory, Problem
from hpobench_nmt.core.seeds import check_seed, generator
from hpobench_nmt.core.space import Config, Space, Value
from hpobench_nmt.core.text import counted, printable
from hpobench_nmt.exports.candidates import Candidates
from hpobench_nmt.exports.optimizer_parts import (
    as_nulls,
    best_rows,
    checked_losses,
    main_effects,
    named_method,
)
from hpobench_nmt.exports.optimizer_state import Event as Event
from hpobench_nmt.exports.optimizer_state import State as State
from hpobench_nmt.exports.optimizer_state import read_state
from hpobench_nmt.methods import KNOWN

N_INITIAL = 3
N_CANDIDATES = 1000


class Optimizer:
    """A method that is asked for configurations, and told their losses.

        optimizer = hb.Optimizer({"layers": [1, 2, 4], "rate": (1e-4, 1e-1, "log")})
        for _ in range(20):
            config = optimizer.ask()
            optimizer.tell(config, train_and_measure(**config))

    Any number of configurations may be pending: asked for, and not told yet. The same seed, and results told
    in the same order, give the same configurations.

    Args:
        space: a Space, or a short description that `Space.of` takes.
        method: a name that `hpobench-nmt methods` lists, FILE.py:CLASS, or a class. Left out: BO_auto.
        objectives: number of losses that `tell` is given.
        budget: number of evaluations that the method may count on; left out: all candidates.
        seed: of the initial design, the method, and the candidates.
        n_initial: random configurations to begin with.
        constraints: bounds of metrics that `tell` is given, such as "seconds<=60". A configuration that
            misses one is not a solution; the method receives the excess.
        candidates: to draw, where the space has ranges of real numbers or more than 100,000 configurations;
            for a method that has `renew`, as many again at every step.
        prior: values that you expect to be good, by name, some or all. Methods such as piBO_M_std
            begin near them; others ignore them.
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
        self._n_even = len(self._candidates)  # before those near the best
        self._objectives, self._n_initial = objectives, n_initial
        self._rules = parse_constraints(constraints, "constraints")
        self._guess = dict(prior or {})
        self._seed, self._budget = seed, budget
        rng = generator(seed, "initial", "optimizer")
        # Whatever the budget is, which may grow.
        size = min(n_initial, self.n_candidates)
        self._initial = rng.choice(self.n_candidates, size=size, replace=False).tolist()
        self._told: dict[int, Floats] = {}
        self._missed: dict[int, Floats] = {}
        self._pending: list[int] = []
        self._events: list[Event] = []
        self._renew()
        self._draws_anew = hasattr(self._live, "renew") and not is_small(list(self.space))
        if not callable(self._tell_live):
            raise InputError(f"method {self._method.name} has no tell, and a function is evaluated whole.")

    def __repr__(self) -> str:
        return f"Optimizer({self._method.name}, {len(self._told)} told, {len(self._pending)} pending)"

    @property
    def told(self) -> list[tuple[dict[str, Value], Floats]]:
        """Configurations and their losses, NaN where failed, in the order in which they were told."""
        return [(self._candidates.config(row), losses.copy()) for row, losses in self._told.items()]

    @property
    def violations(self) -> Floats:
        """By how much each configuration that was told misses each bound, shape (n, c); see `tell`."""
        return np.array(list(self._missed.values())).reshape(len(self._missed), len(self._rules))

    @property
    def pending(self) -> list[dict[str, Value]]:
        """Configurations that were asked for and not told yet, the oldest first."""
        return [self._candidates.config(row) for row in self._pending]

    @overload
    def ask(self) -> dict[str, Value]: ...
    @overload
    def ask(self, n: int) -> list[dict[str, Value]]: ...
    def ask(self, n: int | None = None) -> dict[str, Value] | list[dict[str, Value]]:
        """The next configuration to evaluate, or a list of the next n; each is pending until `tell` gets it.

        Raises:
            InputError: every candidate has been asked for or told.
            RunError: the method fails, its answer is not a candidate, or it waits for what is pending.
        """
        if n is not None:
            check_whole("n", n, 1)
            return [self.ask() for _ in range(n)]
        if self.exhausted:
            raise InputError(f"all {self.n_candidates:,} candidates have been asked for or told.")
        row = self._next_row()
        self._pending.append(row)
        config = self._candidates.config(row)
        self._events.append(Event(dict(config)))  # the caller's is the caller's to change
        return config

    def tell(
        self,
        config: Config,
        losses: float | Sequence[float] | Floats | None,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        """The losses of a configuration, to be minimised.

        It need not have been asked for: results of an earlier search, at any point of the space, are told in
        the same way. Those that are none of the candidates are candidates from then on.

        Args:
            config: values by name. One that float32 has rounded is the candidate that it was made of.
            losses: a number, or one for each objective; None where the evaluation failed, or a loss that is
                NaN, infinite or beyond 1e150.
            metrics: by name, those that have constraints, NaN where one is missing. May be left out where the
                evaluation failed.

        Raises:
            InputError: the configuration is not in the space or was told before, the number of losses is
                wrong, or a metric that has a constraint is not there.
        """
        values = checked_losses(losses, self._objectives)
        self._tell(config, values, self._violations(values, metrics or {}))

    def _tell(self, config: Config, values: Floats, missed: Floats) -> None:
        row = self._candidates.row(config)
        if row in self._told:
            raise InputError(f"the losses of {dict(config)} are known already.")
        self._told[row], self._missed[row] = values, missed
        if row in self._pending:
            self._pending.remove(row)
        self._events.append(
            Event(self._candidates.config(row), as_nulls(values), as_nulls(missed) if self._rules else None)
        )

    def _violations(self, losses: Floats, metrics: Mapping[str, float]) -> Floats:
        """By how much the metrics miss the bounds, shape (c,), NaN where one is missing."""
        for rule in self._rules:
            if rule.metric not in metrics and not np.isnan(losses).any():
                known = ", ".join(map(str, metrics)) or "none"
                raise InputError(f"the constraint {rule} needs the metric {rule.metric!r}; given: {known}.")
        given = {name: math.nan if value is None else value for name, value in metrics.items()}
        try:
            return measured(np.array([rule.missed_by(given) for rule in self._rules], dtype=np.float64))
        except TypeError:
            raise InputError(f"metrics must be numbers, not {printable(repr(dict(metrics)))[:80]}.") from None

    @property
    def n_candidates(self) -> int:
        """N, the number of configurations that the method picks among, not counting new ones at a step."""
        return len(self._candidates)

    @property
    def exhausted(self) -> bool:
        """Whether every candidate was asked for or told, and no new ones are drawn."""
        return not self._draws_anew and len(self._told) + len(self._pending) >= self.n_candidates

    def recommend(self) -> dict[str, Value]:
        """The configuration to use, of those that were told and keep all constraints, for one loss.

        With `BO_auto` it is the one that the model expects to be best: where losses are noisy, the smallest
        one seen is often that of a lucky evaluation. With other methods it is the one of the smallest loss.

        Raises:
            InputError: nothing was told that could be recommended, or there are several losses.
        """
        if self._objectives > 1:
            raise InputError("with several losses no single configuration is the best: use the Pareto front.")
        rows = list(self._told)
        losses = np.array(list(self._told.values())).reshape(len(rows), 1)
        kept = (self.violations <= 0).all(axis=1) & ~np.isnan(losses[:, 0])
        if not kept.any():
            keeps = " and keeps all constraints" if self._rules else ""
            raise InputError(f"no configuration with a loss{keeps} is known yet.")
        if not hasattr(self._live, "recommend"):
            return self._candidates.config(rows[best_rows(losses, self.violations, 1)[0]])
        self._catch_up()
        known = [row for row, keeps in zip(rows, kept, strict=True) if keeps]
        return self._candidates.config(guarded("recommend", self._live.recommend, known))

    def expected_gain(self) -> float:
        """By how much the next evaluation is expected to lower the smallest loss, in its unit.

        It is the expected improvement of `BO_auto`. Stop once it is less than what such an improvement is
        worth to you. Infinite while nothing is known: as long as all losses are equal, or no configuration
        that was told keeps the constraints.

        Raises InputError with another method, or several losses.
        """
        self._refuse_without("expected_gain", "the expected gain")
        self._catch_up()
        running = dict.fromkeys(self._pending, math.inf)
        return float(guarded("expected_gain", self._live.expected_gain, running))

    def importance(self) -> dict[str, float]:
        """How much of the variance of the loss each hyperparameter explains alone, by name, largest first.

        The loss is that which `BO_auto` expects of every candidate, warped, so that what diverged does not
        explain everything. Shares sum to less than 1 where hyperparameters interact.

        Raises InputError with another method, several losses, or as long as no losses were told.
        """
        self._refuse_without("expected", "the importance")
        if not self._told:
            raise InputError("there are no losses yet, so importance is unknown.")
        self._catch_up()
        expected = guarded("expected", self._live.expected)[: self._n_even]
        shares = main_effects(self.space, self._problem.configs[: self._n_even], expected)
        return dict(sorted(shares.items(), key=lambda item: -item[1]))

    def _refuse_without(self, function: str, what: str) -> None:
        if self._objectives > 1 or not hasattr(self._live, function):
            raise InputError(f"{what} is that of BO_auto with one loss.")

    @property
    def state(self) -> State:
        """Everything that `save` writes.

        Raises InputError where the method was given as an object, which a file cannot name.
        """
        if self._method.factory is not None:
            raise InputError(
                f"method {self._method.name!r} was given as an object; give it as FILE.py:CLASS to save it."
            )
        return State(
            list(self.space),
            self._method.source,
            int(self._objectives),
            None if self._budget is None else int(self._budget),
            int(self._seed),
            len(self._initial),
            int(self._n_drawn),
            list(self._events),
            list(map(str, self._rules)),
            self._guess,
        )

    def save(self, path: str | Path) -> None:
        """Write a JSON file from which `load` resumes. It is there whole or not at all."""
        write_whole(Path(path), msgspec.json.format(msgspec.json.encode(self.state), indent=1) + b"\n")

    @classmethod
    def load(
        cls, path: str | Path, method: str | MethodFactory | None = None, *, budget: int | None = None
    ) -> Optimizer:
        """An optimizer as it was saved, pending configurations included.

        What was asked is asked again, so that the method continues as if it had not been interrupted. (With
        other versions of the libraries it may choose otherwise from there.)

        Args:
            path: the file.
            method: the method that the file names, where it is not one of the package's: a file cannot choose
                code to run.
            budget: another one than the file's, to continue for longer.

        Raises:
            InputError: what is wrong in the file.
        """
        where = Path(path)
        state = read_state(where)
        if method is None and split_spec(state.method)[0] not in KNOWN:
            raise InputError(
                f"{where}: the method '{printable(state.method)[:100]}' is not one of the package's. If you "
                "trust it, name it again: Optimizer.load(path, method=...)."
            )
        try:
            made = cls(
                Space(tuple(state.space)),
                state.method if method is None else method,
                objectives=state.objectives,
                budget=state.budget if budget is None else budget,
                seed=state.seed,
                n_initial=state.n_initial,
                candidates=state.candidates,
                constraints=state.constraints,
                prior=state.prior,
            )
            if made.state.method != state.method:
                raise InputError(f"is of the method '{printable(state.method)[:100]}'.")
            for event in state.events:
                made._replay(event)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        return made

    def _replay(self, event: Event) -> None:
        if event.losses is not None:
            losses = checked_losses([math.nan if v is None else v for v in event.losses], self._objectives)
            missed = [math.nan if v is None else v for v in event.violations or ()]
            if len(missed) != len(self._rules):
                raise InputError(
                    f"{event.config} has {len(missed)} violations of {len(self._rules)} constraints."
                )
            self._tell(event.config, losses, np.array(missed))
            return
        row = self._candidates.row(event.config)
        if row in self._told or row in self._pending:
            raise InputError(f"{event.config} is asked for twice.")
        if not (self._draws_anew and self._told):  # else the same is drawn at any time
            self._next_row()  # the method's generator moves on
        self._pending.append(row)
        self._events.append(event)

    def _next_row(self) -> int:
        for row in self._initial:
            if row not in self._told and row not in self._pending:
                return int(row)
        try:
            return self._answer()
        except MethodFailure as error:
            raise RunError(f"method {self._method.name} failed: {error}.") from error

    def _renew(self) -> None:
        """Make the method from all candidates, with those that were told besides the first ones."""
        self._problem = self._problem_of(self._candidates.codes)
        self._live, self._told_live = self._new_method(), set[int]()
        self._tell_live = self._teller(self._live)

    def _problem_of(self, configs: Floats) -> Problem:
        n = len(configs)
        lookups = n if self._budget is None else min(self._budget, n)
        features = self.space.features(configs)
        for array in (features, configs):  # a method must not change what it is made from again
            array.setflags(write=False)
        n_initial = min(self._n_initial, lookups)
        return Problem(
            features,
            self._objectives,
            lookups,
            n_initial,
            self.space,
            configs,
            constraints=tuple(map(str, self._rules)),
            prior=guess_prior(self.space, configs, self._guess, "the space") if self._guess else None,
        )

    def _catch_up(self) -> None:
        """Tell the method what it was not told yet, after new candidates where there are any."""
        if self._draws_anew:
            self._draw()
        elif len(self._problem.configs) < len(self._candidates):
            self._renew()
        self._tell_all(self._tell_live, self._told_live)

    def _draw(self) -> None:
        """New candidates, after those that are kept. They depend on what was told and asked, and the seed."""
        losses = np.array(list(self._told.values())).reshape(len(self._told), self._objectives)
        rows = list(self._told)
        around = self._candidates.codes[[rows[k] for k in best_rows(losses, self.violations)]]
        rng = generator(self._seed, "candidates", str(len(self._told) + len(self._pending)))
        self._problem = self._problem_of(self._candidates.and_new(around, rng))
        self._live.renew(self._problem)

    def _answer(self) -> int:
        self._catch_up()
        running = dict.fromkeys(self._pending, math.inf)
        suggests = hasattr(self._live, "suggest")
        name = "suggest" if suggests else "ask"
        if suggests:
            answer = guarded(name, self._live.suggest, running)
        elif not running:
            answer = guarded(name, self._live.ask)
        else:
            answer = guarded(name, self._told_of_pending().ask)
        if answer is None and running and suggests:
            raise RunError(
                f"method {self._method.name} waits for the losses of what is pending, "
                f"{counted(len(running), 'configuration')}: tell some of them."
            )
        row = row_number(
            name, answer[0] if isinstance(answer, tuple) and answer else answer, len(self._problem.configs)
        )
        if row in self._told or row in running:
            raise MethodFailure(f"{name} returned row {row}, which was asked for or told before")
        return row if row < len(self._candidates) else self._candidates.adopt(self._problem.configs[row])

    def _told_of_pending(self) -> Any:
        """The method made again, and told of each pending row the mean losses of those that are known."""
        other = self._new_method()
        tell = self._teller(other)
        self._tell_all(tell, set())
        known = np.array([v for v in self._told.values() if not np.isnan(v).any()])
        lie = known.mean(axis=0) if len(known) else np.zeros(self._objectives)
        for row in self._pending:
            guarded("tell", tell, row, lie.copy())
        return other

    def _tell_all(self, tell: Any, done: set[int]) -> None:
        for row, losses in self._told.items():
            if row not in done:
                guarded("tell", tell, row, losses.copy())
                done.add(row)

    def _teller(self, method: Any) -> Any:
        """What is called with each row and its losses; None where the method has no tell."""
        tell, at_the_bounds = getattr(method, "tell", None), np.zeros(len(self._rules))
        if tell is None or not self._rules:
            return tell
        return teller(method, tell, lambda row: self._missed.get(row, at_the_bounds))

    def _new_method(self) -> Any:
        return self._method.load()(self._problem, self._generator())

    def _generator(self) -> np.random.Generator:
        return generator(self._seed, "method", "optimizer", self._method.name)
