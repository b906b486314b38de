"""Time of `paper-single` and `paper-multi` with 100 trials, in turns with another checkout of the project.

    hpobench-nmt tables fetch nmthpo
    python benchmarks/speed/suite_time.py [--jobs 2] [--times 2] [--methods RS] [--against FOLDER]

Each suite runs through the command line into a new folder. It first runs once without timing, because the
first run after an installation compiles. The output has elapsed time and the processor time of all processes.
On a busy machine, only processor times can be compared. A fixed piece of numpy work is timed between the
runs.
"""

from __future__ import annotations

import argparse
import resource
from pathlib import Path

from startup import HERE, fixed_work, seconds_of

# The most processor time, as a ratio to the other checkout: with all methods, and with --methods.
BAR_RATIO, BAR_RATIO_NAMED = 1.05, 1.15


def computing() -> float:
    """Processor seconds of all processes that this process has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--methods", default="", help="instead of those of the suites, such as RS")
    parser.add_argument("--against", type=Path)
    arguments = parser.parse_args()
    sources = [HERE, *([arguments.against.resolve()] if arguments.against else [])]
    best: dict[Path, list[float]] = {source: [] for source in sources}
    works = []
    for turn in range(arguments.times + 1):
        for source in sources:
            before, clock = computing(), 0.0
            for suite in ("paper-single", "paper-multi"):
                command = ["-m", "hpobench_nmt", "run", suite, "--quiet", "--jobs", str(arguments.jobs)]
                command += ["--methods", arguments.methods] if arguments.methods else []
                clock += seconds_of(command, source)
            found = [clock, computing() - before]
            if turn:
                best[source] = [min(pair) for pair in zip(best[source] or found, found, strict=True)]
        works.append(fixed_work())
    ours, work = best[HERE], min(works)
    print(f"{ours[0]:.1f} s, {ours[1]:.1f} s of computing; {ours[0] / work:.1f} times the fixed work")
    for source in sources[1:]:
        theirs = best[source]
        ratio, bar = ours[1] / theirs[1], BAR_RATIO_NAMED if arguments.methods else BAR_RATIO
        print(f"{source}: {theirs[0]:.1f} s, {theirs[1]:.1f} s of computing")
        verdict = "ok" if ratio <= bar else "ABOVE THE BAR"
        print(
            f"ours takes {ours[0] / theirs[0]:.2f} of the time, and {ratio:.2f} of the computing "
            f"(bar: {bar:.2f}) {verdict}"
        )


if __name__ == "__main__":
    main()
