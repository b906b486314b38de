"""Whether tables can distinguish methods: the figures that decide whether a table belongs in a track.

    python benchmarks/tables/table_rules.py lohelp-alignment sotu-ngram [--objective dev_ppl]

A table is a name or a folder. Printed are

- for orders that see no loss, the times fewer trainings than random search. The target is a row among the
  best 2%. A trial sees a random 60% of the rows, starts with three random ones, and ends after 100 look-ups.
  The orders are: nearest to the middle of the grid first; farthest from it first; each time the row that is
  farthest from all rows so far (maximin); and that of the file. Above 2.5, the grid gives the target away;
- R2 of random forests on normal scores of the objective, of rows left out in 5 folds. Below 0.1, there is
  nothing to learn from the hyperparameters;
- how many rows beat the baseline, which must be at least one;
- the ends of the grid at which the best row lies, and the noise between seeds.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import KFold, cross_val_predict

from hpobench_nmt.core.arrays import Floats, Rows
from hpobench_nmt.core.seeds import generator
from hpobench_nmt.evaluation.noise import seed_noise
from hpobench_nmt.evaluation.random_search import none_drawn
from hpobench_nmt.lookup.baselines import baseline_of, baseline_sentence, rows_that_beat
from hpobench_nmt.lookup.catalogue import load_table
from hpobench_nmt.lookup.checks.surface_checks import edges_of_best
from hpobench_nmt.lookup.disk.folder import load_folder
from hpobench_nmt.lookup.table import Table

SAMPLES, SHARE, INITIAL, MOST, BEST = 400, 0.6, 3, 100, 50
MOST_CONTROL, LEAST_R2 = 2.5, 0.1


def from_middle(table: Table) -> Floats:
    """The distance of each row from the middle of the grid, over numbers and ordered labels."""
    squares = np.zeros(len(table))
    for h, codes in zip(table.hyperparameters, table.configs.T, strict=True):
        if h.kind != "categorical":
            squares += np.nan_to_num(h.scaled(codes) - 0.5) ** 2
    return np.sqrt(squares)


def maximin(features: Floats, rows: Rows) -> Rows:
    """Rows in an order in which each is the farthest from all before it, after the first ones."""
    distance = np.full(len(rows), np.inf)
    order = list(range(INITIAL))
    for place in order:
        distance = np.minimum(distance, np.linalg.norm(features[rows] - features[rows[place]], axis=1))
    while len(order) < min(MOST, len(rows)):
        distance[order] = -1.0
        order.append(int(distance.argmax()))
        distance = np.minimum(distance, np.linalg.norm(features[rows] - features[rows[order[-1]]], axis=1))
    return rows[order]


def controls(table: Table, losses: Floats) -> dict[str, float]:
    """How many times fewer trainings than random search each order needs, by its name."""
    away, features = from_middle(table), table.features

    def sorted_by(key: Floats) -> Callable[[Rows], Rows]:
        return lambda rows: np.concatenate(
            [rows[:INITIAL], rows[INITIAL:][np.argsort(key[rows[INITIAL:]], kind="stable")]]
        )

    orders: dict[str, Callable[[Rows], Rows]] = {
        "centre": sorted_by(away),
        "corner": sorted_by(-away),
        "maximin": lambda rows: maximin(features, rows),
        "file": sorted_by(np.arange(len(table), dtype=np.float64)),
    }
    needed = dict.fromkeys(("random", *orders), 0.0)
    for sample in range(SAMPLES):
        rng = generator(0, "rules of tables", table.name, sample)
        rows = rng.choice(len(table), round(SHARE * len(table)), replace=False)
        target = np.sort(losses[rows])[math.ceil(len(rows) / BEST) - 1]
        most = min(MOST, len(rows))
        survival = none_drawn(len(rows), int((losses[rows] <= target).sum()))[:most]
        needed["random"] += INITIAL + survival[INITIAL:].sum()
        for name, order in orders.items():
            hits = np.flatnonzero(losses[order(rows)[:most]] <= target)
            needed[name] += max(hits[0] + 1, INITIAL) if len(hits) else most
    return {name: needed["random"] / needed[name] for name in orders}


def forest_r2(table: Table, losses: Floats) -> float:
    """R2 of random forests on normal scores of the losses, of rows left out."""
    scores = ndtri((rankdata(losses) - 0.5) / len(losses))
    folds = KFold(5, shuffle=True, random_state=0)
    forest = RandomForestRegressor(300, min_samples_leaf=2, random_state=0)
    found = cross_val_predict(forest, table.features, scores, cv=folds)
    return float(1 - ((scores - found) ** 2).sum() / ((scores - scores.mean()) ** 2).sum())


def main() -> None:
    """Print the figures of each table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="+")
    parser.add_argument("--objective")
    arguments = parser.parse_args()
    for name in arguments.tables:
        table = load_folder(Path(name)) if Path(name).is_dir() else load_table(name)
        objective = arguments.objective or table.objectives[0]
        losses = table.losses([objective])[:, 0]
        known = np.flatnonzero(~np.isnan(losses))
        table, losses = table.of_rows(known), losses[known]
        found, r2 = controls(table, losses), forest_r2(table, losses)
        baseline = baseline_of(table.claims)
        beaten = baseline is None or rows_that_beat(table, baseline) > 0
        fits = max(found.values()) < MOST_CONTROL and r2 >= LEAST_R2 and beaten
        told = ", ".join(f"{order} {figure:.2f}" for order, figure in found.items())
        print(f"{table.name}: {len(table)} rows, {objective} {'fits' if fits else 'DOES NOT FIT'} a track")
        print(f"  times fewer than random search: {told}")
        print(f"  R2 of rows left out: {r2:.2f}")
        print(f"  best at: {', '.join(edges_of_best(table, objective)) or 'no end of an axis'}")
        print(f"  noise: {noise(table, objective)}")
        print(f"  baseline: {baseline_sentence(table) or 'none'}", flush=True)


def noise(table: Table, objective: str) -> str:
    """The deviation between seeds, in words."""
    if table.replicates is None:
        return "unknown"
    found = seed_noise(table.response(objective), table.replicates.to_frame())
    near = f"{found.rows_within} of {found.n_rows} rows cannot be told from the best"
    return f"standard deviation {found.pooled.sd:.3g} ({found.pooled.df} degrees of freedom), {near}"


if __name__ == "__main__":
    main()
