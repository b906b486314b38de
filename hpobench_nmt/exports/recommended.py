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
            `noise_interval`. Without repeats it is little more than a guess.
        smallest_difference: differences of two trainings below this are within the noise, 1.96 sqrt(2) noise.
        improvements: how many configurations had a smaller first loss than all before.
        real_improvements: how many of these are better than the one before with a probability of 95%.
        gain: by how much it is better than the start, or than the best of the initial design.
        gain_error: half the width of the 95% interval of the gain.
        surely_better: whether the gain is above 0 with a probability of 95%.
        equals: how many other configurations are better with a probability above 5%.
        than: "the start" or "the best of the initial design".
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
    deterministic: bool

    def __str__(self) -> str:
        name, digits = f"Configuration {self.number}", f"{self.gain:.2g} ± {self.gain_error:.1g}"
        if self.deterministic:
            first = f"better than {self.than} by {self.gain:.4g}" if self.gain else self.than
            return f"{name} is {first}. The function looks deterministic: a repeat had the same loss."
        if self.gain == 0:
            first = f"{name} is {self.than}, and nothing better was found"
        elif self.surely_better:
            first = f"{name} is better than {self.than} by {digits}"
        else:
            first = f"{name} may be no better than {self.than} (difference {digits})"
        others = f"; {counted(self.equals, 'other configuration')} may be as good" if self.equals else ""
        low, high = self.noise_interval
        noise = f"The noise of one training is {self.noise:.2g} ({low:.2g} to {high:.2g})"
        above = f"two trainings show differences above {self.smallest_difference:.2g}"
        return f"{first}{others}. {noise}; {above}."


class Grouped(NamedTuple):
    """Configurations with a loss: their first evaluations, (n,), the losses of each, and what they say."""

    first: Rows
    trainings: list[Floats]
    belief: Belief


def grouped(space: Space, configs: Sequence[Config], losses: Floats) -> Grouped | None:
    """The configurations of evaluations with one loss each, shape (n,), NaN if failed; None if all failed."""
    from hpobench_nmt.methods.replicates import believe  # it imports much of SciPy

    codes = np.array([space.encode(config) for config in configs]).reshape(len(configs), len(space))
    groups: dict[object, list[int]] = {}
    for place, code in enumerate(codes):
        if not math.isnan(losses[place]):
            groups.setdefault(config_key(code), []).append(place)
    if not groups:
        return None
    first = np.array([places[0] for places in groups.values()])
    trainings = [losses[places] for places in groups.values()]
    columns = [each.n_features for each in space]
    return Grouped(first, trainings, believe(space.features(codes[first]), columns, trainings))


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
    found = grouped(space, configs, losses)
    if found is None:
        return None
    first, trainings, belief = found
    best, mean = int(belief.mean.argmin()), belief.mean
    before = np.flatnonzero(first < n_before)
    old = int(before[mean[before].argmin()]) if len(before) else best
    again = [each for each in trainings if len(each) > 1]
    deterministic = bool(again) and all(np.ptp(each) == 0 for each in again)
    noise = float(belief.noise[best])
    sd = math.sqrt(belief.covariance[best, best]) * belief.unit[best]
    gain, error, sure = 0.0, 0.0, False
    if old != best:
        gain = float(mean[old] - mean[best])
        error = 1.96 * belief.sd_of_gain(old, best)
        sure = bool(belief.better(old)[best] >= CLAIM)
    improvements = real = leader = 0
    for new in range(1, len(first)):
        if trainings[new][0] < trainings[leader][0]:
            improvements += 1
            real += bool(belief.better(leader)[new] >= CLAIM)
            leader = new
    return Recommended(
        config=dict(configs[first[best]]),
        number=int(first[best]) + 1,
        loss=float(mean[best]),
        interval=(float(mean[best] - 1.96 * sd), float(mean[best] + 1.96 * sd)),
        probability_best=_probability_best(belief.warped, belief.covariance, best),
        noise=noise,
        noise_interval=(noise / belief.spread, noise * belief.spread),
        smallest_difference=1.96 * math.sqrt(2) * noise,
        improvements=improvements,
        real_improvements=real,
        gain=gain,
        gain_error=error,
        surely_better=sure,
        equals=int((np.delete(belief.better(best), best) > 1 - CLAIM).sum()),
        than="the start" if has_start else "the best of the initial design",
        deterministic=deterministic,
    )


def _probability_best(mean: Floats, covariance: Floats, best: int) -> float:
    """Share of draws of the expected losses in which one configuration has the smallest."""
    values, vectors = np.linalg.eigh(covariance)
    draws = np.random.default_rng(0).standard_normal((_DRAWS, len(mean)))
    drawn = mean + draws * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
    return float((drawn.argmin(axis=1) == best).mean())
