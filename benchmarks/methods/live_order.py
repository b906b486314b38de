"""Does the order of methods on the table sotu-gpt-30k hold where its grid was cut from?

    pip install -e '.[optuna,train]'
    python benchmarks/methods/live_order.py train [--seeds 10] [--folder benchmarks/methods/live_order]
    python benchmarks/methods/live_order.py report [--trials 100]

`train` runs random search, `BO_auto` and Optuna's TPE in the ranges between the ends of the table's grid,
with 30 trainings each: seed 0 of all three methods, then seed 1, and so on. The first three trainings of a
seed are those of all methods. `spec.toml` in the folder has the ranges, and the other settings of the table's
own spec. As in `tune`, methods choose among configurations that are drawn from the ranges once, and TPE's
proposals are moved to the nearest of them. `ledger.jsonl` has every training, and `searches.csv` every search
that has ended, in the columns that `hpobench-nmt compare` reads. The same command resumes after a kill, with
the same configurations. A training takes 5 to 20 s of an idle core, and a seed some 15 minutes.

`report` prints the best dev perplexity after 30 trainings of `BO_auto` and of TPE, minus that of random
search with the same start: from the live searches, and from trials on the table's rows. Regrets have the same
difference, because the optimum is the same for all methods. Intervals are those of Student's t over seeds or
trials. The order holds if the two intervals of a method overlap, so wide intervals show little.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import t

sys.path.insert(0, str(Path(__file__).parents[1]))

from development_tables import loaded, rows_of

from hpobench_nmt.benchmarking.contestants.plugins import resolve_methods
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.lookup.user_folders import training_cache
from hpobench_nmt.runner.specs.spec_file import load_spec
from hpobench_nmt.runner.training.workspace import open_workspace
from hpobench_nmt.runner.tuning.tune import pick_metrics, tune

TABLE = "sotu-gpt-30k"
BASELINE = "RS"
METHODS = (BASELINE, "BO_auto", "optuna.TPE")
BUDGET = 30
FOLDER = Path(__file__).with_suffix("")
COLUMNS = ["method", "task", "family", "trial", "budget", "value"]


def searches_in(folder: Path) -> pd.DataFrame:
    """The searches that have ended: a row for each training, with the loss as its value."""
    path = folder / "searches.csv"
    return pd.read_csv(path) if path.exists() else pd.DataFrame(columns=COLUMNS)


def train(folder: Path, seeds: int) -> None:
    """Run the searches that the folder lacks, one seed after the other."""
    workspace, _ = open_workspace(load_spec(folder / "spec.toml"), folder, training_cache())
    spec = workspace.spec
    ended = set(zip(*(searches_in(folder)[name] for name in ("method", "trial")), strict=True))
    for seed in range(seeds):
        for named in resolve_methods(METHODS):
            if (named.name, seed) in ended:
                continue
            who = named.load(), named.name, named.entry.identity
            trajectory = tune(workspace, *who, pick_metrics(spec, ()), BUDGET, seed, ["cpu"])
            if trajectory.failure:
                raise SystemExit(f"{named.name}, seed {seed}: {trajectory.failure}")
            losses = trajectory.losses[:, 0].tolist()
            lines = [[named.name, spec.name, "gpt", seed, 1 + k, loss] for k, loss in enumerate(losses)]
            _append(folder / "searches.csv", lines)
            print(f"seed {seed}, {named.name}: {min(losses):.2f}", flush=True)


def _append(path: Path, lines: list[list[object]]) -> None:
    """Append a search in a single write, so that a kill leaves out the whole of it."""
    text = pd.DataFrame(lines, columns=COLUMNS).to_csv(index=False, header=not path.exists())
    with path.open("a") as file:
        file.write(text)


def trials_on_table(trials: int) -> pd.DataFrame:
    """Trials of the same methods on the rows of the table."""
    losses = loaded(TABLE)[1]
    lines = [
        [method, TABLE, "gpt", trial, 1 + k, losses[row]]
        for trial in range(trials)
        for method in METHODS
        for k, row in enumerate(rows_of(TABLE, method, trial)[:BUDGET])
    ]
    return pd.DataFrame(lines, columns=COLUMNS)


def differences(searches: pd.DataFrame) -> dict[str, tuple[float, float, float]]:
    """Each method's best value minus that of the baseline in the same trial: mean, and 95% interval of t.

    Trials that not all methods have ended do not count. The interval is NaN for fewer than two trials.
    """
    best = searches.pivot_table("value", "trial", "method", "min").reindex(columns=METHODS).dropna()
    found = {}
    for method in METHODS[1:]:
        less = (best[method] - best[BASELINE]).to_numpy()
        half = t.ppf(0.975, len(less) - 1) * less.std(ddof=1) / len(less) ** 0.5 if len(less) > 1 else np.nan
        found[method] = (float(less.mean()), float(less.mean() - half), float(less.mean() + half))
    return found


def overlap(one: tuple[float, float, float], other: tuple[float, float, float]) -> bool:
    """Whether the intervals of two differences overlap."""
    return one[1] <= other[2] and other[1] <= one[2]


def report(live: pd.DataFrame, table: pd.DataFrame) -> None:
    """Print the differences, live and on the table, and whether they agree."""
    counts = [frame.groupby("trial")["method"].nunique().eq(len(METHODS)).sum() for frame in (live, table)]
    of = f"{counted(counts[0], 'live seed')}, {counted(counts[1], 'trial')} on the table"
    print(f"Best of {BUDGET} trainings, minus {BASELINE}: {of}")
    if not counts[0]:
        return
    of_live, of_table = differences(live), differences(table)
    for method in METHODS[1:]:
        texts = ["{:+.2f} [{:+.2f}, {:+.2f}]".format(*each[method]) for each in (of_live, of_table)]
        verdict = "holds" if overlap(of_live[method], of_table[method]) else "differs"
        if counts[0] < 2:
            verdict = "not known from one seed"
        print(f"{method}: live {texts[0]}, on the table {texts[1]}: {verdict}")


def main() -> None:
    """Train, or report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["train", "report"])
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--trials", type=int, default=100)
    given = parser.parse_args()
    if given.what == "train":
        train(given.folder, given.seeds)
    else:
        report(searches_in(given.folder), trials_on_table(given.trials))


if __name__ == "__main__":
    main()
