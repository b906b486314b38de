"""Model families by their names in a spec. Each has its own module."""

from __future__ import annotations

import importlib
from typing import Any

from hpobench_nmt.core.system.errors import check_known
from hpobench_nmt.runner.family import Family

FAMILIES = ("awd-lstm", "decoding", "dynamic-evaluation", "gpt", "marian", "melis", "mlstm", "sockeye")


def load_family(name: str) -> Family[Any]:
    """The family of that name; the error for an unknown name suggests the nearest one."""
    check_known("model family", [name], FAMILIES)
    family: Family[Any] = importlib.import_module(f"{__name__}.{name.replace('-', '_')}").FAMILY
    return family
