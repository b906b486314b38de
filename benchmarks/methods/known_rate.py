"""Does a search find the learning rate of a small GPT in a range of nine decades?

    pip install -e '.[torch]'
    python benchmarks/methods/known_rate.py [--seeds 10] [--methods BO_known,BO_auto] [--folder known_rate]

Each search is `hpobench-nmt tune` with ten trainings of some 2 s, and all but the learning rate is fixed. It
prints the best rate of each search, and how many are within a factor of 3 of the best rate of all searches.
Searches that have ended are not repeated.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path

import pandas as pd

BUDGET = 10
SPEC = """
name = "known-rate"
title = "GPTs of 30,000 parameters, with any learning rate"
family = "gpt"
seed = 1
candidates = 1000
objectives = ["dev_ppl"]

[corpus]
name = "sotu"
unit = "subword"
vocabulary = 512
since = 1977
train_tokens = 20000
dev_tokens = 10000
test_tokens = 10000

[grid]
learning_rate = {from = 1e-8, to = 10, scale = "log"}

[fixed]
batch_size = 4
weight_decay = 1
warm_up = 0.1
dropout = 0
depth = 2
width = 0
size = 30000
heads = 2
context = 64
tokens = 100000
checks = 5
cache_window = 0
dynamic_rule = "none"
"""


def trainings(ledger: Path) -> pd.DataFrame:
    """The rates of a search, and their perplexities; infinite if the training failed."""
    rows = [json.loads(line) for line in ledger.read_text().splitlines()[1:]]
    losses = [row.get("metrics", {}).get("dev_ppl", math.inf) for row in rows]
    rates = [row["config"]["learning_rate"] for row in rows]
    return pd.DataFrame({"rate": rates, "loss": losses}).sort_values("loss", ignore_index=True)


def main() -> None:
    """Run the searches, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--methods", type=lambda names: names.split(","), default=["BO_known", "BO_auto"])
    parser.add_argument("--folder", type=Path, default=Path("known_rate"))
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)
    spec = options.folder / "spec.toml"
    spec.write_text(SPEC)
    searches = {}
    for seed in range(options.seeds):
        for method in options.methods:
            out = options.folder / f"{method}-{seed}"
            words = ["tune", spec, "-o", out, "--methods", method, "--seed", seed, "--lookups", BUDGET]
            command = [sys.executable, "-m", "hpobench_nmt", *map(str, words), "--device", "cpu"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            searches[method, seed] = trainings(out / "ledger.jsonl")
    best = pd.concat(searches.values()).sort_values("loss").iloc[0]
    print(f"best of all trainings: rate {best.rate:.2g}, perplexity {best.loss:.1f}")
    for method in options.methods:
        near = 0
        for seed in range(options.seeds):
            own = searches[method, seed].iloc[0]
            near += abs(math.log(own.rate / best.rate)) <= math.log(3)
            print(f"{method}, seed {seed}: rate {own.rate:.2g}, perplexity {own.loss:.1f}")
        print(f"{method}: within a factor of 3 of the best rate in {near} of {options.seeds}")


if __name__ == "__main__":
    main()
