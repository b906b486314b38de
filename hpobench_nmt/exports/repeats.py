"""The configuration to recommend, and the one to evaluate again, when losses are noisy."""

from __future__ import annotations

import numpy as np

from hpobench_nmt.core.space import Space
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.text import brief
from hpobench_nmt.exports.candidates import Candidates
from hpobench_nmt.exports.live_method import Known, LiveMethod


def checked_repeats(repeats: object, objectives: int) -> bool:
    """Whether evaluations may be repeated."""
    if repeats is None:
        return False
    if repeats != "auto":
        raise InputError(f'repeats must be None or "auto", not {brief(repeats)}.')
    if objectives > 1:
        raise InputError("repeats need one loss: with several losses, no single configuration is the best.")
    return True


def usable(known: Known) -> list[int]:
    """The configurations that have a loss and satisfy all constraints, in the order of `tell`."""
    measured = (row for row, losses in known.losses.items() if not np.isnan(losses).any())
    return [row for row in measured if (known.missed[row] <= 0).all()]


def may_repeat(known: Known) -> bool:
    """Whether some configuration can be evaluated again, and would not give the same loss to the bit."""
    from hpobench_nmt.methods.repeats import looks_deterministic

    return bool(usable(known)) and not looks_deterministic(known.trainings)


def row_to_evaluate_again(space: Space, candidates: Candidates, known: Known, exhausted: bool) -> int | None:
    """The configuration to evaluate again, or None if a new configuration should be evaluated."""
    from hpobench_nmt.methods.repeats import row_to_repeat  # it imports much of SciPy

    kept = usable(known)
    return row_to_repeat(space, candidates.features, known.trainings, kept, known.pending, exhausted)


def row_to_recommend(
    space: Space, candidates: Candidates, known: Known, live: LiveMethod, repeats: bool
) -> int:
    """The evaluated configuration to use in the end; see `Optimizer.recommend`."""
    if known.n_losses > 1:
        raise InputError("with several losses no single configuration is the best: use the Pareto front.")
    kept = usable(known)
    if not kept:
        keeps = " and satisfies all constraints" if known.n_rules else ""
        raise InputError(f"no configuration with a loss{keeps} is known yet.")
    if repeats:
        from hpobench_nmt.methods.repeats import expected_best

        return expected_best(space, candidates.features, known.trainings, kept)
    if not hasattr(live.made, "recommend"):
        return min(kept, key=lambda row: float(known.losses[row][0]))
    return live.recommended(kept)
