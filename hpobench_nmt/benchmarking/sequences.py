"""Results as TABLE/METHOD.ss for Zhang & Duh's scoring scripts: one line of row numbers per trial."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.files import write_whole
from hpobench_nmt.evaluation.scores import answer


def export_sequences(results: Results, out: Path) -> list[Path]:
    """Write OUT/TABLE/METHOD.ss for every table and method.

    The scripts look for their rows in every sequence. A trial that stopped once its scores were settled is
    therefore completed with the rows that it did not look up, in ascending order, which changes no score.

    Raises:
        InputError: a trial failed or stopped before its scores were settled, any of several best rows
            counted, or rows had to keep constraints; completing it would invent scores. Nothing is written.
    """
    if results.suite.timed:
        raise InputError(
            f"suite {results.suite.name!r} has a clock or several workers, which the scripts do not support."
        )
    if results.suite.constraints:
        raise InputError(
            f"suite {results.suite.name!r} has constraints, which the scripts do not support: they would "
            f"look for rows that the trials did not have to find."
        )
    contents: dict[Path, str] = {}
    for (table, method), trials in results.trials.items():
        instance = results.instances[table]
        if tied := [goal for goal in instance.goals if goal.name == "ftb" and goal.targets.sum() > 1]:
            count = int(tied[0].targets.sum())
            raise InputError(
                f"{table}: {count} rows share the best value, and the scripts credit only the first. "
                'Export a run of a suite with ties = "first", such as paper-single.'
            )
        lines = []
        for number, trial in enumerate(trials):
            where = f"{table}, {method}, trial {number}"
            if trial.failure:
                raise InputError(f"{where}: failed ({trial.failure}), so there is no sequence to export.")
            for goal in instance.goals:
                if np.isnan(answer(goal, trial, results.suite.n_initial)):
                    raise InputError(
                        f"{where}: stopped before {goal.name} was settled. Run without a limit on look-ups."
                    )
            rest = np.setdiff1d(np.arange(len(instance.table)), trial.rows)
            lines.append(" ".join(map(str, [*trial.rows.tolist(), *rest.tolist()])))
        contents[out / table / f"{method}.ss"] = "\n".join(lines) + "\n"
    for path, content in contents.items():
        write_whole(path, content.encode())
    return list(contents)
