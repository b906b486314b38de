"""Fuzz tests: the command line is given mutated files, and must not fall over them.

Every test is one mutated input. Inputs are drawn from the commit's seed: 300 at every change, and 3,000 with
`pytest tests/fuzz -m ''`, which `.ci/release` runs. A test that fails prints the command that repeats it.

An input must end in success, or in one clear line on stderr and exit code 2, within 20 s and 2 GB of resident
memory. Either way nothing outside the folders that the command was given may change, nothing may be left
half-written, and no control character may reach the terminal.
"""

import tempfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from fuzzing.cases import SEED, how_to_repeat
from fuzzing.sandbox import SECRET, VICTIMS, Sandbox
from fuzzing.world import valid_files


@pytest.fixture
def rng(request):
    """The generator of one case: another one for each seed, test and number."""
    name = zlib.crc32(request.function.__name__.encode())
    return np.random.default_rng([int(SEED, 16), name, request.param])


@pytest.fixture
def empty(request, monkeypatch):
    """A sandbox with nothing in it but what must stay as it is."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as root:
        sandbox = Sandbox(Path(root).resolve(), [how_to_repeat(request.node.nodeid)])
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
