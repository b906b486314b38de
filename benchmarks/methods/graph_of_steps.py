"""Expected influence on the graph of rows at most two grid steps apart, against the usual graph, in Table 3.

    hpobench-nmt tables fetch nmthpo
    python benchmarks/methods/graph_of_steps.py [--jobs 2] [--seed 0]

Prints how many cells of the paper's Table 3 each graph matches within 3 standard errors, on the four tables
with larger corpora and on sw-en and so-en. Then prints every cell.
"""

from __future__ import annotations

import argparse
import math

import hpobench_nmt as hb
from hpobench_nmt.benchmarking.task.suite_files import load_suite, published_figures

LARGE, SMALL = ("zh-en", "ru-en", "ja-en", "en-ja"), ("sw-en", "so-en")
METHODS = ("GB_EIF_M", "GB_EIF_R")


def distances(setting: str, jobs: int, seed: int) -> dict[tuple[str, str, str], float]:
    """Our mean minus the paper's, in standard errors, by table, method and score."""
    suite = load_suite("paper-single")
    results = hb.run(suite, methods=[name + setting for name in METHODS], jobs=jobs, seed=seed)
    trials, figures = suite.trials, published_figures(suite)
    found = {}
    for row in results.scores().itertuples():
        method = str(row.method).partition("+")[0]
        mean, std = figures[method, str(row.table), str(row.score)]
        error = math.hypot(float(row.std), std) / math.sqrt(trials)  # type: ignore[arg-type]
        found[str(row.table), method, str(row.score)] = (float(row.mean) - mean) / error  # type: ignore[arg-type]
    return found


def main() -> None:
    """Print the counts and the cells."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    usual, steps = (distances(setting, options.jobs, options.seed) for setting in ("", "(steps=2)"))
    for name, tables in (("larger resources", LARGE), ("sw-en and so-en", SMALL)):
        cells = [cell for cell in usual if cell[0] in tables]
        met = [sum(abs(found[cell]) <= 3 for cell in cells) for found in (usual, steps)]
        print(f"{name}: of {len(cells)} cells the usual graph meets {met[0]}, two steps {met[1]}")
    for cell in usual:
        print(f"   {' '.join(cell):22s} usual {usual[cell]:+6.1f} se, two steps {steps[cell]:+6.1f} se")


if __name__ == "__main__":
    main()
