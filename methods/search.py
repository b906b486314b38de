"""A base class for methods that search a posterior: the free row with the largest score is next.

A method of this kind defines what it models (a posterior and its targets) and how it scores the candidates.
The rest is here: the random first row, running rows (pending.py), and rows whose targets are missing.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping

import numpy as np

from hpobench_nmt.core.arrays import Bools, Floats
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.methods.any_targets import AnyTargetsPosterior
from hpobench_nmt.methods.kernels import NOISE_SD, kernel_prior, matern52
from hpobench_nmt.methods.sampler import RowSearch
from hpobench_nmt.methods.surrogates.pending import Given, Pending
from hpobench_nmt.methods.surrogates.posterior import FinitePosterior


class PosteriorSearch(RowSearch):
    """Asks for the free row with the largest score; `count` is the number of rows with all targets."""

    def __init__(self, posterior: FinitePosterior, rng: np.random.Generator) -> None:
        self.posterior = posterior
        self.rng = rng
        self.count = 0
        self._pending = Pending(posterior)

    @abstractmethod
    def scores(self, given: Given) -> Floats:
        """The value of each candidate, shape (M,); arbitrary for candidates that are not free."""

    def suggest(self, running: Mapping[int, float]) -> int | None:
        """The best row that is neither seen nor running; None if no such row is left."""
        posterior = self.posterior
        given = Given(posterior.var, posterior.unseen, posterior.row_sums)
        if running:
            given = self._pending.given(running)
        place = chosen(self.rng, given.free, self.count, lambda: self.scores(given))
        return None if place is None else int(posterior.rows[place])

    def tell(self, index: int, losses: Floats) -> None:
        """Learn the losses of a row."""
        self.learn(index, losses)

    def learn(self, row: int, targets: Floats) -> bool:
        """Learn a row's targets, or only drop the row if a target is missing; returns whether it learned."""
        if np.isnan(targets).any():
            self._pending.discard(row)
            return False
        self.count += 1
        return self._pending.observe(row, targets)


class AnyTargetsSearch(PosteriorSearch):
    """A method with the kernel and the noise of `BO_EI_M_std` that chooses new targets at every step.

    It observes n_targets numbers for each row. The default is one for each loss.
    """

    posterior: AnyTargetsPosterior

    def __init__(self, problem: Problem, rng: np.random.Generator, n_targets: int | None = None) -> None:
        prior = kernel_prior(problem, matern52)
        super().__init__(AnyTargetsPosterior(prior, NOISE_SD, n_targets or problem.n_objectives), rng)


def chosen(rng: np.random.Generator, free: Bools, count: int, scores: Callable[[], Floats]) -> int | None:
    """The free candidate with the largest score; a random one before any row is learned (`count` of 0)."""
    if not free.any():
        return None
    return best_of(scores(), free) if count else int(rng.choice(np.flatnonzero(free)))


def best_of(scores: Floats, free: Bools) -> int:
    """The first free candidate with the largest score; ValueError if all scores of free ones are NaN."""
    values = scores[free]
    best = values.argmax()  # NaN counts as the largest
    if math.isnan(values[best]) and np.isnan(values).all():
        raise ValueError("the acquisition gave NaN for every candidate.")
    return int(np.flatnonzero(free)[best])
