"""Several processes for one training of Sockeye, each with its own batches and, on GPUs, its own GPU.

The first process starts the others. They meet at a file, so that no port is needed. If one fails, all end.
Otherwise an exchange of gradients would wait many minutes for the missing process.

Sockeye saves the random state and the order of the data of the first process only. Here the others save
theirs as well, so that on CPUs a training that resumes has the same bits as one that was never stopped.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hpobench_nmt.runner.disk.training_log import say

_MEETING = "HPOBENCH_NMT_MEETING"


def rank() -> int:
    """The number of this process among those of its training; the first is 0."""
    return int(os.environ["RANK"]) if _MEETING in os.environ else 0


def join(count: int, first_gpu: int | None, model: Path) -> list[subprocess.Popen[bytes]]:
    """Make this process one of `count` workers of a training. The first starts the others and returns them.

    `first_gpu` is the number of the first worker's GPU; the others have the following GPUs; None: on a CPU.
    """
    if count == 1:
        return []
    import torch

    number = rank()
    os.environ.setdefault(_MEETING, str(model.with_name(f"meeting-{os.getpid()}").resolve()))
    gpu = (first_gpu or 0) + number
    os.environ.update(RANK=str(number), WORLD_SIZE=str(count), LOCAL_RANK=str(gpu))
    torch.distributed.init_process_group = partial(
        torch.distributed.init_process_group,
        init_method=f"file://{os.environ[_MEETING]}",
        rank=number,
        world_size=count,
        # The others wait while the first decodes dev, or stands still because another job measures a time.
        timeout=timedelta(days=7),
        # Sockeye's first exchange comes before it names its GPU. Without this, torch would guess, from 0 on.
        device_id=None if first_gpu is None else torch.device("cuda", gpu),
    )
    if number:
        _keep_own_state(model, number)
        return []
    return [_start(other, model) for other in range(1, count)]


def end_with(others: Sequence[subprocess.Popen[bytes]]) -> threading.Event:
    """End this process as soon as another worker fails, by the same signal if that worker was killed.

    Once the returned event is set, training is over, and it does not matter how the others end.
    """
    over = threading.Event()

    def watch(number: int, other: subprocess.Popen[bytes]) -> None:
        code = other.wait()
        if not code or over.is_set():
            return
        say(f"worker {number} failed with exit code {code}")
        if code == -signal.SIGKILL:
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(1)

    for number, other in enumerate(others, start=1):
        threading.Thread(target=watch, args=(number, other), daemon=True).start()
    return over


def _start(number: int, model: Path) -> subprocess.Popen[bytes]:
    """Run this process's own command as another worker, with a log of its own beside the model."""
    with model.with_name(f"worker-{number}.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, *sys.orig_argv[1:]],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=os.environ | {"RANK": str(number)},
        )


def keep_gpu_state(model: Path) -> None:
    """Make Sockeye's trainer save and load the GPU's random state, which it would otherwise start again."""
    import torch

    trainer: Any = importlib.import_module("sockeye.training").EarlyStoppingTrainer
    save, load = trainer._save_training_state, trainer._load_training_state
    path = model / f"worker-{rank()}.gpu-random"

    def save_state(self: Any, data: Any) -> None:
        path.write_bytes(torch.cuda.get_rng_state().numpy().tobytes())
        save(self, data)

    def load_state(self: Any, data: Any) -> None:
        load(self, data)
        if path.exists():  # not in a checkpoint of an earlier version
            torch.cuda.set_rng_state(torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8))

    trainer._save_training_state, trainer._load_training_state = save_state, load_state


def _keep_own_state(model: Path, number: int) -> None:
    """Make Sockeye's trainer save and load the data's order and random state of a worker after the first."""
    import torch

    trainer: Any = importlib.import_module("sockeye.training").EarlyStoppingTrainer
    save, load = trainer._save_training_state, trainer._load_training_state
    order, generators = model / f"worker-{number}.order", model / f"worker-{number}.random"

    def save_state(self: Any, data: Any) -> None:
        data.save_state(str(order))
        name, words, *rest = np.random.get_state(legacy=True)  # noqa: NPY002  (Sockeye draws from it)
        state = [random.getstate(), [name, np.asarray(words).tolist(), *rest], torch.get_rng_state().tolist()]
        generators.write_text(json.dumps(state), "utf-8")
        save(self, data)  # waits for all workers before the first continues

    def load_state(self: Any, data: Any) -> None:
        own = data.load_state
        data.load_state = lambda name: own(str(order))  # called once: all workers load the data together
        load(self, data)
        (version, words, gauss), numpys, torchs = json.loads(generators.read_text("utf-8"))
        random.setstate((version, tuple(words), gauss))
        np.random.set_state(tuple(numpys))  # noqa: NPY002
        torch.set_rng_state(torch.tensor(torchs, dtype=torch.uint8))

    trainer._save_training_state, trainer._load_training_state = save_state, load_state
