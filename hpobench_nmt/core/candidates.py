"""Candidates of a space: its whole grid if it is small, else configurations drawn at random.

N    configurations asked for
H    hyperparameters
u    positions on the axes, in [0, 1), shape (N, H), drawn row by row
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.space import Hyperparameter, row_index

_DIGITS = 4
_TENS = np.array([float(f"1e{k}") for k in range(23)])  # a power of NumPy may differ in the last bit
_LOG_STEPS = math.log(0.003), math.log(0.3)
MOST_CANDIDATES = 100_000
"""Spaces of at most this many configurations are used whole; at most this many are drawn from larger ones."""


def whole_or_drawn(
    axes: Sequence[Hyperparameter], count: int, rng: np.random.Generator, most: int = MOST_CANDIDATES
) -> Floats:
    """Codes of all configurations if there are at most `most`, else of `count` random ones; shape (N, H).

    The rows are distinct. A range of whole numbers counts as the grid of these numbers.
    """
    if not is_small(axes, most):
        return draw(axes, count, rng)
    columns = np.meshgrid(*map(_points, axes), indexing="ij")
    return np.column_stack([column.ravel() for column in columns])


def is_small(axes: Sequence[Hyperparameter], most: int = MOST_CANDIDATES) -> bool:
    """Whether the axes have at most `most` configurations."""
    return math.prod(map(_size, axes)) <= most


def _size(axis: Hyperparameter) -> float:
    if not axis.continuous:
        return len(axis.values)
    low, high = axis.ends
    return high - low + 1 if axis.whole else math.inf


def _points(axis: Hyperparameter) -> Floats:
    low, high = axis.ends
    return np.arange(low, high + 1) if axis.continuous else np.array(axis.numbers)


def draw(axes: Sequence[Hyperparameter], count: int, rng: np.random.Generator) -> Floats:
    """Codes of configurations drawn uniformly on each axis' scale, distinct rows, shape (at most count, H).

    An axis is a range (continuous) or a grid. The first configurations are the same for a larger count. A
    whole number on a log scale is as likely as the interval of half a unit on each side of it. Other numbers
    of a range are rounded to four digits, so that they are short, and the same on every machine. A narrow
    range keeps one more digit for each power of ten in the ratio of its larger end to its width.
    """
    return _at(axes, rng.random((count, len(axes))))


def draw_near(axes: Sequence[Hyperparameter], around: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Codes of configurations near given ones, of codes (k, H); distinct rows, shape (at most count, H).

    Each starts from a given configuration. A random share of its hyperparameters, at least one, moves by a
    normal step whose deviation is log-uniform between 0.003 and 0.3 of the axis. An unordered label that
    moves is drawn uniformly, as is any hyperparameter that is inactive (NaN) in the given configuration.
    """
    starts = around[rng.integers(len(around), size=count)]
    u = np.column_stack([_position(axis, starts[:, j]) for j, axis in enumerate(axes)])
    size = np.exp(rng.uniform(*_LOG_STEPS, size=(count, 1)))
    moved = np.abs(u + size * rng.standard_normal(u.shape))
    moved = np.clip(1.0 - np.abs(1.0 - moved), 0.0, np.nextafter(1.0, 0.0))  # reflected at both ends
    uniform = rng.random(u.shape)
    unordered = np.array([axis.kind == "categorical" for axis in axes])
    moved = np.where(unordered | np.isnan(u), uniform, moved)
    moves = rng.random(u.shape) < rng.random((count, 1))
    moves[np.arange(count), rng.integers(len(axes), size=count)] = True
    return _at(axes, np.where(moves | np.isnan(u), moved, u))


def _at(axes: Sequence[Hyperparameter], u: Floats) -> Floats:
    found = np.column_stack([_drawn(axis, u[:, j]) for j, axis in enumerate(axes)])
    return found[list(row_index(found).values())]


def _drawn(axis: Hyperparameter, u: Floats) -> Floats:
    if not axis.continuous:
        return np.array(axis.numbers)[(u * len(axis.numbers)).astype(np.intp)]
    whole = axis.whole
    low, high = axis.ends
    if whole and axis.scale == "linear":  # all are equally likely
        return np.minimum(low + np.floor(u * (high - low + 1)), high)
    if whole:
        low, high = low - 0.5, high + 0.5
    if axis.scale == "log":
        drawn = np.exp(math.log(low) + u * math.log(high / low))
    else:
        drawn = low + u * (high - low)
    if whole:
        return np.clip(np.rint(drawn), *axis.ends)
    share = max(abs(low), abs(high)) / (high - low)
    digits = min(_DIGITS + max(int(math.log10(share)), 0), 17)
    return np.clip(_rounded(drawn, digits), low, high)


def _rounded(values: Floats, digits: int) -> Floats:
    """`float(f"{value:.{digits}g}")` of each value, to the last bit.

    A whole number of at most 15 digits, multiplied or divided by a power of ten up to 1e22, gives the
    decimal's nearest float. Other values, and those near the middle between two decimals, are formatted.
    """
    with np.errstate(divide="ignore", over="ignore"):
        power = digits - 1 - np.floor(np.log10(np.abs(values)))
        tens = _TENS[np.minimum(np.abs(power), 22).astype(np.intp)]
        scaled = np.where(power < 0, values / tens, values * tens)
    whole = np.rint(scaled)
    found = np.where(power < 0, whole * tens, whole / tens)
    unsure = (np.abs(power) > 22) | (np.abs(np.abs(scaled - whole) - 0.5) < 10.0 ** (digits - 15))
    found[unsure] = [float(f"{value:.{digits}g}") for value in values[unsure]]
    return np.asarray(found)


def _position(axis: Hyperparameter, codes: Floats) -> Floats:
    """Where codes lie on an axis, in [0, 1): the u from which `_drawn` makes them."""
    if not axis.continuous:
        places = np.searchsorted(np.array(axis.numbers), codes)
        return np.where(np.isnan(codes), np.nan, (places + 0.5) / len(axis.numbers))
    low, high = axis.ends
    if axis.whole:
        low, high = low - 0.5, high + 0.5
    if axis.scale == "log":
        return np.log(codes / low) / math.log(high / low)
    return (codes - low) / (high - low)
