"""The cost of saving the state of a training, for a pause or a kill.

    python benchmarks/checkpoints.py [--times 3]

An AWD-LSTM with a state of some 50 MB is trained on random words for most of a minute, with and without
saving, in turns. A state is saved every 30 seconds, and less often where that would take over a fiftieth of
the time. Bar: 3% of the time by the clock.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from hpobench_nmt.runner.lm.awd_lstm_model import AWDLSTM, Regularisation
from hpobench_nmt.runner.lm.ntasgd import NTASGD
from hpobench_nmt.runner.lm.trainer import TrainingSchedule, train
from hpobench_nmt.runner.lm.training_state import Checkpoints

BAR = 0.03
WORDS = 10_000
SCHEDULE = TrainingSchedule(batch_size=20, bptt=35, vary=True, clip=0.25, max_epochs=1)


def training(folder: Path | None, updates: int) -> float:
    """Seconds of a training by the clock, dev evaluation and saving included."""
    rng = np.random.default_rng(0)
    tokens = rng.zipf(1.3, size=20 * (35 * updates + 1)) % WORDS
    model = AWDLSTM(
        WORDS,
        layers=2,
        embedding_size=400,
        hidden_size=600,
        regularisation=Regularisation(),
        generator=torch.Generator().manual_seed(1),
    )
    optimiser = NTASGD(list(model.parameters()), learning_rate=1.0, weight_decay=0.0, window=5, patience=5)
    checkpoints = Checkpoints(folder, {})
    started = time.perf_counter()
    train(model, tokens, tokens[:2000], optimiser, SCHEDULE, torch.Generator().manual_seed(1), checkpoints)
    return time.perf_counter() - started


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--updates", type=int, default=90)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    ratios, size = [], 0.0
    for turn in range(chosen.times):
        folder = Path(tempfile.mkdtemp())
        without = training(None, chosen.updates)
        saving = training(folder, chosen.updates)
        size = (folder / "training.pt").stat().st_size / 1e6
        shutil.rmtree(folder)
        ratios.append(saving / without - 1)
        print(f"turn {turn + 1}: {without:.1f} s without, {saving:.1f} s with saving: {ratios[-1]:+.1%}")
    cost = statistics.median(ratios)
    print(f"a state of {size:.0f} MB costs {cost:+.1%} of the time (bar: {BAR:.0%})")
    sys.exit(cost > BAR)


if __name__ == "__main__":
    main()
