"""Trains the best configurations of a search again, and eliminates those that are worse."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import stdtr

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.hyperparameter import is_number
from hpobench_nmt.core.space import Value
from hpobench_nmt.core.system.errors import InputError, check_whole
from hpobench_nmt.core.system.text import brief, counted
from hpobench_nmt.exports.minimize import Minimum, exceptions_of, losses_and_metrics, takes_seed
from hpobench_nmt.exports.optimizer_parts import checked_losses
from hpobench_nmt.exports.recommended import grouped

if TYPE_CHECKING:
    import pandas as pd

ERROR = 0.05


@dataclass(frozen=True)
class Confirmed:
    """The configurations that were trained again, the smallest mean loss first.

    Attributes:
        configs: k configurations.
        losses: the losses of the new trainings of each, those that did not fail.
        remains: whether each may still be the best, and has a loss. The best of the k is eliminated with a
            probability of at most 5%, unless all of its trainings fail.
    """

    configs: tuple[dict[str, Value], ...]
    losses: tuple[Floats, ...]
    remains: tuple[bool, ...]

    @property
    def remaining(self) -> list[dict[str, Value]]:
        """The configurations that remain, the smallest mean loss first."""
        return [config for config, kept in zip(self.configs, self.remains, strict=True) if kept]

    def to_frame(self) -> pd.DataFrame:
        """One row for each configuration: hyperparameters, trainings, mean, sd, remains."""
        import pandas as pd

        found = pd.DataFrame(list(self.configs))
        found["trainings"] = [len(each) for each in self.losses]
        found["mean"] = [each.mean() if len(each) else math.nan for each in self.losses]
        found["sd"] = [each.std(ddof=1) if len(each) > 1 else math.nan for each in self.losses]
        return found.assign(remains=self.remains)

    def __str__(self) -> str:
        kept, of = sum(self.remains), counted(len(self.configs), "configuration")
        if not kept:
            return f"All trainings of {of} failed."
        first = self.losses[0].mean()
        after = f"after {counted(sum(map(len, self.losses)), 'more training')}"
        smallest = f"the smallest mean is {first:.6g}, at {self.configs[0]}."
        return f"{kept} of {of} {'remains' if kept == 1 else 'remain'} {after}; {smallest}"


def confirm(
    function: Callable[..., float | None] | None,
    result: Minimum | pd.DataFrame | Any,
    k: int = 5,
    runs: int = 20,
    *,
    catch: type[Exception] | Sequence[type[Exception]] = (),
) -> Confirmed:
    """Train the best k configurations of a search again, and find out which of them may be the best.

        found = hb.minimize(loss, space, budget=40)
        print(hb.confirm(loss, found, k=5, runs=20))

    Half of the trainings are divided equally. Configurations that are worse by then are eliminated, and the
    others get the rest. A configuration is worse if a one-sided t test against the smallest mean is
    significant after Bonferroni's correction for k - 1 comparisons at two times. Only new trainings count,
    because the old ones have chosen the k.

    Args:
        function: as for `minimize`. If it has a parameter `seed`, it is called as function(config, seed=n)
            with seeds that the search has not used. Metrics beside the loss are ignored. None only tests the
            trainings in a frame, which must not have chosen the configurations.
        result: a Minimum with one loss, whose best have the smallest expected losses; a study of Optuna that
            minimises one value, of which complete and feasible trials count; or a frame with a column for
            each hyperparameter, `value`, the loss, and perhaps `seed`, such as an imported sweep.
        k: number of configurations.
        runs: number of trainings, at least 2 k.
        catch: exceptions of the function that count as failed trainings.

    Raises InputError if no configuration has a loss, or an argument is wrong.
    """
    check_whole("k", k, 2)
    best = _best_of_minimum(result, k) if isinstance(result, Minimum) else _best_of_trainings(result, k)
    configs, known, seeds = zip(*best, strict=True)
    if function is None:
        if isinstance(result, Minimum):
            raise InputError(
                "confirm needs the function: trainings that have chosen the best cannot confirm it."
            )
        return _sorted(configs, known, [True] * len(configs), ERROR)
    if not callable(function):
        raise InputError(f"confirm needs a function of a configuration, not {brief(function)}.")
    check_whole("runs", runs, 2 * len(configs))
    seeded, caught = takes_seed(function, True), exceptions_of(catch)
    # The search may have used the seed's default.
    usual = inspect.signature(function).parameters["seed"].default if seeded else None
    unused = [(seed for seed in itertools.count(first) if seed != usual) for first in seeds]

    def loss_of(place: int, seed: int) -> float:
        try:
            answer = function(dict(configs[place]), **{"seed": seed} if seeded else {})
        except caught:
            answer = None
        loss = losses_and_metrics(answer)[0] if isinstance(answer, tuple) else answer
        return float(checked_losses(loss, 1)[0])

    return eliminate(configs, unused, runs, lambda trainings: list(itertools.starmap(loss_of, trainings)))


def eliminate(
    configs: Sequence[dict[str, Value]],
    seeds: Sequence[Iterator[int]],
    runs: int,
    train: Callable[[list[tuple[int, int]]], list[float]],
) -> Confirmed:
    """Train each of k configurations with its own seeds; see `confirm`.

    Args:
        train: the losses of pairs of a configuration's place and a seed, NaN if failed. It is called twice at
            most.
    """
    k = len(configs)
    told: list[list[float]] = [[] for _ in configs]

    def tell(places: list[int]) -> None:
        losses = train([(place, next(seeds[place])) for place in places]) if places else []
        for place, loss in zip(places, losses, strict=True):
            told[place].append(loss)

    each = max(2, runs // (2 * k))
    tell(list(range(k)) * each)
    kept = _remaining([_finite(own) for own in told], [True] * k, ERROR / 2)
    kept = [remains or not np.isfinite(told[place]).any() for place, remains in enumerate(kept)]
    places = [place for place in range(k) if kept[place]]
    rest = runs - each * k if len(places) > 1 else 0
    tell([places[turn % len(places)] for turn in range(rest)])
    return _sorted(configs, [_finite(own) for own in told], kept, ERROR / 2)


def _sorted(
    configs: Sequence[dict[str, Value]], losses: Sequence[Floats], kept: Sequence[bool], error: float
) -> Confirmed:
    kept = _remaining(losses, kept, error)
    means = [each.mean() if len(each) else math.inf for each in losses]
    order = sorted(range(len(configs)), key=lambda place: (not kept[place], means[place]))
    return Confirmed(
        tuple(configs[place] for place in order),
        tuple(losses[place] for place in order),
        tuple(kept[place] for place in order),
    )


def _remaining(losses: Sequence[Floats], kept: Sequence[bool], error: float) -> list[bool]:
    """Which of the configurations that are kept are not worse than the smallest mean; see `confirm`.

    The noise of configurations differs, so Welch's test of the pair decides where its standard error is
    larger than the pooled one.
    """
    many = [place for place, own in enumerate(losses) if kept[place] and len(own) > 1]
    if not many:
        return [bool(kept[place] and len(own)) for place, own in enumerate(losses)]
    squares = {place: float(((losses[place] - losses[place].mean()) ** 2).sum()) for place in many}
    degrees = sum(len(losses[place]) - 1 for place in many)
    pooled = sum(squares.values()) / degrees
    best = min(many, key=lambda place: float(losses[place].mean()))

    def remains(place: int) -> bool:
        own, other = losses[place], losses[best]
        if place == best or place not in squares:
            return bool(kept[place] and len(own))
        n, m = len(own), len(other)
        parts = squares[place] / (n * (n - 1)), squares[best] / (m * (m - 1))
        gap, pair = float(own.mean() - other.mean()), sum(parts)
        if gap == 0 or pooled == 0:
            return gap == 0
        variance, df = pooled * (1 / n + 1 / m), float(degrees)
        if pair > variance * (1 + 1e-9):
            variance = pair
            df = min(df, pair**2 / (parts[0] ** 2 / (n - 1) + parts[1] ** 2 / (m - 1)))
        return float(stdtr(df, -gap / math.sqrt(variance))) >= error / (len(losses) - 1)

    return [remains(place) for place in range(len(losses))]


def _finite(losses: Sequence[float]) -> Floats:
    found: Floats = np.array(losses, dtype=np.float64)
    return found[np.isfinite(found)]


_Best = tuple[dict[str, Value], Floats, int]
"""A configuration, its losses, and the first seed that was not used."""


def _best_of_minimum(result: Minimum, k: int) -> list[_Best]:
    if result.losses.shape[1] > 1 or result.space is None:
        raise InputError("confirm needs a result with one loss.")
    found = grouped(result.space, result.configs, np.where(result.feasible, result.losses[:, 0], math.nan))
    if found is None:
        raise InputError("no evaluation of the result can be confirmed: all failed or miss a constraint.")
    order = np.argsort(found.belief.mean, kind="stable")[:k]
    chosen = [(dict(result.configs[found.first[place]]), found.trainings[place]) for place in order]
    return [(config, own, result.configs.count(config)) for config, own in chosen]


def _best_of_trainings(result: Any, k: int) -> list[_Best]:
    """The configurations of a study or frame with the smallest mean losses."""
    groups: dict[str, tuple[dict[str, Value], list[float], list[int]]] = {}
    for config, value, seed in _of_study(result) if hasattr(result, "get_trials") else _of_frame(result):
        _, values, seeds = groups.setdefault(repr(sorted(config.items())), (config, [], []))
        values.append(value)
        seeds.append(seed)
    best = [(c, _finite(values), max(len(seeds), *seeds)) for c, values, seeds in groups.values()]
    best = sorted((each for each in best if len(each[1])), key=lambda each: float(each[1].mean()))[:k]
    if not best:
        raise InputError("nothing can be confirmed: no configuration has a loss.")
    return best


def _of_study(study: Any) -> Iterator[tuple[dict[str, Value], float, int]]:
    if [str(each.name) for each in study.directions] != ["MINIMIZE"]:
        raise InputError("confirm needs a study that minimises one value.")
    for trial in study.get_trials(deepcopy=False):
        missed = any(excess > 0 for excess in trial.system_attrs.get("constraints", ()))
        if trial.state.name == "COMPLETE" and not missed:
            yield dict(trial.params), float(trial.value), 0


def _of_frame(frame: Any) -> Iterator[tuple[dict[str, Value], float, int]]:
    """The configuration of each row, without what is missing; its loss; and the next seed."""
    import pandas as pd

    if not isinstance(frame, pd.DataFrame) or not {"value"} < {*frame} - {"seed"}:
        raise InputError(
            "confirm needs a Minimum, a study, or a frame with a column for each hyperparameter and the "
            f"column 'value', not {brief(frame)}."
        )
    for row in frame.astype(object).to_dict("records"):
        config = {str(name): v for name, v in row.items() if name not in ("seed", "value") and not pd.isna(v)}
        seed, value = row.get("seed"), row["value"]
        if not pd.isna(value) and not is_number(value):
            raise InputError(f"the frame's column 'value' has {brief(value)}, which is not a number.")
        next_seed = int(seed) + 1 if is_number(seed) and not pd.isna(seed) else 0
        yield config, float(value), next_seed
