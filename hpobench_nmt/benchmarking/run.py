"""Run methods on tables: in memory, or into a results folder that a killed run goes on from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hpobench_nmt.benchmarking.execution import Backend, check_jobs, run_blocks
from hpobench_nmt.benchmarking.instance import Instance, make_instance, with_sources
from hpobench_nmt.benchmarking.manifest import manifest_of
from hpobench_nmt.benchmarking.plugins import NamedMethod, refuse_sequential, resolve_methods
from hpobench_nmt.benchmarking.results import Results
from hpobench_nmt.benchmarking.store import ResultsFolder
from hpobench_nmt.benchmarking.suite import Suite
from hpobench_nmt.benchmarking.trials import Block, Took, plan, seconds_a_step
from hpobench_nmt.core.errors import InputError, unknown
from hpobench_nmt.core.problem import MethodFactory
from hpobench_nmt.core.trajectory import Trials
from hpobench_nmt.core.validation import checked
from hpobench_nmt.evaluation.scores import SCORES, score_names
from hpobench_nmt.lookup.catalogue import load_table
from hpobench_nmt.lookup.table import Table
from hpobench_nmt.methods import of_objectives

_LOOKUPS_SCORED = 20  # by fb and its like, where nothing else is said
_ARGUMENTS = {"tables", "methods", "scores", "objectives", "trials", "seed", "score_at", "tolerance"}
_ARGUMENTS |= {"jobs", "timeout"}
# Keys of a suite that hb.benchmark has no argument of its own for, and an old name of one that it has.
_SETTINGS = {*Suite.__struct_fields__} - _ARGUMENTS - {"name"} | {"budget"}


def run_suite(
    suite: Suite,
    instances: Mapping[str, Instance],
    methods: Sequence[NamedMethod],
    *,
    seed: int = 0,
    jobs: int = 1,
    backend: Backend = "loky",
    timeout: float | None = None,
) -> Results:
    """Run every method on every table, in memory.

    Args:
        suite: settings.
        instances: by table name, from make_instance.
        methods: from resolve_methods.
        seed: root seed; the same seed gives the same bytes for any jobs and backend.
        jobs: worker processes.
        backend: where methods of the package run.
        timeout: seconds that each call of a user's method may take; None: no limit.
    """
    check_methods(suite, methods)
    blocks = plan(suite, instances, methods, seed)
    done: dict[tuple[str, str, int], Trials] = {}
    took: dict[tuple[str, str], list[Took]] = {}
    for block, found, seconds in run_blocks(blocks, jobs, backend, timeout):
        done[block.key] = Trials.of(block.data.losses, found, block.data.numbers)
        took.setdefault(block.key[:2], []).append(Took.of(found, seconds, suite.n_initial))
    step_seconds = {pair: seconds_a_step(parts) for pair, parts in took.items()}
    return _results(suite, instances, methods, seed, blocks, done, step_seconds)


def run_to_folder(
    folder: Path,
    suite: Suite,
    instances: Mapping[str, Instance],
    methods: Sequence[NamedMethod],
    *,
    seed: int = 0,
    jobs: int = 1,
    backend: Backend = "loky",
    timeout: float | None = None,
    table_sources: Mapping[str, str] | None = None,
    progress: Callable[[float, float], None] | None = None,
    notify: Callable[[str], None] = lambda message: None,
) -> Results:
    """Run a suite, keeping every block of trials in a folder as it ends.

    Args:
        folder: results folder, new or of the same run: see hpobench_nmt.benchmarking.store.
        suite, instances, methods, seed, jobs, backend, timeout: as in run_suite.
        table_sources: folder of each table that is not installed, by its name.
        progress: called with (work done, work in all) as blocks end.
        notify: told what a user should know.
    """
    check_methods(suite, methods)
    check_jobs(jobs, backend, timeout)
    blocks = plan(suite, instances, methods, seed)
    report = progress or (lambda done, total: None)
    files = ResultsFolder(folder)
    manifest = manifest_of(suite, instances, methods, seed, table_sources or {})
    files.start(manifest, notify)
    done = files.finished(blocks, instances)
    total = sum(block.work for block in blocks)
    worked = sum(block.work for block in blocks if block.key in done)
    report(worked, total)
    together: dict[tuple[str, str], list[Block]] = {}
    for block in blocks:
        together.setdefault((block.table, block.method.name), []).append(block)
    todo = [block for block in blocks if block.key not in done]
    for block, found, seconds in run_blocks(todo, jobs, backend, timeout):
        done[block.key] = Trials.of(block.data.losses, found, block.data.numbers)
        files.keep(block, done[block.key], Took.of(found, seconds, suite.n_initial))
        files.merge(together[block.table, block.method.name], done)
        worked += block.work
        report(worked, total)
    files.close(blocks)
    files.start(manifest)  # a run of other methods that began at the same time may have left these out
    step_seconds = {pair: files.step_seconds(*pair) for pair in together}
    return _results(suite, instances, methods, seed, blocks, done, step_seconds)


def _results(
    suite: Suite,
    instances: Mapping[str, Instance],
    methods: Sequence[NamedMethod],
    seed: int,
    blocks: Sequence[Block],
    done: Mapping[tuple[str, str, int], Trials],
    step_seconds: Mapping[tuple[str, str], float],
) -> Results:
    parts: dict[tuple[str, str], list[Trials]] = {(t, m.name): [] for t in instances for m in methods}
    for block in blocks:
        parts[block.table, block.method.name].append(done[block.key])
    trials = {key: Trials.joined(found) for key, found in parts.items()}
    sources = {m.name: m for m in methods}
    return Results(suite, seed, dict(instances), tuple(sources), trials, sources, step_seconds)


def check_methods(suite: Suite, methods: Iterable[NamedMethod]) -> None:
    """Refuse methods that are known not to fit the suite's number of objectives or workers."""
    for method in methods:
        refuse_sequential(method, suite.workers)
        if method.objectives and suite.n_objectives not in method.objectives:
            raise InputError(
                f"method {method.name!r} is for {of_objectives(method.objectives)}, and there "
                f"{'is' if suite.n_objectives == 1 else 'are'} {suite.n_objectives} for "
                f"{', '.join(suite.scores)}. See 'hpobench-nmt methods'."
            )


def benchmark(
    tables: Table | str | Path | Sequence[Table | str | Path],
    methods: Sequence[str | MethodFactory],
    *,
    scores: Sequence[str] = (),
    objectives: Sequence[str] = (),
    trials: int = 100,
    seed: int = 0,
    score_at: float | None = None,
    tolerance: float | None = None,
    jobs: int = 1,
    timeout: float | None = None,
    **settings: Any,
) -> Results:
    """Run methods on tables and keep the results in memory: the whole benchmark as one call.

    Args:
        tables: tables, names or folders; one or several.
        methods: names, "file.py:Class", or classes.
        scores: some of ftb, ftc, fb (the default), or of fto, fta, fbp, fbh (the default for two and more).
            With `clock="cost"`, fb, fbp and fbh are among the default only if `score_at` is given.
        objectives: "metric" or "metric:min|max"; each table's own where left out.
        trials: number of seeded trials per method and table.
        seed: root seed.
        score_at: number of look-ups, or time on the clock, after which fb, fbp and fbh are taken; it ends no
            trial. Left out: 20 look-ups.
        tolerance: of ftc, in the metric's unit; left out: Table.tolerance.
        jobs: worker processes. With 1, methods of the package and methods given as classes run in this
            process, and a class that ends its process ends this one. Methods given as a file or module
            have processes of their own in any case.
        timeout: seconds that each call of a user's method may take (None: no limit). A trial in which a call
            takes longer fails. With a limit, classes have processes of their own, too, and must be such as
            can be pickled. Methods of the package are never limited.
        settings: further keys of a suite, such as `constraints=["dev_gpu_time<=60"]`, `noise`, `stop` and
            `lookups` (the most that a trial may look up; a method sees it as problem.lookups), or `time` (the
            most time that a trial may take on the clock).

    Raises:
        InputError: an unknown table or method, or settings that do not go together.
    """
    for name in settings:
        if name not in _SETTINGS:
            raise unknown("setting", name, _SETTINGS | _ARGUMENTS, "(of hb.benchmark)")
    lists = {"methods": methods, "scores": scores, "objectives": objectives, **settings}
    for name in ("methods", "scores", "objectives", "constraints", "sources"):
        if isinstance(lists.get(name), str):
            raise InputError(f"{name} must be a list, such as [{lists[name]!r}], not a text.")
    methods = list(methods) if isinstance(methods, Iterable) and not callable(methods) else []
    if not methods:
        raise InputError("methods must be a list of one or more names or classes, such as ['RS', 'BO_EI_M'].")
    several = [tables] if isinstance(tables, Table | str | Path) else tables
    if not isinstance(several, Iterable):
        raise InputError(
            f"tables must be a table, a name or a folder, or a list of such, not {repr(several)[:80]}."
        )
    loaded = [t if isinstance(t, Table) else load_table(t) for t in several]
    score_at = settings.pop("budget", score_at)  # its name in the first version
    trials, score_at, tolerance, jobs = map(_plain, (trials, score_at, tolerance, jobs))
    settings = {name: _plain(value) for name, value in settings.items()}
    if isinstance(settings.get("time"), int | float):
        settings["time"] = {"default": settings["time"]}
    if score_at is None and settings.get("clock") != "cost":
        score_at = _LOOKUPS_SCORED
    usual = score_names(len(objectives) or 1)
    if score_at is None:
        usual = tuple(name for name in usual if not SCORES[name].needs_score_at)
    scores = tuple(scores) or usual
    needs_it = any(SCORES[name].needs_score_at for name in scores if name in SCORES)
    given = {
        "name": "benchmark",
        "tables": [table.name for table in loaded],
        "scores": scores,
        "objectives": objectives,
        "trials": trials,
        "score_at": {} if score_at is None or not needs_it else {"default": score_at},
        "tolerance": {} if tolerance is None else {"default": tolerance},
        **settings,
    }
    suite = checked(given, Suite, "hb.benchmark")
    instances = {table.name: with_sources(suite, make_instance(suite, table)) for table in loaded}
    return run_suite(suite, instances, resolve_methods(methods), seed=seed, jobs=jobs, timeout=timeout)


def _plain(value: Any) -> Any:
    """A number of NumPy's types as Python's own."""
    return value.item() if isinstance(value, np.generic) else value
