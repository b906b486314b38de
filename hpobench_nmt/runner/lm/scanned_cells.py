"""The LSTM and RHN of cells.py, and the mLSTM, with few operations per time step, for GPUs.

On a GPU, a time step of one layer has a few thousand numbers, and launching an operation costs more than its
arithmetic. With autograd, a step of an LSTM takes 40 operations. Here both passes are written out:

- forwards, only what the state needs is computed step by step;
- backwards, the gradient of all pre-activations z is linear in the gradients of h and c. The factors are
  computed for all steps at once, and a step only multiplies by them;
- the gradients of weights are one matrix product for all steps.

With `compiled_steps`, torch.compile makes one or two kernels of the elementwise part of a step in each
direction, so that a step has one matrix product and few kernels. The equations are those of cells.py, but
sums have another order, which changes the last bits. A CPU therefore uses cells.py, with which tables were
made, unless steps are compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.torch_training.precision import for_products

Mask = Tensor | None
_Outputs = tuple[Tensor, Tensor, Tensor]
_compiles = False


def scans(inputs: Tensor) -> bool:
    """Whether cells are computed here: on every device except a CPU, and if steps are compiled.

    For a sequence of a single step, the fixed cost does not pay.
    """
    return len(inputs) > 1 and (_compiles or inputs.device.type != "cpu")


@contextmanager
def compiled_steps(wanted: bool) -> Iterator[None]:
    """Inside, torch.compile makes the kernels of time steps, if wanted."""
    global _compiles
    before, _compiles = _compiles, wanted
    try:
        yield
    finally:
        _compiles = before


@cache
def _compiled(step: Callable[..., Any]) -> Callable[..., Any]:
    kernel = torch.compile(step, fullgraph=True, dynamic=False)

    def checked(*given: Any) -> Any:
        try:
            return kernel(*given)
        except torch._dynamo.exc.BackendCompilerFailed as error:
            reason = str(error.inner_exception).strip().partition("\n")[0]
            raise InputError(
                f"compile = true: torch.compile failed ({reason}). It needs a C++ compiler, and Triton for a "
                "GPU. Install them, or set compile = false."
            ) from error

    return checked


def _made(step: Callable[..., Any]) -> Callable[..., Any]:
    """The step, compiled if steps are compiled now."""
    return _compiled(step) if _compiles else step


def lstm(inputs: Tensor, weight: Tensor, h: Tensor, c: Tensor, gates: str, *masks: Mask) -> _Outputs:
    """`cells.lstm`; the masks are those of the state and of the update."""
    return _LSTM.apply(gates, inputs, weight, h, c, *masks, None, None)  # type: ignore[no-any-return,no-untyped-call]


def mlstm(
    inputs: Tensor, factor: Tensor, to_factor: Tensor, from_product: Tensor, h: Tensor, c: Tensor, mask: Mask
) -> _Outputs:
    """`mlstm_model.mlstm`; the mask is that of the state."""
    given = "untied", inputs, from_product, h, c, mask, None, factor, to_factor
    return _LSTM.apply(*given)  # type: ignore[no-any-return,no-untyped-call]


def rhn(inputs: Tensor, weights: Tensor, biases: Tensor, s: Tensor, *masks: Mask) -> tuple[Tensor, Tensor]:
    """`cells.rhn`; the masks are those of the state and of the update."""
    return _RHN.apply(inputs, weights, biases, s, *masks)  # type: ignore[no-any-return,no-untyped-call]


def masked(x: Tensor, mask: Mask) -> Tensor:
    """x times its mask, or x if there is none."""
    return x if mask is None else x * mask


def _plus_masked(x: Tensor, y: Tensor, mask: Mask) -> Tensor:
    return x + y if mask is None else torch.addcmul(x, y, mask)


# LSTM: T time steps, B sequences, H units; blocks o, f, i, j of z, or o, f, j where gates are tied.


def _lstm_step(
    z: Tensor, c: Tensor, gates: str, state_mask: Mask, update_mask: Mask, apart: bool
) -> tuple[Tensor, ...]:
    """Gates o, f and i, new memory j, tanh c, c, h, and the masked h in the precision of products.

    With `apart`, all operations are on (B, H), so that they fuse into one kernel. Otherwise the gates are
    computed together.
    """
    hidden, read = c.shape[1], z.dtype
    z = z.to(c.dtype)
    blocks, new = z[:, :-hidden], z[:, -hidden:].tanh()
    count = 2 if gates == "tied" else 3
    if apart:
        o, f, *i = (block.sigmoid() for block in blocks.chunk(count, 1))
    else:
        o, f, *i = blocks.sigmoid().chunk(count, 1)
    update = masked(new, update_mask)
    if gates == "tied":
        c = torch.lerp(update, c, f)
    else:
        admitted = torch.minimum(1.0 - f, i[0]) if gates == "capped" else i[0]
        c = torch.addcmul(admitted * update, f, c)
    squashed = c.tanh()
    h = o * squashed
    return o, f, *i, new, squashed, c, h, masked(h, state_mask).to(read)


def _lstm_factors(
    kept: Sequence[Tensor], before: Tensor, gates: str, update_mask: Mask
) -> tuple[Tensor, Tensor, Tensor]:
    """Three factors that the gradients of a step are multiplied by, for all steps.

    The gradient of h times the first, (T, B, H), is added to the gradient of c. The gradient of h times the
    second, (T, B, H), is the gradient of z_o. The gradient of c times the third, (T, B, ., H), has the
    gradients of the other blocks of z, and of c one step earlier.
    """
    o, f, *i, new, squashed = kept
    update = masked(new, update_mask)
    if gates == "untied":
        admitted, of_gates = i[0], [_of_sigmoid(before, f), _of_sigmoid(update, i[0])]
    else:
        admitted, both = 1.0 - f, before - update
        if gates == "tied":
            of_gates = [_of_sigmoid(both, f)]
        else:
            capped = i[0] > admitted
            admitted = torch.minimum(admitted, i[0])
            of_i = _of_sigmoid(update.masked_fill(capped, 0.0), i[0])
            of_gates = [_of_sigmoid(torch.where(capped, both, before), f), of_i]
    of_new = _of_tanh(masked(admitted, update_mask), new)
    return _of_tanh(o, squashed), _of_sigmoid(squashed, o), torch.stack((*of_gates, of_new, f), 2)


def _of_sigmoid(gradient: Tensor, value: Tensor) -> Tensor:
    return torch.ops.aten.sigmoid_backward(gradient, value)  # type: ignore[no-any-return]


def _of_tanh(gradient: Tensor, value: Tensor) -> Tensor:
    return torch.ops.aten.tanh_backward(gradient, value)  # type: ignore[no-any-return]


def _lstm_back(
    gradient: Tensor, of_read: Tensor, of_c: Tensor, factors: Sequence[Tensor], state_mask: Mask, apart: bool
) -> tuple[Tensor, Tensor]:
    """Gradients of z and of the previous memory, from those of h, of what the next step read, and of c."""
    into_c, into_o, into_rest = factors
    of_h = _plus_masked(gradient, of_read.to(gradient.dtype), state_mask)
    of_c = torch.addcmul(of_c, of_h, into_c)
    if apart:
        *of_rest, of_c = (of_c * into for into in into_rest.unbind(1))
    else:
        found = of_c[:, None] * into_rest
        of_rest, of_c = [found[:, :-1].flatten(1)], found[:, -1]
    return torch.cat((of_h * into_o, *of_rest), 1).to(of_read.dtype), of_c


class _LSTM(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        gates: str,
        inputs: Tensor,
        weight: Tensor,
        h: Tensor,
        c: Tensor,
        state_mask: Mask,
        update_mask: Mask,
        factor: Mask,
        to_factor: Mask,
    ) -> tuple[Tensor, Tensor, Tensor]:
        step, product = _made(_lstm_step), for_products(weight)
        transition = None if to_factor is None else for_products(to_factor)
        factors: Sequence[Any] = [None] * len(inputs)
        if factor is not None:
            factors = factor.to(product.dtype).unbind(0)
        read, cs, kept = masked(h, state_mask).to(product.dtype), [c], []
        for x, multiplier in zip(inputs.to(product.dtype).unbind(0), factors, strict=True):
            reads, mapped = read, read
            if transition is not None:
                mapped = torch.mm(read, transition.t())
                read = mapped * multiplier
            z = torch.addmm(x, read, product.t())
            *values, c, h, read = step(z, c, gates, state_mask, update_mask, _compiles)
            kept.append((*values, h, reads) if transition is None else (*values, h, reads, mapped))
            cs.append(c)
        stacked = [torch.stack(each) for each in zip(*kept, strict=True)]
        products = None if transition is None else stacked.pop()
        *values, outputs, reads = stacked
        ctx.gates, ctx.compiles, ctx.dtypes = gates, _compiles, (inputs.dtype, weight.dtype)
        saved = reads, products, torch.stack(cs[:-1]), product, transition, factor, state_mask, update_mask
        ctx.save_for_backward(*values, *saved)
        return outputs, h, c

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_outputs: Tensor, of_h: Tensor, of_c: Tensor) -> tuple[Any, ...]:
        *kept, reads, mapped, before, product, transition, factor, state_mask, update_mask = ctx.saved_tensors
        of_inputs, of_weights = ctx.dtypes
        factors = _lstm_factors(kept, before, ctx.gates, update_mask)
        gradients, of_read = list(of_outputs.unbind(0)), torch.zeros_like(reads[0])
        gradients[-1] = gradients[-1] + of_h
        of_zs, of_reads, of_mapped = [], [], []
        with compiled_steps(ctx.compiles):
            back = _made(_lstm_back)
        multipliers = None if factor is None else factor.to(product.dtype).unbind(0)
        of_steps = list(zip(*(each.unbind(0) for each in factors), strict=True))
        for t in reversed(range(len(gradients))):
            of_z, of_c = back(gradients[t], of_read, of_c, of_steps[t], state_mask, ctx.compiles)
            of_read = torch.mm(of_z, product)
            of_zs.append(of_z)
            if multipliers is not None:
                of_reads.append(of_read)
                of_mapped.append(of_read * multipliers[t])
                of_read = torch.mm(of_mapped[-1], transition)
        of_x, of_first = torch.stack(of_zs[::-1]), masked(of_read.to(of_c.dtype), state_mask)
        if factor is None:
            of_weight = _of_weight(of_x, reads).to(of_weights)
            return None, of_x.to(of_inputs), of_weight, of_first, of_c, None, None, None, None
        of_product, of_transition = torch.stack(of_reads[::-1]), torch.stack(of_mapped[::-1])
        return (
            None,
            of_x.to(of_inputs),
            _of_weight(of_x, mapped * factor.to(mapped.dtype)).to(of_weights),
            of_first,
            of_c,
            None,
            None,
            (of_product * mapped).to(factor.dtype),
            _of_weight(of_transition, reads).to(of_weights),
        )


def _of_weight(of_outputs: Tensor, inputs: Tensor) -> Tensor:
    """The gradient of a matrix, from that of its outputs, (T, B, .), and its inputs, (T, B, .)."""
    return torch.mm(of_outputs.flatten(0, 1).t(), inputs.flatten(0, 1))


# RHN: blocks h, t of z; L processing steps per token.


def _rhn_step(
    z: Tensor, s: Tensor, state_mask: Mask, update_mask: Mask
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """tanh z_h, the gate, the state, and the masked state in the precision of products."""
    update, gate = z.to(s.dtype).chunk(2, 1)
    update, gate = update.tanh(), gate.sigmoid()
    s = torch.lerp(s, masked(update, update_mask), gate)
    return update, gate, s, masked(s, state_mask).to(z.dtype)


def _rhn_back(of_s: Tensor, of_read: Tensor, factors: Tensor, state_mask: Mask) -> tuple[Tensor, Tensor]:
    """Gradients of z and of the previous state, from those of the state and of what the next step read."""
    of_s = _plus_masked(of_s, of_read.to(of_s.dtype), state_mask)
    found = of_s[:, None] * factors
    return found[:, :2].flatten(1).to(of_read.dtype), found[:, 2]


class _RHN(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        weights: Tensor,
        biases: Tensor,
        s: Tensor,
        state_mask: Mask,
        update_mask: Mask,
    ) -> tuple[Tensor, Tensor]:
        step, product = _made(_rhn_step), for_products(weights)
        transposed, added = product.transpose(1, 2).unbind(0), biases.to(product.dtype).unbind(0)
        read, before, outputs, kept = masked(s, state_mask).to(product.dtype), [], [], []
        for x in inputs.to(product.dtype).unbind(0):
            for number, weight in enumerate(transposed):
                z = torch.addmm(added[number - 1] if number else x, read, weight)
                before.append(s)
                reads = read
                update, gate, s, read = step(z, s, state_mask, update_mask)
                kept.append((update, gate, reads))
            outputs.append(s)
        update, gate, reads = (torch.stack(each) for each in zip(*kept, strict=True))
        ctx.compiles, ctx.dtypes = _compiles, (inputs.dtype, weights.dtype)
        ctx.save_for_backward(update, gate, reads, torch.stack(before), product, state_mask, update_mask)
        return torch.stack(outputs), s

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_outputs: Tensor, of_last: Tensor) -> tuple[Any, ...]:
        update, gate, reads, before, product, state_mask, update_mask = ctx.saved_tensors
        of_inputs, of_weights = ctx.dtypes
        parts = (
            _of_tanh(masked(gate, update_mask), update),
            _of_sigmoid(masked(update, update_mask) - before, gate),
            1.0 - gate,
        )
        factors, depth = torch.stack(parts, 2).unbind(0), len(product)
        gradients, weights, of_zs = of_outputs.unbind(0), product.unbind(0), []
        with compiled_steps(ctx.compiles):
            back = _made(_rhn_back)
        of_s, of_read = of_last, torch.zeros_like(reads[0])
        for number in reversed(range(len(factors))):
            if (number + 1) % depth == 0:
                of_s = of_s + gradients[number // depth]
            of_z, of_s = back(of_s, of_read, factors[number], state_mask)
            of_read = torch.mm(of_z, weights[number % depth])
            of_zs.append(of_z)
        of_first = _plus_masked(of_s, of_read.to(of_s.dtype), state_mask)
        # For each processing step, the rows of all tokens: (L, T B, .)
        of_z, reads = (
            each.unflatten(0, (-1, depth)).transpose(0, 1).flatten(1, 2)
            for each in (torch.stack(of_zs[::-1]), reads)
        )
        of_x = of_z[0].unflatten(0, of_outputs.shape[:2]).to(of_inputs)
        of_weight = torch.bmm(of_z.transpose(1, 2), reads).to(of_weights)
        return of_x, of_weight, of_z[1:].sum(1, dtype=of_weights), of_first, None, None
