"""The digest of the archive of lm-2026, which comes with the package: when each trial reached its target.

It suffices for the one figure of a method, its interval and its tests. Regret curves, other scores and
reports need the archive. It has one line per track, table and method with a list of runtimes, which are
infinite for capped trials, and from format 2 on with a hash of the trials. JSON in the schema's metadata has
the format, the hash of the archive, and the hash of each track's suite.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from hpobench_nmt.analysis.fewer_trainings import FewerTrainings, fewer_trainings, trial_runtimes
from hpobench_nmt.arena.archive import NAME, SEED, Archive
from hpobench_nmt.arena.beside import (
    ARCHIVE,
    check_comparable,
    check_trials,
    installed_archive,
    is_in_clone,
    load_archive,
    track_of_suite,
)
from hpobench_nmt.arena.submissions import archived_results
from hpobench_nmt.benchmarking.records.bounded_parquet import open_bounded, texts_of
from hpobench_nmt.benchmarking.records.frozen import suite_hash
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.benchmarking.task.suite import Suite
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.files import parquet_bytes, parse_json, read_bytes
from hpobench_nmt.core.system.validation import Strict, checked

DIGEST = Path(__file__).parents[1] / "benchmarking" / "suites" / f"{NAME}-runtimes.parquet"
_FORMAT = 2
_KEY = b"hpobench_nmt"
_NAMES = ("track", "table", "method")
_MOST_LINES, _MOST_BYTES = 2**16, 2**26


class _About(Strict, frozen=True):
    format: int
    archive: str
    suites: dict[str, str]


@dataclass(frozen=True, eq=False)
class Digest:
    """Runtimes of the trials of an archive.

    Attributes:
        archive: the SHA-256 of the archive's file.
        suites: the hash of each track's suite.
        runtimes: runtimes of all trials, by track, table and method.
        hashes: SHA-256 of the trials, as `Archive.hashes` has them; empty in format 1.
    """

    archive: str
    suites: Mapping[str, str]
    runtimes: Mapping[tuple[str, str, str], Floats]
    hashes: Mapping[tuple[str, str, str], str]

    def changed(self, archive: Archive) -> list[str]:
        """What differs in an archive: a text for each track, table and method whose trials are not these."""
        own = archive.hashes
        found = []
        for key in sorted(self.hashes.keys() | own.keys()):
            if self.hashes.get(key) != own.get(key):
                what = "other trials" if key in own and key in self.hashes else "no trials"
                where = "" if key in own else " in the archive"
                where = where if key in self.hashes else " in the digest"
                found.append("{2} on {1} in {0}".format(*key) + f" ({what}{where})")
        return found

    def check(self, suite: Suite, seed: int) -> None:
        """Raise InputError if results of a suite cannot be compared with the digest."""
        track = track_of_suite(suite.name)
        if self.suites.get(track) != suite_hash(suite):
            raise InputError(f"the digest is of another version of {suite.name} than these results.")
        if seed != SEED:
            raise InputError(f"the digest has results of seed {SEED} only, and this run has seed {seed}.")
        check_trials("the digest", [len(r) for (of, _, _), r in self.runtimes.items() if of == track], suite)

    def beside(self, results: Results) -> FewerTrainings:
        """The figures of the results' methods, and of the digest's methods that ran on the same tables.

        Raises InputError if the results do not belong to a track, or have another version of it, another
        seed, or more trials.
        """
        self.check(results.suite, results.seed)
        track = track_of_suite(results.suite.name)
        own = {
            (table, method): runtimes
            for (of, table, method), runtimes in self.runtimes.items()
            if of == track and table in results.instances and method not in results.methods
        }
        return fewer_trainings(results, own)


def archive_or_digest(place: str | Path, suite: Suite, seed: int) -> Archive | Digest:
    """The archive to compare with results of a suite, or the digest if that of lm-2026 is not installed.

    Raises InputError if the suite is not a track of lm-2026, its results cannot be compared with the archive,
    or the archive cannot be read.
    """
    track_of_suite(suite.name)
    if str(place) == ARCHIVE and installed_archive() is None and DIGEST.is_file():
        digest = load_digest()
        digest.check(suite, seed)
        return digest
    archive = load_archive(place)
    check_comparable(archive, suite, seed)
    return archive


def digest_path(archive: Path) -> Path:
    """Where the digest of an archive is: the package's for the clone's archive, else beside the archive."""
    return DIGEST if is_in_clone(archive) else archive.with_name(DIGEST.name)


def digest_bytes(archive: Archive, known: Digest | None = None) -> bytes:
    """The content of an archive's digest.

    Runtimes come from the digest `known` where the trials are the same. The others are computed, on the
    tables that are installed here.
    """
    import pyarrow as pa

    same = known is not None and known.archive == archive.sha256
    runtimes = {
        key: known.runtimes[key]
        for key, own in archive.hashes.items()
        if known is not None and key in known.runtimes and (same or known.hashes.get(key) == own)
    }
    suites = {track: suite_hash(manifests[0].suite) for track, manifests in archive.manifests.items()}
    for track in archive.manifests:
        missing = {
            method: None
            for of, table, method in archive.groups
            if of == track and (of, table, method) not in runtimes
        }
        if missing:
            results = archived_results(archive, track, methods=missing)
            for table, found in trial_runtimes(results).items():
                runtimes |= {(track, table, m): found[j] for j, m in enumerate(results.methods)}
    about = msgspec.to_builtins(_About(_FORMAT, archive.sha256, suites))
    keys = [key for key in archive.hashes if key in runtimes]
    columns = {name: [key[i] for key in keys] for i, name in enumerate(_NAMES)}
    values = pa.array([runtimes[key] for key in keys], pa.list_(pa.float64()))
    arrays = pa.table({**columns, "runtimes": values, "sha256": [archive.hashes[key] for key in keys]})
    arrays = arrays.replace_schema_metadata({_KEY: json.dumps(about).encode()})
    return parquet_bytes(arrays, compression_level=19)


def load_digest(path: Path | None = None) -> Digest:
    """A digest from a file, by default the digest that comes with the package."""
    import pyarrow as pa

    path = path or DIGEST
    try:
        lines = open_bounded(read_bytes(path), _NAMES, _MOST_LINES, _MOST_BYTES).read()
        content = parse_json(lines.schema.metadata[_KEY], str(path))
        hashed = isinstance(content, dict) and content.get("format") != 1
        text, numbers = pa.dictionary(pa.int32(), pa.string()), pa.list_(pa.float64())
        columns = {**dict.fromkeys(_NAMES, text), "runtimes": numbers}
        lines = lines.cast(pa.schema(columns | ({"sha256": pa.string()} if hashed else {})))
        if any(column.null_count for column in lines.columns):
            raise ValueError("a cell is empty")
        keys = list(zip(*(texts_of(lines.column(name)) for name in _NAMES), strict=True))
        values = [np.array(each, dtype=np.float64) for each in lines.column("runtimes").to_pylist()]
        hashes = dict(zip(keys, lines.column("sha256").to_pylist(), strict=True)) if hashed else {}
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError):
        raise InputError(f"{path}: is not a digest, or is damaged. Install hpobench-nmt again.") from None
    if isinstance(content, dict) and content.get("format") not in (1, _FORMAT):
        raise InputError(f"{path}: has another format than this version reads: update hpobench-nmt.")
    about = checked(content, _About, str(path))
    return Digest(about.archive, about.suites, dict(zip(keys, values, strict=True)), hashes)
