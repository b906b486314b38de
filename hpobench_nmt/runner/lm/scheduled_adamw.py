"""AdamW whose learning rate follows a schedule over a fixed number of updates.

With u of U updates made, a warm-up of w updates, and the rate r:

    u < w           r (u + 1) / w
    "cosine"        r (f + (1 - f) (1 + cos(pi (u - w) / (U - w))) / 2)     Loshchilov & Hutter 2017
    "wsd"           r, then linearly to f r over the last d U updates       Hu et al. 2024
    "constant"      r

f is the final share. Weight decay is decoupled (Loshchilov & Hutter 2019). It does not act on vectors, which
are biases and the gains of normalisations.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

Decay = Literal["cosine", "wsd", "constant"]


@dataclass(frozen=True)
class RateSchedule:
    """The learning rate of each update.

    Attributes:
        rate: the highest, r.
        updates: of the whole training, U.
        warm_up: share of the updates, w / U.
        decay: the name of the schedule above.
        decay_share: d, of "wsd".
        final_share: f.
    """

    rate: float
    updates: int
    warm_up: float = 0.0
    decay: Decay = "cosine"
    decay_share: float = 0.2
    final_share: float = 0.0

    def at(self, update: int) -> float:
        """The rate of the update after this many updates."""
        warm = round(self.warm_up * self.updates)
        if update < warm:
            return self.rate * (update + 1) / warm
        share = 1.0
        if self.decay == "cosine":
            share = (1 + math.cos(math.pi * (update - warm) / max(self.updates - warm, 1))) / 2
        elif self.decay == "wsd":
            falling = max(self.decay_share * self.updates, 1.0)
            share = min(1.0, (self.updates - update) / falling)
        return self.rate * (self.final_share + (1 - self.final_share) * share)


class ScheduledAdamW:
    """An optimiser for lm/trainer.py; training has converged when the schedule has ended."""

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        schedule: RateSchedule,
        *,
        weight_decay: float,
        beta1: float,
        beta2: float,
        epsilon: float,
    ) -> None:
        self.schedule = schedule
        self.updates = 0
        every = list(parameters)
        groups = [
            {"params": [p for p in every if p.ndim > 1], "weight_decay": weight_decay},
            {"params": [p for p in every if p.ndim < 2], "weight_decay": 0.0},
        ]
        self._adam = torch.optim.AdamW(
            groups, lr=schedule.rate, betas=(beta1, beta2), eps=epsilon, fused=True
        )

    def step(self, scale: float) -> None:
        """One update with the parameters' gradients and `scale` times the learning rate."""
        for group in self._adam.param_groups:
            group["lr"] = self.schedule.at(self.updates) * scale
        self._adam.step()
        self.updates += 1

    def skipped(self) -> None:
        """Count an update that was left out, so that the schedule reaches its end."""
        self.updates += 1

    def evaluated(self) -> AbstractContextManager[None]:
        """The parameters are evaluated as they are."""
        return nullcontext()

    def checked(self, dev_loss: float) -> bool:
        """Whether the schedule has ended; the dev loss changes nothing."""
        return self.updates >= self.schedule.updates

    def state_dict(self) -> dict[str, Any]:
        """Everything that further steps depend on, except the parameters."""
        return {"adam": self._adam.state_dict(), "updates": self.updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from such a state."""
        self._adam.load_state_dict(state["adam"])
        self.updates = state["updates"]
