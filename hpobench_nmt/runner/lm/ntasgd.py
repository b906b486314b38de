"""NT-ASGD: gradient descent that starts averaging when it stops making progress (Merity et al. 2018)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor, nn

from hpobench_nmt.runner.lm.optimiser import Optimiser
from hpobench_nmt.runner.torch_training.loop import copies, put, swapped


@dataclass(eq=False)
class NTASGD(Optimiser):
    """Plain gradient descent until the dev loss stops improving, and then the average over all further steps.

    Averaging starts at the first check whose dev loss is worse than the best loss that is more than
    `averaging_window` checks old. Later checks evaluate the averaged weights, which improve more and more
    slowly. This pass ends after `patience` checks in a row without an improvement of `min_improvement`.

    Then training ends or, with `fine_tune`, there is a second pass (Merity et al. 2018). It begins with the
    weights of the best dev loss. These are averages, unless plain descent had a better loss. The second pass
    averages from its first step. It ends at the first check whose dev loss is worse than the best loss of
    this pass that is more than `averaging_window` checks old.

    The learning rate is that of a full-length sequence. The weight decay (L2) is added to the gradient. The
    improvement is in nats per token.
    """

    optimizers = MappingProxyType[str, torch.optim.Optimizer]({})  # plain descent has no state
    kept = ("_losses", "_averages", "_averaged", "_to_beat", "_waited", "_best")

    parameters: list[nn.Parameter]
    learning_rate: float
    weight_decay: float
    averaging_window: int
    patience: int
    min_improvement: float = 0.0
    fine_tune: bool = False

    def __post_init__(self) -> None:
        self._descent = torch.optim.SGD(self.parameters, self.learning_rate, weight_decay=self.weight_decay)
        self._losses: list[float] = []
        self._averages: list[Tensor] | None = None
        self._averaged = self._waited = 0
        self._to_beat = math.inf
        self._best: list[Tensor] = []

    @property
    def _second_pass(self) -> bool:
        """Whether the model is being fine-tuned. Then the loss to beat is -inf, which no loss can beat."""
        return self._to_beat == -math.inf

    def step(self, scale: float) -> None:
        """One update with the parameters' gradients and `scale` times the learning rate."""
        for group in self._descent.param_groups:
            group["lr"] = self.learning_rate * scale
        self._descent.step()
        if self._averages is not None:
            self._averaged += 1
            with torch.no_grad():
                torch._foreach_lerp_(self._averages, tuple(self.parameters), 1.0 / self._averaged)

    @contextmanager
    def evaluated(self) -> Iterator[None]:
        """Inside, the parameters have the values to evaluate: the averages, once there are any."""
        if self._averages is None or not self._averaged:
            yield
        else:
            with swapped(self.parameters, self._averages):
                yield

    def checked(self, dev_loss: float) -> bool:
        """Record the dev loss. Returns whether training has converged."""
        window = self.averaging_window
        worse = len(self._losses) > window and dev_loss > min(self._losses[: -window or None])
        if self._second_pass:
            self._losses.append(dev_loss)
            return worse
        if self.fine_tune and dev_loss < min(self._losses, default=math.inf):
            with self.evaluated():
                self._best = copies(self.parameters)
        if self._averages is not None:
            improved = dev_loss < self._to_beat - self.min_improvement
            self._to_beat = dev_loss if improved else self._to_beat
            self._waited = 0 if improved else self._waited + 1
        elif worse:
            self._averages = copies(self.parameters)
            self._to_beat = min(self._losses)
        self._losses.append(dev_loss)
        if self._waited < self.patience:
            return False
        if self.fine_tune:
            put(self.parameters, self._best)
            self._to_beat, self._averaged, self._losses, self._best = -math.inf, 0, [], []
        return not self._second_pass
