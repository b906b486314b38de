"""Files of tensors and arrays, perhaps from somebody else: nothing is unpickled, and sizes are checked."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hpobench_nmt.core.system.errors import InputError

_MOST_ARRAY_BYTES = 2**30
_MOST_PICKLE_BYTES = 2**26  # for torch's entry of names and shapes, which it reads as a whole


def read_archive(path: Path, load: Callable[[Path], Any]) -> Any:
    """The content of a zip archive, which must not take more memory than the file has bytes.

    Raises InputError if the file is not a zip archive, if it is compressed, if two entries have the same name
    or overlap, if its names and shapes are too large, or if `load` raises any error.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
                raise ValueError("it is compressed")
            if len({entry.filename for entry in entries}) < len(entries):
                raise ValueError("two entries have the same name")
            if sum(entry.file_size for entry in entries) > path.stat().st_size:
                raise ValueError("its entries overlap")
            if any(e.filename.endswith(".pkl") and e.file_size > _MOST_PICKLE_BYTES for e in entries):
                raise ValueError(f"its names and shapes take more than {_MOST_PICKLE_BYTES:,} bytes")
        return load(path)
    except Exception as error:  # torch and numpy raise many kinds for a file that they cannot read
        reason = str(error).split("\n")[0][:200] or type(error).__name__
        raise InputError(f"{path}: cannot be used: {reason}.") from None


def save_tensors(path: Path, tensors: object) -> None:
    """Write a dict or list of tensors. Raises OSError if the disk is full; torch.save(path) would not."""
    import torch

    with path.open("wb") as file:
        torch.save(tensors, file)


def load_arrays(path: Path) -> dict[str, Any]:
    """The arrays of an npz file by name. Raises ValueError for a file of more than 2^30 bytes."""
    if path.stat().st_size > _MOST_ARRAY_BYTES:
        raise ValueError(f"it is larger than {_MOST_ARRAY_BYTES:,} bytes")
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays}


def load_named_tensors(path: Path) -> dict[str, Any]:
    """The tensors of a dict that torch.save wrote, memory-mapped, so that they take memory only when used.

    Raises ValueError for any other content, and if the tensors are larger than the file.
    """
    tensors = _mapped(path)
    if not isinstance(tensors, dict) or not all(isinstance(name, str) for name in tensors):
        raise ValueError("it does not have tensors by name")
    _check(tensors.values(), path)
    return tensors


def read_weights(path: Path, numbers: int) -> dict[str, Any]:
    """The weights of a kept model by name.

    Raises InputError if the file is damaged, or has another number of numbers than the model: before memory
    is allocated for it.
    """
    weights: dict[str, Any] = read_archive(path, load_named_tensors)
    found = sum(tensor.numel() for tensor in weights.values())
    if found != numbers:
        raise InputError(f"{path}: holds {found:,} numbers; a model of these settings has {numbers:,}.")
    return weights


def put_weights(weights: Mapping[str, Any], parameters: Mapping[str, Any], where: object) -> None:
    """Copy weights into a model's parameters. Raises InputError if names, types or shapes differ."""
    import torch

    kinds = [{name: (t.dtype, t.shape) for name, t in each.items()} for each in (weights, parameters)]
    if kinds[0] != kinds[1]:
        raise InputError(f"{where}: its tensors do not fit a model with these settings.")
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(weights[name])


def load_tensor_list(path: Path) -> list[Any]:
    """The tensors of a list that torch.save wrote, like `load_named_tensors`."""
    tensors = _mapped(path)
    if not isinstance(tensors, list):
        raise ValueError("it does not have a list of tensors")
    _check(tensors, path)
    return tensors


def _mapped(path: Path) -> Any:
    import torch

    with warnings.catch_warnings():
        # Sparse tensors, of which torch warns, are refused by _check.
        warnings.filterwarnings("ignore", "Validating sparse tensor")
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)


def _check(tensors: Iterable[Any], path: Path) -> None:
    import torch

    size = 0
    for tensor in tensors:
        # A tensor that is not contiguous, or has no content, may claim more numbers than the file holds.
        held = isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided and not tensor.is_meta
        if not held or not tensor.is_contiguous():
            raise ValueError("it must hold tensors, each in one piece")
        size += tensor.numel() * tensor.element_size()
    if size > path.stat().st_size:
        raise ValueError("its tensors share their content")
