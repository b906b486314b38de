"""Time of all analyses of the paper's two suites: 12 systems, six tables, 100 trials.

    hpobench-nmt tables fetch nmthpo
    python benchmarks/run_analyses.py [--jobs 2] [--results FOLDER]

Runs `paper-single` and `paper-multi` into FOLDER first, unless FOLDER already has them. Without --results, a
temporary folder is used. Then times every analysis, and separately every figure. The bar is a time that is
acceptable for a report.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from hpobench_nmt.analysis.run_curves import hypervolume_curves, regret_curves, surrogate_curves
from hpobench_nmt.analysis.run_fronts import attainment, moving_front
from hpobench_nmt.analysis.runtimes import expected_runtime_frame, runtime_distribution, target_runtimes
from hpobench_nmt.analysis.verdicts import run_statistics
from hpobench_nmt.benchmarking.results import Results
from hpobench_nmt.benchmarking.store import load_results
from hpobench_nmt.render.plots.curves import plot_curve_panels, plot_curves
from hpobench_nmt.render.plots.fronts import plot_attainment, plot_front_moves
from hpobench_nmt.render.plots.runtimes import plot_expected_runtimes, plot_runtime_distribution
from hpobench_nmt.render.plots.scores import plot_critical_difference, plot_scores, plot_wins
from hpobench_nmt.render.plots.style import method_styles

BAR_SECONDS = 10.0
SUITES = ("paper-single", "paper-multi")


class Clock:
    """Seconds and processor seconds by name."""

    def __init__(self) -> None:
        self.spent: dict[str, tuple[float, float]] = {}

    def __call__(self, name: str, call: Callable[[], Any]) -> Any:
        wall, processor = time.perf_counter(), time.process_time()
        result = call()
        before = self.spent.get(name, (0.0, 0.0))
        spent = (time.perf_counter() - wall, time.process_time() - processor)
        self.spent[name] = (before[0] + spent[0], before[1] + spent[1])
        return result

    def show(self, title: str) -> float:
        print(f"\n{title}")
        for name, (wall, processor) in self.spent.items():
            print(f"   {name:24s} {wall:6.2f} s   {processor:6.2f} s of processor time")
        total = sum(wall for wall, _ in self.spent.values())
        print(f"   {'together':24s} {total:6.2f} s   {sum(p for _, p in self.spent.values()):6.2f} s")
        return total


def run_suites(folder: Path, jobs: int) -> None:
    for suite in SUITES:
        if not (folder / suite).is_dir():
            command = [sys.executable, "-m", "hpobench_nmt", "run", suite, "--out", str(folder / suite)]
            subprocess.run([*command, "--jobs", str(jobs), "--quiet"], check=True)


def analyse(results: Results, jobs: int, clock: Clock) -> dict[str, Any]:
    """All analyses of a run."""
    tables, two = list(results.instances), results.suite.n_objectives == 2
    found = {
        "statistics": clock("statistics", lambda: run_statistics(results)),
        "errors": clock(
            "surrogate errors", lambda: [surrogate_curves(results, t, jobs=jobs) for t in tables]
        ),
    }
    if two:
        found["curves"] = clock("hypervolume", lambda: [hypervolume_curves(results, t) for t in tables])
        found["fronts"] = clock("fronts", lambda: [moving_front(results, t, m) for t, m in results.trials])
        steps = (20, 50, 100)
        found["attained"] = clock(
            "attainment", lambda: [attainment(results, t, n) for t in tables for n in steps]
        )
    else:
        found["curves"] = clock("regret", lambda: [regret_curves(results, t) for t in tables])
    runtimes = clock("runtimes", lambda: target_runtimes(results))
    chosen = [*([t] for t in tables), tables]
    found["distributions"] = clock("runtimes", lambda: [runtime_distribution(runtimes, t) for t in chosen])
    found["ert"] = clock("expected runtimes", lambda: expected_runtime_frame(runtimes))
    return found


def draw(results: Results, found: dict[str, Any], clock: Clock) -> int:
    """Draw every figure as PNG; return their number."""
    styles = method_styles(results.methods)
    statistics, tables = found["statistics"], list(results.instances)
    figures: list[tuple[str, Callable[[], Any]]] = []
    for curves in [*found["curves"], *(c for several in found["errors"] for c in several)]:
        figures += [("curves", partial(plot_curves, curves, styles))]
        figures += [("panels", partial(plot_curve_panels, curves, styles))]
    figures += [("fronts", partial(plot_front_moves, front)) for front in found.get("fronts", [])]
    figures += [("attainment", partial(plot_attainment, a, styles)) for a in found.get("attained", [])]
    figures += [
        ("distributions", partial(plot_runtime_distribution, d, styles)) for d in found["distributions"]
    ]
    for table in tables:
        figures += [("expected runtimes", partial(plot_expected_runtimes, found["ert"], table, styles))]
        figures += [("scores", partial(plot_scores, statistics.scores, table, styles))]
        figures += [
            ("wins", partial(plot_wins, statistics.comparisons, table, score))
            for score in results.suite.scores
        ]
    figures += [
        ("critical difference", partial(plot_critical_difference, r, styles)) for r in statistics.ranks
    ]
    with tempfile.TemporaryDirectory() as folder:

        def save(make: Callable[[], Any]) -> None:
            make().savefig(Path(folder) / "figure.png")

        for name, make in figures:
            clock(name, partial(save, make))
    return len(figures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--results", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        folder = arguments.results or Path(work)
        run_suites(folder, arguments.jobs)
        loaded = [load_results(folder / suite) for suite in SUITES]
    analyses, figures = Clock(), Clock()
    found = [analyse(results, arguments.jobs, analyses) for results in loaded]
    total = analyses.show(f"Analyses of both suites, {arguments.jobs} threads")
    print(f"   bar: {BAR_SECONDS:.0f} s, {'met' if total <= BAR_SECONDS else 'MISSED'}")
    n = sum(draw(results, one, figures) for results, one in zip(loaded, found, strict=True))
    figures.show(f"{n} figures, each drawn and written as PNG")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\npeak memory {peak:.0f} MiB")


if __name__ == "__main__":
    main()
