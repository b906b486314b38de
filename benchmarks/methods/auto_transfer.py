"""Whether `BO_auto` gains from kernel weights that were learnt on other tables, compared with `RGPE_M`.

    python benchmarks/methods/auto_transfer.py [--trials 10]

Each development table (`development_tables.py`) is searched with the other tables of its family as sources.
The learnt weights are the weights of the bank after 30 random rows of a source, averaged over five draws and
over the sources. They replace the equal prior weights, completely or by half. The lines show regret after
N/20 and N/8 look-ups, averaged over trials and tables. The warp is not learnt, because results do not differ
for caps from 1 to 10 (`auto_ablation.py`).
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from development_tables import N_INITIAL, families, loaded, regrets_of

from hpobench_nmt.benchmarking.task.transfer import transfer_tables
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.problem import MethodFactory, Problem, Source
from hpobench_nmt.core.seeds import initial_rows, method_generator
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.lookup.catalogue import load_table
from hpobench_nmt.methods.auto import AutoBO, bank_of
from hpobench_nmt.methods.surrogates.columns import feature_counts
from hpobench_nmt.methods.surrogates.kernel_bank import BankPosterior, points_of
from hpobench_nmt.methods.surrogates.warping import warped
from hpobench_nmt.methods.transfer.rgpe import RGPE

ROWS, DRAWS = 30, 5
FAMILIES = ("nmthpo", "steplaw", "taskset")


@lru_cache(maxsize=4)
def weights_of(problem: Problem) -> Floats:
    """The mean weights of the bank on the problem's sources, shape (B,)."""
    found = [weights_on(problem, source, draw) for source in problem.sources for draw in range(DRAWS)]
    return np.asarray(np.mean(found, axis=0))


def weights_on(problem: Problem, source: Source, draw: int) -> Floats:
    """The bank's weights after some random rows of a source."""
    known = np.flatnonzero(~np.isnan(source.losses[:, 0]))
    rows = np.random.default_rng(draw).choice(known, min(ROWS, len(known)), replace=False)
    posterior = BankPosterior(bank_of(problem), points_of(source.features, feature_counts(problem)))
    for row in rows:
        posterior.observe(int(row), list)
    return np.exp(posterior.weigh(warped(source.losses[rows, 0])).log_weights)


class Learnt(AutoBO):
    """`BO_auto` in which a share of the prior weights is learnt."""

    def __init__(self, problem: Problem, rng: np.random.Generator, share: float) -> None:
        super().__init__(problem, rng)
        bank, points = bank_of(problem), points_of(problem.features, feature_counts(problem))
        mixed = share * weights_of(problem) + (1.0 - share) / len(bank)
        self._posterior = BankPosterior(replace(bank, log_prior=np.log(np.maximum(mixed, 1e-300))), points)


def regret(name: str, problem: Problem, make: MethodFactory, trials: int) -> Floats:
    """Mean regret at both budgets, with the same generators as `BO_auto`."""
    _, losses = loaded(name)
    found = []
    for trial in range(trials):
        first = initial_rows(0, name, trial, len(losses), N_INITIAL)
        rng = method_generator(0, name, "BO_auto", trial)
        trajectory = run_trial(problem, Trainings.whole(losses[:, None]), make, rng, first)
        if trajectory.failure:
            raise SystemExit(f"{name}: {trajectory.failure}")
        found.append(regrets_of(name, [int(row) for row in trajectory.rows]))
    return np.asarray(np.mean(found, axis=0))


def main() -> None:
    """Print a line per family and method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--trials", type=int, default=10)
    options = parser.parse_args()
    methods: dict[str, MethodFactory] = {
        "BO_auto": AutoBO,
        "half learnt": partial(Learnt, share=0.5),
        "learnt": partial(Learnt, share=1.0),
        "RGPE_M": RGPE,
    }
    for family, tables in families().items():
        if family not in FAMILIES:
            continue
        problems = {}
        for name in tables:
            table = load_table(name)
            others = [other for other in tables if other != name]
            sources = transfer_tables(others, table, [table.objective(table.objectives[0])])
            problems[name] = replace(loaded(name)[0], sources=sources)
        for method, make in methods.items():
            found = [regret(name, problem, make, options.trials) for name, problem in problems.items()]
            early, late = np.mean(found, axis=0)
            print(f"{family:10s} {method:12s} {early:.3f} {late:.3f}", flush=True)


if __name__ == "__main__":
    main()
