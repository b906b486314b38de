"""The common code of the adapters of other libraries: it turns a library's proposal into a row to look up.

An adapter is a class with three short functions. This is a complete adapter, for Optuna's random sampler:

    import optuna
    from hpobench_nmt.methods.adapters.common import Adapter, has_failed, ranges

    class OptunaRandom(Adapter):
        logger = "optuna"  # silenced while the library works

        def start(self):
            self.axes = ranges(self.problem.space).to_optuna()
            self.study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=self.seed()))

        def propose(self):
            self.trial = self.study.ask(self.axes)
            return self.trial.params

        def learn(self, row, losses):
            if not self.asked:  # a row of the initial design
                return
            state = optuna.trial.TrialState.FAIL if has_failed(losses) else None
            self.study.tell(self.trial, None if state else losses.tolist(), state=state)

It is used like any method: `benchmark("sw-en", ["adapter.py:OptunaRandom"])`.

symbol    shape    meaning
features  (N, F)   of the candidates, in [0, 1] (core/space.py)
left      (N,)     whether a candidate may still be looked up
"""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.hyperparameter import is_number
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.space import Config, Space
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.text import brief

_LARGEST_SEED = 2**31 - 1


class Adapter:
    """Base class of methods that use another library.

    It tracks the rows that are left, repeats an answer until the row's losses arrive, and turns any proposal
    into the nearest row that is left (see `nearest`). While the library works, its warnings and its log are
    silenced.

    Attributes:
        problem: the problem, as for any method.
        rng: the only source of randomness.
        left: whether a row may still be looked up, shape (N,).
        told: losses by row, in the order of the calls of `tell`.
        asked: in `learn`, whether the row is the answer of `ask`; False for rows of the initial design.
        logger: name of the library's logger; "" if it has none.
        draws_globally: whether the library draws from NumPy's global random state. The adapter then gives it
            a state of its own.
    """

    logger = ""
    draws_globally = False

    def __init__(self, problem: Problem, rng: np.random.Generator) -> None:
        self.problem = problem
        self.rng = rng
        self.left = np.ones(len(problem.features), dtype=bool)
        self.told: dict[int, Floats] = {}
        self.asked = False
        self._pending: int | None = None
        self._bits = _legacy_bits(self.seed()) if self.draws_globally else None
        with self._at_work():
            self.start()

    def start(self) -> None:
        """Make what the library needs."""

    def propose(self) -> int | Config | Floats:
        """What the library would evaluate next: a row, a configuration, or a point in feature space, (F,).

        A configuration's numbers may lie between the grid's values, and inactive hyperparameters may have a
        value.
        """
        raise NotImplementedError

    def learn(self, row: int, losses: Floats) -> None:
        """Pass a row's losses, (m,), to be minimised, to the library; NaN if the training failed."""

    def ask(self) -> int:
        """The row that is looked up for what the library proposes."""
        if self._pending is None:
            with self._at_work():
                proposed = self.propose()
            self._pending = self._row_of(proposed)
        return self._pending

    def tell(self, index: int, losses: Floats) -> None:
        """Record the losses of a row, and pass them to the library."""
        self.asked, self._pending = index == self._pending, None
        self.left[index] = False
        self.told[index] = losses
        with self._at_work():
            self.learn(index, losses)

    def seed(self) -> int:
        """A new seed for the library, from `rng`."""
        return int(self.rng.integers(_LARGEST_SEED))

    def known_losses(self) -> Floats:
        """Losses of the rows in `told`, shape (n, m), with those of failed rows replaced by `penalised`."""
        return penalised(np.array(list(self.told.values())).reshape(-1, self.problem.n_objectives))

    def rows_left(self) -> NDArray[np.int64]:
        """The rows that may still be looked up, ascending."""
        return np.flatnonzero(self.left)

    def _placed(self, config: Config) -> int | Floats:
        """The features of a configuration, shape (F,); its numbers may lie between the grid's values.

        With descriptors, which a configuration lacks, the candidate whose hyperparameters are nearest. Raises
        InputError if a value is missing, is not a number although it should be, or is an unknown label.
        """
        space = self.problem.space
        codes = np.full(len(space), np.nan)
        for j, h in enumerate(space):
            value = config.get(h.name)
            if h.name not in config or (value is None and (h.is_numeric or None not in h.values)):
                continue
            if not h.is_numeric:
                codes[j] = h.code(value)
            elif is_number(value) and math.isfinite(value):
                codes[j] = min(max(value, h.ends[0]), h.ends[1])
            else:
                raise InputError(f"it proposed {h.name} = {brief(value)}.")
        active = space.active(codes[None])[0, :]
        codes[~active] = np.nan
        lacking = np.flatnonzero(active & np.isnan(codes))
        if len(lacking):
            raise InputError(f"it proposed no value of {space.names[lacking[0]]}.")
        point: Floats = space.features(codes[None])[0]
        own = _space_features(self.problem)
        if own is self.problem.features:
            return point
        return int(_distances(own, point, _category_columns(self.problem)).argmin())

    def nearest(self, point: Floats) -> int:
        """The row nearest to a point in feature space among the rows that are left; the first of several.

        Without descriptors, rows whose categories are nearest to the point's come first. O(N F).
        """
        features = self.problem.features
        if point.shape != features.shape[1:] or not np.isfinite(point).all():
            raise InputError(f"it proposed {brief(point.tolist())}, which is not a point of the space.")
        described = _space_features(self.problem) is not features
        distance = _distances(features, point, [] if described else _category_columns(self.problem))
        distance[~self.left] = np.inf
        return int(distance.argmin())

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """The context of each call of the library."""
        with _quiet(self.logger), nullcontext() if self._bits is None else _numpy_draws_from(self._bits):
            yield

    def _row_of(self, proposed: Any) -> int:
        point = proposed = self._placed(proposed) if isinstance(proposed, Mapping) else proposed
        if isinstance(proposed, int | np.integer) and not isinstance(proposed, bool):
            if not 0 <= proposed < len(self.left):
                raise InputError(f"it proposed row {proposed}, but rows go from 0 to {len(self.left) - 1}.")
            if self.left[proposed]:
                return int(proposed)
            point = self.problem.features[proposed]
        if not isinstance(point, np.ndarray) or point.dtype.kind not in "fiu":
            raise InputError(f"it proposed {brief(proposed)}, which is neither row, configuration nor point.")
        return self.nearest(point)


def has_failed(losses: Floats) -> bool:
    """Whether a training has failed, which shows in a missing loss."""
    return bool(np.isnan(losses).any())


def penalised(losses: Floats) -> Floats:
    """Losses of n rows for libraries that do not support NaN, shape (n, m).

    The losses of a failed row are worse than all others, by the range of the losses, or by 1 if the range is
    0.
    """
    failed: NDArray[np.bool_] = np.asarray(np.isnan(losses).any(axis=1))
    if not failed.any():
        return losses
    known = losses[~failed] if not failed.all() else np.zeros((1, losses.shape[1]))
    worst, best = known.max(axis=0), known.min(axis=0)
    return np.where(failed[:, None], worst + np.where(worst > best, worst - best, 1.0), losses)


def ranges(space: Space) -> Space:
    """The space with ranges instead of grids of numbers, except for parents of conditions."""
    parents = {parent for h in space for parent, _ in h.active_if}
    return Space(
        tuple(
            replace(h, values=h.ends, integer=h.whole, continuous=True)
            if h.is_numeric and len(h.values) > 1 and h.name not in parents
            else h
            for h in space
        )
    )


@lru_cache(maxsize=8)
def _space_features(problem: Problem) -> Floats:
    """The candidates' features without descriptors; `problem.features` itself if it has none."""
    own = problem.space.features(problem.configs)
    return problem.features if np.array_equal(own, problem.features) else own


@lru_cache(maxsize=8)
def _category_columns(problem: Problem) -> list[int]:
    """Columns of the space's features that belong to categories."""
    widths = [h.n_features for h in problem.space]
    return np.flatnonzero(np.repeat([width > 1 for width in widths], widths)).tolist()


def _distances(features: Floats, point: Floats, categories: list[int]) -> Floats:
    """Squared distances of N rows to a point; one differing category outweighs all numbers together."""
    differences = (features - point) ** 2
    distances: Floats = differences.sum(axis=1)
    if categories:
        distances += features.shape[1] * differences[:, categories].sum(axis=1)
    return distances


@contextmanager
def _quiet(logger: str) -> Iterator[None]:
    """Within the context, silence warnings and a library's logger."""
    log = logging.getLogger(logger or __name__)
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        log.setLevel(level)


def _legacy_bits(seed: int) -> np.random.BitGenerator:
    """The generator that `np.random.seed(seed)` would set."""
    bits = np.random.MT19937()
    bits.state = np.random.RandomState(seed).get_state(legacy=False)  # type: ignore[assignment]
    return bits


@contextmanager
def _numpy_draws_from(bits: np.random.BitGenerator) -> Iterator[None]:
    """Within the context, NumPy's global functions draw from this generator."""
    outside = np.random.get_bit_generator()  # type: ignore[attr-defined]
    state = np.random.get_state()  # noqa: NPY002
    np.random.set_bit_generator(bits)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        np.random.set_bit_generator(outside)  # type: ignore[attr-defined]
        if isinstance(state, tuple) and state[3]:  # a stored normal number, which the change has lost
            np.random.set_state(state)  # noqa: NPY002
