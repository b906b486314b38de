"""How a run was made: command, settings, versions, methods' hashes, and where its tables come from."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from hpobench_nmt.analysis.leaderboard import meaning, tolerance
from hpobench_nmt.analysis.report_runs import Run, all_tables
from hpobench_nmt.analysis.verdicts import ALL_NOTES
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.benchmarking.task.suite import Suite, overridden
from hpobench_nmt.benchmarking.task.suite_files import load_suite, suite_files
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.text import counted
from hpobench_nmt.evaluation.scores import SCORES


def command(run: Run) -> str:
    """A command that repeats the run, from its manifest."""
    suite, manifest = run.results.suite, run.manifest
    usual = _shipped(suite)
    parts = ["hpobench-nmt", "run", suite.name if usual else f"{suite.name}.toml"]
    specs = tuple(entry.spec or method for method, entry in manifest.methods.items())
    tables = tuple(entry.source or name for name, entry in manifest.tables.items())
    for key, names in (("tables", tables), ("methods", specs), ("objectives", suite.objectives)):
        if names and (usual is None or names != getattr(usual, key)):
            parts += [f"--{key}", ",".join(names)]
    if usual is None or suite.constraints != usual.constraints:
        parts += [part for text in suite.constraints for part in ("--constraint", text)]
    for key, number in (("trials", suite.trials), ("lookups", suite.lookups)):
        if number is not None and (usual is None or number != getattr(usual, key)):
            parts += [f"--{key}", str(number)]
    base = usual or Suite("", suite.scores)
    timed = [key for key in ("score_at", "time") if list(getattr(suite, key)) == ["default"]]
    keys = ["clock", "cost", "workers", "curves", *timed]
    changed = [key for key in keys if getattr(suite, key) != getattr(base, key)]
    parts += ["--set", ",".join(f"{key}={_value(getattr(suite, key))}" for key in changed)] * bool(changed)
    return shlex.join([*parts, "--seed", str(run.results.seed)])


def _value(value: object) -> str:
    """A setting as `run --set` takes it."""
    if isinstance(value, Mapping):
        return f"{value['default']:.10g}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _shipped(suite: Suite) -> Suite | None:
    """The package's suite of that name, unless it differs in a setting that no option can express."""
    if suite.name not in suite_files():
        return None
    usual = load_suite(suite.name)
    names = ["objectives", "constraints", "trials", "lookups", "clock", "cost", "curves", "workers"]
    names += [key for key in ("score_at", "time") if list(getattr(suite, key)) == ["default"]]
    given = {name: getattr(suite, name) for name in names}
    try:
        return usual if overridden(usual, given).settings() == suite.settings() else None
    except InputError:  # a user's suite that has the name of a suite of the package
        return None


def facts(run: Run) -> list[tuple[str, str]]:
    """Settings and versions, as pairs of a name and a text."""
    suite, manifest = run.results.suite, run.manifest
    design = counted(suite.n_initial, "look-up")
    lines = [
        ("suite", suite.name),
        ("command", command(run)),
        ("root seed", str(run.results.seed)),
        ("trials", f"{suite.trials} per method and table, each with an initial design of {design}"),
        ("scores", "; ".join(f"{s}: {meaning(suite, s)}" for s in suite.scores)),
        ("ties", f"{'any' if suite.ties == 'any' else 'only the first'} row of best value counts"),
        ("a trial ends", {"settled": "when no score can change any more"}.get(suite.stop, "at the last row")),
    ]
    if suite.noise:
        lines.append(("noise", "a look-up draws one of the row's trainings; scores use the row's mean"))
    if suite.sources:
        sources = ", ".join(suite.sources)
        lines.append(("sources", f"methods may learn from {sources}, except the table itself"))
    if suite.source_of:
        pairs = ", ".join(f"{source} on {table}" for table, source in suite.source_of.items())
        lines.append(
            ("source of", f"methods may learn from {pairs}, using the configurations that both have")
        )
    if suite.constraints:
        kept = [f"{name} {i.n_feasible}/{len(i.table)}" for name, i in run.results.instances.items()]
        rules = ", ".join(suite.constraints)
        lines.append(("constraints", f"{rules}; rows that satisfy them: {', '.join(kept)}"))
    if suite.lookups is not None:
        lines.append(("look-ups", f"at most {suite.lookups}"))
    if near := [s for s in suite.scores if SCORES[s].needs_tolerance]:
        used = [f"{name} {tolerance(instance)}" for name, instance in run.results.instances.items()]
        lines.append((f"tolerance of {' and '.join(near)}", ", ".join(used)))
    late = [s for s in suite.scores if SCORES[s].needs_score_at]
    if suite.score_at and late:
        taken = ", ".join(f"{k} {v:.10g}" for k, v in suite.score_at.items())
        unit = "on the clock" if suite.timed else "look-ups"
        lines.append((f"{' and '.join(late)} taken after", f"{taken} {unit}"))
    if suite.timed:
        lines += clock_facts(run.results)
    if suite.time:
        lines.append(("a trial's time", ", ".join(f"{k} {v:.10g}" for k, v in suite.time.items())))
    lines.append(("versions", ", ".join(f"{k} {v}" for k, v in manifest.versions.items())))
    lines.append(("intervals and tests", ALL_NOTES))
    return lines


def clock_facts(results: Results) -> list[tuple[str, str]]:
    """The clock of a run in words, as pairs of a name and a text."""
    suite = results.suite
    per = (
        "a training takes as long as its cost"
        if suite.clock == "cost"
        else "a look-up takes one unit of time"
    )
    units = {instance.time_unit for instance in results.instances.values()}
    lines = [("clock", f"{per}, in {', '.join(sorted(units))}"), ("workers", str(suite.workers))]
    if suite.curves:
        pausing = "can be paused and resumed later" if suite.resume else "start again after they were stopped"
        lines.append(("trainings", f"can be stopped at each checkpoint of their curves, and {pausing}"))
    if left_out := [instance.left_out for instance in results.instances.values() if instance.left_out]:
        lines.append(("left out", "; ".join(left_out)))
    return lines


def provenance(runs: Sequence[Run]) -> list[tuple[str, str, str, list[tuple[str, str]]]]:
    """For each installed table: name, rows, hash, and where it comes from."""
    lines = []
    for table in all_tables(runs):
        about = [(str(k), _plain(v)) for k, v in table.provenance.items() if _plain(v)]
        lines.append((table.name, f"{len(table):,}", table.sha256, about))
    return lines


def method_prints(runs: Sequence[Run]) -> list[tuple[str, str, str]]:
    """Every method with its spec, and its version or the hash of its code and settings."""
    found: dict[tuple[str, str], str] = {}
    for run in runs:
        for name, entry in run.manifest.methods.items():
            found[name, entry.identity] = entry.spec or name
    return [(name, spec, fingerprint) for (name, fingerprint), spec in found.items()]


def _plain(value: Any) -> str:
    if isinstance(value, str | int | float):
        return str(value)
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else ""
