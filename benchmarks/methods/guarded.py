"""`BO_auto` with a guard on its first look-ups, as a method of your own: see docs/explanation/auto.md.

python benchmarks/methods/auto_ablation.py BO_auto benchmarks/methods/guarded.py:Guarded [--tables TABLE,...]
"""

from __future__ import annotations

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.methods.auto import AutoBO

# Up to this many look-ups, a row is looked up only if its posterior mean is among this share of the smallest,
# so that a large variance alone does not choose.
LOOKUPS, SHARE = 10, 0.25


class Guarded(AutoBO):
    """The method, for one loss."""

    def _preference(self) -> Floats | float:
        if self._unseen.size - self._unseen.sum() >= LOOKUPS:
            return 0.0
        mean = self.expected()
        return np.where(mean <= np.quantile(mean[self._unseen], SHARE), 0.0, -np.inf)
