"""How a language model's training reads its data: streams, time steps, passes, and checks on dev."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from hpobench_nmt.runner.settings import values_of


@dataclass(frozen=True)
class TrainingSchedule:
    """How the training data is read and learned from.

    Attributes:
        batch_size: parallel streams of a batch.
        bptt: time steps of an update; their mean if `vary` is set.
        vary: whether the number of steps is drawn for each update, and the learning rate is scaled with it.
        clip: largest norm of the gradient; 0: not clipped.
        max_epochs: largest number of passes over the training data; 0: any number.
        max_updates: largest number of updates; 0: any number.
        checks_per_epoch: dev evaluations per pass.
        check_updates: updates between dev evaluations; 0: checks_per_epoch decides.
        accumulate: batches of different streams that are read one after the other for an update. The mean of
            their gradients equals the gradient of one batch of all streams, except that each batch draws its
            own masks.
        precision: of matrix products, "fp32", "tf32", "bf16" or "fp16" (precision.py). Dev is evaluated in
            fp32.
        compile: whether the time steps of recurrent cells are compiled (scanned_cells.py).
        windows: whether each pass begins at a random step below bptt and reads only whole sequences, so that
            all updates have the same number of tokens and each pass cuts the data at other places.
        dev_streams: streams that dev is cut into at a check, which is faster but changes its loss a little.
    """

    batch_size: int
    bptt: int
    vary: bool
    clip: float
    max_epochs: int = 0
    max_updates: int = 0
    checks_per_epoch: int = 1
    check_updates: int = 0
    accumulate: int = 1
    precision: str = "fp32"
    compile: bool = False
    windows: bool = False
    dev_streams: int = 10

    @property
    def streams(self) -> int:
        """Parallel streams of an update."""
        return self.batch_size * self.accumulate

    def done(self, update: int, epochs: float) -> float:
        """The share of the longest possible training that is complete after that many updates and passes."""
        return update / self.max_updates if self.max_updates else epochs / self.max_epochs


def draw_length(schedule: TrainingSchedule, generator: torch.Generator) -> int:
    """Time steps of the next update: mostly near bptt, and one time in twenty near half of it."""
    if not schedule.vary:
        return schedule.bptt
    half = float(torch.rand((), generator=generator)) >= 0.95
    mean = schedule.bptt / 2 if half else float(schedule.bptt)
    drawn = int(mean + 5.0 * float(torch.randn((), generator=generator)))
    return max(min(5, schedule.bptt), drawn)


def check_interval(steps: int, schedule: TrainingSchedule) -> int:
    """Updates between checks; 0: one at the end of each epoch."""
    if schedule.check_updates:
        return schedule.check_updates
    if schedule.checks_per_epoch == 1:
        return 0
    return max(1, round((steps - 1) / schedule.bptt / schedule.checks_per_epoch))


def schedule_of(settings: Any, **others: Any) -> TrainingSchedule:
    """The schedule with the settings of a training that have the names of its fields, and other values."""
    return TrainingSchedule(**values_of(TrainingSchedule, settings) | others)
