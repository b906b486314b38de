"""What adapters of other libraries cost in addition to the libraries, and the time of suite `frameworks`.

    hpobench-nmt tables fetch nmthpo
    python benchmarks/adapters.py [--table sw-en] [--suite]

Each adapter whose library is installed looks up 60 rows, and the library's proposals are recorded. Then the
same proposals are replayed without the library, and the rest of a step is timed: finding the row, silencing
the library's log and warnings, and setting random states (`methods/adapters/common.py`). The lines in which
an adapter calls its library do not count. The first step does not count either, because it makes much that
later steps use. The figure is the median over steps, the best of five repetitions.

With --suite, `frameworks` runs with two jobs through the command line, which shows the time left.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from startup import HERE, seconds_of

from hpobench_nmt.benchmarking.instance import make_instance
from hpobench_nmt.benchmarking.suite import Suite
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.lookup.catalogue import load_table
from hpobench_nmt.methods import ADAPTERS

LOOKUPS, INITIAL, TIMES = 60, 3, 5
BAR_MS = 0.2
BAR_MINUTES = 15.0


def steps_of(make: Callable[..., Any], problem: Problem, losses: np.ndarray) -> tuple[Any, list[float]]:
    """An adapter after 60 look-ups, and the seconds of each step."""
    made, seconds = make(problem, np.random.default_rng(0)), []
    for row in range(INITIAL):
        made.tell(row, losses[row].copy())
    for _ in range(LOOKUPS - INITIAL):
        start = time.perf_counter()
        row = made.ask()
        made.tell(row, losses[row])
        seconds.append(time.perf_counter() - start)
    return made, seconds


def overhead_ms(kind: Any, problem: Problem, losses: np.ndarray) -> tuple[float, float]:
    """Milliseconds per step, without the library and with it."""
    proposed: list[Any] = []

    def recording(self: Any) -> Any:
        proposed.append(kind.propose(self))
        return proposed[-1]

    _, whole = steps_of(type("Recorded", (kind,), {"propose": recording}), problem, losses)
    without = {
        "start": lambda self: setattr(self, "replayed", iter(proposed)),
        "propose": lambda self: next(self.replayed),
        "learn": lambda self, row, losses: None,
    }
    times = [steps_of(type("Replayed", (kind,), without), problem, losses)[1][1:] for _ in range(TIMES)]
    return 1e3 * min(map(float, map(np.median, times))), 1e3 * float(np.median(whole[1:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", default="sw-en")
    parser.add_argument("--suite", action="store_true")
    arguments = parser.parse_args()
    table = load_table(arguments.table)
    for method in ADAPTERS.values():
        if method.missing():
            print(f"{method.name:24} left out: {', '.join(method.missing())} is not installed")
            continue
        score = "fb" if 1 in method.objectives else "fbp"
        metrics = ("dev_bleu", "dev_gpu_time")[: method.objectives[0]]
        suite = Suite(
            "adapters", (score,), objectives=metrics, score_at={"default": LOOKUPS}, lookups=LOOKUPS
        )
        instance = make_instance(suite, table)
        problem = replace(instance.problem, lookups=LOOKUPS)
        ours, whole = overhead_ms(method.load(), problem, instance.losses)
        verdict = "ok" if ours <= BAR_MS else "ABOVE THE BAR"
        print(
            f"{method.name:24} ours {ours:.3f} of {whole:8.2f} ms a step (bar: {BAR_MS}) {verdict}",
            flush=True,
        )
    if arguments.suite:
        with tempfile.TemporaryDirectory() as folder:
            command = ["-m", "hpobench_nmt", "run", "frameworks", "--jobs", "2", "--out", f"{folder}/run"]
            minutes = seconds_of(command, HERE) / 60
        verdict = "ok" if minutes <= BAR_MINUTES else "ABOVE THE BAR"
        print(f"frameworks, two jobs: {minutes:.1f} minutes (bar: {BAR_MINUTES:.0f}) {verdict}")


if __name__ == "__main__":
    main()
