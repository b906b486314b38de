"""Fuzz tests: the command line is given mutated files, and must not fall over them.

Every test is one mutated input made from its own number. `test_manifests[17]` is the same in each run; it is
repeated with `pytest "tests/fuzz/test_results.py::test_manifests[17]"`. An input must end in success, or in
one clear line on stderr and exit code 2. Either way nothing outside the folders that the command was given
may change, nothing may be left half-written, and no control character may reach the terminal.
"""

import tempfile
from pathlib import Path

import pytest
from fuzzing.sandbox import SECRET, VICTIMS, Sandbox
from fuzzing.world import valid_files


@pytest.fixture
def empty(monkeypatch):
    """A sandbox with nothing in it but what must stay as it is."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as root:
        sandbox = Sandbox(Path(root).resolve())
        names = ("keep.txt", "RS.parquet", "RS.csv", "RS/keep.txt", "RS/000000.parquet")
        sandbox.write({f"{folder}/{name}": SECRET for folder in VICTIMS for name in names})
        monkeypatch.setenv("HPOBENCH_NMT_HOME", str(sandbox.home))
        monkeypatch.delenv("HPOBENCH_NMT_TABLES", raising=False)
        monkeypatch.chdir(sandbox.work)
        yield sandbox


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """The valid files by kind: contents by path below a sandbox's root."""
    return valid_files(tmp_path_factory.mktemp("world"))
