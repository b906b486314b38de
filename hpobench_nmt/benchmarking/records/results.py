"""The results of a benchmark in memory: trajectories and their scores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from hpobench_nmt.benchmarking.contestants.plugins import NamedMethod
from hpobench_nmt.benchmarking.records.manifest import Manifest
from hpobench_nmt.benchmarking.records.results_folder import ResultsFolder
from hpobench_nmt.benchmarking.running.trials import Took
from hpobench_nmt.benchmarking.task.instance import Instance
from hpobench_nmt.benchmarking.task.scoring import summaries
from hpobench_nmt.benchmarking.task.suite import Suite
from hpobench_nmt.core.constraints import is_feasible
from hpobench_nmt.core.system.deprecated import warn_deprecated
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.from_above import from_above
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.core.trajectory import Trajectory, Trials
from hpobench_nmt.evaluation.scores import Summary

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class Results:
    """The trajectories of a benchmark, and its settings.

    Attributes:
        suite: settings of the benchmark.
        seed: root seed.
        instances: instances by table name.
        methods: names of the methods, in order.
        trials: trajectories by (table, method), in the order of the trials, in a sequence that takes little
            memory (see hpobench_nmt.core.trajectory.Trials). Their `rows` are the row numbers of the table
            that `load_table` returns, as in the files of a results folder.
        loaded: methods by name, which can be constructed again to analyse methods from outside the package.
            Results that were read from a folder lack them, unless they were passed to load_results.
        step_seconds: processor time of a step by (table, method); NaN if it was not measured.
        manifest: the record of the run in a results folder.
    """

    suite: Suite
    seed: int
    instances: Mapping[str, Instance]
    methods: tuple[str, ...]
    trials: Mapping[tuple[str, str], Sequence[Trajectory]]
    loaded: Mapping[str, NamedMethod] = field(default_factory=dict)
    step_seconds: Mapping[tuple[str, str], float] = field(default_factory=dict)
    manifest: Manifest | None = None

    @property
    def sources(self) -> Mapping[str, NamedMethod]:
        """The old name of `loaded`."""
        warn_deprecated("Results.sources", "Results.loaded", since="1.1", removed_in="2.0")
        return self.loaded

    def summary(self, table: str, method: str) -> list[Summary]:
        """Each score of a method on a table, in the suite's order."""
        return summaries(self.instances[table], self.seed, self.trials[table, method])

    def scores(self) -> pd.DataFrame:
        """A data frame with one row for each table, method and score.

        Columns: table, method and score; trials; unanswered, the number of trials that ended before their
        target; failed, the number of trials that failed; at_least, a lower bound of the mean if some trials
        are unanswered; mean and std over the trials that did not fail, NaN if one of these has no score.
        """
        import pandas as pd

        rows = [
            {"table": table, "method": method, "score": score, **vars(found)}
            for table, method in self.trials
            for score, found in zip(self.suite.scores, self.summary(table, method), strict=True)
        ]
        frame = pd.DataFrame(rows)
        # Last, because a narrow terminal leaves out columns in the middle.
        figures = [name for name in ("mean", "std") if name in frame]
        return frame[[*frame.columns.drop(figures), *figures]]

    def save(self, folder: str | Path) -> Path:
        """Write a results folder like that of `hb.run(..., out=folder)`, and return its path.

        `hb.load_results` reads it, on any machine that has the run's tables installed.

        Raises:
            InputError: the folder has other files or another run, or the results do not come from a run.
            RunError: the folder cannot be written.
        """
        if self.manifest is None:
            raise InputError(
                "only results of a run can be saved, because a folder records how they were made."
            )
        files = ResultsFolder.of(folder, "folder")
        with files.writing():
            self._save(files, self.manifest)
        return files.path

    def _save(self, files: ResultsFolder, manifest: Manifest) -> None:
        files.start(manifest)
        for (table, method), found in self.trials.items():
            trials = Trials.of(self.instances[table].losses, found, self.instances[table].numbers)
            steps = sum(max(len(trial.rows) - self.suite.n_initial, 0) for trial in trials)
            seconds = steps * self.step_seconds.get((table, method), math.nan)
            files.keep_all(table, method, trials, Took(seconds, seconds, 0 if math.isnan(seconds) else steps))

    def all_failed(self) -> list[tuple[str, str]]:
        """The pairs (table, method) for which every trial failed."""
        return [pair for pair, trials in self.trials.items() if all(t.failure for t in trials)]

    def without_feasible_row(self) -> dict[tuple[str, str], int]:
        """By (table, method), the number of trials without a row that satisfies all constraints, if not 0."""
        counts = {}
        for (table, method), trials in self.trials.items():
            violations = self.instances[table].violations
            if violations is not None:
                feasible = is_feasible(violations)
                counts[table, method] = sum(not feasible[trial.candidates].any() for trial in trials)
        return {pair: count for pair, count in counts.items() if count}

    def failures(self) -> list[tuple[str, str, int, str]]:
        """(table, method, trial, reason) of every failed trial."""
        return [
            (table, method, trial, trajectory.failure)
            for (table, method), trajectories in self.trials.items()
            for trial, trajectory in enumerate(trajectories)
            if trajectory.failure
        ]

    def __repr__(self) -> str:
        tables, failed = ", ".join(self.instances), len(self.failures())
        run = f"{counted(self.suite.trials, 'trial')} of {', '.join(self.methods)} on {tables}"
        return f"Results({self.suite.name}: {run}, seed {self.seed}{f', {failed} failed' if failed else ''})"

    def __str__(self) -> str:
        if not self.trials:
            return repr(self)
        text: str = from_above("render.terminal.leaderboard:leaderboard_text")(self)
        return text

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.scores().to_html(index=False, escape=True, na_rep='')}"
