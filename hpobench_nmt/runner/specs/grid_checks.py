"""Checks of all configurations of a grid. Configurations that a check cannot distinguish cost one call."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from hpobench_nmt.core.space import Value
from hpobench_nmt.core.system.errors import InputError


class _Noted:
    """Settings that record which of them are read."""

    def __init__(self, settings: object) -> None:
        self._settings = settings
        self.read: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.read.add(name)
        return getattr(self._settings, name)


def check_all(
    grid: Mapping[str, Sequence[Value]],
    settings: Callable[[Mapping[str, Value]], object],
    check: Callable[[Any], None],
) -> Iterator[tuple[dict[str, Value], tuple[str, ...], str]]:
    """Check every configuration of a grid, once for each combination of the values that the check reads.

    A check of two hyperparameters with 10 values each is called 100 times, however large the grid is. It
    raises InputError if the settings of a configuration are wrong, and depends on nothing else.

    Yields:
        for each combination that is wrong, in the grid's order: its first configuration, the names of the
        hyperparameters that the check reads, and the error's text.
    """
    read: set[str] = set()
    while True:
        names = tuple(name for name in grid if name in read)
        wrong = []
        for values in itertools.product(*(grid[name] for name in names)):
            configuration = {name: grid[name][0] for name in grid} | dict(zip(names, values, strict=True))
            noted = _Noted(settings(configuration))
            try:
                check(noted)
            except InputError as error:
                wrong.append((configuration, names, str(error)))
            if new := noted.read & (grid.keys() - read):  # a check may read more of some configurations
                read |= new
                break
        else:
            yield from wrong
            return
