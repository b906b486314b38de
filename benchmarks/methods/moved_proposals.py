"""How often, and how far, adapters move what their library proposes to a row of the table.

    python benchmarks/methods/moved_proposals.py [METHOD ...] [--tables TABLE ...] [--trials 3]

Libraries that propose points of ranges know neither the grid nor the rows that are left. For each method, on
whole tables and on samples of 60% of the rows, the script prints the share of proposals that lay on no row
that was left, and the mean distance to the row that was looked up instead, where each hyperparameter has the
length 1. A trial has at most 100 look-ups. --write puts the lines into the file from which the leaderboard's
cards of methods have them.
"""

import argparse
from typing import Any

import numpy as np

import hpobench_nmt as hb
from hpobench_nmt.arena.pages import MOVED
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.methods.adapters.common import Adapter

METHODS = ("optuna.TPE", "optuna.CMAES", "nevergrad.NGOpt", "nevergrad.TwoPointsDE", "nevergrad.OnePlusOne")
TABLES = ("sotu-gpt-30k", "sotu-ngram", "lohelp-alignment")
HEAD = "method,rows,share,distance"
SAME = 1e-9


def moves_of(method: str, trials: int, **settings: Any) -> Floats:
    """How far each proposal was moved, shape (proposals,); 0 if it lay on a row that was left."""
    found: list[float] = []
    nearest = Adapter.nearest

    def recorded(self: Adapter, point: Floats) -> int:
        row = nearest(self, point)
        found.append(float(np.linalg.norm(self.problem.features[row] - point)))
        return row

    Adapter.nearest = recorded  # type: ignore[method-assign]
    try:
        for seed in range(trials):  # with debug, in this process
            hb.run("quick", methods=[method], debug=True, seed=seed, notify=lambda message: None, **settings)
    finally:
        Adapter.nearest = nearest  # type: ignore[method-assign]
    return np.array(found)


def main() -> None:
    """Print the lines, and write them if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("methods", nargs="*", default=METHODS)
    parser.add_argument("--tables", nargs="+", default=TABLES)
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    lines = [HEAD]
    print(HEAD)
    for method in given.methods:
        for rows, sample in (("whole tables", None), ("samples", 0.6)):
            moves = moves_of(method, given.trials, tables=given.tables, sample=sample)
            moved = moves > SAME
            far = moves[moved].mean() if moved.any() else 0.0
            lines.append(f"{method},{rows},{moved.mean():.3f},{far:.3f}")
            print(lines[-1], flush=True)
    if given.write:
        MOVED.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
