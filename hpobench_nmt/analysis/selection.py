"""Helpers that the analyses of a run share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np

from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.benchmarking.task.instance import Instance
from hpobench_nmt.benchmarking.task.scoring import length_of, scored_trial
from hpobench_nmt.benchmarking.task.suite_files import load_suite
from hpobench_nmt.core.system.errors import InputError, check_known
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.core.trajectory import Trajectory, same_trial
from hpobench_nmt.lookup.catalogue import family_of

# The name of random search among the methods if it is computed, not simulated.
EXACT = "RS (exact)"
_MOST_MILESTONES = 10
FAMILIES = {
    "nmthpo": "translation models",
    "nmtlc": "translation models",
    "taskset": "optimizers of RNNs",
    "algoperf": "Transformers of a benchmark of optimizers",
    "steplaw": "pre-training of language models",
    "autoresearch": "a GPT of 50M in five minutes",
    "llm-pilot": "serving of language models",
    "llm-inference-bench": "serving of language models",
    "llmsys-sglang": "serving of language models",
    "llmsys": "retrieval and answers",
    "mlperf-training": "trainings of language models to a target",
    "nanogpt-track-3": "optimizers of a GPT",
    "peft": "recipes of fine-tuning",
    "marin-optimizers": "optimizers of a GPT",
}
"""The family of a table, or of a collection's other tables, by which a method's `tuned_on` knows them."""


def instance_of(results: Results, table: str, n_objectives: int | None = None) -> Instance:
    """The instance of a table; InputError if an analysis for one objective (1) or more (2) does not fit."""
    check_known("table", [table], results.instances)
    instance = results.instances[table]
    m = instance.losses.shape[1]
    if n_objectives is not None and min(m, 2) != n_objectives:
        raise InputError(
            f"table {table!r}: this analysis is for {'one objective' if n_objectives == 1 else 'two or more'}"
            f"; the run has {m}."
        )
    return instance


def one_table(results: Results, table: str) -> Results:
    """The part of the results that is about one table."""
    trials = {key: value for key, value in results.trials.items() if key[0] == table}
    return replace(results, instances={table: results.instances[table]}, trials=trials)


def only_methods(results: Results, names: Sequence[str]) -> Results:
    """The results of some methods."""
    manifest = results.manifest
    if manifest is not None:
        own = {
            table: {name: hashes[name] for name in names if name in hashes}
            for table, hashes in manifest.observations.items()
        }
        entries = {name: manifest.methods[name] for name in names}
        manifest = msgspec.structs.replace(manifest, methods=entries, observations=own)
    trials = {pair: trials for pair, trials in results.trials.items() if pair[1] in names}
    seconds = {pair: value for pair, value in results.step_seconds.items() if pair[1] in names}
    chosen = tuple(names)
    return replace(results, methods=chosen, trials=trials, loaded={}, step_seconds=seconds, manifest=manifest)


def clock_milestones(results: Results, table: str) -> tuple[float, ...]:
    """Round times up to the longest trial's end: 1, 2 and 5 times powers of ten. Empty for look-ups."""
    if results.instances[table].problem.counts_lookups:
        return ()
    trials = [trial for method in methods_on(results, table) for trial in results.trials[table, method]]
    longest = max((length_of(trial) for trial in trials), default=0.0)
    if longest <= 0:
        return ()
    top = int(np.floor(np.log10(longest)))
    found = [digit * 10.0**power for power in range(top - 4, top + 1) for digit in (1, 2, 5)]
    return tuple(time for time in found if time <= longest)[-_MOST_MILESTONES:]


def typical_time(instance: Instance, rows: int) -> float:
    """The time in which all workers train this many rows of the average cost, to one digit."""
    time = float(instance.trainings.whole_costs.mean()) * rows / instance.problem.workers
    return float(f"{time:.0e}")


def methods_on(results: Results, table: str) -> list[str]:
    """The methods that were run on a table."""
    return [m for m in results.methods if (table, m) in results.trials]


def trials_of(results: Results, table: str, method: str, number: int | None = None) -> Sequence[Trajectory]:
    """All trials of a method on a table. Raises InputError if there is no such method, or no such trial."""
    check_known("method", [method], methods_on(results, table), f"(table {table!r})")
    trials = results.trials[table, method]
    if number is not None and not 0 <= number < len(trials):
        raise InputError(
            f"trial {number} of {method} on {table} does not exist: there are trials 0 to {len(trials) - 1}."
        )
    return trials


def sound_trials(results: Results, table: str, method: str) -> list[Trajectory]:
    """The trials that did not fail; rows that miss a constraint have NaN losses in them."""
    instance = results.instances[table]
    return [scored_trial(instance, trial) for trial in results.trials[table, method] if not trial.failure]


def failure_notes(results: Results, table: str) -> list[str]:
    """A sentence for every method with failed trials."""
    notes = []
    for method in methods_on(results, table):
        trials = results.trials[table, method]
        if failed := sum(bool(t.failure) for t in trials):
            notes.append(
                f"{method}: {failed} of {counted(len(trials), 'trial')} failed and "
                f"{'is' if failed == 1 else 'are'} left out."
            )
    return notes


def families(results: Results) -> dict[str, str]:
    """The family of each table of a run.

    The suite may name a table's family, or the suite quick, or `FAMILIES` that of its collection. Else it is
    the group that the table's datasheet names, or the table alone.
    """
    known = {**load_suite("quick").family, **results.suite.family}
    found = {}
    for name, instance in results.instances.items():
        group = family_of(instance.installed)
        found[name] = known.get(name) or FAMILIES.get(name) or FAMILIES.get(group, group)
    return found


def same_run(results: Results, table: str, method: str) -> bool:
    """Whether all of several trials are the same run, as for a method without randomness."""
    trials = results.trials[table, method]
    return len(trials) > 1 and all(same_trial(trials[0], trials[i]) for i in range(1, len(trials)))
