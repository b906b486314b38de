"""Run a suite's methods on its tables, in memory or into a results folder from which a killed run resumes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import msgspec

from hpobench_nmt.benchmarking.contestants.plugins import NamedMethod, refuse_sequential
from hpobench_nmt.benchmarking.records.manifest import manifest_of
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.benchmarking.records.results_folder import ResultsFolder
from hpobench_nmt.benchmarking.running.execution import check_jobs, run_blocks, run_here
from hpobench_nmt.benchmarking.running.trials import Block, Took, plan, seconds_a_step
from hpobench_nmt.benchmarking.task.instance import Instance
from hpobench_nmt.benchmarking.task.suite import Suite
from hpobench_nmt.core.system.clusters import Backend
from hpobench_nmt.core.system.errors import InputError, Notify, check_whole
from hpobench_nmt.core.system.validation import LARGEST_WHOLE
from hpobench_nmt.core.trajectory import Trials
from hpobench_nmt.methods import of_objectives


def run_suite(
    suite: Suite,
    instances: Mapping[str, Instance],
    methods: Sequence[NamedMethod],
    *,
    seed: int = 0,
    jobs: int = 1,
    backend: Backend = "local",
    timeout: float | None = None,
    folder: Path | None = None,
    table_folders: Mapping[str, str] | None = None,
    progress: Callable[[float, float], None] | None = None,
    notify: Notify = lambda message: None,
    debug: bool = False,
) -> Results:
    """Run every method on every table.

    Args:
        suite, instances, methods: from load_suite, make_instance (by table name) and resolve_methods.
        seed: root seed; the same seed gives the same bytes for any jobs and backend.
        jobs, backend, timeout: as in execution.run_blocks.
        folder: results folder, new or of the same run, which keeps every block of trials as it ends (see
            benchmarking/records/store.py); None to have the results only in memory. While another run
            writes into the folder, this one waits.
        table_folders: folder of each table that is not installed, by its name.
        progress: called with (work done, total work) as blocks end.
        notify: called with each message for the user.
        debug: run everything in this process, and raise the methods' errors.
    """
    check_methods(suite, methods)
    backend = check_jobs(jobs, backend, timeout)
    blocks = plan(suite, instances, methods, seed)
    check_whole("seed", seed, 0, LARGEST_WHOLE)  # a manifest cannot hold more
    manifest = manifest_of(suite, instances, methods, seed, table_folders or {})
    files = None if folder is None else ResultsFolder(folder)
    with files.writing(notify) if files else nullcontext():
        done: dict[tuple[str, str, int], Trials] = {}
        if files:
            files.start(manifest, notify)
            done = files.finished(blocks, instances)
            blocks = [replace(b, transcripts=files.transcripts(b.table, b.method)) for b in blocks]

        def on_opened(block: Block, opened: frozenset[Path]) -> None:
            nonlocal manifest
            name, entry = block.method.name, manifest.methods[block.method.name]
            files_too = block.method.not_covered(opened) if files else []
            if files and files_too and not entry.not_covered:
                entry = entry.marked(files_too)
                manifest = msgspec.structs.replace(manifest, methods=manifest.methods | {name: entry})
                files.mark(name, entry)
                notify(
                    f"method {name!r} reads {entry.not_covered} in its trials, but not when it is loaded or "
                    f"constructed. The results are kept, but the next run will repeat these trials."
                )

        together: dict[tuple[str, str], list[Block]] = {(t, m.name): [] for t in instances for m in methods}
        for block in blocks:
            together[block.table, block.method.name].append(block)
        took: dict[tuple[str, str], list[Took]] = {pair: [] for pair in together}
        total = sum(block.work for block in blocks)
        worked = sum(block.work for block in blocks if block.key in done)
        progress = progress or (lambda done, total: None)
        progress(worked, total)
        todo = [block for block in blocks if block.key not in done]
        ran = (
            run_here(todo, on_opened, debug) if debug else run_blocks(todo, jobs, backend, timeout, on_opened)
        )
        for block, found, seconds in ran:
            pair = block.table, block.method.name
            done[block.key] = Trials.of(block.data.losses, found, block.data.numbers)
            took[pair].append(Took.of(found, seconds, suite.n_initial))
            if files:
                files.keep(block, done[block.key], took[pair][-1])
                if digest := files.merge(together[pair], done):
                    manifest = manifest.with_hash(*pair, digest)
            worked += block.work
            progress(worked, total)
        if files:
            files.close(blocks)
            # A run of other methods that started at the same time may have omitted these.
            files.start(manifest)
        return Results(
            suite,
            seed,
            dict(instances),
            tuple(method.name for method in methods),
            {pair: Trials.joined([done[block.key] for block in own]) for pair, own in together.items()},
            {method.name: method for method in methods},
            {pair: files.step_seconds(*pair) if files else seconds_a_step(took[pair]) for pair in together},
            manifest,
        )


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
