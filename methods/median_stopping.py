"""Random search with the median stopping rule (Golovin et al. 2017, "Google Vizier", section 3.2.1).

After each checkpoint, a training is stopped if its best loss so far is above the median of the running
averages that ended trainings had up to the same resource, or if it has no loss there. Once no new row may be
begun, the trainings that were stopped go on, as in successive_halving.py.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from statistics import median

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.problem import Problem, Progress, Request
from hpobench_nmt.methods.partial_training import Field

# Before so many trainings have ended, none is stopped.
STARTUP = 5


class MedianStopping:
    """Random search with the median stopping rule. O(n log k) for n curves of k checkpoints at each one."""

    def __init__(self, problem: Problem, rng: np.random.Generator) -> None:
        self._field = Field(problem, rng, eta=np.inf)
        self._ended: list[tuple[list[float], list[float]]] = []  # resources, running averages
        self._going: dict[int, float] = {}  # where trainings are that are to go on, in the order of arrival

    def suggest(self, running: Mapping[int, float]) -> Request | None:
        """A training that goes on to its next checkpoint; else a new row to its first."""
        for row, resource in self._going.items():
            if row not in running:
                return Request(row, float(np.nextafter(resource, np.inf)))
        new = self._field.new_row(running)
        return self._field.left_over(running) if new is None else Request(new, self._field.levels[0])

    def observe(self, progress: Progress) -> None:
        """Decide whether the training goes on."""
        self._going.pop(progress.row, None)
        self._field.note(progress)
        if progress.done:
            averages = _running_averages(progress.losses[:, 0])
            self._ended.append((progress.resources.tolist(), averages.tolist()))
        elif not self._stops(float(progress.resources[-1]), self._field.loss[progress.row]):
            self._going[progress.row] = float(progress.resources[-1])

    def _stops(self, resource: float, loss: float) -> bool:
        if np.isinf(loss):
            return True
        if len(self._ended) < STARTUP:
            return False
        places = [bisect_right(resources, resource) for resources, _ in self._ended]
        known = [averages[at - 1] for at, (_, averages) in zip(places, self._ended, strict=True) if at]
        return bool(known) and loss > median(known)


def _running_averages(losses: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of the losses up to each checkpoint; infinite from the first missing one on."""
    known = np.where(np.isnan(losses), np.inf, losses)
    return np.cumsum(known) / np.arange(1, len(losses) + 1)
