"""The prior that a suite gives its methods: a user's guess, or a good or misleading one made for the table.

A good prior is centred on the best of 25 rows drawn at random, and a misleading prior on the worst of them.
With several losses, rows are compared by the sum of their ranks. The draw depends only on the table's name,
so a table has the same prior in every run, and all methods and trials share it.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.priors import around, guess_prior
from hpobench_nmt.core.seeds import generator
from hpobench_nmt.lookup.table import Table

Made = Literal["", "good", "misleading", "source"]
Guess = dict[str, bool | int | float | str]
DRAWN = 25


def suite_prior(wanted: Made | Guess, table: Table, losses: Floats) -> Floats | None:
    """Log-weights of the table's rows, shape (N,), from their losses, shape (N, m); None without a prior.

    For "source", the losses are those of the same configurations in the table's source. If the table has no
    source, they are NaN in all rows, and there is no prior.

    Raises InputError if a guess does not fit the table's space.
    """
    if not wanted:
        return None
    if isinstance(wanted, dict):
        return guess_prior(table.space, table.configs, wanted, f"table {table.name!r}")
    known = np.flatnonzero(~np.isnan(losses).any(axis=1))
    if wanted == "source":
        return around(table.features, table.features[losses[:, 0].argsort()[0]]) if len(known) else None
    rows = generator(0, "prior", table.name).choice(known, min(DRAWN, len(known)), replace=False)
    from scipy.stats import rankdata  # the import takes a second, and most suites have no prior

    ranks = rankdata(losses[rows], axis=0).sum(axis=1)
    centre = rows[ranks.argmin() if wanted == "good" else ranks.argmax()]
    return around(table.features, table.features[centre])
