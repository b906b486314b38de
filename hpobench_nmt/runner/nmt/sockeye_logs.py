"""Reads Sockeye's metrics file and the log of a training. Both are text; nothing is unpickled."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hpobench_nmt.runner.family import TrainingFailed

_CHECKPOINT = re.compile(r"Checkpoint \[(\d{1,15})\]\s+Updates=(\d{1,15})\b")
_PARAMETERS = re.compile(r"# of parameters: \d+ \| trainable: (\d{1,15})\b")


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint of a training, numbered from 1.

    Attributes:
        perplexity: on dev, per subword; NaN or infinite where training diverged.
        gpu_memory: peak memory of the tensors on the GPU so far, in MB; 0 without a GPU.
        diverged: Sockeye's verdict: perplexity not finite, or over twice that of a uniform guess.
        converged: Sockeye's verdict: no improvement for as long as its patience.
    """

    number: int
    update: int
    perplexity: float
    gpu_memory: float
    diverged: bool
    converged: bool


def read_checkpoints(metrics: str, log: str) -> list[Checkpoint]:
    """The checkpoints of a training, from its metrics file and its log (which has the updates).

    Raises TrainingFailed if there is no checkpoint, or a checkpoint without one of the values.
    """
    updates = {int(number): int(update) for number, update in _CHECKPOINT.findall(log)}
    checkpoints = []
    for line in metrics.splitlines():
        first, *rest = line.split("\t")
        try:
            values = dict(item.split("=", 1) for item in rest)
            number = int(first)
            update, perplexity = updates[number], float(values["perplexity-val"])
            memory = float(values["max-gpu-memory"]) / 1e6
            diverged, converged = (values[verdict] == "True" for verdict in ("diverged", "converged"))
            checkpoints.append(Checkpoint(number, update, perplexity, memory, diverged, converged))
        except (KeyError, ValueError) as error:
            raise TrainingFailed(f"Sockeye's metrics file can't be read ({error}): {line[:200]}") from None
    if not checkpoints:
        raise TrainingFailed("training ended before its first checkpoint.")
    return checkpoints


def read_parameter_count(log: str) -> int:
    """Number of trained parameters. Tied ones count once; the fixed encoding of positions does not count."""
    found = _PARAMETERS.search(log)
    if not found:
        raise TrainingFailed("Sockeye's log does not tell the number of parameters.")
    return int(found[1])
