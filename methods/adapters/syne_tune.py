"""Syne Tune's BORE (Tiao et al. 2021, Salinas et al. 2022).

Translated: nothing is moved. BORE's classifier, XGBoost with its defaults, learns which observed rows are in
their best quarter. Of the rows that are left, the row with the largest probability is next. Rows are
random until the classifier has enough losses, 6 by Syne Tune's default. A failed training counts as worse
than all others.

Lost: Syne Tune ranks 500 random configurations. It draws them from NumPy's global random state, so its
`random_seed` does not determine them. Here all rows that are left are ranked. Equal rows are in random order.
"""

from __future__ import annotations

import numpy as np
from syne_tune.config_space import uniform
from syne_tune.optimizer.schedulers.searchers.bore.bore import Bore

from hpobench_nmt.methods.adapters.common import Adapter


class BORE(Adapter):
    """Bayesian optimisation by density-ratio estimation."""

    logger = "syne_tune"

    def start(self) -> None:
        """Make the searcher. It requires a space, but does not use it."""
        self.searcher = Bore({"unused": uniform(0, 1)}, random_seed=self.seed())
        self.searcher.model.set_params(n_jobs=1)

    def propose(self) -> int:
        """The row that most probably belongs to the best quarter."""
        rows = self.rng.permutation(self.rows_left())
        losses = self.known_losses()[:, 0]
        if len(losses) < self.searcher.init_random or np.ptp(losses) == 0:
            return int(rows[0])
        features = self.problem.features
        if not self.searcher._train_model(features[list(self.told)], losses):
            return int(rows[0])
        return int(rows[self.searcher._loss(features[rows]).argmin()])
