"""Trains the best configurations of a search again, and eliminates those that are worse."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import stdtr

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.space import Value
from hpobench_nmt.core.system.errors import InputError, check_whole
from hpobench_nmt.core.system.text import brief, counted
from hpobench_nmt.exports.minimize import Minimum, takes_seed
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
        remains: whether each may still be the best. The best of the k is eliminated with a probability of at
            most 5%.
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
        first = self.losses[0].mean() if len(self.losses[0]) else math.nan
        after = f"after {counted(sum(map(len, self.losses)), 'more training')}"
        smallest = f"the smallest mean is {first:.6g}, at {self.configs[0]}."
        return f"{kept} of {of} {'remains' if kept == 1 else 'remain'} {after}; {smallest}"


def confirm(
    function: Callable[..., float | None] | None,
    result: Minimum | pd.DataFrame | Any,
    k: int = 5,
    runs: int = 20,
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
            with seeds that the search has not used. None only tests the trainings in a frame, which must not
            have chosen the configurations.
        result: a Minimum with one loss; a study of Optuna that minimises one value; or a frame with a column
            for each hyperparameter, `value`, the loss, and perhaps `seed`, such as an imported sweep.
        k: number of configurations.
        runs: number of trainings, at least 2 k.

    Raises InputError if no configuration has a loss, or an argument is wrong.
    """
    check_whole("k", k, 2)
    configs, known = _best_of_minimum(result, k) if isinstance(result, Minimum) else _best_of_frame(result, k)
    k = len(configs)
    if function is None:
        if isinstance(result, Minimum):
            raise InputError(
                "confirm needs the function: trainings that have chosen the best cannot confirm it."
            )
        return _sorted(configs, known, [True] * k, ERROR)
    check_whole("runs", runs, 2 * k)
    seeded = takes_seed(function, True)
    told: list[list[float]] = [[] for _ in configs]

    def train(place: int) -> None:
        seed = {"seed": len(known[place]) + len(told[place])} if seeded else {}
        answer = function(dict(configs[place]), **seed)
        told[place].append(math.nan if answer is None else float(answer))

    each = max(2, runs // (2 * k))
    for place in list(range(k)) * each:
        train(place)
    kept = _remaining([_finite(own) for own in told], [True] * k, ERROR / 2)
    places = [place for place in range(k) if kept[place]]
    for turn in range(runs - each * k if len(places) > 1 else 0):
        train(places[turn % len(places)])
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

    The standard error is the larger of the pooled one and that of the pair, because the noise of
    configurations differs.
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
        pair = squares[place] / (n * (n - 1)) + squares[best] / (m * (m - 1))
        se = math.sqrt(max(pooled * (1 / n + 1 / m), pair))
        gap = float(own.mean() - other.mean())
        return gap == 0 or (se > 0 and float(stdtr(degrees, -gap / se)) >= error / (len(losses) - 1))

    return [remains(place) for place in range(len(losses))]


def _finite(losses: Sequence[float]) -> Floats:
    found: Floats = np.array(losses, dtype=np.float64)
    return found[np.isfinite(found)]


def _best_of_minimum(result: Minimum, k: int) -> tuple[list[dict[str, Value]], list[Floats]]:
    if result.losses.shape[1] > 1 or result.space is None:
        raise InputError("confirm needs a result with one loss.")
    losses = np.where(result.feasible, result.losses[:, 0], math.nan)
    found = grouped(result.space, result.configs, losses)
    if found is None:
        raise InputError("no evaluation of the result can be confirmed: all failed or miss a constraint.")
    order = np.argsort(found.belief.mean, kind="stable")[:k]
    return [dict(result.configs[found.first[place]]) for place in order], [found.trainings[p] for p in order]


def _best_of_frame(result: Any, k: int) -> tuple[list[dict[str, Value]], list[Floats]]:
    import pandas as pd

    if hasattr(result, "trials_dataframe"):
        if [str(each.name) for each in result.directions] != ["MINIMIZE"]:
            raise InputError("confirm needs a study that minimises one value.")
        result = result.trials_dataframe(("value", "params"))
        result.columns = [name.removeprefix("params_") for name in result.columns]
    if not isinstance(result, pd.DataFrame) or "value" not in result:
        raise InputError(
            "confirm needs a Minimum, a study, or a frame with a column for each hyperparameter and the "
            f"column 'value', not {brief(result)}."
        )
    names = [name for name in result.columns if name not in ("seed", "value")]
    if not names or not result["value"].notna().any():
        raise InputError("the frame has no hyperparameter, or no value.")
    each = (own for _, own in result.groupby(names, sort=False, dropna=False))
    groups = [own for own in each if own["value"].notna().any()]
    groups = sorted(groups, key=lambda own: float(own["value"].mean()))[:k]
    configs: Any = [own[names].astype(object).iloc[0].to_dict() for own in groups]
    return configs, [_finite(own["value"].tolist()) for own in groups]
