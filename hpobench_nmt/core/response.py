"""One metric of a table's rows, which is the input of analyses of a table."""

from __future__ import annotations

from dataclasses import dataclass

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.objectives import Objective
from hpobench_nmt.core.space import Hyperparameter


@dataclass(frozen=True, eq=False)
class Response:
    """A metric of the named table as a function of the configuration, on N of the points of a grid of H axes.

    The configurations are codes (see core/space.py), shape (N, H), and all distinct. The values are in raw
    units, shape (N,), NaN if missing. The objective states which direction is better.
    """

    table: str
    objective: Objective
    hyperparameters: tuple[Hyperparameter, ...]
    configs: Floats
    values: Floats

    def __len__(self) -> int:
        return len(self.values)

    @property
    def losses(self) -> Floats:
        """The values as losses to minimise, shape (N,), NaN if missing."""
        return self.objective.to_loss(self.values)

    @property
    def where(self) -> str:
        """The start of an error message about this metric of this table."""
        return f"table {self.table!r}, metric {self.objective.metric!r}"
