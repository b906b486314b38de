"""The numbered configurations among which an optimizer's method chooses."""

from __future__ import annotations

import math

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.candidates import draw, draw_near, whole_or_drawn
from hpobench_nmt.core.hyperparameter import ROUNDED
from hpobench_nmt.core.seeds import generator
from hpobench_nmt.core.space import Config, Space, Value, config_key, row_index


class Candidates:
    """Configurations of a space, numbered from 0. Configurations that are added later get the next numbers.

    Args:
        space: a small space is used whole; otherwise `count` of its configurations are drawn.
        seed: the seed of the draw.
    """

    def __init__(self, space: Space, count: int, seed: int) -> None:
        self._space, self._count, self._seed = space, count, seed
        self.codes = _settled(space, whole_or_drawn(list(space), count, generator(seed, "candidates")))
        self._rows = row_index(self.codes)

    def __len__(self) -> int:
        return len(self.codes)

    def config(self, row: int) -> dict[str, Value]:
        """A configuration by number."""
        return self._space.decode(self.codes[row])

    def features(self, rows: list[int]) -> Floats:
        """The features of some configurations, shape (n, F)."""
        return self._space.features(self.codes[rows])

    def row(self, config: Config) -> int:
        """The number of a configuration. If it is not a candidate yet, it becomes one."""
        codes = self._space.encode(config)
        row = self._rows.get(config_key(codes))
        if row is None:
            row = self._rounded(codes)
        return self.adopt(codes) if row is None else row

    def adopt(self, codes: Floats) -> int:
        """Make a configuration a candidate, and return its number."""
        row = self._rows[config_key(codes)] = len(self.codes)
        self.codes = np.vstack([self.codes, codes])
        return row

    def initial(self, n: int, start: Config | None) -> list[int]:
        """The numbers of the initial design, of at most n configurations: `start`, if any, comes first.

        It does not depend on the budget, which may grow.
        """
        size = min(n, len(self))
        rng = generator(self._seed, "initial", "optimizer")
        drawn = rng.choice(len(self), size=size, replace=False).tolist()
        if start is None:
            return [int(row) for row in drawn]
        first = self.row(start)
        return [first, *(row for row in drawn if row != first)][: max(size, 1)]

    def new(self, around: Floats, rng: np.random.Generator, part: int = 1) -> Floats:
        """Codes of `count` / `part` draws, half near `around`, half anywhere, that are not candidates yet."""
        count = math.ceil(self._count / part)
        anywhere = draw(list(self._space), count - count // 2, rng)
        near = draw_near(list(self._space), around, count // 2, rng) if len(around) else anywhere[:0]
        return self._new(np.concatenate([near, anywhere]))

    def near(self, codes: Floats, rng: np.random.Generator, part: int = 1) -> Floats:
        """A configuration's codes, (H,), and `count` / 2 / `part` draws near it, if they are new."""
        near = draw_near(list(self._space), codes[None], self._count // part // 2, rng)
        return self._new(np.concatenate([codes[None], near]))

    def _new(self, drawn: Floats) -> Floats:
        drawn = _settled(self._space, drawn)
        return drawn[[k for key, k in row_index(drawn).items() if key not in self._rows]]

    def _rounded(self, codes: Floats) -> int | None:
        """The only candidate that equals these codes if real numbers are rounded to float32, or None."""
        real = np.array([h.continuous and not h.whole for h in self._space])
        if not real.any():
            return None
        with np.errstate(over="ignore"):
            same = (np.float32(self.codes) == np.float32(codes)) & real
        same &= np.isclose(self.codes, codes, rtol=ROUNDED, atol=0.0)
        same |= (self.codes == codes) | (np.isnan(self.codes) & np.isnan(codes))
        rows = np.flatnonzero(same.all(axis=1))
        return int(rows[0]) if len(rows) == 1 else None


def _settled(space: Space, codes: Floats) -> Floats:
    """Codes with NaN for inactive hyperparameters. Codes that become equal are kept once."""
    while not (active := space.active(codes))[~np.isnan(codes)].all():
        codes = np.where(active, codes, np.nan)  # this may make further hyperparameters inactive
    if not any(h.active_if for h in space):
        return codes  # they are distinct
    return codes[list(row_index(codes).values())]  # the first of codes that differed in inactive values only
