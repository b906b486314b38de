"""The two families of translation models on a synthetic language: BLEU and seconds by seed, in turns.

    python benchmarks/speed/translation.py --seeds 5 --updates 1000

`sockeye` and `marian` have the same spec, updates, batch and seeds. In the language, each word has a
translation, and the translation of the last word comes first. Times are processor seconds of one core
(`train_time` without evaluations in between, `dev_cpu_time` with the beam of the spec). For each seed, the
families are trained one after the other. Prints each training, then means with their standard errors.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hpobench_nmt.runner.families import load_family
from hpobench_nmt.runner.family import Job

FAMILIES = ("sockeye", "marian")
SPEC: dict[str, Any] = {
    "bpe_symbols": 120,
    "num_layers": 1,
    "num_embed": 64,
    "num_hidden": 128,
    "num_heads": 4,
    "learning_rate": 0.004,
    "learning_rate_scheduler": "linear-decay",
    "warmup": 100,
    "batch_size": 400,
    "max_length": 60,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "feed_forward_dropout": 0.0,
    "label_smoothing": 0.1,
    "checkpoint_sentences": 0,
    "max_not_improved": 1000,
}
CORPUS = {"name": "parallel", "source": "de", "target": "en"} | {
    f"{part}_{side}": f"{part}.{side}" for part in ("train", "dev", "test") for side in ("source", "target")
}
METRICS = ("dev_bleu", "test_bleu", "dev_ppl", "train_time", "dev_cpu_time", "num_param")


def write_language(folder: Path, words: int = 60) -> None:
    """Write files of a language with `words` words of two to six letters, some more frequent than others."""
    draw = random.Random(1)

    def lexicon() -> list[str]:
        found: set[str] = set()
        while len(found) < words:
            syllables = draw.randint(1, 3)
            found.add("".join(draw.choice("bdfgklmnprst") + draw.choice("aeiou") for _ in range(syllables)))
        return draw.sample(sorted(found), words)

    known = dict(zip(lexicon(), lexicon(), strict=True))
    weights = [1 / (rank + 5) for rank in range(words)]
    for part, count in (("train", 6000), ("dev", 200), ("test", 200)):
        lines = [draw.choices(list(known), weights, k=draw.randint(3, 9)) for _ in range(count)]
        turned = [[known[word] for word in (line[-1], *line[:-1])] for line in lines]
        for side, text in (("source", lines), ("target", turned)):
            (folder / f"{part}.{side}").write_text("".join(" ".join(line) + "\n" for line in text))


def trained(name: str, spec: Mapping[str, Any], seed: int, folder: Path) -> Mapping[str, float]:
    family = load_family(name)
    assert family.train
    settings = family.settings(**spec)
    with (
        tempfile.TemporaryDirectory() as scratch,
        contextlib.redirect_stdout(io.StringIO()),
    ):
        job = Job(settings, seed, CORPUS, folder, folder / "cache", Path(scratch), "cpu")
        return family.train(job).metrics


def summary(rows: Mapping[str, Sequence[Mapping[str, float]]]) -> None:
    values = {
        (name, metric): np.array([row[metric] for row in rows[name]]) for name in rows for metric in METRICS
    }
    for metric in METRICS:
        first, second = (values[name, metric] for name in FAMILIES)
        count = len(first)
        error = np.sqrt((first.var(ddof=1) + second.var(ddof=1)) / count) if count > 1 else np.nan
        ratio = np.median(second / first)
        print(
            f"{metric:>12}: sockeye {first.mean():.3f}, marian {second.mean():.3f}, "
            f"difference {second.mean() - first.mean():+.3f} (standard error {error:.3f}), "
            f"median ratio {ratio:.3f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=1000)
    parser.add_argument("--norm", choices=("pre", "post"), default="pre", help="of marian")
    arguments = parser.parse_args()
    spec = SPEC | {"max_updates": arguments.updates, "checkpoint_interval": arguments.updates}
    rows: dict[str, list[Mapping[str, float]]] = {name: [] for name in FAMILIES}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_language(folder)
        for seed in range(1, arguments.seeds + 1):
            for family in FAMILIES:
                own = {"norm": arguments.norm} if family == "marian" else {}
                found = trained(family, spec | own, seed, folder)
                rows[family].append(found)
                print(family, seed, " ".join(f"{m} {found[m]:.3f}" for m in METRICS), flush=True)
    summary(rows)


if __name__ == "__main__":
    main()
