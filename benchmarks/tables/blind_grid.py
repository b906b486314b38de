"""Lay the grid of a new table blind: a pilot's best value of a setting lies at a random place of its axis.

    python benchmarks/tables/blind_grid.py sotu-lstm learning_rate=12.6:16:6 dropout_input=0.13+0.6:4:0:0.9

An axis is NAME=BEST:RATIO:COUNT on a log scale, or NAME=BEST+WIDTH:COUNT on a linear one. BEST is the value
of the pilot's best row, or the mean over its best rows. It lies at a quantile of the axis that is uniform
between 0.15 and 0.85, and drawn from the names of the table and the setting. So nobody can choose it, and
looking at the middle of the grid first is no better than looking elsewhere. A lowest and a highest value may
follow, at which the axis is cut off. Values have two digits.
"""

from __future__ import annotations

import sys

import numpy as np

from hpobench_nmt.core.seeds import generator


def laid(table: str, name: str, axis: str) -> list[float]:
    """The values of an axis such as "12.6:16:6" or "0.13+0.6:4:0:0.9" of a setting of a table."""
    best, extent, count, *bounds = map(float, axis.replace("+", ":").split(":"))
    lowest, highest = bounds or (-np.inf, np.inf)
    quantile = generator(0, "blind grid", table, name).uniform(0.15, 0.85)
    if "+" in axis:
        low, high = best - quantile * extent, best + (1 - quantile) * extent
        values = np.linspace(max(low, lowest), min(high, highest), int(count)).round(2)
    else:
        low, high = best / extent**quantile, best * extent ** (1 - quantile)
        values = np.geomspace(max(low, lowest), min(high, highest), int(count))
    return [float(f"{value:.2g}") for value in values]


def main() -> None:
    """Print the axes as lines of a spec's [grid]."""
    table, *axes = sys.argv[1:]
    for axis in axes:
        name, _, text = axis.partition("=")
        print(f"{name} = [{', '.join(f'{value:g}' for value in laid(table, name, text))}]")


if __name__ == "__main__":
    main()
