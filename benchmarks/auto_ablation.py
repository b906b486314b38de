"""What each choice in `BO_auto` is worth: regret on the development tables, one setting changed at a time.

    python benchmarks/auto_ablation.py [--trials 20] [--jobs 2] [METHOD ...]

METHOD is any method of one objective, by default `BO_auto`, `BO_EI_M_std`, and `BO_auto` with other settings.
The development tables are those below that are installed: `hpobench-nmt tables fetch` brings nmthpo, nmtlc,
steplaw, taskset and algoperf. Nothing else was looked at while the method was made.

A table of N rows has two budgets: N/20 look-ups, from 8 to 30, and N/8, from 8 to 50. Regret is the loss of
the best row found above that of the best row, as a share of the median's. It is averaged over trials, the
tables of a family, and families. Random search is exact: the expected least loss of a random subset.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial

import numpy as np
from scipy.special import gammaln

from hpobench_nmt.benchmarking.plugins import resolve_methods
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.seeds import initial_rows, method_generator
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.lookup.catalogue import installed, load_table

N_INITIAL = 3
_STEPLAW = "215m-4b 215m-20b 215m-100b 268m-5b 268m-25b 429m-8b 429m-40b 537m-10b 537m-50b 1074m-20b"
_TASKSET = (
    "lstm128-patch128 gru64-avg irnn64-relu-avg irnn64-relu-last lstm128-e128 lstm128 vrnn128-tanh"
    " vrnn64-tanh-avg"
)
FAMILIES = {
    "nmthpo": ("zh-en", "ru-en", "ja-en", "en-ja", "sw-en", "so-en"),
    "nmtlc": ("nmtlc-zh-en", "nmtlc-fr-en"),
    "shipped": ("sotu-awd-lstm", "sotu-dyneval", "lohelp-de-en", "sotu-ngram"),
    "steplaw": tuple(f"steplaw-{task}" for task in _STEPLAW.split()),
    "taskset": tuple(f"taskset-{task}" for task in _TASKSET.split()),
    "algoperf": ("algoperf-wmt",),
}
METHODS = (
    "BO_auto",
    "BO_EI_M_std",
    "BO_auto(cap=1e300)",
    "BO_auto(cap=1.0)",
    "BO_auto(cap=10.0)",
    "BO_auto(vectors=0)",
    "BO_auto(vectors=48)",
    "BO_auto(isotropic=false)",
    "BO_auto(length_sd=0.7)",
    "BO_auto(additive=0.0)",
    "BO_auto(additive=1.0)",
    "BO_auto(weight=0.5)",
    "BO_auto(weight=1.0)",
)


@cache
def loaded(name: str) -> tuple[Problem, Floats]:
    """A table's rows as a problem, and their losses, shape (N,)."""
    table = load_table(name)
    losses = table.losses(table.objectives[:1])[:, 0]
    return Problem(table.features, 1, len(losses), N_INITIAL, table.space, table.configs), losses


def budgets(n_rows: int) -> tuple[int, int]:
    """The numbers of look-ups after which regret is taken."""
    return min(max(math.ceil(n_rows / 20), 8), 30), min(max(math.ceil(n_rows / 8), 8), 50)


def scaled(losses: Floats) -> Floats:
    """Losses as regret: 0 at the best, 1 at the median; a missing loss is the worst."""
    best = np.nanmin(losses)
    return np.nan_to_num((losses - best) / (np.nanmedian(losses) - best), nan=np.nanmax(losses) - best)


def of_random_search(name: str) -> list[float]:
    """Its exact expected regret at both budgets: sum over ranks of P(the least of b rows has this rank)."""
    _, losses = loaded(name)
    regrets, n = np.sort(scaled(losses)), len(losses)
    found = []
    for b in budgets(n):
        ranks = np.arange(n - b + 1)
        log_chance = gammaln(n - ranks) - gammaln(b) - gammaln(n - ranks - b + 1)
        log_all = gammaln(n + 1) - gammaln(b + 1) - gammaln(n - b + 1)
        found.append(float(np.exp(log_chance - log_all) @ regrets[: len(ranks)]))
    return found


def of_method(name: str, method: str, trials: int) -> list[float]:
    """A method's mean regret at both budgets."""
    problem, losses = loaded(name)
    factory, regrets = resolve_methods([method])[0].load(), scaled(losses)
    total = np.zeros(2)
    for trial in range(trials):
        first = initial_rows(0, name, trial, len(losses), N_INITIAL)
        rng = method_generator(0, name, method, trial)
        limited = Problem(
            problem.features, 1, budgets(len(losses))[1], N_INITIAL, problem.space, problem.configs
        )
        rows = run_trial(limited, Trainings.whole(losses[:, None]), factory, rng, first).rows
        total += [regrets[rows[:b]].min() for b in budgets(len(losses))]
    return [float(value) for value in total / trials]


def report(label: str, regret: Callable[[str], list[float]], pool: ProcessPoolExecutor) -> None:
    """Print a line: the means over families, then each family's."""
    have = {family: [t for t in tables if t in installed()] for family, tables in FAMILIES.items()}
    found = {f: np.mean(list(pool.map(regret, tables)), axis=0) for f, tables in have.items() if tables}
    means = np.mean(list(found.values()), axis=0)
    parts = "  ".join(f"{family} {a:.3f} {b:.3f}" for family, (a, b) in found.items())
    print(f"{label:26s} {means[0]:.3f} {means[1]:.3f} | {parts}", flush=True)


def main() -> None:
    """Print a line per method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("methods", nargs="*", default=METHODS, metavar="METHOD")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    print(f"{'regret after':26s} N/20  N/8   | by family")
    with ProcessPoolExecutor(options.jobs) as pool:
        report("random search", of_random_search, pool)
        for method in options.methods:
            report(method, partial(of_method, method=method, trials=options.trials), pool)


if __name__ == "__main__":
    main()
