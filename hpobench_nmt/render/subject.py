"""The subject of a figure: a run on one of its tables, or over all of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from hpobench_nmt.analysis.run_curves import Curves, hypervolume_curves, regret_curves
from hpobench_nmt.analysis.runtimes import TargetRuntimes, target_runtimes
from hpobench_nmt.analysis.selection import clock_milestones, one_table, typical_time
from hpobench_nmt.analysis.verdicts import Statistics, run_statistics
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.benchmarking.task.instance import Instance
from hpobench_nmt.core.system.errors import check_known
from hpobench_nmt.render.plots.style import Styles

# Numbers of look-ups that have a column in a figure's data.
MILESTONES = (1, 3, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
# The paper's budgets, for one objective and for more. They are used if a suite has none.
_BUDGETS = (20, 50)


@dataclass(frozen=True, eq=False)
class Subject:
    """A run on one of its tables, or over all of them, with results that several figures share.

    Attributes:
        table: the table's name; "" for all tables.
        styles: the styles of methods; None lets each figure choose.
        statistics: those of the whole run; None if they are not computed yet.
    """

    results: Results
    table: str = ""
    styles: Styles | None = None
    statistics: Statistics | None = None

    @property
    def instance(self) -> Instance:
        """The suite on the table."""
        return self.results.instances[self.table]

    @property
    def several(self) -> bool:
        """Whether there is more than one objective."""
        return len(self.instance.objectives) > 1

    @property
    def counts_lookups(self) -> bool:
        """Whether time is the number of look-ups."""
        return self.instance.problem.counts_lookups

    @property
    def at(self) -> float:
        """The number of look-ups, or the time, that captions report on."""
        given = self.results.suite.score_at_for(self.table)
        time = given or typical_time(self.instance, _BUDGETS[self.several])
        return min(time, len(self.instance.table)) if self.counts_lookups else time

    @cached_property
    def milestones(self) -> tuple[float, ...]:
        """Round numbers of look-ups, or times, that have a column in a figure's data."""
        return clock_milestones(self.results, self.table) or MILESTONES

    @cached_property
    def curves(self) -> Curves:
        """Regret for one objective, hypervolume for more."""
        make = hypervolume_curves if self.several else regret_curves
        return make(self.results, self.table, [self.at, *self.milestones])

    @cached_property
    def runtimes(self) -> TargetRuntimes:
        """Runtimes to targets, on the table or on all tables."""
        return target_runtimes(one_table(self.results, self.table) if self.table else self.results)

    @cached_property
    def tests(self) -> Statistics:
        """The statistics of the run, which are computed if necessary."""
        return self.statistics or run_statistics(self.results)

    def scores(self, score: str = "") -> tuple[str, ...]:
        """The requested score, or all scores of the run. Raises InputError if the run does not have it."""
        known = tuple(self.results.suite.scores)
        check_known("score", [score] if score else [], known, "(of these results)")
        return (score,) if score else known
