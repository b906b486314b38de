"""Minimise a Python function with any method."""

from __future__ import annotations

import inspect
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hpobench_nmt.core.arrays import Bools, Floats, Ints
from hpobench_nmt.core.constraints import is_feasible
from hpobench_nmt.core.hyperparameter import is_number
from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.core.problem import MethodFactory
from hpobench_nmt.core.space import Config, Space, Value
from hpobench_nmt.core.space_exchange import library
from hpobench_nmt.core.system.errors import InputError, check_whole
from hpobench_nmt.core.system.files import sole_writer
from hpobench_nmt.core.system.text import brief, counted, printable
from hpobench_nmt.exports.optimizer import N_CANDIDATES, N_INITIAL, Optimizer
from hpobench_nmt.exports.optimizer_parts import USUAL_BEFORE
from hpobench_nmt.exports.optimizer_state import State, read_state
from hpobench_nmt.exports.recommended import Recommended, recommendation

if TYPE_CHECKING:
    import pandas as pd

Losses = float | Sequence[float] | None
# A parameter that is a seed by its name. With the default None, it usually has another value in each call.
_SEED = re.compile(r"rng|random_?state|.*seed(_.*)?", re.IGNORECASE)
Function = Callable[..., Losses | tuple[Losses, Mapping[str, float]]]


@dataclass(frozen=True, eq=False, repr=False)
class Minimum:
    """The evaluations of `minimize`, and the best of them.

    Attributes:
        configs: the n configurations, in the order of their evaluation; with repeats, some occur again.
        losses: shape (n, objectives), NaN if an evaluation failed.
        violations: the amount by which each evaluation misses each of the c constraints, shape (n, c): above
            0 if it misses the constraint, NaN if the metric is missing. By default, there are no constraints.
        space: the search space.
        n_before: number of evaluations before the method chose: 1 with `start`, otherwise the initial design.
        has_start: whether the first configuration is the one of `start`.

    Only feasible evaluations, which satisfy all constraints, are among the best.
    """

    configs: tuple[dict[str, Value], ...]
    losses: Floats
    violations: Floats | None = None
    space: Space | None = None
    n_before: int = N_INITIAL
    has_start: bool = False

    @property
    def feasible(self) -> Bools:
        """Whether each evaluation satisfies all constraints, shape (n,)."""
        if self.violations is None:
            return np.ones(len(self.losses), dtype=bool)
        return is_feasible(self.violations)

    @property
    def _solutions(self) -> Floats:
        return np.where(self.feasible[:, None], self.losses, np.nan)

    @property
    def front(self) -> Ints:
        """Numbers of the evaluations on the Pareto front, ascending; with one loss, those of the best."""
        return pareto_front(self._solutions)

    @property
    def best(self) -> dict[str, Value] | None:
        """The configuration with the smallest first loss; None if every evaluation failed.

        With noisy losses, it is a lucky one: `recommended` is better.
        """
        first = self._solutions[:, 0]
        return None if np.isnan(first).all() else self.configs[int(np.nanargmin(first))]

    @property
    def loss(self) -> float:
        """The smallest first loss; NaN if every evaluation failed."""
        return float(np.fmin.reduce(self._solutions[:, 0]))

    @cached_property
    def recommended(self) -> Recommended | None:
        """The configuration to use: the smallest expected loss, given all evaluations, and how sure that is.

        It is None if every evaluation failed or misses a constraint. Raises InputError with several losses.
        """
        if self.losses.shape[1] > 1:
            raise InputError("with several losses no single configuration is the best: use `front`.")
        assert self.space is not None
        losses, start = self._solutions[:, 0], self.has_start
        return recommendation(self.space, self.configs, losses, self.n_before, has_start=start)

    def to_frame(self) -> pd.DataFrame:
        """One row for each evaluation: hyperparameters, loss_1 and so on, and, with constraints, feasible."""
        import pandas as pd

        losses = pd.DataFrame(self.losses, columns=[f"loss_{j + 1}" for j in range(self.losses.shape[1])])
        if self.violations is not None:
            losses["feasible"] = self.feasible
        return pd.concat([pd.DataFrame(list(self.configs)), losses], axis=1)

    def to_study(self, **options: Any) -> Any:
        """The evaluations as trials of a new study of Optuna, such as for its dashboard; needs Optuna.

        Args:
            options: those of `optuna.create_study` except directions, such as storage and study_name.
        """
        optuna: Any = library("optuna", "optuna")
        assert self.space is not None
        study = optuna.create_study(directions=["minimize"] * self.losses.shape[1], **options)
        distributions, states = self.space.to_optuna(), optuna.trial.TrialState
        for number, (config, losses) in enumerate(zip(self.configs, self.losses.tolist(), strict=True)):
            failed = any(map(math.isnan, losses))
            missed = () if self.violations is None else np.nan_to_num(self.violations[number], nan=math.inf)
            study.add_trial(
                optuna.trial.create_trial(
                    state=states.FAIL if failed else states.COMPLETE,
                    values=None if failed else losses,
                    params=config,
                    distributions={name: distributions[name] for name in config},
                    system_attrs={} if self.violations is None else {"constraints": list(missed)},
                )
            )
        return study

    def __repr__(self) -> str:
        return f"Minimum({self.loss:g} at {self.best}, after {counted(len(self.configs), 'evaluation')})"


def minimize(
    function: Function,
    space: Space | Mapping[str, object],
    method: str | MethodFactory | None = None,
    budget: int = 30,
    seed: int = 0,
    *,
    objectives: int = 1,
    n_initial: int = N_INITIAL,
    candidates: int = N_CANDIDATES,
    state: str | Path | None = None,
    catch: type[Exception] | Sequence[type[Exception]] = (),
    constraints: Sequence[str] = (),
    prior: Mapping[str, Value] | None = None,
    least_gain: float = 0.0,
    repeats: str | None = None,
    start: Config | None = None,
) -> Minimum:
    """Minimise a function of a configuration.

        def loss(config):
            return (config["x"] - 0.3) ** 2 + (config["kind"] == "b")

        found = hb.minimize(loss, {"x": (0.0, 1.0), "kind": ["a", "b"]}, budget=20)
        print(found.recommended)

    Args:
        function: takes a configuration (values by name, without inactive hyperparameters) and returns the
            loss, or a loss for each objective. If a loss is None, NaN, infinite or beyond 1e150, the
            evaluation failed: its losses are NaN, and the search continues without this configuration.
        space: a Space, or a short description by name. A list of numbers is a grid, a list of other values is
            a list of categories, and a tuple is a range: (low, high) or (low, high, "log"). If both ends of a
            range have the type int, it has whole numbers only: (0, 1) has two values, but (0.0, 1.0) has all
            numbers between them. Or Optuna's distributions by name, or a ConfigSpace.
        method: a name that `hpobench-nmt methods` lists, FILE.py:CLASS, or a class. By default BO_auto, or
            the default of the version that wrote the state.
        budget: number of evaluations, including the initial design; without repeats, at most the number of
            candidates.
        seed: the same seed gives the same configurations.
        objectives: number of losses.
        n_initial: number of random configurations at the start.
        candidates: number of configurations to draw at random, among which the method chooses, if the space
            has ranges of real numbers or more than 100,000 configurations. BO_auto draws as many again at
            every step, and more near its answer. In a smaller space, methods choose among all configurations.
        state: a JSON file that is written before and after every evaluation. If it exists, the same call
            resumes from it and repeats an evaluation that was interrupted. The budget may differ from that of
            the earlier call; it includes the earlier evaluations.
        catch: exceptions of the function that count as failed evaluations, such as `ValueError` or
            `(ValueError, MemoryError)`. Other exceptions are passed on.
        constraints: bounds of metrics, such as "seconds<=60". The function then returns a pair: its losses,
            and the metrics by name, such as `(loss, {"seconds": 12.5})`.
        prior: values of some or all hyperparameters that you expect to be good, or pairs of numbers between
            which you expect the best values, by name, for piBO_M_std and BO_known (as in `Optimizer`).
        least_gain: stop early when the next evaluation is expected to lower the loss by less than this, in
            the unit of the loss (`Optimizer.expected_gain`). For BO_auto and one loss.
        repeats: "auto" for a function with noise: up to 15% of the evaluations are repeats, which decide
            between the best configurations (`Optimizer`). The function is called as function(config, seed=k)
            if it has a parameter `seed`: k is 0 at a configuration's first evaluation, then 1, and so on. A
            number as the default of another seed, such as `random_state=0`, is refused. If a repeat has the
            same loss to the bit, the function is deterministic, and nothing else is repeated.
        start: the configuration that you use today. It is evaluated first, and `recommended` is compared with
            it.

    Returns:
        all n evaluations, in order, and the best of them. Losses have shape (n, objectives) and the units of
        the function; configurations have raw values, with the names of the space.

    Raises:
        InputError: wrong arguments, or a state of another call.
    """
    if not callable(function):
        raise InputError(f"minimize needs a function of a configuration, not {brief(function)}.")
    seeded = takes_seed(function, repeats is not None)
    check_whole("budget", budget, 1)
    if not is_number(least_gain) or not least_gain >= 0:
        raise InputError(f"least_gain must be a number of 0 or more, not {brief(least_gain)}.")
    caught = exceptions_of(catch)
    if not isinstance(state, str | os.PathLike | None):
        raise InputError(f"state must be the path of a file, not {brief(state)}.")
    path = None if state is None else Path(state)
    with nullcontext() if path is None else sole_writer(path):
        begun = read_state(path) if path is not None and path.exists() else None
        if begun is not None and method is None and begun.method in USUAL_BEFORE:
            method = begun.method
        optimizer = Optimizer(
            space,
            method,
            objectives=objectives,
            budget=budget,
            seed=seed,
            n_initial=n_initial,
            candidates=candidates,
            constraints=constraints,
            prior=prior,
            repeats=repeats,
            start=start,
        )
        if path is not None and begun is not None:
            earlier = Optimizer.resumed(begun, path, method, budget)
            _refuse_other_call(path, earlier.state, optimizer.state)
            optimizer = earlier
        if least_gain:
            optimizer._refuse_without("expected_gain", "least_gain")

        def evaluate(config: dict[str, Value]) -> tuple[object, Mapping[str, float] | None]:
            seed_of = {"seed": optimizer.count(config)} if seeded else {}
            try:
                answer = function(dict(config), **seed_of)
            except caught:
                answer = None
            return losses_and_metrics(answer) if constraints else (answer, None)

        while optimizer.n_evaluations < budget and (optimizer.pending or not optimizer._is_done):
            enough = least_gain and optimizer.n_evaluations >= n_initial
            if enough and optimizer.expected_gain() < least_gain:
                break
            config = optimizer.pending[0] if optimizer.pending else optimizer.ask()
            if path is not None:
                optimizer.save(path)
            losses, metrics = evaluate(config)
            optimizer.tell(config, losses, metrics)  # type: ignore[arg-type]  # it checks them
            if path is not None:
                optimizer.save(path)
    configs, given = zip(*optimizer.evaluations, strict=True)
    found = np.array(given)
    return Minimum(
        configs,
        np.where(np.isnan(found).any(axis=-1, keepdims=True), np.nan, found),
        optimizer.violations_of_evaluations if constraints else None,
        optimizer.space,
        n_before=1 if start is not None else n_initial,
        has_start=start is not None,
    )


def _refuse_other_call(path: Path, earlier: State, state: State) -> None:
    for key in State.__struct_fields__:
        if key != "events" and getattr(earlier, key) != getattr(state, key):
            raise InputError(
                f"{path}: this is the state of another call, with another {key}. Give another file."
            )


def takes_seed(function: Function, repeats: bool) -> bool:
    """Whether the function gets a seed.

    Refuses one that needs more than a configuration and a seed, or whose repeats would all have one seed.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a function without a readable signature, such as some in C
        return False
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    if any(each.name == "seed" and each.kind not in named for each in parameters[1:]):
        raise InputError("the function's seed cannot be given by name: leave out the / after it.")
    needed = [each.name for each in parameters[1:] if each.kind in named and each.default is each.empty]
    for name in needed:
        if name != "seed":
            raise InputError(
                f"the function needs {printable(name)!r} in addition to a configuration. Give it a default; "
                f'if it is a random seed, name it seed, and pass repeats="auto".'
            )
        if not repeats:
            raise InputError('the function needs a seed: pass repeats="auto", or give it a default.')
    defaults = {each.name: each.default for each in parameters[1:] if each.kind in named}
    if not repeats or "seed" in defaults:
        return repeats
    for name, default in defaults.items():
        if _SEED.fullmatch(name) and type(default) is int:
            raise InputError(
                f"the function's {printable(name)!r} would be {default} in every training. Name it seed, so "
                f"that it differs; or, if it is meant to stay, give lambda config: FUNCTION(config)."
            )
    return False


def exceptions_of(catch: object) -> tuple[type[BaseException], ...]:
    """The exceptions of the argument `catch`, which are checked before the function raises one."""
    found: list[type[BaseException]] = []
    for each in catch if isinstance(catch, tuple | list) else [catch]:
        if not isinstance(each, type) or not issubclass(each, BaseException):
            raise InputError(
                "catch must be a class of exceptions, such as ValueError, or a tuple or list of them, "
                f"not {brief(catch)}."
            )
        found.append(each)
    return tuple(found)


def losses_and_metrics(answer: object) -> tuple[object, Mapping[str, float] | None]:
    """The losses and metrics that a function returned. Both are None if the evaluation failed."""
    match answer:
        case None:
            return None, None
        case (losses, Mapping() as metrics):
            return losses, metrics
    expected = "(loss, {'metric': value, …})"
    raise InputError(f"under constraints the function returns {expected}, not {brief(answer)}.")
