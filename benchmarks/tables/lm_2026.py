"""Lines of tables for the tracks of the frozen suite lm-2026, by the rules of the suite.

    python benchmarks/tables/lm_2026.py TRACK TABLE ...

prints a line for each table. The line belongs below [tables.test] or [tables.development], or below [tables]
in a track without halves, in hpobench_nmt/benchmarking/suites/lm-2026-TRACK.toml. A line has

- tolerance: the datasheet's. Without it, one standard deviation between seeds, over the better half of the
  rows, if it has ten degrees of freedom. Otherwise 5% of the way from the best value to the median. On en-ja
  it is 1.0 BLEU, as in the paper. If fewer than three rows are targets, it is widened to the third best row,
  because a figure should not depend on a single row;
- time, the budget: a fifth of the rows, from 20 to 100 look-ups (20 or 30 in `scale`). On a clock of costs,
  the mean cost of a fifth of the rows, from 20 to 60 trainings, and with 8 workers twice the trainings;
- score_at: half of the budget, all of it in `multi`, 5 look-ups in `scale`;
- pinned: the hash of everything that trials and scores depend on.

If more than a fifth of a table's rows are targets (in `multi`: on the front), the table does not belong in a
track, because random search finds a target soon.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import numpy as np

from hpobench_nmt.benchmarking.records.frozen import pin_of
from hpobench_nmt.benchmarking.task.instance import Instance, make_instance
from hpobench_nmt.benchmarking.task.suite import Suite, changed
from hpobench_nmt.benchmarking.task.suite_files import load_suite, track_of
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.evaluation.noise import pooled_noise
from hpobench_nmt.lookup.catalogue import load_table
from hpobench_nmt.lookup.table import Table

PAPER = {"en-ja": 1.0}
FEWEST_DF = 10
FEWEST_TARGETS = 3
MOST_TARGETS = 1 / 5
# For each table of `scale`, the table of a smaller model.
SMALLER = {
    "sotu-gpt-80k": "sotu-gpt-30k",
    "sotu-gpt-200k": "sotu-gpt-80k",
    "sotu-gpt-500k": "sotu-gpt-80k",
    "taskset-vrnn128-tanh": "taskset-vrnn64-tanh-avg",
    "taskset-lstm128-e128": "taskset-lstm128",
}


def seed_deviation(table: Table, metric: str) -> float | None:
    """One standard deviation between trainings of a row, over the better half of the rows."""
    replicates = table.replicates
    if replicates is None or metric not in replicates.metrics:
        return None
    frame, names = replicates.to_frame(), list(table.space.names)
    losses = table.losses([table.objective(metric)])[:, 0]
    good = losses <= np.nanmedian(losses)
    own = {tuple(map(str, table.config(int(i)).values())): [losses[i]] for i in np.flatnonzero(good)}
    sign = -1.0 if table.metric(metric).direction == "max" else 1.0
    for line in frame.to_dict("records"):
        config = table.space.decode(table.space.encode_all([{n: plain(line[n]) for n in names}])[0])
        key = tuple(map(str, config.values()))
        if key in own and not np.isnan(line[metric]):
            own[key].append(sign * line[metric])
    try:
        found = pooled_noise([np.array(values) for values in own.values()])
    except InputError:
        return None
    return found.sd if found.df >= FEWEST_DF and found.sd > 0 else None


def plain(value: Any) -> Any:
    """A cell as a hyperparameter's value."""
    if isinstance(value, float) and math.isnan(value):
        return None
    return value.item() if isinstance(value, np.generic) else value


def tolerance(suite: Suite, table: Table, instance: Instance, fewest: int = FEWEST_TARGETS) -> float:
    """The tolerance, rounded to four digits."""
    metric = instance.objectives[0].metric
    own = instance.table.metric(metric).tolerance
    deviation = seed_deviation(table, metric) if own is None else None
    found = PAPER.get(table.name, own) if metric == "dev_bleu" else own
    found = deviation if found is None else found
    wanted = float(f"{instance.tolerance if found is None else found:.4g}")
    gaps = np.sort(instance.trainings.final[:, 0]) - np.nanmin(instance.trainings.final[:, 0])
    # Rounded up, so that the third row counts.
    return wanted if gaps[fewest - 1] <= wanted else float(f"{1.0005 * gaps[fewest - 1]:.4g}")


def budget(suite: Suite, instance: Instance) -> float:
    """The time when a trial ends, on the suite's clock."""
    n = len(instance.table)
    if suite.name.endswith("scale"):
        return 20 if n <= 300 else 30
    if suite.clock == "lookups":
        return min(max(math.ceil(n / 5), 20), 100)
    trainings = min(max(n / 5, 20), 60) * (1 if suite.workers == 1 else 2) / suite.workers
    return float(f"{trainings * instance.trainings.whole_costs.mean():.2g}")


def line(suite: Suite, name: str) -> str:
    """The line of a table."""
    table = load_table(name)
    bare = changed(
        suite,
        tables=[name],
        tolerance={},
        time={},
        score_at={"default": 5},
        source_of=own_source(suite, name),
    )
    if suite.clock == "cost":
        bare = changed(bare, score_at={})
    instance = make_instance(bare, table)
    settings: dict[str, Any] = {}
    if suite.n_objectives == 1:
        settings["tolerance"] = tolerance(suite, table, instance)
    settings["time"] = budget(suite, instance)
    if suite.clock == "lookups":
        half = 5 if suite.name.endswith("scale") else math.ceil(settings["time"] / 2)
        settings["score_at"] = settings["time"] if suite.n_objectives > 1 else half
    if suite.name.endswith("scale"):
        settings["source_of"] = SMALLER[name]
    final = changed(bare, **{k: {name: v} for k, v in settings.items()})
    made = make_instance(final, table)
    share = max(int(goal.targets.sum()) for goal in made.goals if goal.gaps is None) / len(made.table)
    settings["pinned"] = pin_of(final, made)
    key = f'"{name}"' if "." in name else name
    text = ", ".join(f"{k} = {written(v)}" for k, v in settings.items())
    return f"{key} = {{{text}}}" + ("  # too many targets" if share > MOST_TARGETS else "")


def own_source(suite: Suite, name: str) -> dict[str, str]:
    """The table of a smaller model, in the track `scale`."""
    return {name: SMALLER[name]} if suite.name.endswith("scale") else {}


def written(value: Any) -> str:
    """A value in TOML."""
    return f'"{value}"' if isinstance(value, str) else f"{value:g}" if value < 1e6 else f"{value:.2g}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("track")
    parser.add_argument("tables", nargs="+")
    given = parser.parse_args()
    chosen = load_suite(track_of("lm-2026", given.track))
    for each in given.tables:
        try:
            print(line(changed(chosen, pinned={}, development=[]), each), flush=True)
        except InputError as error:
            print(f"# {each}: {error}")
