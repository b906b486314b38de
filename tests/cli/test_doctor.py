"""`hpobench-nmt doctor` finds what is wrong, and nothing where nothing is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest

from hpobench_nmt.cli import doctor
from hpobench_nmt.core.system.errors import RunError
from hpobench_nmt.lookup.catalogue import find_folder


def test_all_is_well_here(home, run_command):
    said = run_command("doctor").stdout
    assert "All is well." in said
    assert str(home) in "".join(said.split())  # a long path is wrapped
    assert re.search(r"locks in the training cache +\W? *yes", said)
    assert "memory limit" in said
    assert "numpy" in said


def test_a_table_that_was_changed_is_named(home, run_here):
    shutil.copytree(find_folder("sotu-ngram"), home / "tables" / "mine")
    (home / "tables" / "mine" / "table.csv").write_text("x\n1\n")
    done = subprocess.run(
        [sys.executable, "-m", "hpobench_nmt", "doctor"], capture_output=True, text=True, env=os.environ
    )
    assert done.returncode == 1
    assert "Error: table 'mine' cannot be used: " in done.stderr
    assert "All is well" not in done.stdout


def test_a_machine_that_computes_something_else_is_noticed(home, monkeypatch):
    monkeypatch.setitem(doctor._EXPECTED, "RS", [1, 2, 3])
    with pytest.raises(RunError):
        doctor.doctor.callback()


def test_what_is_missing_is_said_with_the_command_that_installs_it(home, monkeypatch, capsys):
    there = doctor._version
    monkeypatch.setattr(
        doctor, "_version", lambda name: None if name in ("nevergrad", "scipy") else there(name)
    )
    with pytest.raises(RunError, match="scipy is missing"):
        doctor.doctor.callback()
    said = capsys.readouterr()
    assert "lacks nevergrad: pip install 'hpobench-nmt[nevergrad]'" in " ".join(said.out.split())


def test_requirements_are_those_of_the_metadata():
    required, extras = doctor._requirements()
    assert {"numpy", "scipy", "scikit-learn", "pandas", "pymoo"} <= set(required)
    assert ("george" in required) == (sys.version_info < (3, 14))  # where it has wheels
    assert extras["dask"] == ["distributed"]
    assert "dev" not in extras
