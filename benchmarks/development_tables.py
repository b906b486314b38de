"""The tables that `BO_auto` was developed on, their budgets, and regret on them.

Tables that are not installed are left out: `hpobench-nmt tables fetch` installs nmthpo, nmtlc, steplaw,
taskset and algoperf. No other tables were used while the method was developed.

A table of N rows has two budgets: N/20 look-ups, from 8 to 30, and N/8, from 8 to 50. Regret is the gap
between the best row found and the best row of the table, as a share of the median row's gap. Random search is
exact: the expected smallest loss of a random subset.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from scipy.special import gammaln

from hpobench_nmt.benchmarking.contestants.plugins import resolve_methods
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
_FAMILIES = {
    "nmthpo": ("zh-en", "ru-en", "ja-en", "en-ja", "sw-en", "so-en"),
    "nmtlc": ("nmtlc-zh-en", "nmtlc-fr-en"),
    "shipped": ("sotu-awd-lstm", "sotu-dyneval", "lohelp-de-en", "sotu-ngram"),
    "steplaw": tuple(f"steplaw-{task}" for task in _STEPLAW.split()),
    "taskset": tuple(f"taskset-{task}" for task in _TASKSET.split()),
    "algoperf": ("algoperf-wmt",),
}


def families() -> dict[str, list[str]]:
    """The installed development tables, by family; families without any are left out."""
    have = installed()
    found = {family: [t for t in tables if t in have] for family, tables in _FAMILIES.items()}
    return {family: tables for family, tables in found.items() if tables}


@cache
def loaded(name: str) -> tuple[Problem, Floats]:
    """A table's rows as a problem of the larger budget, and their losses, shape (N,)."""
    table = load_table(name)
    losses = table.losses(table.objectives[:1])[:, 0]
    lookups = budgets(len(losses))[1]
    return Problem(table.features, 1, lookups, N_INITIAL, table.space, table.configs), losses


def budgets(n_rows: int) -> tuple[int, int]:
    """The numbers of look-ups after which regret is measured."""
    return min(max(math.ceil(n_rows / 20), 8), 30), min(max(math.ceil(n_rows / 8), 8), 50)


def scaled(losses: Floats) -> Floats:
    """Losses as regret: 0 at the best, 1 at the median. A missing loss is the largest gap, unscaled."""
    best = np.nanmin(losses)
    return np.nan_to_num((losses - best) / (np.nanmedian(losses) - best), nan=np.nanmax(losses) - best)


def of_random_search(name: str) -> list[float]:
    """Exact expected regret at both budgets: sum over ranks of P(best of b rows has the rank) * regret."""
    _, losses = loaded(name)
    regrets, n = np.sort(scaled(losses)), len(losses)
    found = []
    for b in budgets(n):
        ranks = np.arange(n - b + 1)
        log_chance = gammaln(n - ranks) - gammaln(b) - gammaln(n - ranks - b + 1)
        log_all = gammaln(n + 1) - gammaln(b + 1) - gammaln(n - b + 1)
        found.append(float(np.exp(log_chance - log_all) @ regrets[: len(ranks)]))
    return found


def rows_of(name: str, method: str, trial: int) -> list[int]:
    """The rows that a method looks up in a trial of the larger budget."""
    problem, losses = loaded(name)
    factory = resolve_methods([method])[0].load()
    first = initial_rows(0, name, trial, len(losses), N_INITIAL)
    rng = method_generator(0, name, method, trial)
    trajectory = run_trial(problem, Trainings.whole(losses[:, None]), factory, rng, first)
    if trajectory.failure:
        raise SystemExit(f"{method} on {name}: {trajectory.failure}")
    return [int(row) for row in trajectory.rows]


def regrets_of(name: str, rows: list[int]) -> list[float]:
    """The regret of a trial at both budgets."""
    _, losses = loaded(name)
    regrets = scaled(losses)
    return [float(regrets[rows[:b]].min()) for b in budgets(len(losses))]
