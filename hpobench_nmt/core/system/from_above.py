"""Methods of values whose code is in a higher room, such as `Front.plot` and `Table.pareto`.

Such a method only calls a function with the value. The function is found by name at the time of the call.
Nothing in the lower room depends on the higher room, which is not imported without a call, and only the
caller gets the result.
"""

from __future__ import annotations

import importlib
from typing import Any


def from_above(place: str) -> Any:
    """A function by its place in this package: "render.section_files:front_figure"."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(f"hpobench_nmt.{module}"), name)
