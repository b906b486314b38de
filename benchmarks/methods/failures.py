"""Where many trainings fail: a failed training as the worst loss, against a model of success.

    hpobench-nmt tables fetch autoresearch && hpobench-nmt tables fetch llmsys
    python benchmarks/methods/failures.py --trials 30

Trials are paired: they have the same start, which is random. Three rules:

- worst: BO_auto, for which a missing loss is as bad as the worst;
- success: the same, and the acquisition is multiplied by the probability of success, by the bank on the
  indicator (as a constraint of BO_auto);
- success alone: a failed training tells the mean loss of those that did not fail, so that only the model of
  success knows of failures.

The regret is that of the best row after 20 and 60 look-ups, as a share of median minus best.
"""

import argparse

import numpy as np

import hpobench_nmt as hb
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.seeds import generator
from hpobench_nmt.methods.auto import AutoBO

TABLES = "autoresearch-random,llmsys-sglang,llmsys-lightrag"
RULES = "worst", "success", "success alone"
N_INITIAL, BUDGETS = 3, (20, 60)


def search(table: hb.Table, losses: Floats, rule: str, trial: int) -> list[int]:
    """The rows that a trial looks up, in order."""
    rules = ("fails<=0",) if rule != "worst" else ()
    problem = Problem(
        table.features, 1, BUDGETS[-1], N_INITIAL, table.space, table.configs, constraints=rules
    )
    method = AutoBO(problem, generator(trial, "failures"))
    rows = [int(row) for row in generator(trial, "start").choice(len(table), N_INITIAL, replace=False)]
    for step in range(BUDGETS[-1]):
        if step >= N_INITIAL:
            chosen = method.suggest({})
            assert chosen is not None
            rows.append(int(chosen))
        row = rows[step]
        told, failed = losses[row], bool(np.isnan(losses[row]))
        if failed and rule == "success alone":
            known = losses[rows[: step + 1]]
            told = np.nanmean(known) if np.isfinite(known).any() else 0.0
        if rules:
            method.tell_constrained(row, np.array([told]), np.array([1.0 if failed else -1.0]))
        else:
            method.tell(row, np.array([told]))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--tables", default=TABLES)
    arguments = parser.parse_args()
    for name in arguments.tables.split(","):
        table = hb.load_table(name)
        losses = table.column(table.metrics[0].name) * (1 if table.metrics[0].direction == "min" else -1)
        best, middle = np.nanmin(losses), np.nanmedian(losses)
        print(f"{name}: {np.isnan(losses).mean():.0%} of {len(table):,} rows failed", flush=True)
        regrets: dict[str, Floats] = {}
        for rule in RULES:
            found = [losses[search(table, losses, rule, trial)] for trial in range(arguments.trials)]
            least = np.array([[np.nanmin(each[:budget]) for budget in BUDGETS] for each in found])
            regrets[rule] = (least - best) / (middle - best)
            failed = np.mean([np.isnan(each).sum() for each in found])
            gap = regrets[rule] - regrets["worst"]
            se = gap.std(axis=0, ddof=1) / arguments.trials**0.5
            mean = regrets[rule].mean(axis=0)
            cells = "  ".join(
                f"{budget}: {mean[k]:.4f}, minus worst {gap[:, k].mean():+.4f} ± {se[k]:.4f}"
                for k, budget in enumerate(BUDGETS)
            )
            print(f"  {rule:14} {cells}  failed {failed:.1f} of {BUDGETS[-1]}", flush=True)


if __name__ == "__main__":
    main()
