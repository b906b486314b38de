"""Verifying an archive: hashes of all trials first, which takes seconds, then some trials that run again."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hpobench_nmt.arena.archive import Archive
from hpobench_nmt.arena.beside import fetched_archive
from hpobench_nmt.arena.digest import DIGEST, digest_path, load_digest
from hpobench_nmt.arena.submissions import archived_results
from hpobench_nmt.benchmarking.contestants.plugins import resolve_methods
from hpobench_nmt.benchmarking.records.manifest import manifest_of
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.benchmarking.running.execution import run_blocks
from hpobench_nmt.benchmarking.running.trials import Block, plan
from hpobench_nmt.core.seeds import generator
from hpobench_nmt.core.system.errors import InputError, RunError
from hpobench_nmt.core.system.text import counted, some_of
from hpobench_nmt.core.trajectory import Trials, same_trial
from hpobench_nmt.methods import CONTROLS, KNOWN

BLIND = ("RS", *CONTROLS)
"""Methods that see no loss, so that no rounding changes their rows."""


def check_hashes(archive: Archive, digest: str | Path | None = None) -> str:
    """Compare the trials of an archive with its digest, by hash; returns a sentence.

    By default, the digest is the file beside the archive, or else the one that comes with the package.

    Raises:
        RunError: trials differ, or are in only one of them.
        InputError: the digest cannot be read.
    """
    usual = digest_path(archive.path)
    path = Path(digest) if digest else usual if usual.is_file() else DIGEST
    known = load_digest(path)
    if not known.hashes:
        return (
            f"{path}: has format 1, without hashes, so a changed row is found only if its trial runs again."
        )
    if found := known.changed(archive):
        raise RunError(f"{archive.path}: differs from its digest {path}: {some_of(found)}.")
    return f"All {counted(len(known.hashes), 'hash', 'hashes')} of trials are those of the digest {path}."


@dataclass(frozen=True)
class Plan:
    """Trials of an archive to run again.

    Attributes:
        known: the archive's results.
        blocks: the trials that are left to run, one to a block.
        equal: the number of trials that an earlier run of the same plan found equal.
        seconds: processor time that the blocks took when the archive was made, as far as it was measured.
        not_verified: why trials of a method cannot run again here, by method.
        libraries: libraries of all methods whose versions here are not those of the archive.
        journal: the file that lists the equal trials.
    """

    known: Results
    blocks: tuple[Block, ...]
    equal: int
    seconds: float
    not_verified: dict[str, str]
    libraries: tuple[str, ...]
    journal: Path


def plan_verification(
    archive: Archive,
    track: str,
    methods: Sequence[str] = (),
    tables: Sequence[str] = (),
    trials: int = 1,
    seed: int = 0,
) -> Plan:
    """Choose trials of each method and installed table by a seed.

    Raises InputError if a named method is not one of this package or not in the archive, if no method can run
    here, or if the archive has fewer trials.
    """
    for name in methods:
        if name not in KNOWN:
            raise InputError(f"{name!r} is not a method of this package: 'archive add' is for other methods.")
    archived_methods = archive.methods(track)
    reasons = {m: _obstacle(archive, track, m) for m in methods or archived_methods if m in archived_methods}
    not_verified = {name: reason for name, reason in reasons.items() if reason}
    chosen = [name for name in methods or archived_methods if name not in not_verified]
    if not chosen:
        why = some_of([f"{name}: {reason}" for name, reason in not_verified.items()]) or "it has none"
        raise InputError(f"{archive.path}: no method of track {track} can be verified here ({why}).")
    known = archived_results(archive, track, tables, chosen)
    least = min(len(known.trials.get((t, m), ())) for t in known.instances for m in chosen)
    if trials > least:
        raise InputError(f"{archive.path}: has {counted(least, 'trial')} of a method, not {trials}.")
    resolved = resolve_methods(chosen)
    here = manifest_of(known.suite, known.instances, resolved, known.seed, {})
    entries = [each.entry.identity for each in resolved]
    about = json.dumps([archive.sha256, track, seed, trials, here.versions, chosen, entries])
    journal = fetched_archive().parent / f"verified-{hashlib.sha256(about.encode()).hexdigest()[:16]}.jsonl"
    done = set(journal.read_text("utf-8").splitlines()) if journal.is_file() else set()
    blocks, seconds, equal = [], 0.0, 0
    for block in plan(known.suite, known.instances, resolved, known.seed):
        table, method = block.table, block.method.name
        every = known.trials[table, method]
        rng = generator(seed, "verify", track, table, method)
        for i in sorted(rng.choice(len(every), trials, replace=False).tolist()) if not block.first else ():
            own = replace(block, first=i, stop=i + 1)
            if _line(own) in done:
                equal += 1
                continue
            blocks.append(own)
            step = archive.seconds(track, method, table)
            seconds += 0.0 if math.isnan(step) else step * len(every[i].rows)
    before = archived_methods[chosen[0]].versions
    libraries = tuple(
        f"{name} {before[name]} ({version} here)"
        for name, version in here.versions.items()
        if name in before and name != "hpobench-nmt" and before[name] != version
    )
    return Plan(known, tuple(blocks), equal, seconds, not_verified, libraries, journal)


def _line(block: Block) -> str:
    return json.dumps(block.key)


def _obstacle(archive: Archive, track: str, method: str) -> str:
    """Why trials of a method cannot run again here; "" if they can."""
    if method not in KNOWN:
        return "not a method of this package"
    if missing := KNOWN[method].missing():
        return f"{missing[0]} is not installed"
    installed = resolve_methods([method])[0]
    if archive.has_rows_of(track, installed):
        return ""
    return f"archived with {archive.identity(track, method).identity}, here {installed.entry.identity}"


def unequal_trials(
    chosen: Plan, jobs: int, progress: Callable[[float, float], None] | None = None
) -> list[Block]:
    """Run the trials of a plan again; returns those that differ. The journal keeps those that are equal."""
    unequal = []
    total, done = sum(block.work for block in chosen.blocks), 0
    chosen.journal.parent.mkdir(parents=True, exist_ok=True)
    with chosen.journal.open("a", encoding="utf-8") as journal:
        for block, found, _ in run_blocks(chosen.blocks, jobs, "local"):
            (again,) = Trials.of(block.data.losses, found, block.data.numbers)
            if same_trial(chosen.known.trials[block.table, block.method.name][block.first], again):
                print(_line(block), file=journal, flush=True)
            else:
                unequal.append(block)
            done += block.work
            if progress:
                progress(done, total)
    return sorted(unequal, key=lambda block: block.key)
