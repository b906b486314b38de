"""The gradient of an update, computed kernel by kernel or, on a GPU, as one CUDA graph.

The kernels of a small model finish faster than the processor can launch the next ones. A graph holds all
kernels of an update and is launched as a whole. Each replay repeats them with other tokens and other masks.
All sequences must have the same length and no state, as in a training that reads windows (schedule.py), and
the model may draw only from its generator, on the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from hpobench_nmt.runner.lm.language_model import LanguageModel
from hpobench_nmt.runner.lm.softmax import linear_cross_entropy
from hpobench_nmt.runner.torch_training.precision import products_in

_WARM_UP = 3  # updates after which torch's libraries are initialised


def gradient(
    model: LanguageModel, piece: Tensor, states: Sequence[Any], precision: str, scaler: torch.amp.GradScaler
) -> tuple[Tensor, tuple[Any, ...]]:
    """Mean loss of the batches of an update, and the states after them. Gradients are left in the parameters.

    Args:
        model: in training mode.
        piece: the batches side by side, shape (steps + 1, streams).
        states: before each batch.
        precision: of matrix products.
        scaler: of the loss; the gradients are left scaled.
    """
    for p in model.parameters():
        p.grad = None
    losses, after = [], []
    for batch, state in zip(piece.chunk(len(states), 1), states, strict=True):
        with products_in(precision, piece.device):
            hidden, state = model(batch[:-1], state)
            flat = hidden.reshape(-1, hidden.shape[-1])
            loss = linear_cross_entropy(flat, model.output_weight, model.output_bias, batch[1:].reshape(-1))
            total = (loss + model.regularisation()) / len(states)
        scaler.scale(total).backward()
        losses.append(loss.detach())
        after.append(state)
    return torch.stack(losses).mean(), tuple(after)


class GraphedGradient:
    """`gradient` as a CUDA graph, for pieces of one shape whose batches begin with the same state.

    Results have the same bits in each run. Gradients stay in the same memory, which belongs to the graph.
    """

    def __init__(
        self, model: Any, piece: Tensor, states: Sequence[Any], precision: str, scaler: torch.amp.GradScaler
    ) -> None:
        self._piece = piece.clone()
        self._graph = torch.cuda.CUDAGraph()
        given = model, self._piece, states, precision, scaler
        masks = model.generator.get_state()
        side = torch.cuda.Stream(piece.device)
        side.wait_stream(torch.cuda.current_stream(piece.device))
        with torch.cuda.stream(side):
            for _ in range(_WARM_UP):
                gradient(*given)
        torch.cuda.current_stream(piece.device).wait_stream(side)
        model.generator.set_state(masks)  # as if nothing had been drawn
        self._graph.register_generator_state(model.generator)
        with torch.cuda.graph(self._graph):
            self._loss, _ = gradient(*given)

    def __call__(self, piece: Tensor) -> Tensor:
        """Mean loss of the batches; gradients are left in the parameters."""
        self._piece.copy_(piece)
        self._graph.replay()
        return self._loss
