"""Adam with a learning rate that drops when dev stops improving (Melis et al. 2018, section 4)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn

from hpobench_nmt.runner.lm.settings import PlateauSettings
from hpobench_nmt.runner.torch_training.loop import adam_options


class PlateauAdam:
    """An optimiser for lm/trainer.py: Adam, whose learning rate drops each time dev reaches a plateau."""

    def __init__(self, parameters: Iterable[nn.Parameter], settings: PlateauSettings) -> None:
        self.settings = settings
        self.learning_rate = settings.learning_rate
        # Fused Adam makes one pass over the parameters instead of ten.
        options = adam_options(settings, settings.learning_rate)
        self._adam = torch.optim.Adam(parameters, **options, weight_decay=settings.weight_decay, fused=True)
        self._best = math.inf
        self._waited = self._dropped = 0

    def step(self, scale: float) -> None:
        """One update with the parameters' gradients and `scale` times the learning rate."""
        for group in self._adam.param_groups:
            group["lr"] = self.learning_rate * scale
        self._adam.step()

    def skipped(self) -> None:
        """Nothing depends on the number of updates that were left out."""

    def evaluated(self) -> AbstractContextManager[None]:
        """The parameters are evaluated as they are."""
        return nullcontext()

    def checked(self, dev_loss: float) -> bool:
        """Record the dev loss. Returns whether training has converged."""
        if dev_loss < self._best:
            self._best, self._waited = dev_loss, 0
            return False
        self._waited += 1
        if self._waited < self.settings.patience:
            return False
        if self._dropped == self.settings.drops:
            return True
        self._dropped, self._waited = self._dropped + 1, 0
        self.learning_rate *= self.settings.drop
        return False

    def state_dict(self) -> dict[str, Any]:
        """Everything that further steps depend on, except the parameters."""
        return {"adam": self._adam.state_dict()} | {name: getattr(self, name) for name in _STATE}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from such a state."""
        self._adam.load_state_dict(state["adam"])
        for name in _STATE:
            setattr(self, name, state[name])


_STATE = ("learning_rate", "_best", "_waited", "_dropped")
