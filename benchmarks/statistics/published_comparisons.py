"""Two published comparisons, recomputed by `hb.compare`: the figures in findings.md and statistics.md.

    python benchmarks/statistics/published_comparisons.py autoresearch FOLDER  # with trials.json
    python benchmarks/statistics/published_comparisons.py seeds FOLDER         # the same file
    python benchmarks/statistics/published_comparisons.py algoperf FOLDER      # a clone or curves.parquet
    python benchmarks/statistics/published_comparisons.py null                 # a method against itself

`hpobench_nmt/lookup/collections/` has the addresses of both sources. Autoresearch: nine optimizers tune a GPT
for 24 hours, three times each; the budget is hours, and the baseline random search. AlgoPerf: eleven training
algorithms, each with five settings that train side by side, five times each; the budget is hours of a
setting, the value the best word error rate or BLEU of the five, and the baseline AlgoPerf's.

`seeds` prints how many seeds a side a paired t test of log times takes to tell the optimizer with the best
mean result, an agent, from TPE with a power of 0.8. It uses the variance between the three seeds, whose 90%
range gives that of the number.

`null` compares random search with itself on uniform values, 2,000 times: the share of p-values below 0.05,
and the mean log ratio with its standard error. The target comes from the baseline's own trials, which could
favour one of the two.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import chi2

import hpobench_nmt as hb
from hpobench_nmt.analysis.tidy import paired_with_baseline
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.evaluation.power import families_needed
from hpobench_nmt.lookup.collections import COLLECTIONS
from hpobench_nmt.lookup.collections.archives import folder_members
from hpobench_nmt.lookup.collections.readers import algoperf as read_logs

LOGS = (
    r"[^/]+/study_\d+/(wmt|wmt_glu_tanh|librispeech_[a-z]+(_layernorm)?)_(jax|pytorch)/trial_\d+/"
    r"eval_measurements\.csv"
)
COLUMNS = ["method", "task", "family", "trial", "budget", "value"]


def autoresearch(folder: Path) -> tuple[pd.DataFrame, str]:
    found = json.loads((folder / "trials.json").read_bytes())
    rows = [
        (method, "gpt", "gpt", seed, each["wt"] / 3600, each["val_bpb"] if each["success"] else None)
        for method, seeds in found.items()
        for seed, trainings in seeds.items()
        for each in trainings
    ]
    frame = pd.DataFrame(rows, columns=COLUMNS)
    frame["budget"] = frame.groupby(["method", "trial"])["budget"].cumsum()
    return frame[frame["budget"] <= 23.9], "Random"


def algoperf(folder: Path) -> tuple[pd.DataFrame, str]:
    logs = folder / COLLECTIONS["algoperf"].given.folder
    if logs.is_dir():  # a clone; else the files that were made of it
        found = read_logs(folder_members(logs, LOGS, 2**32))["curves.parquet"]
    else:
        found = pd.read_parquet(folder / "curves.parquet")
    keys = ["method", "task", "trial", "setting"]
    found[keys] = found["id"].str.extract(r"/(\w+)/(\w+)_(?:jax|pytorch)/study_(\d+)/trial_(\d+)$")
    found = found.sort_values(["task", *keys], kind="stable")
    translation = found["task"].str.startswith("wmt")
    found["family"] = np.where(translation, "translation", "speech")
    found["budget"] = found["accumulated_submission_time"] / 3600
    found["value"] = np.where(translation, -found["validation/bleu"], found["validation/wer"])
    return found.astype({"trial": int})[COLUMNS], "baseline"


def seeds(frame: pd.DataFrame) -> None:
    best = frame.groupby(["method", "trial"])["value"].min().groupby("method").mean()
    agent = str(best.idxmin())
    paired = paired_with_baseline(frame, [agent, "TPE"])
    figure = paired.figure(agent, "TPE")
    trials = frame["trial"].nunique()
    sd = float(np.sqrt(figure.variances[0, 0] * trials))
    chance = (trials - 1) / chi2(trials - 1).ppf([0.95, 0.05])
    print(f"{agent} {best[agent]:.5f} and TPE {best['TPE']:.5f} bits per byte; sd of a log ratio {sd:.2f}")
    for ratio in (float(np.exp(abs(figure.logs[0, 0]))), 1.5, 2.0, 3.0):
        few, needed, many = (
            families_needed(ratio, sd * factor) for factor in (chance[0] ** 0.5, 1, chance[1] ** 0.5)
        )
        print(f"a ratio of {ratio:.2f} takes {needed:.0f} seeds a side (90% range {few:.0f} to {many:.0f})")


def published(frame: pd.DataFrame, baseline: str) -> None:
    for method in frame["method"].unique():
        if method == baseline:
            continue
        try:
            here = hb.compare(frame, methods=[method, baseline]).here
        except InputError as error:
            print(f"{method:24}  {error}")
            continue
        print(
            f"{method:24}  {here.ratio:.2f} [{here.low:.2f}, {here.high:.2f}], p = {here.p:.2g}, smallest "
            f"{here.smallest:.2f} ({here.smallest_low:.2f} to {here.smallest_high:.3g})"
        )


def null(repetitions: int = 2000, budget: int = 50) -> None:
    rng = np.random.default_rng(0)
    for tasks, trials in ((1, 3), (1, 5), (1, 20), (5, 5), (8, 10)):
        shape = (2, tasks, trials, budget)
        labels = [each.ravel() for each in np.indices(shape)]
        frame = pd.DataFrame(dict(zip(["method", "task", "trial", "budget"], labels, strict=True)))
        frame["method"] = frame["method"].map({0: "copy", 1: "baseline"})
        frame = frame.assign(family="f" + frame["task"].astype(str), budget=frame["budget"] + 1)
        found = [
            hb.compare(frame.assign(value=rng.random(len(frame))), methods=["copy", "baseline"]).here
            for _ in range(repetitions)
        ]
        logs = np.log([each.ratio for each in found])
        shown, se = np.mean([each.p < 0.05 for each in found]), logs.std() / repetitions**0.5
        log_ratio = f"{logs.mean():+.3f} ± {se:.3f}"
        print(f"{tasks} tasks, {trials:2} trials: p < 0.05 in {shown:.3f}, log ratio {log_ratio}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Two published comparisons, recomputed.")
    parser.add_argument("what", choices=["autoresearch", "seeds", "algoperf", "null"])
    parser.add_argument("folder", type=Path, nargs="?", default=Path())
    asked = parser.parse_args()
    if asked.what == "null":
        null()
    elif asked.what == "seeds":
        seeds(autoresearch(asked.folder)[0])
    else:
        published(*{"autoresearch": autoresearch, "algoperf": algoperf}[asked.what](asked.folder))


if __name__ == "__main__":
    main()
