"""Failed trials, grouped by reason."""

from __future__ import annotations

from dataclasses import dataclass

from hpobench_nmt.benchmarking.records.results import Results

_TRIALS_NAMED = 5


@dataclass(frozen=True)
class FailureGroup:
    """The numbers of a method's trials on a table that failed for the same reason, of n_trials in total."""

    table: str
    method: str
    reason: str
    trials: tuple[int, ...]
    n_trials: int

    @property
    def which(self) -> str:
        """The first few numbers, and how many there are: "0, 3 (2 of 100)"."""
        named = ", ".join(map(str, self.trials[:_TRIALS_NAMED]))
        more = ", …" if len(self.trials) > _TRIALS_NAMED else ""
        return f"{named}{more} ({len(self.trials)} of {self.n_trials})"


def grouped_failures(results: Results) -> list[FailureGroup]:
    """All failed trials of a run, in the order in which their reasons first occur."""
    grouped: dict[tuple[str, str, str], list[int]] = {}
    for table, method, trial, reason in results.failures():
        grouped.setdefault((table, method, reason), []).append(trial)
    return [
        FailureGroup(table, method, reason, tuple(trials), len(results.trials[table, method]))
        for (table, method, reason), trials in grouped.items()
    ]
