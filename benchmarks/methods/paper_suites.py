"""Time to reproduce the paper's Tables 3 and 4, and the distance of every cell from the paper.

    hpobench-nmt tables fetch nmthpo
    python benchmarks/methods/paper_suites.py [--jobs 2] [--seed 0]

Runs `paper-single` and `paper-multi` through the command line, in separate processes, into a new folder. Then
compares every cell with the paper's cell. The first run after an installation also compiles.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from hpobench_nmt.analysis.leaderboard import Cell, cells, figure
from hpobench_nmt.benchmarking.records.store import load_results
from hpobench_nmt.evaluation.scores import SCORES

BAR_SECONDS = 30.0
UNSPECIFIED = "the paper does not specify its graph or its labels, and the first steps hang on them"


def run(suite: str, folder: Path, jobs: int, seed: int) -> tuple[float, list[Cell]]:
    """Seconds that a suite took, and its cells."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "hpobench_nmt", "run", suite, "--out", str(folder / suite)]
    subprocess.run([*command, "--jobs", str(jobs), "--seed", str(seed)], check=True, capture_output=True)
    return time.perf_counter() - start, list(cells(load_results(folder / suite)))


def ratio(cell: Cell) -> float:
    """Our mean divided by the paper's."""
    return cell.summary.mean / cell.published_mean


def show(cell: Cell) -> str:
    """A cell, its published figure, and their distance."""
    ours = figure(cell.summary.mean, cell.summary.std, cell.decimals)
    theirs = figure(cell.published_mean, cell.published_std, cell.decimals)
    return (
        f"{cell.table:6s} {cell.method:9s} {cell.score:4s} {ours:>10s} {theirs:>10s} {cell.distance:+6.1f} se"
    )


def compare_single(found: list[Cell]) -> None:
    """Compare Table 3 with the bars."""
    near = [c for c in found if not c.method.startswith("GB")]
    within = sum(abs(c.distance) <= 3 for c in near)
    print(f"\nTable 3, RS and BO: {within} of {len(near)} cells within 3 standard errors (bar: 95%)")
    for cell in near:
        if abs(cell.distance) > 3:
            print("  ", show(cell))
    graph = [c for c in found if c.method.startswith("GB")]
    within = sum(abs(c.distance) <= 3 for c in graph)
    print(f"\nTable 3, GB: {within} of {len(graph)} cells within 3 standard errors")
    print("\nTable 3, GB: geometric mean of ours/paper for ftb (bar: 0.8 to 1.25)")
    for method in sorted({c.method for c in found if c.method.startswith("GB")}):
        ratios = [ratio(c) for c in found if c.method == method and c.score == "ftb"]
        print(f"   {method:9s} {np.exp(np.mean(np.log(ratios))):.2f}")
    print("\nTable 3, GB, every cell")
    for cell in found:
        if cell.method.startswith("GB"):
            beyond = not 0.5 <= ratio(cell) <= 2
            apart = abs(cell.summary.mean - cell.published_mean)
            reason = f"   {ratio(cell):.2g}x, {apart:.2g} apart: {UNSPECIFIED}" if beyond else ""
            print("  ", show(cell) + reason)


def compare_multi(found: list[Cell]) -> None:
    """Compare Table 4 with the bars."""
    for family, near in (
        ("RS", [c for c in found if c.method == "RS"]),
        ("BO", [c for c in found if c.method.startswith("BO")]),
        ("GB", [c for c in found if c.method.startswith("GB")]),
    ):
        within = sum(abs(c.distance) <= 3 for c in near)
        print(f"\nTable 4, {family}: {within} of {len(near)} cells within 3 standard errors", end="")
    print("\n\nTable 4, every cell")
    for cell in found:
        print("  ", show(cell))
    print(
        "\nTable 4: geometric mean of how much better ours is than the paper's (bar for RS and BO: 1 or more)"
    )
    for method in dict.fromkeys(c.method for c in found):
        better = [
            1 / ratio(c) if SCORES[c.score].lower_is_better else ratio(c) for c in found if c.method == method
        ]
        print(f"   {method:9s} {np.exp(np.mean(np.log(better))):.3f}")
    both = [
        1 / ratio(c) if SCORES[c.score].lower_is_better else ratio(c)
        for c in found
        if not c.method.startswith("GB")
    ]
    print(f"   RS and BO {np.exp(np.mean(np.log(both))):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        single_s, single = run("paper-single", Path(work), arguments.jobs, arguments.seed)
        multi_s, multi = run("paper-multi", Path(work), arguments.jobs, arguments.seed)
    total = single_s + multi_s
    print(f"paper-single {single_s:.1f} s, paper-multi {multi_s:.1f} s, together {total:.1f} s", end=" ")
    print(f"with {arguments.jobs} jobs (bar: {BAR_SECONDS:.0f} s)")
    compare_single(single)
    compare_multi(multi)


if __name__ == "__main__":
    main()
