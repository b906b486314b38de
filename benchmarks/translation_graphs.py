"""The time of an update of `marian` on a GPU with CUDA graphs and without, and whether both give the same.

    python benchmarks/translation_graphs.py [--device cuda]

Trains for 220 updates on 4,000 pairs of random sentences, batches of 2,048 subwords in tf32, and prints the
milliseconds of each of the last 50. On a CPU there are no graphs, and four updates show that the command
runs.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from torch import Tensor

from hpobench_nmt.runner.lm.clock import seconds
from hpobench_nmt.runner.lm.language_model import set_up
from hpobench_nmt.runner.lm.precision import loss_scaler
from hpobench_nmt.runner.nmt.marian_batches import batches
from hpobench_nmt.runner.nmt.marian_gradient import Gradients
from hpobench_nmt.runner.nmt.marian_model import build, trained
from hpobench_nmt.runner.nmt.marian_numbers import END, Pairs
from hpobench_nmt.runner.nmt.marian_settings import MarianSettings

_VOCABULARY, _WORDS, _TIMED = 2000, 2048, 50


def random_pairs(count: int) -> Pairs:
    """Sentences of 3 to 39 subwords, and targets that differ in length by two at most."""
    draws = np.random.default_rng(1)
    found = []
    for _ in range(count):
        n = int(draws.integers(3, 40))
        m = max(1, n + int(draws.integers(-2, 3)))
        source, target = ([*draws.integers(4, 1900, size).tolist(), END] for size in (n, m))
        found.append((source, target))
    return Pairs.of(found)


def trained_weights(
    pairs: Pairs, layers: int, width: int, updates: int, device: str, graphs: bool
) -> list[Tensor]:
    """Train, print the time of an update, and return the weights."""
    where = set_up(device)
    precision = "tf32" if where.type == "cuda" else "fp32"
    settings = MarianSettings(
        bpe_symbols=_VOCABULARY, num_layers=layers, num_embed=width, num_hidden=4 * width, num_heads=4,
        learning_rate=0.001,
    )  # fmt: skip
    torch.manual_seed(5)
    model = build(settings, _VOCABULARY, _VOCABULARY, torch.Generator(where).manual_seed(1)).train()
    parameters, scaler = trained(model), loss_scaler(precision, where)
    adam = torch.optim.AdamW(parameters, lr=settings.learning_rate, fused=True)
    gradients = Gradients(model, parameters, pairs, 0.1, precision, scaler)
    if not graphs and gradients._graphed:
        gradients._graphed._found = gradients._graphed._function  # type: ignore[assignment, method-assign]
    order = [chosen for epoch in range(60) for chosen in batches(pairs, _WORDS, 1, epoch)]
    for update, chosen in enumerate(order[:updates]):
        if update == max(updates - _TIMED, 1):
            seconds(where)  # waits for pending work
            started = time.perf_counter()
        gradients.clear()
        gradients.add(chosen, pairs.words(chosen))
        scaler.step(adam)
        scaler.update()
    seconds(where)
    spent = 1e3 * (time.perf_counter() - started) / min(_TIMED, updates - 1)
    size, way = sum(p.numel() for p in parameters), "graphs" if graphs else "eager"
    print(f"{layers} layers of {width}, {size:,} parameters, {way}: {spent:.1f} ms an update")
    return [p.detach().clone() for p in parameters]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    device = parser.parse_args().device
    here = device == "cpu"
    pairs = random_pairs(60 if here else 4000)
    for layers, width in ((1, 32), (2, 128), (3, 256)):
        given = pairs, layers, width, 4 if here else 220, device
        graphs, eager = trained_weights(*given, True), trained_weights(*given, False)
        same = all(torch.equal(mine, other) for mine, other in zip(graphs, eager, strict=True))
        print(f"the same weights with graphs and without: {'yes' if same else 'NO'}")


if __name__ == "__main__":
    main()
