"""An accelerator that is not there: torch's spare kind of device, PrivateUse1, with numbers of the CPU.

    with accelerator() as device:
        model = build(torch.Generator(device).manual_seed(1))
        with counted() as counts:
            model(tokens.to(device), ...)

Autograd, optimisers and torch's choices by device see another device than the CPU. A dispatch mode computes
each operation on the CPU tensors that lie behind those of the device. It refuses what a CUDA device refuses,
or what would make a training depend on more than its seed:

- an operation on tensors of both devices (numbers without dimensions are excepted, as on CUDA);
- a draw on the device from a generator of the CPU, or from none.

It counts what costs time on a device: operations, each of which launches at least one kernel, and those at
which the host waits for the device. Views and allocations launch nothing and are not counted. `torch.lstm` is
one operation in each direction, as it is with cuDNN.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

NAME = "pretend"
_aten = torch.ops.aten
_META = torch._C.DispatchKeySet(torch._C.DispatchKey.Meta)
_SPARSE = torch._C.DispatchKeySet(torch._C.DispatchKey.SparseMeta)
_WAITS = {"_local_scalar_dense", "nonzero", "masked_select", "equal", "_unique2", "unique_dim"}
_COPIES = {"_to_copy", "copy_"}
_LAUNCHES_NOTHING = {"detach", "_unsafe_view", "lift_fresh", "_sparse_coo_tensor_with_dims_and_tensors"}
_CPUGenerator: Any = torch.Generator
_cpu_lstm: Any = torch.lstm
_library, _fallbacks = (torch.library.Library(name, "IMPL") for name in ("aten", "_"))


class Refused(Exception):
    """An accelerator refuses this operation, or it makes a training depend on more than its seed."""


@dataclass
class Counts:
    """Operations by name, and those of them at which the host waits for the device."""

    operations: Counter[str] = field(default_factory=Counter)
    waits: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        """Operations of all names."""
        return self.operations.total()


@contextmanager
def accelerator(global_generator: bool = False) -> Iterator[torch.device]:
    """The device inside; afterwards its tensors are of no use.

    With the global generator, draws without a generator are allowed: they are torch's own, which the caller
    has to seed.
    """
    if backend_registration._get_privateuse1_backend_name() != NAME:
        backend_registration._setup_privateuseone_for_python_backend(NAME, _Module())
        # Sparse tensors ask for empty ones, only to put other tensors in the place of what they get.
        _fallbacks.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")  # nothing is cast
        _library.impl("empty.memory_format", _empty, "PrivateUse1")
        _library.impl("resize_", lambda tensor, *rest, **options: tensor, "PrivateUse1")
        # What torch.lstm_cell is on a CUDA device; torch has none for a CPU.
        _library.impl("_thnn_fused_lstm_cell", _lstm_cell, "CPU")
        _library.impl("_thnn_fused_lstm_cell_backward_impl", _lstm_cell_backward, "CPU")
    mode = _Dispatch(global_generator)
    torch.Generator, torch.lstm = _AnyGenerator, _lstm  # type: ignore[misc]
    _modes.append(mode)
    try:
        # The engine's threads for devices began with the first backward pass of the process, without ours.
        with mode, torch.autograd.set_multithreading_enabled(False):
            yield torch.device(NAME, 0)
    finally:
        _modes.pop()
        torch.Generator, torch.lstm = _CPUGenerator, _cpu_lstm  # type: ignore[misc]


@contextmanager
def counted() -> Iterator[Counts]:
    """What the device does inside."""
    before, _modes[-1].counts = _modes[-1].counts, Counts()
    try:
        yield _modes[-1].counts
    finally:
        _modes[-1].counts = before


class _Dispatch(TorchDispatchMode):
    def __init__(self, global_generator: bool) -> None:
        super().__init__()
        self.counts = Counts()
        self._global = global_generator
        self._behind: dict[int, Tensor] = {}  # the flat CPU tensor of each storage, by its address

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        flat, spec = tree_flatten((args, kwargs or {}))
        tensors = [each for each in flat if isinstance(each, Tensor)]
        target = next((each for each in flat if isinstance(each, torch.device)), None)
        name = func._schema.name.removeprefix("aten::")
        here = any(each.device.type == NAME for each in tensors)
        if not here and (target is None or target.type != NAME):
            return func(*args, **(kwargs or {}))
        self._check(func, name, flat, tensors if here else [])
        leaves = name in _COPIES and (target or tensors[0].device).type == "cpu"
        if not (func.is_view or "empty" in name or name in _LAUNCHES_NOTHING):
            self.counts.operations[name] += 1
        if leaves or name in _WAITS:
            self.counts.waits[name] += 1
        behind = [self.lower(each) for each in flat]
        its_args, its_kwargs = tree_unflatten(behind, spec)
        found = func(*its_args, **its_kwargs)
        if leaves:
            return args[0] if name == "copy_" else found
        return tree_map_only(Tensor, lambda out: self.lift(out, flat, behind), found)

    def _check(self, func: Any, name: str, flat: list[Any], tensors: list[Tensor]) -> None:
        others = [each for each in tensors if each.device.type != NAME and each.dim()]
        if others and name not in _COPIES:
            raise Refused(f"{name}: tensors on {NAME} and on {others[0].device}")
        if torch.Tag.nondeterministic_seeded in func.tags:
            given = [each for each in flat if isinstance(each, _CPUGenerator)]
            if given and given[0]._cdata not in _ours:
                raise Refused(f"{name}: a generator of the CPU draws on {NAME}")
            if not given and not self._global:
                raise Refused(f"{name}: draws without a generator")

    def lower(self, value: Any) -> Any:
        """The CPU tensor behind one of the device, in the same memory; the CPU for the device."""
        if isinstance(value, torch.device):
            return torch.device("cpu") if value.type == NAME else value
        if not isinstance(value, Tensor) or value.device.type != NAME:
            return value
        if value.layout == torch.sparse_coo:
            parts = [
                part.redispatch(_SPARSE, value) for part in (_aten._indices.default, _aten._values.default)
            ]
            return torch.sparse_coo_tensor(*map(self.lower, parts), value.shape, check_invariants=False)
        base = self._behind[value.untyped_storage()._cdata]
        return base.as_strided(value.shape, value.stride(), value.storage_offset())

    def lift(self, out: Tensor, given: list[Any], behind: list[Any]) -> Tensor:
        """The device's tensor for a result on the CPU: one that was given, a view of one, or a new one."""
        for ours, its in zip(given, behind, strict=True):
            if out is its:
                return ours  # type: ignore[no-any-return]
        if out.layout == torch.sparse_coo:
            parts = [self.lift(part, given, behind) for part in (out._indices(), out._values())]
            make = _aten._sparse_coo_tensor_with_dims_and_tensors.default.redispatch
            kind = {"dtype": out.dtype, "layout": out.layout, "device": torch.device(NAME, 0)}
            sizes = out.sparse_dim(), out.dense_dim(), out.shape
            return make(_SPARSE, *sizes, *parts, **kind, is_coalesced=out.is_coalesced())  # type: ignore[no-any-return]
        address = out.untyped_storage()._cdata
        place = out.shape, out.stride(), out.storage_offset()
        for ours, its in zip(given, behind, strict=True):
            if ours is its or not isinstance(its, Tensor) or its.layout == torch.sparse_coo:
                continue
            if its.untyped_storage()._cdata == address:
                return _aten.as_strided.default.redispatch(_META, ours, *place)  # type: ignore[no-any-return]
        size = out.untyped_storage().nbytes() // out.element_size()
        new = torch._C._acc.create_empty_tensor([size], out.dtype)
        self._behind[new.untyped_storage()._cdata] = out.as_strided((size,), (1,), 0)
        return _aten.as_strided.default.redispatch(_META, new, *place)  # type: ignore[no-any-return]


_modes: list[_Dispatch] = []
_ours: dict[int, Any] = {}  # generators by their addresses, which are not given away while these live


def _empty(size: list[int], dtype: torch.dtype | None = None, **rest: Any) -> Tensor:
    return torch._C._acc.create_empty_tensor(size, dtype or torch.float32)


class _Module:
    """What torch, and this package, ask of a device's module."""

    def is_initialized(self) -> bool:
        return True

    def is_available(self) -> bool:
        return True

    def current_device(self) -> int:
        return 0

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        """The CPU's generator is seeded already."""

    def device_count(self) -> int:
        return 1

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]

    def synchronize(self, device: Any = None) -> None:
        _modes[-1].counts.waits["synchronize"] += 1


class _Generator(_CPUGenerator):
    """A generator of the accelerator: one of the CPU that gives another device."""

    @property
    def device(self) -> torch.device:
        return torch.device(NAME, 0)


class _Kind(type(_CPUGenerator)):  # type: ignore[misc]
    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, _CPUGenerator)


class _AnyGenerator(_CPUGenerator, metaclass=_Kind):
    """In place of torch.Generator: makes one of either kind. torch itself makes none for a PrivateUse1."""

    def __new__(cls, device: Any = "cpu") -> Any:
        if torch.device(device).type != NAME:
            return _CPUGenerator(device)
        made = _Generator()
        _ours[made._cdata] = made  # operations get another object of Python for it
        return made


class _LSTM(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rest: tuple[Any, ...], *given: Tensor) -> Any:
        mode = _modes[-1]
        mode.counts.operations["_cudnn_rnn"] += 1
        ctx.behind = [mode.lower(each).detach().requires_grad_() for each in given]
        with torch.enable_grad():
            x, h, c, *weights = ctx.behind
            ctx.found = _cpu_lstm(x, (h, c), weights, *rest)
        return tuple(mode.lift(each.detach(), [], []) for each in ctx.found)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        mode = _modes[-1]
        mode.counts.operations["_cudnn_rnn_backward"] += 1
        found = torch.autograd.grad(ctx.found, ctx.behind, [mode.lower(each) for each in gradients])
        return None, *(mode.lift(each, [], []) for each in found)


def _lstm(x: Tensor, state: Any, weights: Any, *rest: Any) -> Any:
    if x.device.type != NAME:
        return _cpu_lstm(x, state, weights, *rest)
    return _LSTM.apply(rest, x, *state, *weights)


def _lstm_cell(inputs: Tensor, state: Tensor, c: Tensor, *biases: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    i, f, g, o = sum(biases, inputs + state).chunk(4, 1)
    gates = [i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()]
    c = gates[1] * c + gates[0] * gates[2]
    return gates[3] * c.tanh(), c, torch.cat(gates, 1)


def _lstm_cell_backward(
    of_h: Tensor | None, of_c: Tensor | None, before: Tensor, c: Tensor, gates: Tensor, biases: bool
) -> tuple[Tensor, Tensor, Tensor]:
    i, f, g, o = gates.chunk(4, 1)
    of_h, of_c = (torch.zeros_like(c) if each is None else each for each in (of_h, of_c))
    of_c = of_c + of_h * o * (1 - c.tanh() ** 2)
    slopes = i * (1 - i), f * (1 - f), 1 - g**2, o * (1 - o)
    parts = of_c * g, of_c * before, of_c * i, of_h * c.tanh()
    of_gates = torch.cat([part * slope for part, slope in zip(parts, slopes, strict=True)], 1)
    return of_gates, of_c * f, of_gates.sum(0)
