"""The gradient of an update, computed kernel by kernel or, on a GPU, as CUDA graphs, one for each shape.

The kernels of a small model finish faster than the processor can launch the next ones. A graph launches all
kernels of a batch as a whole, but it has one shape. Batches on a GPU are therefore padded to a few dozen
shapes. Padding changes no sum, because it has no loss and nothing attends to it. A shape is computed kernel
by kernel when it first occurs, and is captured the second time. Results have the same bits in each run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.amp import GradScaler

from hpobench_nmt.core.arrays import Ints
from hpobench_nmt.runner.nmt.marian_batches import PaddedBatch, batch_of, padded_batch
from hpobench_nmt.runner.nmt.marian_model import loss, padded_loss, trained
from hpobench_nmt.runner.nmt.marian_numbers import Pairs
from hpobench_nmt.runner.nmt.marian_settings import MarianSettings
from hpobench_nmt.runner.torch_training.precision import products_in, rounded_products
from hpobench_nmt.runner.torch_training.repeatable import repeatable


class Gradients:
    """Gradients of a model's batches, added up in its parameters.

    Args:
        pairs: the training data.
        scaler: of the loss; the gradients are left scaled.
        graphs: whether to use CUDA graphs on a GPU. Without them the bits are the same.
    """

    def __init__(
        self, model: Any, pairs: Pairs, settings: MarianSettings, scaler: GradScaler, graphs: bool = True
    ) -> None:
        self._model, self._parameters, self._pairs = model, trained(model), pairs
        self._smoothing, self._precision = settings.label_smoothing, settings.precision
        self._scaler, self._device = scaler, self._parameters[0].device
        graphs = graphs and self._device.type == "cuda"
        self._graphed = _Graphed(self._padded, self._parameters) if graphs else None

    def clear(self) -> None:
        """Begin an update."""
        if self._graphed is None:
            for p in self._parameters:
                p.grad = None
        else:
            self._graphed.clear()

    def add(self, chosen: Ints, words: int) -> Tensor:
        """Add the gradient of a batch's loss over `words`; return that loss, a scalar.

        Args:
            chosen: the numbers of its pairs.
        """
        if self._device.type == "cpu":
            batch = batch_of(self._pairs, chosen, self._device)
            return self._backward(lambda: loss(self._model, batch, self._smoothing) / words)
        given = padded_batch(self._pairs, chosen, words, self._device)
        return self._graphed(given) if self._graphed else self._padded(given)

    def _padded(self, batch: PaddedBatch) -> Tensor:
        return self._backward(lambda: padded_loss(self._model, batch, self._smoothing))

    def _backward(self, computed: Callable[[], Tensor]) -> Tensor:
        with rounded_products(self._precision, self._device):
            with products_in(self._precision, self._device):
                mean = computed()
            with repeatable(self._device):
                self._scaler.scale(mean).backward()
        return mean.detach()


class _Graphed:
    """A function that adds to the parameters' gradients, as one CUDA graph for each shape of batch."""

    def __init__(self, function: Callable[[PaddedBatch], Tensor], parameters: Sequence[nn.Parameter]) -> None:
        self._function = function
        self._graphs: dict[tuple[int, ...], tuple[torch.cuda.CUDAGraph, PaddedBatch, Tensor] | None] = {}
        self._gradients = [torch.zeros_like(p) for p in parameters]
        for p, gradient in zip(parameters, self._gradients, strict=True):
            p.grad = gradient
        device = parameters[0].device
        # Gradients must be added up in the stream in which graphs are captured.
        self._stream, self._memory = torch.cuda.Stream(device), torch.cuda.graph_pool_handle()

    def clear(self) -> None:
        torch._foreach_zero_(self._gradients)  # graphs write to this memory

    def __call__(self, batch: PaddedBatch) -> Tensor:
        here = torch.cuda.current_stream(self._stream.device)
        self._stream.wait_stream(here)
        with torch.cuda.stream(self._stream):
            found = self._found(batch)
        here.wait_stream(self._stream)
        return found

    def _found(self, batch: PaddedBatch) -> Tensor:
        shape = *batch.source.shape, *batch.read.shape
        if shape not in self._graphs:
            self._graphs[shape] = None
            return self._function(batch)
        held = self._graphs[shape]
        if held is None:
            graph, own = torch.cuda.CUDAGraph(), PaddedBatch(*(each.clone() for each in batch))
            with torch.cuda.graph(graph, self._memory, self._stream):
                loss = self._function(own)
            held = self._graphs[shape] = graph, own, loss
        graph, own, loss = held
        for mine, given in zip(own, batch, strict=True):
            mine.copy_(given)
        graph.replay()
        return loss.clone()
