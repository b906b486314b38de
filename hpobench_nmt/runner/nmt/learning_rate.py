"""The learning rate of each update, as Sockeye 3.1 defines it, so that both families read a spec alike.

With update t from 1, warm-up w, and r the rate of the settings:

    "plateau-reduce"    r t / w up to w, then r times the reductions at checkpoints
    "inv-sqrt-decay"    r min(1, t / w) / sqrt(max(t, w, 1))
    "linear-decay"      r min(1, t / w) (1 - t / T) of T updates
    "none"              r, without warm-up
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from hpobench_nmt.runner.nmt.settings import TranslationSettings


def learning_rate(settings: TranslationSettings, update: int, lowered: float = 1.0) -> float:
    """The rate of an update, numbered from 1; `lowered` is the product of the reductions so far."""
    rate, warm_up = settings.learning_rate, settings.warmup
    name = settings.learning_rate_scheduler
    if name == "none":
        return rate
    if name == "plateau-reduce":
        # With a factor of 1 there are no reductions, and Sockeye uses neither a schedule nor a warm-up.
        if settings.reduce_factor == 1:
            return rate
        return rate * update / warm_up if update <= warm_up else rate * lowered
    warm = rate * min(1.0, update / warm_up) if warm_up else rate
    if name == "inv-sqrt-decay":
        return warm / math.sqrt(max(update, warm_up, 1))
    return warm * (1 - update / settings.max_updates)


def has_converged(settings: TranslationSettings, best: Sequence[float]) -> bool:
    """Whether the best value so far has improved too little over the last checkpoints.

    `best` has the best value so far after each checkpoint.
    """
    if len(best) < settings.max_not_improved:
        return False
    before = best[-1 - min(settings.max_not_improved, len(best) - 1)]
    return abs(best[-1] - before) <= settings.min_improvement
