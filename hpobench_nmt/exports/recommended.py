"""What to use after a search with noisy losses, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hpobench_nmt.core.arrays import Floats, Rows
from hpobench_nmt.core.space import Config, Space, Value, config_key
from hpobench_nmt.core.system.text import counted

if TYPE_CHECKING:
    from hpobench_nmt.methods.replicates import Belief

CLAIM = 0.95
_DRAWS = 4096


@dataclass(frozen=True)
class Recommended:
    """The configuration with the smallest expected loss, given all trainings.

    Attributes:
        config: the configuration.
        number: its first evaluation, counted from 1.
        loss: its expected loss.
        interval: a 95% interval of that.
        probability_best: the probability that its expected loss is the smallest of all that were evaluated.
        noise: standard deviation of the loss of one training of it, with a 95% interval (low, high) in
            `noise_interval`.
        smallest_difference: differences of two trainings below this are within the noise, 1.96 sqrt(2) noise.
        improvements: how many configurations had a smaller first loss than all before.
        real_improvements: how many of these lowered the smallest loss by more than `smallest_difference`.
        gain: by how much it is better than the start, or than the best of the initial design; NaN if that
            has no loss.
        gain_error: half the width of the 95% interval of the gain.
        surely_better: whether this interval is above 0, and `repeated`.
        equals: how many other configurations are better with a probability above 5%.
        than: "the start" or "the best of the initial design".
        repeated: whether a configuration was trained twice. Otherwise the noise is a guess, and so are the
            intervals.
        deterministic: whether repeated trainings had the same loss to the bit.

    `print` shows the conclusion as a sentence.
    """

    config: dict[str, Value]
    number: int
    loss: float
    interval: tuple[float, float]
    probability_best: float
    noise: float
    noise_interval: tuple[float, float]
    smallest_difference: float
    improvements: int
    real_improvements: int
    gain: float
    gain_error: float
    surely_better: bool
    equals: int
    than: str
    repeated: bool
    deterministic: bool

    def __str__(self) -> str:
        name, digits = f"Configuration {self.number}", f"{self.gain:.2g} ± {self.gain_error:.2g}"
        if math.isnan(self.gain):
            lacking = self.than.removeprefix("the best of ")
            first = f"{name} is recommended, but {lacking} has no loss to compare it with"
        elif self.gain == 0:
            first = f"{name} is {self.than}, and nothing better was found"
        elif self.deterministic:
            first = f"{name} is better than {self.than} by {self.gain:.4g}"
        elif self.surely_better:
            first = f"{name} is better than {self.than} by {digits}"
        elif self.repeated:
            first = f"{name} may be no better than {self.than} (difference {digits})"
        else:
            first = f"{name} seems better than {self.than} by {self.gain:.2g}"
        if self.deterministic:
            return f"{first}. The function looks deterministic: a repeat had the same loss."
        if not self.repeated:
            return f"{first}. No configuration was trained twice, so this may be noise."
        others = f"; {counted(self.equals, 'other configuration')} may be as good" if self.equals else ""
        low, high = self.noise_interval
        noise = f"The noise of one training is {self.noise:.2g} ({low:.2g} to {high:.2g})"
        steps = f"{self.real_improvements} of {counted(self.improvements, 'improvement')} on the way"
        return f"{first}{others}. {noise}; {steps} exceeded {self.smallest_difference:.2g}, the noise of two."


class Grouped(NamedTuple):
    """Configurations with a loss: their first evaluations, (n,), the losses of each, and what they say.

    Of many configurations, some are left out (`informative`). `first_losses` has the first loss of each.
    """

    first: Rows
    trainings: list[Floats]
    belief: Belief
    first_losses: Floats


def grouped(space: Space, configs: Sequence[Config], losses: Floats, n_before: int = 0) -> Grouped | None:
    """The configurations of evaluations with one loss each, shape (n,), NaN if failed; None if all failed.

    Of many configurations, those of the first `n_before` evaluations are kept before others.
    """
    from hpobench_nmt.methods.replicates import believe, informative  # they import much of SciPy

    codes = np.array([space.encode(config) for config in configs]).reshape(len(configs), len(space))
    groups: dict[object, list[int]] = {}
    for place, code in enumerate(codes):
        if not math.isnan(losses[place]):
            groups.setdefault(config_key(code), []).append(place)
    if not groups:
        return None
    every = [losses[places] for places in groups.values()]
    first = np.array([places[0] for places in groups.values()])
    first_losses = losses[first]
    kept = informative(every, first < n_before)
    first, trainings = first[kept], [every[place] for place in kept]
    columns = [each.n_features for each in space]
    return Grouped(first, trainings, believe(space.features(codes[first]), columns, trainings), first_losses)


def recommendation(
    space: Space, configs: Sequence[Config], losses: Floats, n_before: int, *, has_start: bool
) -> Recommended | None:
    """What to use after evaluations with one loss each, shape (n,), NaN if failed; None if all failed.

    Args:
        space: the search space.
        configs: the configuration of each evaluation; a configuration may occur several times.
        losses: their losses.
        n_before: the number of evaluations to compare with: 1 for a start, or the initial design.
        has_start: whether the first evaluation is the start.
    """
    found = grouped(space, configs, losses, n_before)
    if found is None:
        return None
    first, trainings, belief, _ = found
    best, mean = int(belief.mean.argmin()), belief.mean
    before = np.flatnonzero(first < n_before)
    again = [each for each in trainings if len(each) > 1]
    deterministic = bool(again) and all(np.ptp(each) == 0 for each in again)
    noise = float(belief.noise[best])
    sd = math.sqrt(belief.covariance[best, best]) * belief.unit[best]
    gain = error = math.nan
    if len(before):
        old = int(before[mean[before].argmin()])
        gain = float(mean[old] - mean[best])
        error = 1.96 * belief.sd_of_gain(old, best) if old != best else 0.0
    drops = -np.diff(np.minimum.accumulate(found.first_losses))
    smallest = 1.96 * math.sqrt(2) * noise
    return Recommended(
        config=dict(configs[first[best]]),
        number=int(first[best]) + 1,
        loss=float(mean[best]),
        interval=(float(mean[best] - 1.96 * sd), float(mean[best] + 1.96 * sd)),
        probability_best=_probability_best(belief.warped, belief.covariance, best),
        noise=noise,
        noise_interval=(noise / belief.spread, noise * belief.spread),
        smallest_difference=smallest,
        improvements=int((drops > 0).sum()),
        real_improvements=int((drops > smallest).sum()),
        gain=gain,
        gain_error=error,
        surely_better=bool(again) and gain > error,
        equals=int((np.delete(belief.better(best), best) > 1 - CLAIM).sum()),
        than="the start" if has_start else "the best of the initial design",
        repeated=bool(again),
        deterministic=deterministic,
    )


def _probability_best(mean: Floats, covariance: Floats, best: int) -> float:
    """Share of draws of the expected losses in which one configuration has the smallest."""
    values, vectors = np.linalg.eigh(covariance)
    draws = np.random.default_rng(0).standard_normal((_DRAWS, len(mean)))
    drawn = mean + draws * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
    return float((drawn.argmin(axis=1) == best).mean())
