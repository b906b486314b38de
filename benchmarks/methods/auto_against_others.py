"""`BO_auto` against its rivals on the development tables: regret, times fewer trainings, and tests.

    pip install -e '.[optuna,smac,botorch]'
    python benchmarks/methods/auto_against_others.py run trials.jsonl [--trials 20] [--part 1/1]
    python benchmarks/methods/auto_against_others.py run trials.jsonl --trials 100 --methods BO_auto
    python benchmarks/methods/auto_against_others.py report trials.jsonl [MORE.jsonl ...]

`run` appends a line per trial, and leaves out trials that the file already has. It uses one core. To use four
cores, on one or several machines, start parts 1/4 to 4/4 with a separate file each, and pass all files to
`report`. Trials only depend on their number. 20 trials of all methods take 80 minutes of one core, of which
Optuna's GP takes 56.

`development_tables.py` has the tables and their budgets. The figure is *times fewer trainings than random
search* (evaluation/figure.py) on whole tables: the target is a row among the best 2%, and runtimes are capped
at the budget. The tests are t tests over means of families, of the mean regrets and of the logarithms of
ratios, without a correction. Trials of BO_auto are compared with the exact
expected regret of random search by a test that flips signs, with Holm's correction over tables.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from development_tables import N_INITIAL, budgets, families, loaded, of_random_search, regrets_of, rows_of

from hpobench_nmt.benchmarking.task.instance import make_instance
from hpobench_nmt.benchmarking.task.suite import Suite
from hpobench_nmt.core.arrays import Bools, Floats
from hpobench_nmt.evaluation.comparisons import holm, sign_flips
from hpobench_nmt.evaluation.figure import Figure, family_means, times_fewer
from hpobench_nmt.evaluation.given_start import random_search_given_start
from hpobench_nmt.evaluation.verdicts import on_other_families
from hpobench_nmt.lookup.catalogue import load_table

OURS = "BO_auto"
RIVALS = ("BO_EI_M_std", "optuna.TPE", "optuna.GP", "smac.RF", "botorch.LogEI")
BUDGETS = ("N/20", "N/8")
TRIALS = 20
Trials = dict[tuple[str, str], dict[int, list[int]]]  # by method and table: rows by trial


def read(paths: Sequence[Path]) -> Trials:
    """All trials of these files."""
    found: Trials = defaultdict(dict)
    for path in paths:
        for line in path.read_text().splitlines() if path.exists() else ():
            trial = json.loads(line)
            found[trial["method"], trial["table"]][trial["trial"]] = trial["rows"]
    return found


def run(path: Path, methods: Sequence[str], tables: Sequence[str], trials: int, part: str) -> None:
    """Append the trials that the file lacks."""
    number, parts = map(int, part.split("/"))
    known = read([path])
    names = tables or [table for family in families().values() for table in family]
    wanted = [(m, t, trial) for m in methods for trial in range(trials) for t in names]
    with path.open("a") as file:
        for method, table, trial in wanted[number - 1 :: parts]:
            if trial not in known[method, table]:
                line = {"method": method, "table": table, "trial": trial}
                file.write(json.dumps(line | {"rows": rows_of(table, method, trial)}) + "\n")
                file.flush()


def runtimes(trials: Trials, method: str, table: str, which: int) -> tuple[Floats, Floats, float]:
    """Runtimes to the target, those of random search given the start, and the share of capped trials."""
    budget = budgets(len(loaded(table)[1]))[which]
    targets = _targets(table, budget)
    left = len(targets) - N_INITIAL
    found, given = [], []
    for _, rows in sorted(trials[method, table].items()):
        met = np.flatnonzero(targets[rows[:budget]])
        found.append(float(max(met[0] + 1, N_INITIAL)) if len(met) else np.inf)
        start = int(targets[rows[:N_INITIAL]].sum())
        rules = (int(targets.sum()) - start, start > 0, N_INITIAL, float(budget))
        given.append(random_search_given_start(left, *rules))
    return np.minimum(found, budget)[None], np.array(given), float(np.isinf(found).mean())


@cache
def _targets(name: str, budget: int) -> Bools:
    table = load_table(name)
    suite = Suite("development", ("ftc",), objectives=tuple(table.objectives[:1]), lookups=budget)
    return make_instance(suite, table).target.targets


def figure_of(
    trials: Trials, method: str, tables: Sequence[str], of: Sequence[str], which: int
) -> tuple[Figure, float]:
    """Times fewer trainings than random search, and the share of capped trials."""
    lines, given, capped = zip(*(runtimes(trials, method, t, which) for t in tables), strict=True)
    return times_fewer(lines, given, of), float(np.mean(capped))


def p_values(gains: Floats, of_families: Sequence[str]) -> list[str]:
    """Tests over families of gains, shape (tables, rivals), in words."""
    means = family_means(gains, of_families)
    return [f"p {on_other_families(column).p:.4f} over families" for column in means.T]


def report(trials: Trials) -> None:
    """Print regrets and figures of all methods that have trials on all tables, and the tests of BO_auto."""
    by_family = families()
    names = [table for tables in by_family.values() for table in tables]
    of_families = [family for family, tables in by_family.items() for _ in tables]
    rivals = [m for m in RIVALS if all(trials[m, t] for t in names)]
    methods = [OURS, *rivals]
    exact = np.array([of_random_search(t) for t in names])
    every = {pair: dict(sorted(rows.items())) for pair, rows in trials.items()}
    trials = {pair: {i: r for i, r in rows.items() if i < TRIALS} for pair, rows in every.items()}
    regrets = np.array(
        [
            [np.mean([regrets_of(t, rows) for rows in trials[m, t].values()], axis=0) for m in methods]
            for t in names
        ]
    )
    for which, label in enumerate(BUDGETS):
        print(f"\nRegret after {label} look-ups: mean over families, then each family")
        columns = np.c_[exact[:, which], regrets[:, :, which]].T
        for method, column in zip(["random search", *methods], columns, strict=True):
            means = family_means(column[:, None], of_families)[:, 0]
            parts = "  ".join(f"{f} {mean:.3f}" for f, mean in zip(by_family, means, strict=True))
            print(f"{method:16s} {means.mean():.3f} | {parts}")
        means = family_means(regrets[:, :, which], of_families).mean(axis=0)
        print(f"{OURS} has {means[0] / means[1:].min():.2f} times the regret of the best rival (bar: 0.8)")
        means = regrets[:, :, which].mean(axis=0)
        print(f"where each table weighs the same, {means[0] / means[1:].min():.2f} times")
        figures = [figure_of(trials, method, names, of_families, which) for method in methods]
        print(f"Times fewer trainings than random search, within {label} look-ups")
        for method, (figure, capped) in zip(methods, figures, strict=True):
            fewest = min(len(trials[method, t]) for t in names)
            low, high = figure.interval
            between = f"{low[0]:.2f} to {high[0]:.2f} over {fewest} trials"
            print(f"{method:16s} {figure.figure[0]:.2f} ({between}), {capped:.0%} capped")
        logs = np.concatenate([figure.logs for figure, _ in figures], axis=1)
        by_regret = p_values(regrets[:, 1:, which] - regrets[:, :1, which], of_families)
        by_figure = p_values(logs[:, :1] - logs[:, 1:], of_families)
        print(f"{OURS} against each rival")
        for j, rival in enumerate(rivals):
            won = int((regrets[:, 1 + j, which] > regrets[:, 0, which]).sum())
            print(f"{rival:16s} regret smaller on {won} of {len(names)} tables, {by_regret[j]}")
            print(f"{'':16s} fewer trainings: {by_figure[j]}")
    fewest = min(len(every[OURS, t]) for t in names)
    found = [[regrets_of(t, rows) for rows in list(every[OURS, t].values())[:fewest]] for t in names]
    differences = np.array(found) - exact[:, None]
    print(f"\n{OURS} against the exact regret of random search, {fewest} trials")
    for which, label in enumerate(BUDGETS):
        p, mean = holm(sign_flips(differences[:, :, which])), differences[:, :, which].mean(axis=1)
        print(f"after {label}: smaller on {(mean < 0).sum()}, shown on {((mean < 0) & (p < 0.05)).sum()}")
        for place in np.flatnonzero(mean > 0):
            shown = "shown" if p[place] < 0.05 else "not shown"
            print(f"  larger on {names[place]} by {mean[place]:.3f}: {shown}, p {p[place]:.3f}")


def main() -> None:
    """Run trials, or report on them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("file", type=Path)
    running.add_argument("--methods", default=",".join((OURS, *RIVALS)))
    running.add_argument("--tables", type=lambda names: names.split(","), default=[])
    running.add_argument("--trials", type=int, default=TRIALS)
    running.add_argument("--part", default="1/1")
    commands.add_parser("report").add_argument("files", type=Path, nargs="+")
    options = parser.parse_args()
    if options.command == "run":
        run(options.file, options.methods.split(","), options.tables, options.trials, options.part)
    else:
        report(read(options.files))


if __name__ == "__main__":
    main()
