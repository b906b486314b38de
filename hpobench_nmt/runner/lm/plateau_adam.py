"""Adam with a learning rate that drops when dev stops improving (Melis et al. 2018, section 4)."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import nn

from hpobench_nmt.runner.lm.optimiser import Optimiser
from hpobench_nmt.runner.lm.settings import PlateauSettings
from hpobench_nmt.runner.torch_training.loop import adam_options


class PlateauAdam(Optimiser):
    """Adam, whose learning rate drops each time dev reaches a plateau."""

    kept = ("learning_rate", "_best", "_waited", "_dropped")

    def __init__(self, parameters: Iterable[nn.Parameter], settings: PlateauSettings) -> None:
        self.settings = settings
        self.learning_rate = settings.learning_rate
        # Fused Adam makes one pass over the parameters instead of ten.
        options = adam_options(settings, settings.learning_rate)
        adam = torch.optim.Adam(parameters, **options, weight_decay=settings.weight_decay, fused=True)
        self.optimizers = {"adam": adam}
        self._best = math.inf
        self._waited = self._dropped = 0

    @property
    def rate(self) -> float:
        """The learning rate after the drops so far."""
        return self.learning_rate

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
