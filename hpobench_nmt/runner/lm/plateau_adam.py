"""Adam with a learning rate that drops when dev stops improving (Melis et al. 2018, section 4)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import nn

from hpobench_nmt.runner.corpora import TextCorpus
from hpobench_nmt.runner.lm.trainer import TrainingSchedule, TrainingSummary, train
from hpobench_nmt.runner.lm.training_state import Checkpoints


@dataclass(frozen=True)
class AdamSettings:
    """Settings of Adam and of the steps of its learning rate.

    Attributes:
        learning_rate: to begin with.
        beta1: of the mean of the gradients; 0: the last gradient alone.
        beta2: of the mean of the squared gradients.
        epsilon: added to its root.
        weight_decay: L2, times the parameters, added to the gradient of the mean loss per token.
        patience: checks in a row without the best dev loss so far, before the learning rate drops.
        drop: factor of the learning rate at a drop.
        drops: how often it drops; training ends when it would drop once more.
    """

    learning_rate: float
    beta1: float
    beta2: float
    epsilon: float
    weight_decay: float
    patience: int
    drop: float
    drops: int


class PlateauAdam:
    """An optimiser for lm/trainer.py: Adam, slower by a factor each time that dev is at a plateau."""

    def __init__(self, parameters: Iterable[nn.Parameter], settings: AdamSettings) -> None:
        self.settings = settings
        self.learning_rate = settings.learning_rate
        # A single pass over the parameters in place of ten.
        self._adam = torch.optim.Adam(
            parameters,
            lr=settings.learning_rate,
            betas=(settings.beta1, settings.beta2),
            eps=settings.epsilon,
            weight_decay=settings.weight_decay,
            fused=True,
        )
        self._best = math.inf
        self._waited = self._dropped = 0

    def step(self, scale: float) -> None:
        """One update with the parameters' gradients and `scale` times the learning rate."""
        for group in self._adam.param_groups:
            group["lr"] = self.learning_rate * scale
        self._adam.step()

    def evaluated(self) -> AbstractContextManager[None]:
        """The parameters are evaluated as they are."""
        return nullcontext()

    def checked(self, dev_loss: float) -> bool:
        """Take note of the dev loss; True: training has converged."""
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
        """All that the next steps depend on beside the parameters."""
        return {"adam": self._adam.state_dict()} | {name: getattr(self, name) for name in _STATE}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from such a state."""
        self._adam.load_state_dict(state["adam"])
        for name in _STATE:
            setattr(self, name, state[name])


_STATE = ("learning_rate", "_best", "_waited", "_dropped")


def train_with_adam(
    model: nn.Module,
    corpus: TextCorpus,
    settings: Mapping[str, Any],
    seed: int,
    checkpoints: Checkpoints | None = None,
) -> TrainingSummary:
    """Train a model on a corpus until Adam's learning rate has dropped for the last time.

    Args:
        model: a LanguageModel; left with the best weights by dev loss.
        corpus: to train on.
        settings: those of AdamSettings, and batch_size, bptt, clip, max_epochs, check_updates, accumulate
            and precision.
        seed: of what the training draws, beside the model's masks.
        checkpoints: where and when to save the state, and whether to pause; None: neither.

    Raises:
        TrainingFailed: it diverged or learned nothing.
    """
    chosen = AdamSettings(**{field.name: settings[field.name] for field in fields(AdamSettings)})
    schedule = TrainingSchedule(
        batch_size=settings["batch_size"],
        bptt=settings["bptt"],
        vary=False,
        clip=settings["clip"],
        max_epochs=settings["max_epochs"],
        check_updates=settings["check_updates"],
        accumulate=settings["accumulate"],
        precision=settings["precision"],
    )
    generator = torch.Generator().manual_seed(seed)
    optimiser = PlateauAdam(model.parameters(), chosen)
    return train(model, corpus.train, corpus.dev, optimiser, schedule, generator, checkpoints)
