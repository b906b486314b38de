"""The digest of the archive of lm-2026, which comes with the package: when each trial reached its target.

It is enough for the one figure of a method, its interval and its tests. Regret curves, other scores and
reports take the archive. It has one line per track, table and method with a list of runtimes, infinite where
a trial was capped. JSON in the schema's metadata has the format, the hash of the archive, and that of each
track's suite.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from hpobench_nmt.analysis.fewer_trainings import FewerTrainings, fewer_trainings, trial_runtimes
from hpobench_nmt.benchmarking.archive import NAME, Archive
from hpobench_nmt.benchmarking.beside import ARCHIVE, installed_archive, load_archive, track_of_suite
from hpobench_nmt.benchmarking.frozen import suite_hash
from hpobench_nmt.benchmarking.results import Results
from hpobench_nmt.benchmarking.submissions import archived_results
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.errors import InputError
from hpobench_nmt.core.files import read_bytes
from hpobench_nmt.core.validation import Strict, checked

DIGEST = Path(__file__).parents[1] / "benchmarking" / "suites" / f"{NAME}-runtimes.parquet"
_FORMAT = 1
_KEY = b"hpobench_nmt"


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
        runtimes: of all trials, by track, table and method.
    """

    archive: str
    suites: Mapping[str, str]
    runtimes: Mapping[tuple[str, str, str], Floats]

    def beside(self, results: Results) -> FewerTrainings:
        """The figures of one's own methods and of those of the digest that ran on the same tables.

        Raises InputError where the results are of no track, of another version of it, or of another seed.
        """
        track = track_of_suite(results.suite.name)
        if self.suites.get(track) != suite_hash(results.suite):
            raise InputError(f"the digest is of another version of {results.suite.name} than these results.")
        if results.seed:
            raise InputError(f"the digest has seed 0, and the run {results.seed}.")
        own = {
            (table, method): runtimes
            for (of, table, method), runtimes in self.runtimes.items()
            if of == track and table in results.instances and method not in results.methods
        }
        return fewer_trainings(results, own)


def archive_or_digest(place: str | Path, suite: str) -> Archive | Digest:
    """The archive to put beside results of a suite; the digest where the archive of lm-2026 is not installed.

    Raises InputError where the suite is not one of its tracks, or the archive cannot be read.
    """
    track_of_suite(suite)
    if str(place) == ARCHIVE and installed_archive() is None and DIGEST.is_file():
        return load_digest()
    return load_archive(place)


def digest_bytes(archive: Archive) -> bytes:
    """The content of an archive's digest, on the tables that are installed here."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    lines, suites = [], {}
    for track in archive.manifests:
        results = archived_results(archive, track)
        suites[track] = suite_hash(results.suite)
        for table, found in trial_runtimes(results).items():
            lines += [(track, table, m, found[j].astype(np.float32)) for j, m in enumerate(results.methods)]
    about = msgspec.to_builtins(_About(_FORMAT, archive.sha256, suites))
    names = ("track", "table", "method")
    columns = {name: [line[i] for line in lines] for i, name in enumerate(names)}
    arrays = pa.table({**columns, "runtimes": pa.array([line[3] for line in lines], pa.list_(pa.float32()))})
    sink = pa.BufferOutputStream()
    pq.write_table(
        arrays.replace_schema_metadata({_KEY: json.dumps(about).encode()}),
        sink,
        compression="zstd",
        compression_level=19,
    )
    return bytes(sink.getvalue().to_pybytes())


def load_digest(path: Path | None = None) -> Digest:
    """A digest, or that which comes with the package."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = path or DIGEST
    lines = pq.read_table(pa.BufferReader(read_bytes(path)))
    about = checked(json.loads(lines.schema.metadata[_KEY]), _About, str(path))
    keys = zip(*(lines.column(name).to_pylist() for name in ("track", "table", "method")), strict=True)
    values = [np.array(each, dtype=np.float64) for each in lines.column("runtimes").to_pylist()]
    return Digest(about.archive, about.suites, dict(zip(keys, values, strict=True)))
