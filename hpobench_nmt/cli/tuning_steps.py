"""What `tune` prints of each training that ends, and in the end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hpobench_nmt.cli.common import say, terminal_width

if TYPE_CHECKING:
    from hpobench_nmt.core.arrays import Floats
    from hpobench_nmt.core.constraints import Constraint
    from hpobench_nmt.core.objectives import Metric
    from hpobench_nmt.core.space import Value
    from hpobench_nmt.runner.specs.spec import Spec
    from hpobench_nmt.runner.tuning.live_trainer import TuningStep


@dataclass(eq=False)
class Steps:
    """Prints each training that finishes, and remembers the best training that satisfies all constraints.

    Args:
        total: how many whole trainings there will be; 0: unknown.
        alone: whether whole trainings run one at a time, so that workers need not be printed.
    """

    spec: Spec
    metrics: Sequence[Metric]
    limits: Sequence[Constraint]
    workers: int
    total: int
    alone: bool
    best: str = ""
    _least: float = math.inf
    _seconds: list[float] = field(default_factory=list)
    # Number of the request, row and loss, NaN if it cannot be recommended.
    _ended: list[tuple[int, int, float]] = field(default_factory=list)

    def told(self, step: TuningStep) -> None:
        """Print and remember a training that has ended, or paused."""
        from hpobench_nmt.core.objectives import Objective
        from hpobench_nmt.runner.specs.spec import describe

        event, config = step.event, describe(self.spec.configuration(step.event.row))
        raw = (
            (m.name, Objective(m.name, m.direction).to_raw(float(x)))
            for m, x in zip(self.metrics, step.losses, strict=True)
        )
        values = " ".join(f"{name}={value:.6g}" for name, value in raw if not math.isnan(value))
        missed = _missed(self.limits, step.violations, event.done and not step.reason)
        mark, which = "", config
        if any(row == event.row for _, row, _ in self._ended):
            which = config = f"{config}, again"
        if event.done:
            loss = float(step.losses[0]) if (step.violations <= 0).all() else math.nan
            self._ended.append((event.number, event.row, loss))
        if step.losses[0] < self._least and (step.violations <= 0).all():  # never true for NaN
            self._least, self.best = float(step.losses[0]), f"{config} ({values})"
            mark = "  best so far" if len(self.metrics) == 1 else ""
        if not self.alone:
            how = "to its end" if event.done else f"to checkpoint {event.checkpoint}"
            which = f"worker {event.worker}: {config}, {how}"
        outcome = f"failed: {step.reason}" if step.reason else values
        source = {"ledger": "from the ledger", "journal": "before", "new": f"{event.cost:.0f} s"}[step.source]
        what = f"{step.number:3d}  {which}"
        found = f"->  {outcome}{missed}  ({source}{self._left(step)}){mark}"
        say(f"{what}  {found}" if len(what) + len(found) + 2 <= terminal_width() else f"{what}\n     {found}")

    def say_best(self) -> None:
        """Print the best configuration that satisfies all constraints, or that there is none."""
        rules = " and ".join(map(str, self.limits))
        if self.limits and not self.best:
            say(f"No configuration that was trained satisfies {rules}.")
        elif len(self.metrics) == 1 and self.best:
            say(f"Best{' that satisfies ' if self.limits else ''}{rules}: {self.best}")

    def _evaluations(self) -> tuple[list[int], list[dict[str, Value]], Floats]:
        """Rows, configurations and losses, in the order in which trainings were started."""
        import numpy as np

        rows = [row for _, row, _ in sorted(self._ended)]
        losses = np.array([loss for _, _, loss in sorted(self._ended)])
        return rows, [self.spec.configuration(row) for row in rows], losses

    def expected(self) -> list[tuple[int, float, int]]:
        """Rows that satisfy all constraints, their expected losses, and how often each was trained."""
        from hpobench_nmt.exports.recommended import grouped

        rows, configs, losses = self._evaluations()
        found = grouped(self.spec.space, configs, losses)
        if found is None:
            return []
        pairs = zip(found.first.tolist(), found.belief.mean.tolist(), strict=True)
        return [(rows[first], mean, rows.count(rows[first])) for first, mean in pairs]

    def recommend(self) -> None:
        """Print which configuration to use, and how sure it is that it improves on the start."""
        from hpobench_nmt.exports.recommended import recommendation
        from hpobench_nmt.runner.specs.spec import describe

        _, configs, losses = self._evaluations()
        has_start = self.spec.start is not None
        n_before = 1 if has_start else 3
        found = recommendation(self.spec.space, configs, losses, n_before, has_start=has_start)
        if found is not None:
            say(f"Recommended: {describe(found.config)}")
            say(str(found))

    def _left(self, step: TuningStep) -> str:
        """About how long the other trainings will take, if they take as long as those so far."""
        if step.source == "new":
            self._seconds.append(step.event.cost)
        left = self.total - step.number
        if not self._seconds or left < 1:
            return ""
        seconds = sum(self._seconds) / len(self._seconds) * left / self.workers
        unit, size = ("s", 1) if seconds < 120 else ("min", 60) if seconds < 7200 else ("h", 3600)
        return f", about {seconds / size:.0f} {unit} left"


def _missed(limits: Sequence[Constraint], violations: Floats, done: bool) -> str:
    """Which constraints a training misses and by how much, and metrics that a finished training lacks."""
    parts = [
        f"misses {limit} by {violation:.3g}" if violation > 0 else f"{limit.metric} was not measured"
        for limit, violation in zip(limits, violations.tolist(), strict=True)
        if violation > 0 or (done and math.isnan(violation))
    ]
    return "".join(f", {part}" for part in parts)
