"""The effect of each choice in `BO_auto`: regret on the development tables, one setting changed at a time.

    python benchmarks/methods/auto_ablation.py [--trials 20] [--jobs 2] [--tables TABLE,...] [METHOD ...]

METHOD is any method of one objective, by default `BO_auto`, `BO_EI_M_std`, and `BO_auto` with other settings.
`development_tables.py` has the tables and their two budgets. Regret is averaged over trials, the tables of a
family, and families. With --tables, each of these installed tables is a family of its own.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from development_tables import families, of_random_search, regrets_of, rows_of

METHODS = (
    "BO_auto",
    "BO_EI_M_std",
    "BO_auto(cap=1e300)",
    "BO_auto(cap=1.0)",
    "BO_auto(cap=10.0)",
    "BO_auto(vectors=0)",
    "BO_auto(vectors=48)",
    "BO_auto(isotropic=false)",
    "BO_auto(length_sd=0.7)",
    "BO_auto(additive=0.0)",
    "BO_auto(additive=1.0)",
    "BO_auto(weight=0.5)",
    "BO_auto(weight=1.0)",
)


def of_method(name: str, method: str, trials: int) -> list[float]:
    """A method's mean regret at both budgets."""
    found = [regrets_of(name, rows_of(name, method, trial)) for trial in range(trials)]
    return [float(value) for value in np.mean(found, axis=0)]


def report(
    label: str,
    regret: Callable[[str], list[float]],
    tables_of: dict[str, list[str]],
    pool: ProcessPoolExecutor,
) -> None:
    """Print a line: the means over families, then each family's."""
    found = {f: np.mean(list(pool.map(regret, tables)), axis=0) for f, tables in tables_of.items()}
    means = np.mean(list(found.values()), axis=0)
    parts = "  ".join(f"{family} {a:.3f} {b:.3f}" for family, (a, b) in found.items())
    print(f"{label:26s} {means[0]:.3f} {means[1]:.3f} | {parts}", flush=True)


def main() -> None:
    """Print a line per method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("methods", nargs="*", default=METHODS, metavar="METHOD")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--tables", type=lambda text: text.split(","), default=[])
    options = parser.parse_args()
    tables_of = {table: [table] for table in options.tables} or families()
    print(f"{'regret after':26s} N/20  N/8   | by family")
    with ProcessPoolExecutor(options.jobs) as pool:
        report("random search", of_random_search, tables_of, pool)
        for method in options.methods:
            report(method, partial(of_method, method=method, trials=options.trials), tables_of, pool)


if __name__ == "__main__":
    main()
