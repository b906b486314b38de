"""The interface of an HPO method, whole: the problem that it sees, and the calls that it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Problem:
    """The candidates and the rules; never the metrics of a row that was not asked for.

    Problems compare by identity, so that a method can cache what depends only on the candidates (a
    covariance matrix, say) with functools.lru_cache and share it between trials.

    Attributes:
        features: every candidate's hyperparameters scaled to [0, 1], shape (N, H), read-only.
        n_objectives: number of losses that each look-up gives.
        lookups: the most that a trial may look up, the initial design included; at most N. (The `--lookups`
            of a run, or N.)
        n_initial: number of random rows that a method is told before it is first asked.
    """

    features: Floats
    n_objectives: int
    lookups: int
    n_initial: int

    @property
    def budget(self) -> int:
        """Another name of `lookups`, for methods that were written for the first version."""
        return self.lookups


class Method(Protocol):
    """An HPO method: any class that is made as `Method(problem, rng)` and has these two methods.

    All its randomness must come from rng, a numpy.random.Generator.
    """

    def ask(self) -> int:
        """A row that was not told yet. Asked again before it is told, the same row."""

    def tell(self, index: int, losses: Floats) -> None:
        """The losses of a row, shape (n_objectives,), to be minimised; NaN where its training failed.

        The rows of the initial design are told first, without having been asked for.
        """


class MethodFactory(Protocol):
    """A maker of methods: the class itself, or a function with its signature."""

    def __call__(self, problem: Problem, rng: np.random.Generator) -> Method:
        """A method at the start of a trial."""


def name_of(factory: object) -> str:
    """A method's name: the class's or function's own, or the `name` that an object has, or its type's."""
    name = getattr(factory, "__name__", None) or getattr(factory, "name", None)
    return name if isinstance(name, str) and name else type(factory).__name__
