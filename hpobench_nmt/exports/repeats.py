"""Which configuration is the best, and which should be evaluated again, when losses are noisy.

What evaluations say about configurations is in methods/replicates.py. A repeat must be worth more than a new
configuration: its knowledge gradient must exceed the mean gain of the last RECENT configurations. The
incumbent has the smallest expected loss, and the challenger is most likely to be better. As long as the two
can be told apart, nothing is repeated.
"""

from __future__ import annotations

import math

import numpy as np

from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.space import Space
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.text import printable
from hpobench_nmt.exports.candidates import Candidates
from hpobench_nmt.exports.live_method import Known, LiveMethod
from hpobench_nmt.methods.replicates import Belief, believe

RECENT = 10
SHARE = 0.15
"""At most this share of the evaluations are repeats."""
FIRST = 10
"""The first repeat comes after this many evaluations."""
LEAST_PROBABILITY, MOST_GAP, DIFFERENCES = 0.1, 2.0, 10.0


def checked_repeats(repeats: object, objectives: int) -> bool:
    """Whether evaluations may be repeated."""
    if repeats is None:
        return False
    if repeats != "auto":
        raise InputError(f'repeats must be None or "auto", not {printable(repr(repeats))[:80]}.')
    if objectives > 1:
        raise InputError("repeats need one loss: with several losses, no single configuration is the best.")
    return True


def usable(known: Known) -> list[int]:
    """The configurations that have a loss and satisfy all constraints, in the order of `tell`."""
    return [
        row
        for row, losses in known.losses.items()
        if not np.isnan(losses).any() and (known.missed[row] <= 0).all()
    ]


def trainings_of(known: Known, row: int) -> Floats:
    """The losses of the evaluations of a configuration that did not fail, shape (k,)."""
    own: Floats = np.array([losses[0] for other, losses, _ in known.evaluations if other == row])
    return own[~np.isnan(own)]


def belief_of(space: Space, candidates: Candidates, known: Known) -> tuple[list[int], Belief]:
    """The configurations with a loss, and what is known about their expected losses."""
    rows = [row for row, losses in known.losses.items() if not np.isnan(losses).any()]
    features = space.features(candidates.codes[rows])
    columns = [each.n_features for each in space]
    return rows, believe(features, columns, [trainings_of(known, row) for row in rows])


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
        rows, belief = belief_of(space, candidates, known)
        return min(kept, key=lambda row: float(belief.mean[rows.index(row)]))
    if not hasattr(live.made, "recommend"):
        return min(kept, key=lambda row: float(known.losses[row][0]))
    return live.recommended(kept)


def looks_deterministic(known: Known) -> bool:
    """Whether the first configuration that was evaluated twice had the same losses to the bit."""
    seen: dict[int, float] = {}
    for row, losses, _ in known.evaluations:
        if row in seen:
            return float(losses[0]) == seen[row]
        if not math.isnan(losses[0]):
            seen[row] = float(losses[0])
    return False


def row_to_repeat(space: Space, candidates: Candidates, known: Known) -> int | None:
    """The configuration to evaluate again, or None if a new configuration should be evaluated."""
    count, kept = len(known.evaluations) + len(known.pending), usable(known)
    repeats = count - len(known.losses) - len(known.running)
    if len(kept) <= FIRST or repeats + 1 > SHARE * count or looks_deterministic(known):
        return None
    rows, belief = belief_of(space, candidates, known)
    places = [place for place, row in enumerate(rows) if row in kept]
    best = min(places, key=lambda place: float(belief.mean[place]))
    if not repeats:
        return None if rows[best] in known.pending else rows[best]
    rivals = [place for place in places if place != best]
    better = belief.better(than=best)
    challenger = max(rivals, key=lambda place: float(better[place]))
    gap = float(belief.mean[challenger] - belief.mean[best])
    largest = max(float(np.ptp(losses)) for row in rows if len(losses := trainings_of(known, row)) > 1)
    if (
        better[challenger] <= LEAST_PROBABILITY
        or gap >= MOST_GAP * belief.noise[best]
        or gap >= DIFFERENCES * largest
    ):
        return None
    before = [float(belief.warped[place]) for place in places if place < len(rows) - RECENT]
    rate = (min(before, default=math.inf) - float(belief.warped[best])) / RECENT
    gains = belief.knowledge_gradient(places)
    free = [place for place in places if rows[place] not in known.pending]
    place = max(free, key=lambda place: float(gains[place]))
    return rows[place] if gains[place] > rate else None
