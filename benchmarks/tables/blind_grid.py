"""Lay the grid of a new table blind: a pilot's best value of a setting lies at a random place of its axis.

    python benchmarks/tables/blind_grid.py sotu-lstm PILOT learning_rate=16:6 dropout_input=+0.6:4:0:0.9

PILOT is the ledger of a pilot. An axis is NAME=RATIO:COUNT on a log scale, or NAME=+WIDTH:COUNT on a linear
one. The best value is the mean over the pilot's three rows with the smallest dev perplexity, or the largest
dev BLEU, in which the setting is active; on a log scale the geometric mean. It lies at a quantile of the axis
that is uniform between 0.15 and 0.85, and drawn from the names of the table and the setting. So nobody can
choose it, and looking at the middle of the grid first is no better than looking elsewhere. A lowest and a
highest value may follow, at which the axis is cut off. Values have two digits.

The best value can also be given, as NAME=BEST:RATIO:COUNT or NAME=BEST+WIDTH:COUNT; then PILOT is "-".
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from hpobench_nmt.core.seeds import generator
from hpobench_nmt.runner.ledgers.ledger import Record, read_ledger

BEST_ROWS = 3


def best_value(records: list[Record], name: str, log: bool) -> float:
    """The mean of a setting over the best rows in which it is active."""
    active = [r for r in records if name in r.config and r.status == "done"]
    best = sorted(active, key=lambda r: r.metrics.get("dev_ppl") or -r.metrics["dev_bleu"])[:BEST_ROWS]
    values = np.array([float(r.config[name]) for r in best])
    return float(np.exp(np.log(values).mean()) if log else values.mean())


def laid(table: str, name: str, best: float, axis: str) -> list[float]:
    """The values of an axis such as "16:6" or "+0.6:4:0:0.9" of a setting of a table."""
    extent, count, *bounds = map(float, axis.removeprefix("+").split(":"))
    lowest, highest = bounds or (-np.inf, np.inf)
    quantile = generator(0, "blind grid", table, name).uniform(0.15, 0.85)
    if axis.startswith("+"):
        low, high = best - quantile * extent, best + (1 - quantile) * extent
        values = np.linspace(max(low, lowest), min(high, highest), int(count)).round(2)
    else:
        low, high = best / extent**quantile, best * extent ** (1 - quantile)
        values = np.geomspace(max(low, lowest), min(high, highest), int(count))
    return [float(f"{value:.2g}") for value in values]


def main() -> None:
    """Print the axes as lines of a spec's [grid]."""
    table, pilot, *axes = sys.argv[1:]
    records = [] if pilot == "-" else list(read_ledger(Path(pilot)).records)
    for each in axes:
        name, _, axis = each.partition("=")
        linear = "+" in axis
        if pilot == "-":
            given, _, axis = axis.partition("+" if linear else ":")
            best, axis = float(given), "+" * linear + axis
        else:
            best = best_value(records, name, not linear)
        print(f"{name} = [{', '.join(f'{value:g}' for value in laid(table, name, best, axis))}]")


if __name__ == "__main__":
    main()
