"""Figures of the table collections of other authors, and times of working with them.

    python benchmarks/tables/table_collections.py --from ../shared/sources [--time]

The collections are fetched from copies of the authors' files, below --from, into a temporary folder. A line
is printed for each table: rows, checkpoints, trainings with other seeds, the number of hyperparameters for
which the best row lies at an end, how additive the main metric is (nan: too few rows), and the standard
deviation between seeds in the better half.

With --time, it also prints the processor seconds of fetching Step Law (bar 5 s), of a run of RS and
BO_EI_M_std on its 17 dense tables with 20 trials of 50 look-ups (bar 20 s of two cores), of listing 100
tables (bar 1 s), and of every analysis of Step Law's table of 1,911 rows.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from hpobench_nmt.lookup.table import Table

SOURCES = {
    "steplaw": "steplaw",
    "algoperf": "algoperf",
    "taskset": "taskset-rnn",
    "gemstones": "gemstones",
    "nas-bench-nlp": "nas-bench-nlp-wikitext2",
    "autoresearch": "autoresearch-automl",
    "llmsys": "llmsys-hpobench",
    "llm-pilot": "ibm-llm-pilot",
    "llm-inference-bench": "llm-inference-bench",
    "mlperf-training": "mlperf-training-v5.1",
    "nanogpt-track-3": "modded-nanogpt-track3",
    "peft": "peft-metamathqa",
    "marin-optimizers": "marin-optimizers",
}


def command(*arguments: str) -> float:
    """Processor seconds of one command, including all processes that it started."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "hpobench_nmt", *arguments], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def print_figures(fetched: list[str]) -> None:
    """Print a line for each table."""
    from hpobench_nmt.lookup.catalogue import load_table
    from hpobench_nmt.lookup.checks.surface_checks import additivity, edges_of_best

    print(f"{'table':32}  rows  points seeds edges additive sd of seeds")
    for name in fetched:
        table = load_table(name)
        metric = table.main_metric
        points = 0 if table.curves is None else len(table.curves.costs)
        again = 0 if table.replicates is None else len(table.replicates.rows.values)
        print(
            f"{name:32} {len(table):5} {points:7,} {again:5} {len(edges_of_best(table, metric)):5} "
            f"{additivity(table, metric):8.2f} {noise(table):11.3g}"
        )


def noise(table: Table) -> float:
    """The pooled standard deviation between trainings of a row, over rows with means in the better half."""
    if table.replicates is None:
        return np.nan
    metric = table.main_metric
    column = [m.name for m in table.metrics].index(metric)
    place, values = table.replicates.by_row(table.configs)
    held = [[own, *values[place == row, column]] for row, own in enumerate(table.column(metric))]
    several = [np.array(each) for each in held if len(each) > 1 and np.isfinite(each).all()]
    losses = [table.objective(metric).to_loss(each).mean() for each in several]
    if not several:  # all repeated trainings failed
        return np.nan
    better = [each for each, loss in zip(several, losses, strict=True) if loss <= np.median(losses)]
    degrees = sum(len(each) - 1 for each in better)
    return float(np.sqrt(sum(((each - each.mean()) ** 2).sum() for each in better) / degrees))


def print_times(source: Path, fetched: list[str], work: Path) -> None:
    """Print the four times."""
    print(
        f"\nfetch steplaw: {command('tables', 'fetch', 'steplaw', '--from', str(source / 'steplaw')):.1f} s"
    )
    dense = [name for name in fetched if name.startswith("steplaw-") and "m-" in name]
    given = ("--methods", "RS,BO_EI_M_std", "--trials", "20", "--lookups", "50", "--out", str(work / "run"))
    seconds = command("run", "--tables", ",".join(dense), *given)
    print(f"run of RS and BO_EI_M_std on {len(dense)} tables: {seconds:.1f} s")
    from hpobench_nmt.lookup.disk.folder import load_folder, save_folder
    from hpobench_nmt.lookup.user_folders import fetched_folder

    copied = load_folder(fetched_folder() / dense[0])
    for i in range(100):
        save_folder(replace(copied, name=f"copy-{i}"), work / "many" / f"copy-{i}")
    os.environ["HPOBENCH_NMT_HOME"] = str(work / "none")
    os.environ["HPOBENCH_NMT_TABLES"] = str(work / "many")
    print(f"list 100 tables: {command('tables', 'list'):.2f} s")
    os.environ["HPOBENCH_NMT_HOME"] = str(work / "home")
    print(f"every analysis of steplaw-dense: {command('tables', 'analyze', 'steplaw-dense'):.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--from", dest="source", type=Path, default=Path("../shared/sources"))
    parser.add_argument("--time", action="store_true")
    given = parser.parse_args()
    work = Path(tempfile.mkdtemp())
    try:
        os.environ["HPOBENCH_NMT_HOME"] = str(work / "home")
        from hpobench_nmt.lookup.catalogue import fetch

        fetched = [name for key, folder in SOURCES.items() for name in fetch(key, given.source / folder)]
        print_figures(fetched)
        if given.time:
            print_times(given.source, fetched, work)
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
