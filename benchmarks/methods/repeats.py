"""How well rules choose under noise, in worlds whose truth is known.

    python benchmarks/methods/repeats.py --trials 20 --out repeats.csv     # about 3 s a trial and world
    python benchmarks/methods/repeats.py --read benchmarks/methods/repeats.csv.xz    # docs/how-to/noise.md

The rules see the same function and the same noise of each training:

- luckiest: BO_auto without repeats; the smallest loss (`Minimum.best`);
- mean: the same trainings; the smallest posterior mean (`Optimizer.recommend`);
- again: BO_auto for 80% of the budget, then its best four configurations again; the smallest mean;
- new: BO_auto with `repeats="auto"`;
- evaluated: the best that BO_auto evaluated, which only the truth shows: the regret of the search itself.

Most worlds are bowls with random axes and scales, smooth or with ripples, in [0, 1]^d, with the minimum of 0
at a random place. The noise has a standard deviation of `noise` times median at the minimum, and grows
linearly to twelve times as much at the median. Regrets are in units of the noise at the minimum. In `flat`,
hyperparameters do nothing.

Five worlds are of real tables (`tables fetch` autoresearch and algoperf). Those named `fit` are smooth fits
to tables, with simulated noise, whose standard deviation is that of the table's replicates with similar
losses. `replicates` has the 162 settings of autoresearch-pool with four results or more: half of each
setting's results are drawn, and the mean of the others is the truth.

An improvement is a new smallest loss of a configuration. It is claimed if it is real with a probability of
95%, given all trainings. It is large if it exceeds three sd of the noise at the old incumbent.
"""

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import hpobench_nmt as hb
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.methods.auto import AutoBO
from hpobench_nmt.methods.repeats import RepeatingBO
from hpobench_nmt.methods.replicates import believe

Trained = list[tuple[Floats, float]]
BUDGETS = 30, 60, 120
OF_TABLES = {
    "fit-random": "autoresearch-random",
    "fit-lohelp": "lohelp-de-en",
    "fit-wmt": "algoperf-wmt",
    "fit-gpt": "sotu-gpt-30k",
    "replicates": "autoresearch-pool",
}
MOST = {"fit-lohelp": 60}  # trainings: its grid has only 96 configurations
WORLDS = {
    f"{kind}-{d}-{noise}": (kind, d, noise)
    for kind, d, noise in [
        ("smooth", 4, 0.01), ("smooth", 6, 0.03), ("smooth", 10, 0.003), ("smooth", 6, 0.0),
        ("rough", 4, 0.01), ("rough", 6, 0.03), ("rough", 10, 0.003), ("rough", 6, 0.0),
        ("flat", 4, 1.0),
    ]
}  # fmt: skip


class Bowl:
    """A random function with noise; a configuration's k-th training has the same loss in all rules."""

    def __init__(self, kind: str, d: int, noise: float, trial: int) -> None:
        self.columns = [1] * d
        rng = np.random.default_rng([trial, d, int(1e4 * noise), kind == "rough"])
        self._centre = rng.uniform(0.15, 0.85, d)
        axes = np.linalg.qr(rng.standard_normal((d, d)))[0]
        self._axes = axes * np.exp(rng.normal(0.0, 0.7, d))[:, None]
        self._ripple = 0.0
        sample = rng.random((4096, d))
        self._ripple = 0.15 * float(np.median([self.true(x) for x in sample])) if kind == "rough" else 0.0
        self.median = float(np.median([self.true(x) for x in sample]))
        self.noise = noise * self.median
        if kind == "flat":
            self._axes, self.noise, self.median = 0.0 * self._axes, 1.0, 1.0
        self._seed = trial

    def optimizer(self, trial: int, repeats: str | None) -> Any:
        space = {f"x{i}": (0.0, 1.0) for i in range(len(self.columns))}
        return hb.Optimizer(space, seed=trial, candidates=300, repeats=repeats)

    def point(self, config: dict[str, Any]) -> Floats:
        return np.array(list(config.values()))

    def true(self, x: Floats) -> float:
        u = self._axes @ (x - self._centre)
        return float(u @ u + self._ripple * (1 - np.cos(4 * np.pi * u)).mean())

    def sd(self, x: Floats) -> float:
        return self.noise * (1 + 11 * self.true(x) / self.median)

    def train(self, x: Floats, number: int) -> float:
        draw = np.random.default_rng([self._seed, number, *x.view(np.uint32)]).standard_normal()
        return self.true(x) + self.sd(x) * draw


def results_of(table: hb.Table) -> list[Floats]:
    """The losses of the trainings of each row that did not fail, in the order of the rows."""
    values, again = table.values[:, 0], table.replicates
    assert again is not None
    row, more = again.by_row(table.configs)
    sign = 1 if table.metrics[0].direction == "min" else -1
    found: list[list[float]] = [[] if np.isnan(value) else [sign * value] for value in values]
    for place, value in zip(row, more[:, 0], strict=True):
        if not np.isnan(value):
            found[place].append(sign * value)
    return [np.array(each) for each in found]


class OfTable:
    """What the worlds of a table share: the local noise, of 20 settings with similar losses."""

    best: float

    def __init__(self, table: hb.Table, trial: int) -> None:
        self.table, self._seed = table, trial
        self.columns = [each.n_features for each in table.space]
        self._results = results_of(table)
        several = [each for each in self._results if len(each) > 1]
        several.sort(key=np.mean)
        width = min(20, len(several))
        groups = [several[first : first + width] for first in range(len(several) - width + 1)]
        self._centres = np.array([np.mean([each.mean() for each in group]) for group in groups])
        squares = [sum(each.var() * len(each) for each in group) for group in groups]
        freedom = [sum(len(each) - 1 for each in group) for group in groups]
        self._sds = np.sqrt(np.array(squares) / np.array(freedom))

    def true(self, x: Floats) -> float:
        raise NotImplementedError

    def sd(self, x: Floats) -> float:
        return float(np.interp(self.true(x) + self.best, self._centres, self._sds))


class Fit(OfTable):
    """A Gaussian process of the logarithms of a table's mean losses above its best; noise is simulated."""

    def __init__(self, table: hb.Table, trial: int) -> None:
        super().__init__(table, trial)
        kept = [row for row, each in enumerate(self._results) if len(each)]
        means = np.array([self._results[row].mean() for row in kept])
        self._low = means.min() - 0.1 * (np.median(means) - means.min())
        y = np.log(means - self._low)
        self._centre, self._x = y.mean(), table.features[kept]
        found = []
        for length in (0.15, 0.3, 0.6, 1.2):
            self._length = length * len(self.columns) ** 0.5
            kernel = self._kernel(self._x)
            for noise in (0.01, 0.1, 0.5):
                factor = np.linalg.cholesky(kernel + noise * np.eye(len(y)))
                z = np.linalg.solve(factor, y - self._centre)
                evidence = -len(y) / 2 * np.log(z @ z) - np.log(factor.diagonal()).sum()
                found.append((evidence, self._length, np.linalg.solve(factor.T, z)))
        _, self._length, self._weights = max(found, key=lambda each: float(each[0]))
        self.best = 0.0
        drawn = np.random.default_rng(0).choice(len(kept), min(len(kept), 400), replace=False)
        sample = np.array([self.true(x) for x in self._x[drawn]])
        self.best, self.median = float(sample.min()), float(np.median(sample) - sample.min())
        self.noise = float(np.interp(self.best, self._centres, self._sds))

    def _kernel(self, x: Floats) -> Floats:
        r = np.sqrt(5 * ((self._x[:, None] - x[None]) ** 2).sum(axis=2)) / self._length
        return np.asarray((1 + r + r * r / 3) * np.exp(-r))

    def optimizer(self, trial: int, repeats: str | None) -> Any:
        return hb.Optimizer(self.table.space, seed=trial, candidates=300, repeats=repeats)

    def point(self, config: dict[str, Any]) -> Floats:
        return np.asarray(self.table.space.features(self.table.space.encode(config)[None])[0])

    def true(self, x: Floats) -> float:
        z = self._centre + float(self._kernel(x[None])[:, 0] @ self._weights)
        return float(self._low + np.exp(z) - self.best)

    def train(self, x: Floats, number: int) -> float:
        draw = np.random.default_rng([self._seed, number, *x.view(np.uint32)]).standard_normal()
        return self.true(x) + self.best + self.sd(x) * draw


class Replicates(OfTable):
    """The rows with four results or more: half of the results are drawn, the others are the truth."""

    def __init__(self, table: hb.Table, trial: int) -> None:
        super().__init__(table, trial)
        rows = [row for row, each in enumerate(self._results) if len(each) > 3]
        rng = np.random.default_rng(trial)
        halves = [np.array_split(rng.permutation(self._results[row]), 2) for row in rows]
        self._features, self._configs = table.features[rows], table.configs[rows]
        self._drawn = {x.tobytes(): drawn for x, (drawn, _) in zip(self._features, halves, strict=True)}
        true = np.array([kept.mean() for _, kept in halves])
        self.best, self.median = float(true.min()), float(np.median(true) - true.min())
        self._true = {x.tobytes(): value for x, value in zip(self._features, true - self.best, strict=True)}
        self.noise = float(np.interp(self.best, self._centres, self._sds))

    def optimizer(self, trial: int, repeats: str | None) -> Any:
        return OfRows(self, trial, repeats)

    def point(self, row: int) -> Floats:
        return np.asarray(self._features[row])

    def true(self, x: Floats) -> float:
        return float(self._true[x.tobytes()])

    def train(self, x: Floats, number: int) -> float:
        drawn = self._drawn[x.tobytes()]
        return float(drawn[(number - 1) % len(drawn)])


class OfRows:
    """`Optimizer` among some rows of a table."""

    def __init__(self, world: Replicates, trial: int, repeats: str | None) -> None:
        features = world._features
        problem = Problem(
            features, 1, BUDGETS[-1], 3, world.table.space, world._configs, again=repeats is not None
        )
        rng = np.random.default_rng(trial)
        self._start = rng.choice(len(features), 3, replace=False).tolist()
        self._method = (RepeatingBO if repeats else AutoBO)(problem, rng)
        self._seen: list[int] = []

    def ask(self) -> int:
        return int(self._start.pop() if self._start else self._suggest())

    def _suggest(self) -> Any:
        return self._method.suggest({}) if isinstance(self._method, AutoBO) else self._method.ask()

    def tell(self, row: int, loss: float) -> None:
        self._seen.append(row)
        self._method.tell(row, np.array([loss]))

    def recommend(self) -> int:
        return self._method.recommend(list(dict.fromkeys(self._seen)))


def world_of(name: str, trial: int) -> Any:
    if name in OF_TABLES:
        return (Replicates if name == "replicates" else Fit)(hb.load_table(OF_TABLES[name]), trial)
    return Bowl(*WORLDS[name], trial)


def search(world: Any, trial: int, budget: int, repeats: str | None) -> tuple[Trained, dict[int, Any]]:
    """All trainings, and at each budget the recommended x and the row of figures that no rule changes."""
    optimizer = world.optimizer(trial, repeats)
    trained: Trained = []
    counts: dict[bytes, int] = {}
    at = {}
    while len(trained) < budget:
        config = optimizer.ask()
        x = world.point(config)
        number = counts[x.tobytes()] = counts.get(x.tobytes(), 0) + 1
        trained.append((x, world.train(x, number)))
        optimizer.tell(config, trained[-1][1])
        if len(trained) in BUDGETS:
            at[len(trained)] = world.point(optimizer.recommend()), judged(world, trained)
            at[len(trained)][1]["repeats"] = len(trained) - len(counts)
    return trained, at


def judged(world: Any, trained: Trained) -> dict[str, Any]:
    """What the belief says of the noise and of the improvements on the way, against the truth."""
    groups: dict[bytes, tuple[Floats, list[float]]] = {}
    for x, loss in trained:
        groups.setdefault(x.tobytes(), (x, []))[1].append(loss)
    points = [x for x, _ in groups.values()]
    belief = believe(np.array(points), world.columns, [np.array(own) for _, own in groups.values()])
    seen = np.array([own[0] for _, own in groups.values()])
    found = dict.fromkeys(("improvements", "untrue", "claims", "false", "large", "large_claimed"), 0)
    old = 0
    for new in range(1, len(points)):
        if seen[new] >= seen[old]:
            continue
        gain = world.true(points[old]) - world.true(points[new])
        claimed = bool(belief.better(old)[new] >= 0.95)
        large = gain > 3 * world.sd(points[old]) > 0
        found["improvements"] += 1
        found["untrue"] += gain <= 0
        found["claims"] += claimed
        found["false"] += claimed and gain <= 0
        found["large"] += large
        found["large_claimed"] += large and claimed
        old = new
    sd = world.sd(points[int(belief.mean.argmin())])
    return found | {"noise_ratio": float(belief.noise[int(belief.mean.argmin())]) / sd if sd else np.nan}


def again(world: Any, trained: Trained, budget: int) -> float:
    """The true loss of the configuration that is best after the best four were trained again."""
    rest = budget - round(0.8 * budget)
    best = sorted(trained[: budget - rest], key=lambda pair: pair[1])[:4]
    means = []
    for k, (x, loss) in enumerate(best):
        extra = [world.train(x, 2 + j) for j in range(rest // 4 + (k < rest % 4))]
        means.append(np.mean([loss, *extra]))
    return float(world.true(best[int(np.argmin(means))][0]))


def trial_rows(name: str, trial: int, most: int) -> Iterator[dict[str, Any]]:
    world, most = world_of(name, trial), min(most, MOST.get(name, most))
    greedy, at = search(world, trial, most, None)
    _, at_new = search(world, trial, most, "auto")
    for budget in at:
        luckiest = min(greedy[:budget], key=lambda pair: pair[1])[0]
        regrets = {
            "luckiest": world.true(luckiest),
            "mean": world.true(at[budget][0]),
            "again": again(world, greedy, budget),
            "new": world.true(at_new[budget][0]),
            "evaluated": min(world.true(x) for x, _ in greedy[:budget]),
        }
        for rule, regret in regrets.items():
            unit = world.noise or 0.01 * world.median
            extra = at_new[budget][1] if rule == "new" else at[budget][1]
            yield {
                "world": name,
                "trial": trial,
                "budget": budget,
                "rule": rule,
                "regret": regret / unit,
                **extra,
            }


def table(paths: list[Path]) -> None:
    import pandas as pd

    frame = pd.concat(map(pd.read_csv, paths))
    print("True regret of the recommended configuration, in sd at the best (se); new minus mean is paired")
    gaps: dict[Any, list[Any]] = {}
    for key, group in frame.groupby(["world", "budget"], sort=False):
        wide: Any = group.pivot(index="trial", columns="rule", values="regret")
        gap = wide["new"] - wide["mean"]
        gaps.setdefault(key[1], []).append(gap)
        rules = ("luckiest", "mean", "again", "new", "evaluated")
        cells = "  ".join(f"{rule} {wide[rule].mean():6.2f} ({wide[rule].sem():.2f})" for rule in rules)
        print(f"{_title(key)} n={len(wide):3}  {cells}  new-mean {gap.mean():+.2f} ({gap.sem():.2f})")
    for budget, all_gaps in gaps.items():
        mean = np.mean([gap.mean() for gap in all_gaps])
        se = np.sqrt(np.sum([gap.sem() ** 2 for gap in all_gaps])) / len(all_gaps)
        print(f"{_title(('all worlds', budget))} new-mean {mean:+.2f} ({se:.2f})")
    print("\nClaims and noise")
    known = frame[frame.rule.isin(["mean", "new"])]
    for key, group in known.groupby(["world", "budget", "rule"], sort=False):
        print(f"{_title(key)} {_claims(group)}")
    for (budget, rule), group in known.groupby(["budget", "rule"], sort=False):
        each = group.groupby("world").noise_ratio.median()
        medians = f"medians x{each.min():.2f} to x{each.max():.2f}"
        print(f"{_title(('all worlds', budget, rule))} {_claims(group)}, {medians}")


def _claims(group: Any) -> str:
    """Sums of the improvements and claims of some trials, and how well the noise is known."""
    total, ratio = group.sum(numeric_only=True), group.noise_ratio.dropna()
    off = np.abs(np.log(ratio))
    return (
        f"improvements {total.improvements:.0f}, untrue {total.untrue:.0f}; false {total.false:.0f} of "
        f"{total.claims:.0f} claims; large claimed {total.large_claimed:.0f} of {total.large:.0f}; repeats "
        f"{group.repeats.mean():.1f}; noise x{ratio.median():.2f}, within 1.5 "
        f"{(off < np.log(1.5)).mean():.0%}, 2 {(off < np.log(2)).mean():.0%}"
    )


def _title(key: Any) -> str:
    return f"{key[0]:16} {key[1]:4} {key[2] if len(key) > 2 else '':5}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--budget", type=int, default=60, choices=BUDGETS)
    parser.add_argument("--worlds", default=",".join(WORLDS), help=f"also {', '.join(OF_TABLES)}")
    parser.add_argument("--out", type=Path, default=Path("repeats.csv"))
    parser.add_argument("--read", type=Path, nargs="+")
    arguments = parser.parse_args()
    if arguments.read is None:
        with arguments.out.open("w", newline="") as file:
            writer = None
            for trial in range(arguments.first, arguments.first + arguments.trials):
                for name in arguments.worlds.split(","):
                    for row in trial_rows(name, trial, arguments.budget):
                        writer = writer or csv.DictWriter(file, row)
                        if file.tell() == 0:
                            writer.writeheader()
                        writer.writerow(row)
                    file.flush()
    table(arguments.read or [arguments.out])


if __name__ == "__main__":
    main()
