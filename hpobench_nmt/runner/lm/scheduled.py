"""Optimizers whose learning rate follows a schedule over a fixed number of updates.

With u of U updates made, a warm-up of w updates, and the rate r:

    u < w           r (u + 1) / w
    "cosine"        r (f + (1 - f) (1 + cos(pi (u - w) / (U - w))) / 2)     Loshchilov & Hutter 2017
    "wsd"           r, then linearly to f r over the last d U updates       Hu et al. 2024
    "constant"      r

f is the final share. Weight decay is decoupled (Loshchilov & Hutter 2019). sgd has `l2` instead, which is
added to the gradient. Neither acts on vectors, which are biases and the gains of normalisations.

    adamw       Loshchilov & Hutter 2019
    sgd         with Nesterov's momentum
    muon        Jordan et al. 2024, for hidden matrices; adamw for embeddings and vectors
    adafactor   Shazeer & Stern 2018
    lion        Chen et al. 2023
    soap        Vyas et al. 2024, with bases of sides up to 512
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.lm.optimiser import Optimiser
from hpobench_nmt.runner.lm.settings import OptimizerName, OptimizerSettings
from hpobench_nmt.runner.torch_training.loop import adam_options, matrices_and_vectors

USUAL_RATES: Mapping[OptimizerName, float] = {
    "adamw": 0.04,
    "sgd": 2.0,
    "muon": 0.03,
    "adafactor": 0.1,
    "lion": 0.002,
    "soap": 0.02,
}
"""Learning rates of which `relative_rate` is a multiple: about the best of a small LSTM."""


def rate_at(settings: OptimizerSettings, highest: float, updates: int, update: int) -> float:
    """The learning rate after `update` updates of U = `updates` in all, with r = `highest`."""
    warm = round(settings.warm_up * updates)
    if update < warm:
        return highest * (update + 1) / warm
    share = 1.0
    if settings.decay == "cosine":
        share = (1 + math.cos(math.pi * (update - warm) / max(updates - warm, 1))) / 2
    elif settings.decay == "wsd":
        falling = max(settings.decay_share * updates, 1.0)
        share = min(1.0, (updates - update) / falling)
    return highest * (settings.final_share + (1 - settings.final_share) * share)


def scheduled(settings: Any, model: nn.Module, updates: int) -> Scheduled:
    """The optimizer that settings name, for a training of that many updates.

    The settings have the fields of OptimizerSettings, optimizer, learning_rate and weight_decay. Embeddings
    are the matrices of the model itself; all other matrices belong to its layers. Raises InputError if a
    package is missing.
    """
    every = list(model.parameters())
    decay, rate = settings.weight_decay, settings.learning_rate
    if settings.relative_rate:
        rate = settings.relative_rate * USUAL_RATES[settings.optimizer]
    matrices, vectors = matrices_and_vectors(every, decay)
    adam = adam_options(settings, rate)
    made: dict[str, torch.optim.Optimizer]
    match settings.optimizer:
        case "sgd":
            momentum = settings.momentum
            matrices["weight_decay"] = settings.l2
            made = {"sgd": torch.optim.SGD([matrices, vectors], rate, momentum, nesterov=momentum > 0)}
        case "muon":
            outer = [p for p in model.parameters(recurse=False) if p.ndim > 1]
            hidden = [p for p in every if p.ndim > 1 and all(p is not other for other in outer)]
            share = {"share": settings.adam_rate}
            made = {
                "muon": torch.optim.Muon(hidden, rate, decay, settings.momentum, ns_steps=settings.ns_steps),
                "adam": torch.optim.AdamW([matrices | share | {"params": outer}, vectors | share], **adam),
            }
        case "adafactor":
            made = {"adafactor": torch.optim.Adafactor([matrices, vectors], rate)}
        case "lion":
            made = {"lion": _library().Lion([matrices, vectors], rate, adam["betas"])}
        case "soap":
            own = {"precondition_frequency": settings.frequency, "max_precondition_dim": 512}
            made = {"soap": _library().SOAP([matrices, vectors], **adam, **own)}
        case _:
            made = {"adam": torch.optim.AdamW([matrices, vectors], **adam, fused=True)}
    return Scheduled(made, partial(rate_at, settings, rate, updates), updates)


def _library() -> Any:
    try:
        import pytorch_optimizer
    except ImportError:
        install = "pip install 'hpobench-nmt[optimizers]'"
        raise InputError(f"the optimizers lion and soap need a package: {install}") from None
    return pytorch_optimizer


class Scheduled(Optimiser):
    """Optimizers whose learning rate follows a schedule. Training has converged when it has ended."""

    kept = ("updates",)

    def __init__(
        self, optimizers: Mapping[str, torch.optim.Optimizer], rates: Callable[[int], float], total: int
    ) -> None:
        self.optimizers, self.rates, self.total, self.updates = optimizers, rates, total, 0

    @property
    def rate(self) -> float:
        """The schedule's rate of the next update."""
        return self.rates(self.updates)

    def step(self, scale: float) -> None:
        """See Optimiser."""
        super().step(scale)
        self.updates += 1

    def skipped(self) -> None:
        """Count an update that was left out, so that the schedule reaches its end."""
        self.updates += 1

    def checked(self, dev_loss: float) -> bool:
        """Whether the schedule has ended; the dev loss changes nothing."""
        return self.updates >= self.total
