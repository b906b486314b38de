"""Names of methods that are made from settings, such as `bayesian_optimisation(matern52)`."""

from __future__ import annotations

import functools
import hashlib
import re
import types
from typing import Any

from hpobench_nmt.core.system.files import check_name

_MAX_LENGTH = 100
# A value bound to a function may contain the function itself.
_DEEPEST = 3
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def method_name(family: str, *settings: Any) -> str:
    """A valid method name that shows a method's settings, joined by "_". None and "" are left out.

    A function is shown as its name with the values that are bound to it (by functools.partial or by a
    closure), and a lambda with its line. A name that would be too long is cut and ends in a hash.
    """
    text = "_".join([family, *(_label(value) for value in settings if value not in (None, ""))])
    name = re.sub(r"[^A-Za-z0-9_.+-]+", "-", text).strip("-.")
    if len(name) > _MAX_LENGTH:
        digest = hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:12]
        name = f"{name[: _MAX_LENGTH - 13]}-{digest}"
    return check_name("method", name)


def _label(value: Any, depth: int = 0) -> str:
    if depth > _DEEPEST:
        return type(value).__name__
    inner = functools.partial(_label, depth=depth + 1)
    if isinstance(value, functools.partial):
        named = [f"{key}={inner(v)}" for key, v in sorted(value.keywords.items())]
        return "_".join([inner(value.func), *map(inner, value.args), *named])
    if isinstance(value, types.MethodType):
        return f"{inner(value.__self__)}_{value.__name__}"
    if isinstance(value, types.FunctionType):
        name = value.__name__
        if name == "<lambda>":
            name = f"lambda{value.__code__.co_firstlineno}"
        return "_".join([name, *(inner(cell.cell_contents) for cell in value.__closure__ or ())])
    if isinstance(value, str):
        return value
    shown = repr(value)
    if " object at 0x" in shown:
        held = [f"{key}={inner(v)}" for key, v in sorted(getattr(value, "__dict__", {}).items())]
        return "_".join([type(value).__name__, *held])
    # An address differs from run to run.
    return str(getattr(value, "__name__", _ADDRESS.sub("", shown)))
