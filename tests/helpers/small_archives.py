"""Settings of runs on two tracks, edited copies of an archive, and a method of a user."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hpobench_nmt.arena.archive import read_archive

PLAIN = {"suite": "lm-2026", "track": "plain", "tables": ["sotu-gpt-30k"], "trials": 3}
EARLY = {"suite": "lm-2026", "track": "early", "tables": ["sotu-gpt-30k"], "trials": 2}
MINE = """
class Mine:
    def __init__(self, problem, rng):
        self.rng, self.left = rng, list(range(len(problem.features)))

    def ask(self):
        return self.left[int(self.rng.integers(len(self.left)))]

    def tell(self, index, losses):
        self.left.remove(index)
"""


def changed(archive, path, edit):
    """The archive's file after `edit` changed its columns or its metadata, read again."""
    lines = archive.lines.to_pydict()
    about = json.loads(archive.lines.schema.metadata[b"hpobench_nmt"])
    edit(lines, about)
    schema = archive.lines.schema.with_metadata({b"hpobench_nmt": json.dumps(about).encode()})
    pq.write_table(pa.Table.from_pydict(lines, schema=schema), path)
    return read_archive(path)


def renamed(lines, about, name):
    """BO_EI_M_std under another name."""
    lines["method"] = [name if m == "BO_EI_M_std" else m for m in lines["method"]]
    for run in about["runs"]:
        manifest = json.loads(run["manifest"])
        manifest.pop("sha256")
        methods = manifest["methods"]
        if "BO_EI_M_std" in methods:
            methods[name] = {**methods.pop("BO_EI_M_std"), "rows_version": 99}
        run["manifest"] = json.dumps(manifest)


def same(a, b):
    columns = ("starts", "finishes", "costs", "resources", "workers")
    return (
        a.failure == b.failure
        and np.array_equal(a.rows, b.rows)
        and np.array_equal(a.losses, b.losses, equal_nan=True)
        and all(np.array_equal(getattr(a.timeline, c), getattr(b.timeline, c)) for c in columns)
    )
