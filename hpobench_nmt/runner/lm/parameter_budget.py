"""Sizes of a model from its parameter budget (Melis et al. 2018, section 5.1). Needs no torch.

V words, E embedding size, H hidden size, L depth, n a number of parameters:

    LSTM    n = (E + H + 1) 4 H + (L - 1) (2 H + 1) 4 H        3 instead of 4 with tied gates
    NAS     n = (E + H) 8 H + (L - 1) 16 H^2                   no biases
    RHN     n = (E + L H + L) 2 H                              L processing steps per token
    output  n = V E + V shared; V E + V D + V separate; + H E with a down-projection

D, the size of the output embedding, is E with a down-projection and H without. Shared embeddings without
a down-projection need E = H.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from hpobench_nmt.core.system.errors import InputError

Cell = Literal["lstm", "rhn", "nas"]
Gates = Literal["capped", "tied", "untied"]

TOLERANCE = 0.005
"""A budget is met when the number of parameters differs from it by at most this share."""

# To meet the budget, the embedding size may differ from its ratio by this share, rounding aside.
_LARGEST_DEVIATION = 0.1


@dataclass(frozen=True)
class ModelShape:
    """The architecture of a model without its sizes.

    The depth of an RHN is in processing steps per token. With `shared`, one matrix is both input and output
    embedding; with `projection`, the combined output is projected to the embedding size.
    """

    vocabulary: int
    cell: Cell
    depth: int
    gates: Gates = "capped"
    shared: bool = True
    projection: bool = False

    @property
    def square(self) -> bool:
        """Whether the embedding size must be the hidden size."""
        return self.shared and not self.projection


def parameters_of_shape(shape: ModelShape, hidden: int, embedding: int) -> int:
    """The number of parameters at these sizes."""
    blocks = {"lstm": 3 if shape.gates == "tied" else 4, "nas": 8, "rhn": 2}[shape.cell]
    biases = shape.cell != "nas"
    above = 0 if shape.cell == "rhn" else hidden  # inputs of a layer above the first
    recurrent = embedding + shape.depth * (hidden + biases) + (shape.depth - 1) * above
    output = embedding if shape.projection else hidden
    embeddings = embedding if shape.shared else embedding + output
    projection = hidden * embedding if shape.projection else 0
    return recurrent * blocks * hidden + shape.vocabulary * (embeddings + 1) + projection


def solve_sizes(shape: ModelShape, budget: int, ratio: float) -> tuple[int, int]:
    """Hidden and embedding size that meet a budget, from an exhaustive search. O(sqrt(budget)).

    The number of parameters is within TOLERANCE of the budget. Of all such sizes, the result has the
    embedding size nearest to ratio times the hidden size, and then the number of parameters nearest to the
    budget.

    Raises InputError if no sizes meet the budget at this ratio.
    """
    if shape.square and ratio != 1:
        raise InputError(
            f"input_embedding_ratio {ratio:g}: shared embeddings without a down-projection have the hidden "
            "size, so it can only be 1. Allow a down-projection, or take separate embeddings."
        )
    slack = math.floor(budget * TOLERANCE)  # floor(10,000 * 1.005) would be 10,049
    least, most = budget - slack, budget + slack
    best: tuple[float, int, int, int] | None = None
    hidden = 1
    while parameters_of_shape(shape, hidden, 1) <= most:
        wanted = ratio * hidden
        embedding = max(1, round(wanted))
        if not shape.square:
            # The number of parameters is linear in the embedding size.
            slope = parameters_of_shape(shape, hidden, 2) - parameters_of_shape(shape, hidden, 1)
            fixed = parameters_of_shape(shape, hidden, 1) - slope
            lowest, highest = math.ceil((least - fixed) / slope), (most - fixed) // slope
            embedding = min(max(embedding, lowest), highest)
        count = parameters_of_shape(shape, hidden, embedding) if embedding >= 1 else 0
        off = abs(embedding - wanted)
        if least <= count <= most and off <= max(0.5, _LARGEST_DEVIATION * wanted):
            candidate = (max(off, 0.5), abs(count - budget), hidden, embedding)
            best = candidate if best is None else min(best, candidate)
        hidden += 1
    if best is None:
        raise InputError(_infeasible(shape, budget, ratio))
    return best[2], best[3]


def _infeasible(shape: ModelShape, budget: int, ratio: float) -> str:
    """Why no sizes were found, with the nearest budgets that can be met."""
    counts = [0]
    hidden = 0
    while counts[-1] < budget:
        hidden += 1
        counts.append(parameters_of_shape(shape, hidden, max(1, round(ratio * hidden))))
    nearest = " or ".join(f"{count:,}" for count in counts[-2:] if count)
    return (
        f"no {shape.cell} of depth {shape.depth} has {budget:,} parameters (within {TOLERANCE:.1%}) with "
        f"{shape.vocabulary:,} words and an embedding ratio of {ratio:g}: try a budget of {nearest}."
    )
