"""The cost of saving the state of a training, and the loss of time when the training is killed.

    pip install 'hpobench-nmt[train]'
    python benchmarks/faults/checkpoints.py [--updates 120] [--kills 4]

An AWD-LSTM with a state of about 60 MB is trained on random words. The cost is the wall-clock time of saving,
divided by that of the whole training. A state is saved every 30 seconds, and less often if that would take
over a fiftieth of the time. Bar: 3%. Then trainings that save every 3 seconds are killed at random times. The
loss is the training time between the saved state and the kill. Bar: one interval between two states, plus the
update and the saving in which the training was killed. Runs on Linux and macOS, for some minutes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from hpobench_nmt.runner.lm.awd_lstm_model import AWDLSTM
from hpobench_nmt.runner.lm.awd_lstm_settings import ModelSettings
from hpobench_nmt.runner.lm.ntasgd import NTASGD
from hpobench_nmt.runner.lm.schedule import TrainingSchedule
from hpobench_nmt.runner.lm.trainer import train
from hpobench_nmt.runner.torch_training.training_state import _MOST_TIME, Checkpoints, StateFile

BAR = 0.03
WORDS = 10_000
SCHEDULE = TrainingSchedule(batch_size=20, bptt=35, vary=False, clip=0.25, max_epochs=1)
SECONDS = 3.0  # between two states of trainings that are killed


def training(checkpoints: Checkpoints, updates: int, times: Any = None) -> None:
    """Train for this many updates; `times` receives the wall-clock time after each update."""
    rng = np.random.default_rng(0)
    tokens = rng.zipf(1.3, size=20 * (35 * updates + 1)) % WORDS
    settings = ModelSettings(
        layers=2, embedding_size=400, hidden_size=600, alpha=0.0, beta=0.0, weight_drop=0.0,
        dropout_input=0.0, dropout_hidden=0.0, dropout_output=0.0, dropout_embedding=0.0,
    )  # fmt: skip
    model = AWDLSTM(WORDS, settings, torch.Generator().manual_seed(1))
    optimiser = NTASGD(
        list(model.parameters()), learning_rate=1.0, weight_decay=0.0, averaging_window=5, patience=5
    )
    made, step = [0], optimiser.step

    def counting(scale: float) -> None:
        step(scale)
        made[0] += 1
        if times is not None:
            times[made[0]] = time.monotonic()

    optimiser.step = counting  # type: ignore[method-assign]
    train(model, tokens, tokens[:2000], optimiser, SCHEDULE, torch.Generator().manual_seed(1), checkpoints)


def cost(updates: int) -> float:
    """The share of a training's time that saving its state takes."""
    spent: list[float] = []
    write = StateFile.write

    def timed(file: StateFile, state: Any) -> None:
        started = time.perf_counter()
        write(file, state)
        spent.append(time.perf_counter() - started)

    with tempfile.TemporaryDirectory() as folder, mock.patch.object(StateFile, "write", timed):
        started = time.perf_counter()
        training(Checkpoints(Path(folder)), updates)
        whole = time.perf_counter() - started
        size = (Path(folder) / "training.pt").stat().st_size / 1e6
    share = sum(spent) / whole
    print(
        f"{len(spent)} states of {size:.0f} MB took {sum(spent):.2f} of {whole:.0f} s: {share:.2%}", end=" "
    )
    print(f"of the time (bar: {BAR:.0%})", flush=True)
    return share


def lost(rng: np.random.Generator) -> tuple[float, float]:
    """Seconds of training that a kill has cost, and the most that it may cost."""
    processes = multiprocessing.get_context("fork")
    updates = 10_000
    times = processes.Array("d", updates, lock=False)
    slowest = processes.Value("d", 0.0)
    write = StateFile.write

    def timed(file: StateFile, state: Any) -> None:
        started = time.monotonic()
        write(file, state)
        slowest.value = max(slowest.value, time.monotonic() - started)

    with tempfile.TemporaryDirectory() as folder, mock.patch.object(StateFile, "write", timed):
        checkpoints = Checkpoints(Path(folder), seconds=SECONDS)
        child = processes.Process(target=training, args=(checkpoints, updates, times))
        child.start()
        state = Path(folder) / "training.pt"
        while not state.exists():
            time.sleep(0.1)
        time.sleep(rng.uniform(0, 8 * SECONDS))
        child.kill()
        killed = time.monotonic()
        child.join()
        update = torch.load(state, weights_only=True)["state"]["course"]["update"]
        part = state.with_name("training.pt.part").exists()
    done = np.array(times[1:])
    done = done[done > 0]
    interval = max(SECONDS, _MOST_TIME * slowest.value)
    most = interval + slowest.value + float(np.diff(done).max())
    lost = killed - done[update - 1]
    print(f"killed after update {len(done)}, the state was of {update}{' (in saving)' * part}:", end=" ")
    print(f"{lost:.1f} s lost; an interval is {interval:.1f} s", flush=True)
    return lost, most


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--updates", type=int, default=120)
    parser.add_argument("--kills", type=int, default=4)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    rng = np.random.default_rng()
    met = cost(chosen.updates) <= BAR
    for _ in range(chosen.kills):
        seconds, most = lost(rng)
        met &= seconds <= most
    sys.exit(not met)


if __name__ == "__main__":
    main()
