"""Kill a writer at each call that changes a file: it must leave either the old state or the new state.

    python benchmarks/faults/kill_writers.py                       # all of it; needs strace and unshare
    python benchmarks/faults/kill_writers.py add build run         # the writers that are named
    python benchmarks/faults/kill_writers.py containers --times 5  # adds tables in three PID namespaces
    python benchmarks/faults/kill_writers.py pairs --times 5       # two runs into one folder

strace traces a writer once to find the calls that change something below the folder. For each of these calls,
the writer runs again from the same state, and strace kills it (SIGKILL) at the call.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

CALLS = "openat,write,rename,renameat,renameat2,unlink,unlinkat,mkdir,rmdir,fsync,ftruncate,chmod,fchmodat"
_CALL = re.compile(r"^\d+ +(\w+)\((.*)")
HPO = [sys.executable, "-m", "hpobench_nmt"]


def run(home: Path, *arguments: object, wrap: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run a command with its data in this home."""
    environment = {**os.environ, "HPOBENCH_NMT_HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [*wrap, *HPO, *map(str, arguments)]
    return subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True)


def calls_below(folder: Path, trace: Path) -> list[tuple[str, int]]:
    """Calls that change something below a folder: the name, and the number among calls of the name."""
    counts: Counter[str] = Counter()
    found = []
    first = trace.read_text(errors="replace").split(maxsplit=1)[0]
    for line in trace.read_text(errors="replace").splitlines():
        match = _CALL.match(line)
        if match is None or not line.startswith(first):
            continue
        name, rest = match.groups()
        counts[name] += 1
        reads = name == "openat" and not re.search(r"O_WRONLY|O_RDWR|O_CREAT", rest)
        if str(folder) in rest and not reads:
            found.append((name, counts[name]))
    return found


def kill_everywhere(
    what: str, prepare: Callable[[Path], tuple[object, ...]], state: Callable[[Path], str], step: int
) -> None:
    """Print how often a killed writer left the old state, the new state, or neither."""
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        shutil.rmtree(base)

        def fresh() -> tuple[object, ...]:
            shutil.rmtree(base, ignore_errors=True)
            base.mkdir()
            return prepare(base)

        arguments = fresh()
        old = state(base)
        trace = Path(f"{name}.trace")
        done = run(base, *arguments, wrap=["strace", "-f", "-y", "-e", f"trace={CALLS}", "-o", str(trace)])
        if done.returncode:
            raise SystemExit(f"{what}: {done.stderr[-500:]}")
        new = state(base)
        places = calls_below(base, trace)[::step]
        found: Counter[str] = Counter()
        for call, number in places:
            arguments = fresh()
            inject = f"inject={call}:signal=KILL:when={number}"
            killer = ["strace", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject]
            done = run(base, *arguments, wrap=killer)
            left = state(base)
            kind = "new" if left == new else "old" if left == old else "neither"
            found[kind if done.returncode else "not killed"] += 1
            if kind == "neither":
                print(f"  {call} number {number}: {left[:300]}", flush=True)
            done = run(base, *arguments)
            if done.returncode or state(base) != new:
                found["no recovery"] += 1
                print(f"  {call} number {number}: {done.stderr[-300:]}", flush=True)
        trace.unlink()
        print(f"{what}: {len(places)} calls, {dict(found)}", flush=True)


def small_table(folder: Path, step: int = 7, layers: int = 8) -> None:
    """Write a table's CSV file and its datasheet."""
    rows = [f"{n},{r},{20 + n * r * step % 5}" for n in range(1, layers + 1) for r in (1, 2, 3, 5)]
    (folder / "toy.csv").write_text("layers,lr,bleu\n" + "\n".join(rows) + "\n")
    (folder / "toy.toml").write_text(
        'name = "toy"\n[hyperparameters.layers]\n[hyperparameters.lr]\n[metrics.bleu]\ndirection = "max"\n'
    )


def added(home: Path) -> tuple[object, ...]:
    """Set up a home with a table; return the command that replaces it by another table of the same name."""
    small_table(home)
    run(home, "tables", "add", "toy.csv")
    small_table(home, 11)
    return "tables", "add", "toy.csv"


def built(home: Path) -> tuple[object, ...]:
    """Set up a copy of a shipped ledger without its table; return the command that builds the table."""
    import hpobench_nmt

    shipped = Path(hpobench_nmt.__file__).parent / "tables" / "sotu-dyneval"
    (home / "made").mkdir()
    for name in ("spec.toml", "ledger.jsonl"):
        shutil.copy(shipped / name, home / "made" / name)
    return "tables", "build", "made"


def ran(home: Path) -> tuple[object, ...]:
    """Set up a home with a table; return the command that runs a method on it."""
    small_table(home)
    run(home, "tables", "add", "toy.csv")
    return (
        "run",
        "quick",
        "--tables",
        "toy",
        "--methods",
        "RS",
        "--trials",
        30,
        "--jobs",
        1,
        "--quiet",
        "--out",
        "r",
    )


def table_state(name: str) -> Callable[[Path], str]:
    """A function that returns what the command line shows of a table, or "none" without the table."""

    def state(home: Path) -> str:
        done = run(home, "tables", "show", name)
        return done.stdout if done.returncode == 0 else "none"

    return state


def results_state(home: Path) -> str:
    """The scores of the results; "none" if nothing is finished."""
    done = run(home, "score", "r", "--format", "csv")
    unfinished = "nothing is finished yet" in done.stderr or "no such folder" in done.stderr
    empty = "has no manifest.json" in done.stderr
    return done.stdout if done.returncode == 0 else "none" if unfinished or empty else done.stderr


def containers(times: int) -> None:
    """Add tables in three PID namespaces with one home, and print how many additions failed."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        small_table(home, layers=2000)
        add = f"{' '.join(HPO)} tables add toy.csv >/dev/null 2>>{name}/errors || echo fell"
        again = f"for k in $(seq {times}); do {add}; done"
        environment = {**os.environ, "HPOBENCH_NMT_HOME": name}
        running = [
            subprocess.Popen(
                ["unshare", "-rpf", "--mount-proc", "sh", "-c", f"{'/bin/true; ' * 3 * n}{again}; true"],
                cwd=home,
                env=environment,
                stdout=subprocess.PIPE,
                text=True,
            )
            for n in range(3)
        ]
        fell = sum(process.communicate()[0].count("fell") for process in running)
        print(f"three PID namespaces: {3 * times} times 'tables add', {fell} failed")
        if fell:
            print(Path(name, "errors").read_text()[-1000:])


def pairs(times: int) -> None:
    """Start the same run twice at the same time into one folder, and print how many runs failed."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        arguments = [*ran(home)]
        environment = {**os.environ, "HPOBENCH_NMT_HOME": name}
        failed = 0
        for _ in range(times):
            shutil.rmtree(home / "r", ignore_errors=True)
            both = [
                subprocess.Popen([*HPO, *map(str, arguments)], cwd=home, env=environment) for _ in range(2)
            ]
            failed += sum(process.wait() != 0 for process in both)
        print(f"two runs into one folder: {times} pairs, {failed} of {2 * times} runs failed")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Kill writers, and let them meet.")
    parser.add_argument("what", nargs="*", help="add, build, run, containers, pairs; left out: all")
    parser.add_argument("--times", type=int, default=50, help="of containers and pairs")
    parser.add_argument("--step", type=int, default=1, help="kill at every STEP-th call only")
    asked = parser.parse_args()
    what = asked.what or ["add", "build", "run", "containers", "pairs"]
    if "add" in what:
        kill_everywhere("tables add", added, table_state("toy"), asked.step)
    if "build" in what:
        kill_everywhere("tables build", built, table_state("made/"), asked.step)
    if "run" in what:
        kill_everywhere("run", ran, results_state, asked.step)
    if "containers" in what:
        containers(asked.times)
    if "pairs" in what:
        pairs(asked.times)
