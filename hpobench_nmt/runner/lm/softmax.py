"""The output layer: softmax cross-entropy of a linear map, in chunks that stay in the processor's cache.

With N positions, a vocabulary of V and vectors of D: hidden h (N, D), weight W (V, D), bias b (V,),
targets y (N,).

    z = h W^T + b        logits, (N, V): never held as a whole
    nll_n = log sum_v exp z_nv - z_n,y(n)
    d nll_n / d z_nv = softmax(z_n)_v - [v = y(n)]

The forward pass also computes the gradients, chunk by chunk, so that logits are neither kept nor computed
again. Time O(N V D); memory O(chunk V), apart from the gradients. Training is 0.9 to 1.2 times as fast as
with torch's cross_entropy, which holds three matrices of N x V. It is as fast as with torch's
linear_cross_entropy in chunks, which came with torch 2.13 (benchmarks/speed/language_model_gradients.py).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

_CHUNK = {"cpu": 128}
_CHUNK_ELSEWHERE = 4096


def linear_cross_entropy(hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    """Mean negative log-likelihood of the targets, differentiable in hidden, weight and bias.

    Without gradients (torch.no_grad), it costs a third. In mixed precision (precision.py), matrix products
    have 16 bits and the softmax has 32 bits. On a CPU, mixed precision uses torch's own function, which holds
    three matrices of N x V.
    """
    if torch.is_autocast_enabled(hidden.device.type):
        if hidden.device.type == "cpu":
            return functional.cross_entropy(functional.linear(hidden, weight, bias).float(), targets)
        return mixed_cross_entropy(hidden, weight, bias, targets)
    loss: Tensor = _LinearCrossEntropy.apply(hidden, weight, bias, targets)  # type: ignore[no-untyped-call]
    return loss


def mixed_cross_entropy(hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    """`linear_cross_entropy` in chunks: matrix products have autocast's 16 bits, and sums 32."""
    dtype = torch.get_autocast_dtype(hidden.device.type)
    with torch.autocast(hidden.device.type, enabled=False):
        loss: Tensor = _MixedCrossEntropy.apply(  # type: ignore[no-untyped-call]
            hidden, weight, bias, targets, dtype
        )
    return loss


def linear_nll(hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    """Negative log-likelihood of each target, shape (N,), not differentiable."""
    parts = []
    with torch.no_grad():
        for rows in _chunks(hidden):
            logits = torch.addmm(bias, hidden[rows], weight.t())
            target = logits.gather(1, targets[rows, None])[:, 0]
            parts.append(torch.logsumexp(logits, 1) - target)
    return torch.cat(parts)


def nll_with_gradients(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor,
    targets: Tensor,
    grad_weight: Tensor | None,
    grad_bias: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Each target's negative log-likelihood, shape (N,), and the gradient of their mean in hidden, (N, D).

    The mean's gradients in weight and bias overwrite grad_weight and grad_bias, if these are given.
    """
    n = len(hidden)
    nll = hidden.new_empty(n)
    grad_hidden = torch.empty_like(hidden)
    chunks = _chunks(hidden)
    logits = hidden.new_empty(len(hidden[chunks[0]]), len(weight))
    # For few passes over a chunk's logits, e = exp(z - max) is never divided by its sum s. Smaller arrays are
    # divided: softmax(z) W = (e W) / s, and softmax(z)^T h = e^T (h / s). The target's -1 is added last.
    for i, rows in enumerate(chunks):
        chunk, target = hidden[rows], targets[rows, None]
        z = logits[: len(chunk)]
        torch.addmm(bias, chunk, weight.t(), out=z)
        of_target = z.gather(1, target)
        top = z.amax(1, keepdim=True)
        total = z.sub_(top).exp_().sum(1, keepdim=True)
        nll[rows] = total.log().add_(top).sub_(of_target)[:, 0]
        scale = total.mul_(n).reciprocal_()
        grad = grad_hidden[rows]
        torch.mm(z, weight, out=grad).mul_(scale)
        kept = float(i > 0)  # a factor of 0 also overwrites NaN
        if grad_weight is not None:
            torch.addmm(grad_weight, z.t(), chunk * scale, beta=kept, out=grad_weight)
        if grad_bias is not None:
            torch.addmv(grad_bias, z.t(), scale[:, 0], beta=kept, out=grad_bias)
    grad_hidden.sub_(weight[targets], alpha=1.0 / n)
    if grad_weight is not None:
        grad_weight.index_add_(0, targets, hidden, alpha=-1.0 / n)
    if grad_bias is not None:
        grad_bias.index_add_(0, targets, nll.new_ones(n), alpha=-1.0 / n)
    return nll, grad_hidden


def _chunks(hidden: Tensor) -> list[slice]:
    size = _CHUNK.get(hidden.device.type, _CHUNK_ELSEWHERE)
    return [slice(start, start + size) for start in range(0, len(hidden), size)]


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
        if not any(ctx.needs_input_grad):
            return linear_nll(hidden, weight, bias, targets).mean()
        grad_weight, grad_bias = torch.empty_like(weight), torch.empty_like(bias)
        nll, grad_hidden = nll_with_gradients(hidden, weight, bias, targets, grad_weight, grad_bias)
        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        return nll.mean()

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        (scale,) = outputs
        gradients: tuple[Tensor, ...] = ctx.saved_tensors
        # The scale is nearly always 1. Then a pass over V x D numbers is saved. On a GPU, looking would wait.
        if scale.device.type == "cpu" and scale.item() == 1.0:
            return (*gradients, None)
        return (*(g * scale for g in gradients), None)


class _MixedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, dtype: torch.dtype
    ) -> Tensor:
        n, losses, of_hidden = len(hidden), [], torch.empty_like(hidden)
        of_weight = torch.zeros_like(weight, dtype=torch.float32)
        of_bias = torch.zeros_like(bias, dtype=torch.float32)
        short_weight, short_bias, short_hidden = (each.to(dtype) for each in (weight, bias, hidden))
        for rows in _chunks(hidden):
            chunk, target = short_hidden[rows], targets[rows, None]
            z = torch.addmm(short_bias, chunk, short_weight.t()).float()
            losses.append(torch.logsumexp(z, 1) - z.gather(1, target)[:, 0])
            of_z = z.softmax(1).scatter_add_(1, target, z.new_full((), -1.0).expand_as(target))
            of_bias += of_z.sum(0)
            # The mean's 1 / n and the scale of the loss come last, so that fp16 can hold these numbers.
            short = of_z.to(dtype)
            of_hidden[rows] = torch.mm(short, short_weight)
            of_weight += torch.mm(short.t(), chunk)
        ctx.save_for_backward(of_hidden, of_weight, of_bias)
        ctx.n = n
        return torch.cat(losses).mean()

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        scale = outputs[0] / ctx.n
        return (*(gradient * scale for gradient in ctx.saved_tensors), None, None)
