"""`BO_auto` against its rivals on the development tables: regret, times fewer trainings, and tests.

    pip install -e '.[optuna,smac,botorch]'
    python benchmarks/auto_against_others.py run trials.jsonl [--trials 20] [--part 1/1]
    python benchmarks/auto_against_others.py run trials.jsonl --trials 100 --methods BO_auto
    python benchmarks/auto_against_others.py report trials.jsonl [MORE.jsonl ...]

`run` appends a line per trial, and leaves out what the file has. It uses one core: start parts 1/4 to 4/4
with files of their own to use four, here or elsewhere, and give all files to `report`. Trials depend on their
number only. 20 trials of all methods take 80 minutes of one core, of which Optuna's GP takes 56.

`development_tables.py` has the tables and their budgets. The figure is *times fewer trainings than random
search* (evaluation/fewer_trainings.py): the target is a row within the tolerance of the best, and runtimes
are capped at the budget. Tests are exact signed-rank tests over tables of the mean regrets, and of the
logarithms of r_i, with Holm's correction over the rivals. Trials of BO_auto are compared with the exact
expected regret of random search by flipping signs, with Holm's correction over tables.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from development_tables import N_INITIAL, budgets, families, loaded, of_random_search, regrets_of, rows_of

from hpobench_nmt.benchmarking.instance import make_instance
from hpobench_nmt.benchmarking.suite import Suite
from hpobench_nmt.benchmarking.target import target_of
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.evaluation.comparisons import holm, sign_flips
from hpobench_nmt.evaluation.fewer_trainings import family_means, signed_rank_exact, times_fewer
from hpobench_nmt.lookup.catalogue import load_table

OURS = "BO_auto"
RIVALS = ("BO_EI_M_std", "optuna.TPE", "optuna.GP", "smac.RF", "botorch.LogEI")
BUDGETS = ("N/20", "N/8")
TRIALS = 20
Trials = dict[tuple[str, str], dict[int, list[int]]]  # rows by trial, of each method and table


def read(paths: Sequence[Path]) -> Trials:
    """All trials of these files."""
    found: Trials = defaultdict(dict)
    for path in paths:
        for line in path.read_text().splitlines() if path.exists() else ():
            trial = json.loads(line)
            found[trial["method"], trial["table"]][trial["trial"]] = trial["rows"]
    return found


def run(path: Path, methods: Sequence[str], trials: int, part: str) -> None:
    """Append what the file lacks."""
    number, parts = map(int, part.split("/"))
    known = read([path])
    names = [table for tables in families().values() for table in tables]
    wanted = [(m, t, trial) for m in methods for trial in range(trials) for t in names]
    with path.open("a") as file:
        for method, table, trial in wanted[number - 1 :: parts]:
            if trial not in known[method, table]:
                line = {"method": method, "table": table, "trial": trial}
                file.write(json.dumps(line | {"rows": rows_of(table, method, trial)}) + "\n")
                file.flush()


def runtimes(trials: Trials, methods: Sequence[str], tables: Sequence[str], which: int) -> tuple[object, ...]:
    """By table: runtimes of each method, shape (methods, trials), the budget, and random search's mean."""
    found = []
    for name in tables:
        budget = budgets(len(loaded(name)[1]))[which]
        table = load_table(name)
        suite = Suite("development", ("ftc",), objectives=(table.objectives[0].metric,), lookups=budget)
        target = target_of(suite, make_instance(suite, table))
        lines = [
            [first_of(trials[m, name][trial], target.goal.targets, budget) for trial in range(TRIALS)]
            for m in methods
        ]
        found.append((np.array(lines), float(budget), target.random_search))
    return tuple(zip(*found, strict=True))


def first_of(rows: Sequence[int], targets: object, budget: int) -> float:
    """The runtime to the first target, the initial design counted whole; infinite beyond the budget."""
    met = np.flatnonzero(np.asarray(targets)[list(rows[:budget])])
    return float(max(met[0] + 1, N_INITIAL)) if len(met) else np.inf


def p_values(gains: Floats, of_families: Sequence[str]) -> list[str]:
    """Tests over tables and over families of gains, shape (tables, rivals), in words."""
    over_tables = holm(np.array([signed_rank_exact(column) for column in gains.T]))
    over_families = holm(np.array([signed_rank_exact(c) for c in family_means(gains, of_families).T]))
    return [
        f"p {a:.4f} over tables, {b:.3f} over families"
        for a, b in zip(over_tables, over_families, strict=True)
    ]


def report(trials: Trials) -> None:
    """Print regrets and figures of all methods that have all trials, and the tests of BO_auto."""
    by_family = families()
    names = [table for tables in by_family.values() for table in tables]
    of_families = [family for family, tables in by_family.items() for _ in tables]
    complete = {m for m, _ in trials if all(set(range(TRIALS)) <= set(trials[m, t]) for t in names)}
    rivals = [m for m in RIVALS if m in complete]
    methods = [OURS, *rivals]
    exact = np.array([of_random_search(t) for t in names])
    regrets = np.array(
        [
            [np.mean([regrets_of(t, trials[m, t][i]) for i in range(TRIALS)], axis=0) for m in methods]
            for t in names
        ]
    )
    for which, label in enumerate(BUDGETS):
        print(f"\nRegret after {label} look-ups, {TRIALS} trials: mean over families, then each family")
        for method, column in zip(
            ["random search", *methods], np.c_[exact[:, which], regrets[:, :, which]].T, strict=True
        ):
            means = family_means(column[:, None], of_families)[:, 0]
            parts = "  ".join(f"{f} {mean:.3f}" for f, mean in zip(by_family, means, strict=True))
            print(f"{method:16s} {means.mean():.3f} | {parts}")
        means = family_means(regrets[:, :, which], of_families).mean(axis=0)
        print(f"{OURS} has {means[0] / means[1:].min():.2f} times the regret of the best rival (bar: 0.8)")
        lines, taus, of_rs = runtimes(trials, methods, names, which)
        copies = np.zeros((len(names), len(methods)), dtype=bool)
        figure = times_fewer(lines, taus, of_rs, of_families, copies)  # type: ignore[arg-type]
        print(f"Times fewer trainings than random search, within {label} look-ups")
        for j, method in enumerate(methods):
            interval = f"{figure.low[j]:.2f} to {figure.high[j]:.2f}"
            capped = figure.capped[:, j].mean()
            print(f"{method:16s} {figure.figure[j]:.2f} ({interval} over trials), capped {capped:.2f}")
        by_regret = p_values(regrets[:, 1:, which] - regrets[:, :1, which], of_families)
        logs = np.log(figure.ratios)
        by_figure = p_values(logs[:, :1] - logs[:, 1:], of_families)
        print(f"{OURS} against each rival, signed-rank, Holm (bar: 0.01 over tables)")
        for j, rival in enumerate(rivals):
            won = int((regrets[:, 1 + j, which] > regrets[:, 0, which]).sum())
            print(f"{rival:16s} regret: smaller on {won} of {len(names)}, {by_regret[j]}")
            print(f"{'':16s} trainings: {by_figure[j]}")
    most = min(len(trials[OURS, t]) for t in names)
    own = np.array([[regrets_of(t, trials[OURS, t][i]) for i in range(most)] for t in names])
    print(f"\n{OURS} against the exact regret of random search, {most} trials")
    for which, label in enumerate(BUDGETS):
        differences = own[:, :, which] - exact[:, which, None]
        p, mean = holm(sign_flips(differences)), differences.mean(axis=1)
        worse = [(t, m, q) for t, m, q in zip(names, mean, p, strict=True) if m > 0]
        for table, gap, q in worse:
            shown = "shown worse" if q < 0.05 else "not shown worse"
            print(f"after {label}: {table} regret larger by {gap:.3f}, p {q:.3f}: {shown}")
        better = int(((mean < 0) & (p < 0.05)).sum())
        print(f"after {label}: smaller on {int((mean < 0).sum())} of {len(names)}, shown on {better}")


def main() -> None:
    """Run trials, or report on them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("file", type=Path)
    running.add_argument("--methods", default=",".join((OURS, *RIVALS)))
    running.add_argument("--trials", type=int, default=TRIALS)
    running.add_argument("--part", default="1/1")
    commands.add_parser("report").add_argument("files", type=Path, nargs="+")
    options = parser.parse_args()
    if options.command == "run":
        run(options.file, options.methods.split(","), options.trials, options.part)
    else:
        report(read(options.files))


if __name__ == "__main__":
    main()
