"""Time of an update of `marian` on a GPU with and without CUDA graphs, and whether the weights are equal.

    python benchmarks/speed/translation_graphs.py [--device cuda]

Trains for 220 updates on 4,000 pairs of random sentences, in batches of 2,048 subwords, in tf32. Prints the
mean milliseconds of the last 50 updates. A CPU does not have graphs, and four updates test that the command
runs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hpobench_nmt.runner.nmt.marian_batches import batches
from hpobench_nmt.runner.nmt.marian_gradient import Gradients
from hpobench_nmt.runner.nmt.marian_model import build, trained
from hpobench_nmt.runner.nmt.marian_numbers import END, NumberLines, Pairs
from hpobench_nmt.runner.nmt.marian_settings import MarianSettings
from hpobench_nmt.runner.torch_training.clock import seconds
from hpobench_nmt.runner.torch_training.precision import loss_scaler
from hpobench_nmt.runner.torch_training.repeatable import set_up
from hpobench_nmt.runner.torch_training.settings import Precision

_VOCABULARY, _WORDS, _TIMED = 2000, 2048, 50


def random_pairs(count: int) -> Pairs:
    """Sentences of 3 to 39 subwords, with targets whose lengths differ by at most two."""
    draws = np.random.default_rng(1)
    found = []
    for _ in range(count):
        n = int(draws.integers(3, 40))
        m = max(1, n + int(draws.integers(-2, 3)))
        source, target = ([*draws.integers(4, 1900, size).tolist(), END] for size in (n, m))
        found.append((source, target))
    return Pairs(*map(NumberLines.of, zip(*found, strict=True)))


@dataclass(frozen=True)
class Training:
    """A model with four heads, and the function that makes its next update on random pairs."""

    model: Any
    parameters: Sequence[nn.Parameter]
    update: Callable[[], None]


def training(layers: int, width: int, words: int, where: torch.device, graphs: bool = True) -> Training:
    """A training on 4,000 pairs in tf32, or 60 pairs in fp32 on a CPU, with batches of this many subwords."""
    gpu = where.type == "cuda"
    pairs = random_pairs(4000 if gpu else 60)
    precision: Precision = "tf32" if gpu else "fp32"
    settings = MarianSettings(
        bpe_symbols=_VOCABULARY, num_layers=layers, num_embed=width, num_hidden=4 * width, num_heads=4,
        learning_rate=0.001, precision=precision,
    )  # fmt: skip
    torch.manual_seed(5)
    model = build(settings, _VOCABULARY, _VOCABULARY, torch.Generator(where).manual_seed(1)).train()
    parameters, scaler = trained(model), loss_scaler(precision, where)
    adam = torch.optim.AdamW(parameters, lr=settings.learning_rate, fused=True)
    gradients = Gradients(model, pairs, settings, scaler, graphs)
    order = cycle([chosen for epoch in range(60) for chosen in batches(pairs, words, 1, epoch)])

    def update() -> None:
        chosen = next(order)
        gradients.clear()
        gradients.add(chosen, pairs.words(chosen))
        scaler.step(adam)
        scaler.update()

    return Training(model, parameters, update)


def trained_weights(layers: int, width: int, updates: int, where: torch.device, graphs: bool) -> list[Tensor]:
    """Train, print the time of an update, and return the weights."""
    made = training(layers, width, _WORDS, where, graphs)
    for update in range(updates):
        if update == max(updates - _TIMED, 1):
            seconds(where)  # waits for pending work
            started = time.perf_counter()
        made.update()
    seconds(where)
    spent = 1e3 * (time.perf_counter() - started) / min(_TIMED, updates - 1)
    size, way = sum(p.numel() for p in made.parameters), "graphs" if graphs else "eager"
    print(f"{layers} layers of {width}, {size:,} parameters, {way}: {spent:.1f} ms an update")
    return [p.detach().clone() for p in made.parameters]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    where = set_up(parser.parse_args().device)
    for layers, width in ((1, 32), (2, 128), (3, 256)):
        given = layers, width, 220 if where.type == "cuda" else 4, where
        graphs, eager = trained_weights(*given, True), trained_weights(*given, False)
        same = all(torch.equal(mine, other) for mine, other in zip(graphs, eager, strict=True))
        print(f"the same weights with graphs and without: {'yes' if same else 'NO'}")


if __name__ == "__main__":
    main()
