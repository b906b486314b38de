"""What the optimisers of language models have in common."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch


class Optimiser:
    """Updates parameters, and decides which of their values to evaluate and when training has converged.

    Attributes:
        optimizers: torch's optimizers by their names in a state, each with some of the parameters. Their
            groups may have a `share` of the learning rate.
        kept: the names of the attributes that a state has as well.
    """

    optimizers: Mapping[str, torch.optim.Optimizer]
    kept: tuple[str, ...]

    @property
    def rate(self) -> float:
        """The learning rate of the next update."""
        raise NotImplementedError

    def step(self, scale: float) -> None:
        """One update with the parameters' gradients and `scale` times the learning rate."""
        rate = self.rate * scale
        for optimizer in self.optimizers.values():
            for group in optimizer.param_groups:
                group["lr"] = rate * group.get("share", 1.0)
            optimizer.step()

    def skipped(self) -> None:
        """An update was left out, because its gradients overflowed in 16 bits."""

    def evaluated(self) -> AbstractContextManager[None]:
        """Inside, the parameters have the values to evaluate, such as averages. By default, their own."""
        return nullcontext()

    def checked(self, dev_loss: float) -> bool:
        """Record the dev loss (nats per token). Returns whether training has converged."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """All that further steps depend on, except the parameters: numbers, tensors, lists and dicts."""
        states = {name: optimizer.state_dict() for name, optimizer in self.optimizers.items()}
        return states | {name: getattr(self, name) for name in self.kept}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from such a state."""
        for name, optimizer in self.optimizers.items():
            optimizer.load_state_dict(state[name])
        for name in self.kept:
            setattr(self, name, state[name])
