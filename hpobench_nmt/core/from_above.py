"""What a value shows of itself, where a higher room has the code: `Front.plot`, `Table.pareto`.

Such a method only calls a function of the value, found by name when it is called. Nothing below depends on
the room above: without a call it is not imported, and what the function returns goes to the caller alone.
"""

from __future__ import annotations

import importlib
from typing import Any


def from_above(place: str) -> Any:
    """A function by its place in this package: "render.section_files:front_figure"."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(f"hpobench_nmt.{module}"), name)
