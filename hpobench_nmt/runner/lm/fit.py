"""Builds a language model from its settings, trains it, and leaves it with its best weights."""

from __future__ import annotations

from typing import Any

import torch

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.corpora import TextCorpus
from hpobench_nmt.runner.family import Architecture, S, TrainingFailed
from hpobench_nmt.runner.lm.trainer import train
from hpobench_nmt.runner.torch_training.loop import TrainingSummary
from hpobench_nmt.runner.torch_training.repeatable import seeds_of, set_up
from hpobench_nmt.runner.torch_training.training_state import Checkpoints


def fit(
    architecture: Architecture[S],
    settings: S,
    corpus: TextCorpus,
    seed: int,
    device: str,
    checkpoints: Checkpoints | None = None,
) -> tuple[Any, TrainingSummary]:
    """A trained model and the summary of its training. The checkpoints say where its state is saved.

    Raises TrainingFailed if no model has these settings, or if it diverged or learned nothing.
    """
    where = set_up(device)
    of_model, of_data = seeds_of(seed)
    generator = torch.Generator(where).manual_seed(of_model)
    try:
        model = architecture.build(settings, len(corpus.vocabulary), corpus.unit, generator)
    except InputError as error:
        raise TrainingFailed(str(error)) from error
    optimiser, schedule = architecture.course(settings, corpus.unit, model)
    lengths = torch.Generator().manual_seed(of_data)
    return model, train(model, corpus.train, corpus.dev, optimiser, schedule, lengths, checkpoints)
