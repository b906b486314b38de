"""How well four rules choose under noise, in worlds whose truth is known.

    python benchmarks/methods/repeats.py --trials 40 --out repeats.csv     # about 6 s a trial and world
    python benchmarks/methods/repeats.py --read repeats.csv

The rules see the same function and the same noise of each training:

- luckiest: BO_auto without repeats; the smallest loss (`Minimum.best`);
- mean: the same trainings; the smallest posterior mean (`Optimizer.recommend`);
- again: BO_auto for 80% of the budget, then its best four configurations again; the smallest mean;
- new: BO_auto with `repeats="auto"`.

A world is a bowl with random axes and scales, smooth or with ripples, in [0, 1]^d, with its minimum of 0 at a
random place. The noise has a standard deviation of `noise` times median at the minimum, and grows linearly to
twelve times as much at the median. Regrets are in units of the noise at the minimum.

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
from hpobench_nmt.methods.repeats import belief_of

Trained = list[tuple[Floats, float]]
BUDGETS = 30, 60, 120
WORLDS = {
    f"{kind}-{d}-{noise}": (kind, d, noise)
    for kind, d, noise in [
        ("smooth", 4, 0.01), ("smooth", 6, 0.03), ("smooth", 10, 0.003), ("smooth", 6, 0.0),
        ("rough", 4, 0.01), ("rough", 6, 0.03), ("rough", 10, 0.003), ("rough", 6, 0.0),
    ]
}  # fmt: skip


class World:
    """A random function with noise; a configuration's k-th training has the same loss in all rules."""

    def __init__(self, kind: str, d: int, noise: float, trial: int) -> None:
        rng = np.random.default_rng([trial, d, int(1e4 * noise), kind == "rough"])
        self._centre = rng.uniform(0.15, 0.85, d)
        axes = np.linalg.qr(rng.standard_normal((d, d)))[0]
        self._axes = axes * np.exp(rng.normal(0.0, 0.7, d))[:, None]
        self._ripple = 0.0
        sample = rng.random((4096, d))
        self._ripple = 0.15 * float(np.median([self.true(x) for x in sample])) if kind == "rough" else 0.0
        self.median = float(np.median([self.true(x) for x in sample]))
        self.noise = noise * self.median
        self._seed = trial

    def true(self, x: Floats) -> float:
        u = self._axes @ (x - self._centre)
        return float(u @ u + self._ripple * (1 - np.cos(4 * np.pi * u)).mean())

    def sd(self, x: Floats) -> float:
        return self.noise * (1 + 11 * self.true(x) / self.median)

    def train(self, x: Floats, number: int) -> float:
        draw = np.random.default_rng([self._seed, number, *x.view(np.uint32)]).standard_normal()
        return self.true(x) + self.sd(x) * draw


def values(config: dict[str, Any]) -> Floats:
    return np.array(list(config.values()))


def search(
    world: World, d: int, trial: int, budget: int, repeats: str | None
) -> tuple[Trained, dict[int, tuple[dict[str, Any], dict[str, Any]]]]:
    """All trainings, and at each budget the row of `figures` that does not depend on the rule."""
    space = {f"x{i}": (0.0, 1.0) for i in range(d)}
    optimizer = hb.Optimizer(space, seed=trial, candidates=300, repeats=repeats)
    trained: Trained = []
    counts: dict[bytes, int] = {}
    at = {}
    while len(trained) < budget:
        config = optimizer.ask()
        x = values(config)
        number = counts[x.tobytes()] = counts.get(x.tobytes(), 0) + 1
        trained.append((x, world.train(x, number)))
        optimizer.tell(config, trained[-1][1])
        if len(trained) in BUDGETS:
            at[len(trained)] = optimizer.recommend(), judged(world, optimizer)
            at[len(trained)][1]["repeats"] = len(trained) - len(counts)
    return trained, at


def judged(world: World, optimizer: hb.Optimizer) -> dict[str, Any]:
    """What the belief says of the noise and of the improvements on the way, against the truth."""
    rows, belief = belief_of(optimizer.space, optimizer._candidates.features, optimizer._known.trainings)
    points = [values(optimizer._candidates.config(row)) for row in rows]
    first: dict[int, float] = {}
    for row, losses, _ in optimizer._known.evaluations:
        first.setdefault(row, float(losses[0]))
    seen = np.array([first[row] for row in rows])
    found = dict.fromkeys(("improvements", "untrue", "claims", "false", "large", "large_claimed"), 0)
    old = 0
    for new in range(1, len(rows)):
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


def again(world: World, trained: Trained, budget: int) -> float:
    """The true loss of the configuration that is best after the best four were trained again."""
    rest = budget - round(0.8 * budget)
    best = sorted(trained[: budget - rest], key=lambda pair: pair[1])[:4]
    means = []
    for k, (x, loss) in enumerate(best):
        extra = [world.train(x, 2 + j) for j in range(rest // 4 + (k < rest % 4))]
        means.append(np.mean([loss, *extra]))
    return world.true(best[int(np.argmin(means))][0])


def trial_rows(name: str, trial: int, most: int) -> Iterator[dict[str, Any]]:
    kind, d, noise = WORLDS[name]
    world = World(kind, d, noise, trial)
    greedy, at = search(world, d, trial, most, None)
    _, at_new = search(world, d, trial, most, "auto")
    for budget in at:
        luckiest = min(greedy[:budget], key=lambda pair: pair[1])[0]
        regrets = {
            "luckiest": world.true(luckiest),
            "mean": world.true(values(at[budget][0])),
            "again": again(world, greedy, budget),
            "new": world.true(values(at_new[budget][0])),
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


def table(path: Path) -> None:
    import pandas as pd

    frame = pd.read_csv(path)
    print("True regret of the recommended configuration, in sd at the best (se); new minus mean is paired")
    for key, group in frame.groupby(["world", "budget"], sort=False):
        wide: Any = group.pivot(index="trial", columns="rule", values="regret")
        gap = wide["new"] - wide["mean"]
        rules = ("luckiest", "mean", "again", "new")
        cells = "  ".join(f"{rule} {wide[rule].mean():6.2f} ({wide[rule].sem():.2f})" for rule in rules)
        print(f"{_title(key)} n={len(wide):3}  {cells}  new-mean {gap.mean():+.2f} ({gap.sem():.2f})")
    print("\nClaims and noise")
    for key, group in frame[frame.rule.isin(["mean", "new"])].groupby(
        ["world", "budget", "rule"], sort=False
    ):
        total = group.sum(numeric_only=True)
        ratio = group.noise_ratio.dropna()
        off = np.abs(np.log(ratio))
        print(
            f"{_title(key)} improvements {total.improvements:.0f}, untrue {total.untrue:.0f}; false "
            f"{total.false:.0f} of {total.claims:.0f} claims; large claimed {total.large_claimed:.0f} of "
            f"{total.large:.0f}; repeats {group.repeats.mean():.1f}; noise x{ratio.median():.2f}, within 1.5 "
            f"{(off < np.log(1.5)).mean():.0%}, 2 {(off < np.log(2)).mean():.0%}"
        )


def _title(key: Any) -> str:
    return f"{key[0]:16} {key[1]:4} {key[2] if len(key) > 2 else '':5}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--budget", type=int, default=60, choices=BUDGETS)
    parser.add_argument("--worlds", default=",".join(WORLDS))
    parser.add_argument("--out", type=Path, default=Path("repeats.csv"))
    parser.add_argument("--read", type=Path)
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
    table(arguments.read or arguments.out)


if __name__ == "__main__":
    main()
