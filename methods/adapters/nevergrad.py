"""Nevergrad's optimizers (Rapin & Teytaud 2018).

Translated: grids of numbers become bounded numbers on their scale, ordinal labels become a choice that moves
by steps, and categories become a free choice. Nevergrad receives the initial design as points that it did not
ask for. A failed training counts as worse than all others.

Lost: Nevergrad knows neither the grid nor conditions. Its point is moved to the nearest row that is left, and
it receives this row's losses as those of its own point. An inactive hyperparameter's value is ignored.
"""

from __future__ import annotations

from typing import Any

import cma
import nevergrad as ng
import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.hyperparameter import Hyperparameter
from hpobench_nmt.core.space import Config
from hpobench_nmt.methods.adapters.common import Adapter, ranges

# Otherwise, cma, which NGOpt uses for larger budgets, seeds NumPy with the time.
cma.options_parameters.cma_default_options["seed"] = np.nan


class _Nevergrad(Adapter):
    """Asks the Nevergrad optimizer of the registry name `optimizer`."""

    logger = "nevergrad"
    # Some mutations do not use the parametrization's own random state.
    draws_globally = True
    optimizer = ""

    def start(self) -> None:
        """Make the optimizer, whose budget is the number of rows that may be looked up."""
        space = ranges(self.problem.space)
        self.free = ng.p.Dict(**{h.name: _parameter(h) for h in space if len(h.values) > 1})
        self.fixed = {h.name: h.values[0] for h in space if len(h.values) == 1}
        self.free.random_state = np.random.RandomState(self.seed())
        self.made = ng.optimizers.registry[self.optimizer](self.free, budget=self.problem.lookups)
        self.point: Any = None

    def propose(self) -> Config:
        """The next point."""
        if self.point is None:
            self.point = self.made.ask()
        config: Config = self.fixed | self.point.value
        return config

    def learn(self, row: int, losses: Floats) -> None:
        """Pass the losses of the optimizer's point, or of a row of the initial design, to the optimizer."""
        loss = self.known_losses()[-1, 0]
        point = self.point
        if not self.asked:
            known = self.problem.config(row)
            value = {name: known.get(name, old) for name, old in self.free.value.items()}
            point = self.free.spawn_child(new_value=value)
        self.made.tell(point, float(loss))
        # Some optimizers run in a thread, which continues after `tell`. It must draw while NumPy's random
        # state is the adapter's, so the next point is asked for at once.
        self.point = self.made.ask() if self.asked else None


def _parameter(h: Hyperparameter) -> Any:
    values = [h.value(code) for code in h.numbers]
    if not h.continuous:
        return ng.p.Choice(values) if h.kind == "categorical" else ng.p.TransitionChoice(values)
    low, high = h.ends
    number = ng.p.Log(lower=low, upper=high) if h.scale == "log" else ng.p.Scalar(lower=low, upper=high)
    return number.set_integer_casting() if h.whole else number


class TwoPointsDE(_Nevergrad):
    """Differential evolution with two-point crossover."""

    optimizer = "TwoPointsDE"


class NGOpt(_Nevergrad):
    """The optimizer that Nevergrad chooses for the space and the budget."""

    optimizer = "NGOpt"


class OnePlusOne(_Nevergrad):
    """(1+1) evolution with a portfolio of mutation rates, which Nevergrad recommends for discrete spaces."""

    optimizer = "PortfolioDiscreteOnePlusOne"
