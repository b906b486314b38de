"""The progress of a track's methods after each part of the budget, over its tables.

With one objective, it is the regret as a share of the distance from the median row to the best row, at most
1. With several objectives, it is the share of the hypervolume that is missing. Means are over trials, and
then over the tables that the track's figure includes. A trial ends when its scores are settled, and keeps its
last value from then on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hpobench_nmt.analysis.fewer_trainings import FewerTrainings
from hpobench_nmt.benchmarking.instance import Instance
from hpobench_nmt.benchmarking.results import Results
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.trajectory import Trajectory
from hpobench_nmt.evaluation.curves import hypervolume_shares, simple_regret
from hpobench_nmt.evaluation.hypervolume import table_scale

PARTS = np.linspace(0.0, 1.0, 41)[1:]
"""Parts of the budget at which curves have points."""
_TOLD = (0.25, 0.5, 1.0)


@dataclass(frozen=True, eq=False)
class Chart:
    """Curves of a method and of the methods with which it is compared, in one track.

    Attributes:
        track: the name of the track.
        quantity: the quantity on the vertical axis, which begins at 0.
        top: the end of that axis, the same for all methods of the track.
        lines: the name of each curve's method and the values at `PARTS`; the method itself comes first.
        told: rows of a table, for some parts of the budget: the part, and each curve's value there.
    """

    track: str
    quantity: str
    top: float
    lines: tuple[tuple[str, Floats], ...]
    told: tuple[tuple[str, ...], ...]

    @property
    def sentence(self) -> str:
        """What the curves show, for a caption."""
        half, end = self.told[1], self.told[-1]
        parts = [f"{name} {a}, {b}" for (name, _), a, b in zip(self.lines, half[1:], end[1:], strict=True)]
        return f"After half of the budget, and after all of it: {'; '.join(parts)}."


def curves_of(results: Results, found: FewerTrainings) -> dict[str, Floats]:
    """Each method's mean at `PARTS`; empty if no table gives a figure."""
    if found.reason:
        return {}
    budgets = found.counted.set_index("table")["budget"]
    return {
        method: np.mean(
            [_mean(results.instances[t], results.trials[t, method], budgets[t]) for t in budgets.index],
            axis=0,
        )
        for method in results.methods
    }


def _mean(instance: Instance, trials: Sequence[Trajectory], budget: float) -> Floats:
    """The mean over trials on one table."""
    times = PARTS * budget
    if len(instance.objectives) > 1:
        values = 1.0 - hypervolume_shares(trials, table_scale(instance.scored_trainings.models), times)
    else:
        final = instance.scored[:, 0]
        best = float(np.nanmin(final))
        way = float(np.nanmedian(final)) - best or 1.0
        values = np.minimum(simple_regret(trials, best, times) / way, 1.0)
    for i in range(1, len(times)):  # unknown after a trial's end
        values[:, i] = np.where(np.isnan(values[:, i]), values[:, i - 1], values[:, i])
    return np.asarray(np.where(np.isnan(values), 1.0, values).mean(axis=0))


def charts_of(
    track: str, results: Results, curves: dict[str, Floats], beside: Sequence[str]
) -> dict[str, Chart]:
    """A chart for each method of a track; `beside` names the methods with which each is compared."""
    several = len(next(iter(results.instances.values())).objectives) > 1
    quantity = "hypervolume that is missing" if several else "regret"
    top = max((float(values.max()) for values in curves.values()), default=1.0)
    found = {}
    for method in curves:
        names = list(dict.fromkeys([method, *(name for name in beside if name in curves)]))
        at = [int(np.argmin(np.abs(PARTS - part))) for part in _TOLD]
        told = tuple(
            (f"{part:.0%}", *(f"{curves[name][i]:.3f}" for name in names))
            for part, i in zip(_TOLD, at, strict=True)
        )
        found[method] = Chart(track, quantity, top, tuple((n, curves[n]) for n in names), told)
    return found
