"""Times on a trial's clock that are worth a column of a table, or a sentence."""

from __future__ import annotations

import numpy as np

from hpobench_nmt.analysis.selection import methods_on
from hpobench_nmt.benchmarking.instance import Instance
from hpobench_nmt.benchmarking.results import Results
from hpobench_nmt.benchmarking.scoring import length_of

_MOST = 10


def clock_milestones(results: Results, table: str) -> tuple[float, ...]:
    """Round times up to the end of the longest trial: 1, 2 and 5 times powers of ten. None on look-ups."""
    if results.instances[table].problem.counts_lookups:
        return ()
    trials = [trial for method in methods_on(results, table) for trial in results.trials[table, method]]
    longest = max((length_of(trial) for trial in trials), default=0.0)
    if longest <= 0:
        return ()
    top = int(np.floor(np.log10(longest)))
    found = [digit * 10.0**power for power in range(top - 4, top + 1) for digit in (1, 2, 5)]
    return tuple(time for time in found if time <= longest)[-_MOST:]


def typical_time(instance: Instance, rows: int) -> float:
    """The time in which all workers train so many rows of the average cost, to one digit."""
    time = float(instance.trainings.whole_costs.mean()) * rows / instance.problem.workers
    return float(f"{time:.0e}")
