"""Extend the archive of lm-2026 after a track got another table: old trials are kept, only new ones run.

    python benchmarks/tables/grow_archive.py [OUT]

Run it after adding a line of `lm_2026.py` to a track's file, before a release. For each of the package's
methods in the archive, trials on tables with unchanged lines are kept. On other tables, the method runs. If a
method's code has changed, its first trials on each table run again. Unless these are equal to the old trials,
all of its trials run again. The script writes OUT (default: archive/lm-2026.parquet). With the default, it
also writes the digest that comes with the package. All tables of the tracks must be installed. Submitted
methods are left out and listed, because their authors have to run them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import hpobench_nmt as hb
from hpobench_nmt.arena.archive import NAME, Archive, archive_bytes, read_archive
from hpobench_nmt.arena.beside import load_archive
from hpobench_nmt.arena.digest import DIGEST, digest_bytes
from hpobench_nmt.arena.submissions import RERUN, save_archive
from hpobench_nmt.benchmarking.contestants.plugins import resolve_methods
from hpobench_nmt.benchmarking.records.frozen import check_pinned
from hpobench_nmt.benchmarking.records.manifest import manifest_of
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.benchmarking.task.instance import Instance, suite_instances
from hpobench_nmt.benchmarking.task.suite import Suite, changed
from hpobench_nmt.benchmarking.task.suite_files import load_suite, track_of, tracks
from hpobench_nmt.core.trajectory import same_trial
from hpobench_nmt.methods import KNOWN

ROOT = Path(__file__).parents[2]


def line(suite: Suite, table: str) -> tuple[object, ...]:
    """All settings of a table in a suite's file."""
    settings = (suite.pinned, suite.tolerance, suite.time, suite.score_at, suite.source_of)
    return tuple(each.get(table) for each in settings)


def grown(archive: Archive, track: str) -> Results:
    """The results of a track on all of its tables."""
    suite, known = load_suite(track_of(NAME, track)), archive.methods(track)
    current = resolve_methods(name for name in known if name in KNOWN)
    names = [m.name for m in current]
    left_out = [name for name in known if name not in names]
    if left_out:
        print(f"{track}: left out, because others sent them in: {', '.join(left_out)}", file=sys.stderr)
    before = next(iter(known.values())).suite
    instances = suite_instances(suite)
    check_pinned(suite, instances)
    new = [table for table in suite.tables if line(before, table) != line(suite, table)]
    same = [table for table in suite.tables if table not in new]
    stale = [m.name for m in current if not archive.has_rows_of(track, m)]
    changed_code = differing(archive, track, suite, same, stale, instances)
    print(f"{track}: {len(names)} methods, new tables: {', '.join(new) or 'none'}", file=sys.stderr)
    ran = hb.run(suite, tables=new, methods=names) if new else None
    other = hb.run(suite, tables=same, methods=changed_code) if changed_code else None
    trials, seconds = {}, {}
    for table, instance in instances.items():
        for name in names:
            pair = table, name
            if ran is not None and table in new:
                trials[pair], seconds[pair] = ran.trials[pair], ran.step_seconds[pair]
            elif other is not None and name in changed_code:
                trials[pair], seconds[pair] = other.trials[pair], other.step_seconds[pair]
            elif (found := archive.trials(track, name, instance)) is not None:
                trials[pair], seconds[pair] = found, archive.seconds(track, name, table)
    manifest = manifest_of(suite, instances, current, 0, {})
    chosen = changed(suite, methods=names)
    return Results(chosen, 0, instances, tuple(names), trials, {}, seconds, manifest)


def differing(
    archive: Archive,
    track: str,
    suite: Suite,
    tables: list[str],
    methods: list[str],
    instances: Mapping[str, Instance],
) -> list[str]:
    """The methods whose first trials, run again, differ from those of the archive."""
    if not methods:
        return []
    again = hb.run(suite, tables=tables, methods=methods, trials=RERUN)
    found = {
        name
        for (table, name), trials in again.trials.items()
        for old in [archive.trials(track, name, instances[table], RERUN)]
        if old is None or not all(map(same_trial, old, trials))
    }
    print(f"{track}: other code, {len(methods)} methods, other trials: {sorted(found)}", file=sys.stderr)
    return [name for name in methods if name in found]


if __name__ == "__main__":
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "archive" / f"{NAME}.parquet"
    old = load_archive()
    results = {track: [grown(old, track)] for track in tracks(NAME) if track in old.manifests}
    print(save_archive(archive_bytes(results), out))
    if len(sys.argv) < 2:
        DIGEST.write_bytes(digest_bytes(read_archive(out)))
