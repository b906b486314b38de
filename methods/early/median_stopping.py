"""Random search with the median stopping rule (Golovin et al. 2017, "Google Vizier", section 3.2.1).

After each checkpoint, a training is stopped if its best loss so far is above the median of the running
averages that ended trainings had up to the same resource. It is also stopped if it has no loss so far. When
no new row may be started, the stopped trainings resume, as in successive_halving.py.
"""

from __future__ import annotations

from bisect import bisect_right
from statistics import median

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.problem import Problem, Progress
from hpobench_nmt.methods.early.partial_training import StoppingRule

# The rule applies once this many trainings have ended.
STARTUP = 5


class MedianStopping(StoppingRule):
    """Random search with the median stopping rule. A checkpoint takes O(n log k) for n curves of length k."""

    def __init__(self, problem: Problem, rng: np.random.Generator) -> None:
        super().__init__(problem, rng, eta=np.inf)
        self._ended: list[tuple[list[float], list[float]]] = []  # resources, running averages

    def _next_stop(self, progress: Progress) -> float | None:
        self._field.note(progress)
        resource = float(progress.resources[-1])
        if progress.done:
            averages = _running_averages(progress.losses[:, 0])
            self._ended.append((progress.resources.tolist(), averages.tolist()))
        elif not self._stops(resource, self._field.loss[progress.row]):
            return float(np.nextafter(resource, np.inf))
        return None

    def _stops(self, resource: float, loss: float) -> bool:
        if np.isinf(loss):
            return True
        if len(self._ended) < STARTUP:
            return False
        places = [bisect_right(resources, resource) for resources, _ in self._ended]
        known = [averages[at - 1] for at, (_, averages) in zip(places, self._ended, strict=True) if at]
        return bool(known) and loss > median(known)


def _running_averages(losses: Floats) -> Floats:
    """The mean of the losses up to each checkpoint; infinite from the first missing loss on."""
    known = np.where(np.isnan(losses), np.inf, losses)
    return np.cumsum(known) / np.arange(1, len(losses) + 1)
