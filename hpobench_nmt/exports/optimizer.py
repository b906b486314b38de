"""A method on any search space, one configuration at a time: ask, evaluate, tell.

A method picks among N candidates: all configurations of a space of whole numbers and labels or, where it has
ranges of real numbers or is large, configurations drawn at random. A file only needs the list of what was
asked and told: the method is made again from the seed and told the same.

While evaluations are pending, a method that knows parallel workers (`suggest`) is told of them. Any other is
made again and told all results, and their mean for each pending configuration (a "constant liar", Ginsbourger
et al. 2010), so that it asks for something else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from hpobench_nmt.benchmarking.method_settings import split_spec
from hpobench_nmt.benchmarking.plugins import NamedMethod, resolve_methods
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.candidates import MOST_CANDIDATES, whole_or_drawn
from hpobench_nmt.core.errors import InputError, RunError, check_whole
from hpobench_nmt.core.files import read_json, write_whole
from hpobench_nmt.core.guard import MethodFailure, guarded, row_number
from hpobench_nmt.core.objectives import measured
from hpobench_nmt.core.problem import MethodFactory, Problem
from hpobench_nmt.core.seeds import check_seed, generator
from hpobench_nmt.core.space import Config, Hyperparameter, Space, Value, config_key
from hpobench_nmt.core.text import counted, printable
from hpobench_nmt.core.validation import Finite, Natural, Positive, Strict, checked
from hpobench_nmt.methods import BUILT_IN, KNOWN, of_objectives

USUAL_METHODS = {1: "BO_EI_M_std", 2: "BO_M_std"}
"""The method for one loss and for two, where none is named; ParEGO_M for more."""
N_INITIAL = 3
N_CANDIDATES = 1000

_FORMAT = 1


class Event(Strict, frozen=True, omit_defaults=True):
    """A configuration that was asked for, or told its losses: null where the evaluation failed."""

    config: dict[str, bool | int | float | str]
    losses: list[Finite | None] | None = None


class State(Strict, frozen=True):
    """A file from which an optimizer resumes."""

    space: list[Hyperparameter]
    method: str
    objectives: Positive
    budget: Positive | None
    seed: Natural
    n_initial: Natural
    candidates: Annotated[int, msgspec.Meta(ge=1, le=MOST_CANDIDATES)]
    events: list[Event]
    format: int = _FORMAT


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
        method: a name that `hpobench-nmt methods` lists, FILE.py:CLASS, or a class. Left out: BO_EI_M_std for
            one loss, BO_M_std for two, ParEGO_M for more.
        objectives: number of losses that `tell` is given.
        budget: number of evaluations that the method may count on; left out: all candidates.
        seed: of the initial design, the method, and the candidates.
        n_initial: random configurations to begin with.
        candidates: to draw, where the space has ranges of real numbers or more than 100,000 configurations.
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
    ) -> None:
        self.space = space if isinstance(space, Space) else Space.of(space)
        check_whole("objectives", objectives, 1)
        self._method = _named(method, objectives)
        check_seed(seed)
        if budget is not None:
            check_whole("budget", budget, 1)
        check_whole("n_initial", n_initial, 0)
        check_whole("candidates", candidates, 1, MOST_CANDIDATES)
        configs = _candidates(self.space, candidates, seed)
        lookups = len(configs) if budget is None else min(budget, len(configs))
        features = self.space.features(configs)
        for array in (features, configs):  # a method must not change what it is made from anew
            array.setflags(write=False)
        self._problem = Problem(features, objectives, lookups, min(n_initial, lookups), self.space, configs)
        self._seed, self._budget, self._candidates = seed, budget, candidates
        rng = generator(seed, "initial", "optimizer")
        # Whatever the budget is, which may grow.
        size = min(n_initial, len(configs))
        self._initial = rng.choice(len(configs), size=size, replace=False).tolist()
        self._told: dict[int, Floats] = {}
        self._pending: list[int] = []
        self._events: list[Event] = []
        self._live = self._new_method()
        if not callable(getattr(self._live, "tell", None)):
            raise InputError(f"method {self._method.name} has no tell, and a function is evaluated whole.")
        self._told_live: set[int] = set()

    def __repr__(self) -> str:
        return f"Optimizer({self._method.name}, {len(self._told)} told, {len(self._pending)} pending)"

    @property
    def told(self) -> list[tuple[dict[str, Value], Floats]]:
        """Configurations and their losses, NaN where failed, in the order in which they were told."""
        return [(self._problem.config(row), losses.copy()) for row, losses in self._told.items()]

    @property
    def pending(self) -> list[dict[str, Value]]:
        """Configurations that were asked for and not told yet, the oldest first."""
        return [self._problem.config(row) for row in self._pending]

    def ask(self) -> dict[str, Value]:
        """The next configuration to evaluate; it is pending until it is told.

        Raises:
            InputError: every candidate has been asked for or told.
            RunError: the method fails, its answer is not a candidate, or it waits for what is pending.
        """
        if len(self._told) + len(self._pending) >= self.n_candidates:
            raise InputError(f"all {self.n_candidates:,} candidates have been asked for or told.")
        row = self._next_row()
        self._pending.append(row)
        config = self._problem.config(row)
        self._events.append(Event(dict(config)))  # the caller's is the caller's to change
        return config

    def tell(self, config: Config, losses: float | Sequence[float] | Floats | None) -> None:
        """The losses of a configuration, to be minimised. It need not have been asked for.

        Args:
            config: values by name.
            losses: a number, or one for each objective; None where the evaluation failed, or a loss that is
                NaN, infinite or beyond 1e150.

        Raises:
            InputError: the configuration is not a candidate or was told before, or the number of losses is
                wrong.
        """
        row = self._problem.row(config)
        if row in self._told:
            raise InputError(f"the losses of {dict(config)} were told before.")
        values = _losses(losses, self._problem.n_objectives)
        self._told[row] = values
        if row in self._pending:
            self._pending.remove(row)
        given = [None if math.isnan(v) else v for v in values.tolist()]
        self._events.append(Event(self._problem.config(row), given))

    @property
    def n_candidates(self) -> int:
        """N, the number of configurations that the method picks among."""
        return len(self._problem.features)

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
            int(self._problem.n_objectives),
            None if self._budget is None else int(self._budget),
            int(self._seed),
            len(self._initial),
            int(self._candidates),
            list(self._events),
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
        content = read_json(where)
        if isinstance(content, dict) and content.get("format", _FORMAT) != _FORMAT:
            raise InputError(
                f"{where}: format {printable(repr(content['format']))[:60]} is not supported; "
                f"this version reads {_FORMAT}."
            )
        state = checked(content, State, str(where))
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
            self.tell(event.config, [math.nan if v is None else v for v in event.losses])
            return
        row = self._problem.row(event.config)
        if row in self._told or row in self._pending:
            raise InputError(f"{event.config} is asked for twice.")
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

    def _answer(self) -> int:
        self._tell_all(self._live, self._told_live)
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
            name, answer[0] if isinstance(answer, tuple) and answer else answer, self.n_candidates
        )
        if row in self._told or row in running:
            raise MethodFailure(f"{name} returned row {row}, which was asked for or told before")
        return row

    def _told_of_pending(self) -> Any:
        """The method made anew, and told of each pending row the mean losses of those that are known."""
        other = self._new_method()
        self._tell_all(other, set())
        known = np.array([v for v in self._told.values() if not np.isnan(v).any()])
        lie = known.mean(axis=0) if len(known) else np.zeros(self._problem.n_objectives)
        for row in self._pending:
            guarded("tell", other.tell, row, lie.copy())
        return other

    def _tell_all(self, method: Any, done: set[int]) -> None:
        for row, losses in self._told.items():
            if row not in done:
                guarded("tell", method.tell, row, losses.copy())
                done.add(row)

    def _new_method(self) -> Any:
        return self._method.load()(
            self._problem, generator(self._seed, "method", "optimizer", self._method.name)
        )


def _named(method: str | MethodFactory | None, objectives: int) -> NamedMethod:
    """The method, which must be for so many objectives."""
    if method is None:
        method = USUAL_METHODS.get(objectives, "ParEGO_M")
    (named,) = resolve_methods([method])
    if named.objectives and objectives not in named.objectives:
        right = of_objectives(named.objectives)
        raise InputError(f"method {named.name} is for {right}, not {objectives}.")
    if named.built_in and BUILT_IN[split_spec(named.spec)[0]].partial:
        raise InputError(f"method {named.name} trains part of the way, and a function is evaluated whole.")
    return named


def _candidates(space: Space, count: int, seed: int) -> Floats:
    """Codes of all configurations of the space, or of some that are drawn, shape (N, H)."""
    codes = whole_or_drawn(list(space), count, generator(seed, "candidates"))
    while not (active := space.active(codes))[~np.isnan(codes)].all():
        codes = np.where(active, codes, np.nan)  # then what depends on these is also inactive
    first = {config_key(line): row for row, line in reversed(list(enumerate(codes)))}
    return codes[sorted(first.values())]


def _losses(given: float | Sequence[float] | Floats | None, n_objectives: int) -> Floats:
    if given is None:
        return np.full(n_objectives, math.nan)
    expected = f"{counted(n_objectives, 'loss', 'losses')} expected"
    try:
        values = np.atleast_1d(np.array(given, dtype=np.float64))
    except (TypeError, ValueError):
        shown = printable(repr(given))[:80]
        kind = "a number" if n_objectives == 1 else "numbers"
        raise InputError(f"{expected}, as {kind}, not {shown}.") from None
    if values.shape != (n_objectives,):
        told = counted(values.size, "loss", "losses")
        advice = f" For {told}, pass objectives={values.size}." if values.ndim == 1 and values.size else ""
        raise InputError(f"{expected}, not {printable(repr(values.tolist()))[:80]}.{advice}")
    return measured(values)
