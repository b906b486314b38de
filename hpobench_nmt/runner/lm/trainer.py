"""Training a language model by truncated back-propagation until it no longer improves on dev."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hpobench_nmt.runner.family import TrainingFailed
from hpobench_nmt.runner.lm.language_model import LanguageModel, detach, streams
from hpobench_nmt.runner.lm.softmax import linear_cross_entropy
from hpobench_nmt.runner.lm.static import perplexity, static_nll

Tokens = NDArray[np.int64]

# Dev perplexity during training is read off parallel streams, as is usual; results use a single one.
_DEV_STREAMS = 10


class Optimiser(Protocol):
    """Updates parameters, says which of their values to evaluate, and when training has converged."""

    def step(self, scale: float) -> None:
        """One update with the parameters' gradients and `scale` times the learning rate."""
        ...

    def evaluated(self) -> AbstractContextManager[None]:
        """Inside, the parameters have the values to evaluate, such as averages."""
        ...

    def checked(self, dev_loss: float) -> bool:
        """Take note of the dev loss (nats a token); True: training has converged."""
        ...


@dataclass(frozen=True)
class TrainingSchedule:
    """How the training data is read.

    Attributes:
        batch_size: parallel streams.
        bptt: time steps of an update; the mean where `vary` is set.
        vary: draw the number of steps anew for each update, and scale the learning rate with it.
        clip: largest norm of the gradient; 0: not clipped.
        max_epochs: passes over the training data, at most.
        checks_per_epoch: dev evaluations per pass.
        check_updates: if not 0, dev is evaluated every so many updates instead.
    """

    batch_size: int
    bptt: int
    vary: bool
    clip: float
    max_epochs: int
    checks_per_epoch: int = 1
    check_updates: int = 0


@dataclass(frozen=True)
class TrainingSummary:
    """The course of a training. The model is left with the weights of the best dev loss.

    Attributes:
        curve: at each check, the update's number, epochs passed, dev_ppl, and seconds spent in training.
        updates: made until the end.
        best_update: the update that the weights are from.
        seconds: spent in training, by the clock of `seconds` below, without dev evaluations.
        converged: whether the optimiser ended it, not the limit of epochs.
    """

    curve: tuple[dict[str, float], ...]
    updates: int
    best_update: int
    seconds: float
    converged: bool = True


def seconds(device: torch.device) -> float:
    """A clock: processor time of this process on a CPU, wall clock after pending work on a CUDA device."""
    if device.type == "cpu":
        return time.process_time()
    torch.cuda.synchronize(device)
    return time.perf_counter()


def train(
    model: nn.Module,
    train_tokens: Tokens,
    dev_tokens: Tokens,
    optimiser: Optimiser,
    schedule: TrainingSchedule,
    generator: torch.Generator,
    on_check: Callable[[dict[str, float]], None] = lambda point: None,
) -> TrainingSummary:
    """Train to convergence on dev and keep the best weights. Each check writes a line to stdout, the log.

    Args:
        model: a LanguageModel.
        train_tokens: one stream.
        dev_tokens: one stream.
        optimiser: updates the parameters and says when training has converged.
        schedule: how the data is read.
        generator: on the CPU; draws the lengths of sequences.
        on_check: called with each point of the curve.

    Raises:
        TrainingFailed: the loss is not finite, or the result is no better than a uniform guess.
    """
    lm: LanguageModel = model  # type: ignore[assignment]
    parameters = list(model.parameters())
    device = parameters[0].device
    data = streams(torch.from_numpy(np.array(train_tokens, dtype=np.int64)), schedule.batch_size).to(device)
    if len(data) < 2:
        raise TrainingFailed(f"the training data is too short for a batch size of {schedule.batch_size}")
    every = _check_interval(len(data), schedule)
    curve: list[dict[str, float]] = []
    best, best_update, best_values = math.inf, 0, [p.detach().clone() for p in parameters]
    update, spent, converged = 0, 0.0, False
    started = seconds(device)

    def check(epochs: float) -> bool:
        nonlocal best, best_update, best_values, spent, started
        spent += seconds(device) - started
        with optimiser.evaluated():
            nll = static_nll(lm, dev_tokens, min(_DEV_STREAMS, max(1, len(dev_tokens) // 2)))
            loss = float(nll.mean())
            if not math.isfinite(loss):
                raise TrainingFailed(f"diverged: the dev loss is {loss} after {update} updates")
            if loss < best:
                best, best_update = loss, update
                best_values = [p.detach().clone() for p in parameters]
        point = {"update": update, "epoch": epochs, "dev_ppl": perplexity(nll), "seconds": spent}
        curve.append(point)
        on_check(point)
        sys.stdout.write(_log_line(point, (len(data) - 1) * schedule.batch_size, schedule.max_epochs))
        sys.stdout.flush()  # the process's log can be followed while it trains
        converged = optimiser.checked(loss)
        started = seconds(device)
        return converged

    for epoch in range(schedule.max_epochs):
        state, position, converged = lm.initial_state(schedule.batch_size), 0, False
        model.train()
        while position < len(data) - 1 and not converged:
            steps = min(_length(schedule, generator), len(data) - 1 - position)
            loss, state = _gradient(lm, data[position : position + steps + 1], detach(state))
            if update % 50 == 0 and not math.isfinite(value := float(loss)):
                raise TrainingFailed(f"diverged: the training loss is {value} after {update} updates")
            if schedule.clip:
                nn.utils.clip_grad_norm_(parameters, schedule.clip)
            optimiser.step(steps / schedule.bptt if schedule.vary else 1.0)
            position, update = position + steps, update + 1
            if every and update % every == 0:
                converged = check(epoch + position / (len(data) - 1))
        if not every or (not converged and epoch == schedule.max_epochs - 1 and update % every):
            converged = check(epoch + 1.0)
        if converged:
            break
    spent += seconds(device) - started
    with torch.no_grad():
        for p, best_value in zip(parameters, best_values, strict=True):
            p.copy_(best_value)
    words = len(lm.output_bias)
    if best >= math.log(words):
        ppl = math.exp(min(best, 700.0))
        raise TrainingFailed(f"learned nothing: dev perplexity {ppl:.4g} with {words} words")
    return TrainingSummary(tuple(curve), update, best_update, spent, converged)


def _log_line(point: Mapping[str, float], epoch_tokens: int, max_epochs: int) -> str:
    """A line of a training's log: how far it is, the dev perplexity, its speed and the most time left."""
    epochs, spent = point["epoch"], max(point["seconds"], 1e-9)
    left = spent * (max_epochs / epochs - 1)
    return (
        f"update {point['update']:.0f}, epoch {epochs:.2f} of at most {max_epochs}: dev perplexity "
        f"{point['dev_ppl']:.2f}, {epochs * epoch_tokens / spent:,.0f} tokens/s, at most {left:.0f} s of "
        "training left\n"
    )


def _gradient(model: LanguageModel, piece: Tensor, state: object) -> tuple[Tensor, object]:
    """Loss and state of a piece, shape (steps + 1, batch); the gradients are left in the parameters."""
    for p in model.parameters():
        p.grad = None
    hidden, state = model(piece[:-1], state)
    flat = hidden.reshape(-1, hidden.shape[-1])
    loss = linear_cross_entropy(flat, model.output_weight, model.output_bias, piece[1:].reshape(-1))
    total = loss + model.regularisation()
    total.backward()
    return loss.detach(), state


def _length(schedule: TrainingSchedule, generator: torch.Generator) -> int:
    """Time steps of the next update: mostly near bptt, one time in twenty near half of it."""
    if not schedule.vary:
        return schedule.bptt
    half = float(torch.rand((), generator=generator)) >= 0.95
    mean = schedule.bptt / 2 if half else float(schedule.bptt)
    drawn = int(mean + 5.0 * float(torch.randn((), generator=generator)))
    return max(min(5, schedule.bptt), drawn)


def _check_interval(steps: int, schedule: TrainingSchedule) -> int:
    """Updates between checks; 0: one at the end of each epoch."""
    if schedule.check_updates:
        return schedule.check_updates
    if schedule.checks_per_epoch == 1:
        return 0
    return max(1, round((steps - 1) / schedule.bptt / schedule.checks_per_epoch))
