"""Random generators for trials, derived from names and numbers alone.

The initial design depends on (root seed, table, trial), so that every method starts from the same rows. A
method's generator depends on the method's name as well. Neither global state nor `hash()`, which differs
between processes, is used.
"""

from __future__ import annotations

import hashlib
import operator
from functools import lru_cache

import numpy as np

from hpobench_nmt.core.arrays import Rows
from hpobench_nmt.core.system.errors import check_whole


def check_seed(seed: object) -> None:
    """Raise InputError if a root seed is not a whole number of 0 or more."""
    check_whole("seed", seed, 0)


def generator(seed: int, *parts: str | int) -> np.random.Generator:
    """An independent generator for each combination of seed and parts."""
    named = (f"str:{p}" if isinstance(p, str) else f"int:{operator.index(p)}" for p in parts)
    text = "\x1f".join(named)
    words = np.frombuffer(hashlib.sha256(text.encode()).digest(), dtype="<u4")
    return np.random.default_rng(np.random.SeedSequence([seed, *words.tolist()]))


def initial_rows(seed: int, table: str, trial: int, n_rows: int, n_initial: int) -> list[int]:
    """The initial design: n_initial distinct rows, uniformly at random."""
    return list(_initial_rows(seed, table, trial, n_rows, n_initial))


@lru_cache(maxsize=4096)  # every method of a run starts from the same rows
def _initial_rows(seed: int, table: str, trial: int, n_rows: int, n_initial: int) -> tuple[int, ...]:
    rng = generator(seed, "initial", table, trial)
    return tuple(rng.choice(n_rows, size=n_initial, replace=False).tolist())


def sampled_rows(seed: int, table: str, trial: int, n_rows: int, size: int, attempt: int = 0) -> Rows:
    """The rows of a table that a trial sees: `size` distinct rows in a random order, for all methods.

    `attempt` counts the samples of the trial that were rejected before.
    """
    rng = generator(seed, "sample", table, trial, attempt)
    return rng.permutation(n_rows)[:size]


def method_generator(seed: int, table: str, method: str, trial: int) -> np.random.Generator:
    """The generator that a method gets in a trial."""
    return generator(seed, "method", table, method, trial)
