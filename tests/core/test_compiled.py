"""Machine code stays out of the package, where an uninstall would leave it behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import hpobench_nmt

USE = """
import numba, numpy as np
from hpobench_nmt.methods.acquisitions.improvement import log_ei_of_contenders
one = np.ones(1)
assert np.isfinite(log_ei_of_contenders(one, one, 0.5, one > 0)).all()
print(repr(numba.config.CACHE_DIR))
"""


def compiled_files(folder):
    return {p: p.stat().st_mtime_ns for p in Path(folder).rglob("*.nb[ic]")}


@pytest.mark.parametrize("chosen", [False, pytest.param(True, marks=pytest.mark.hosts)])
def test_machine_code_is_kept_in_the_users_cache_and_not_beside_the_source(tmp_path, chosen):
    package = Path(hpobench_nmt.__file__).parent
    before = compiled_files(package) | compiled_files(package / "methods")
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment |= {"XDG_CACHE_HOME": str(tmp_path / "cache"), "LOCALAPPDATA": str(tmp_path / "cache")}
    if chosen:
        environment["NUMBA_CACHE_DIR"] = str(tmp_path / "chosen")
    done = subprocess.run([sys.executable, "-c", USE], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # Other packages' functions are kept where they were.
    assert done.stdout.strip() == repr(environment.get("NUMBA_CACHE_DIR", ""))
    assert compiled_files(package) | compiled_files(package / "methods") == before
    assert compiled_files(tmp_path / ("chosen" if chosen else "cache"))


NOWHERE = """
from hpobench_nmt.core.system.compiled import compiled
names = {}
exec(compile("def following(x): return x + 1", "/proc/no folder/of a package.py", "exec"), names)
print(compiled()(names["following"])(1))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="nobody can write below /proc")
def test_where_no_folder_can_be_written_a_function_is_compiled_all_the_same():
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment["XDG_CACHE_HOME"] = "/proc/nowhere"
    done = subprocess.run([sys.executable, "-c", NOWHERE], env=environment, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("2\n", "")
