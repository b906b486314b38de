"""Parts of results: the rows of a method in a frame, and results of which a trial failed."""

import dataclasses

from hpobench_nmt.core.trajectory import Trajectory


def of(frame, method):
    return frame[frame["method"] == method]


def failing(results, table, method, trial=0):
    """The same results, but one trial failed after its initial design."""
    trials = list(results.trials[table, method])
    start = trials[trial]
    trials[trial] = Trajectory(start.rows[:3], start.losses[:3], "broke")
    return dataclasses.replace(results, trials={**results.trials, (table, method): trials})
