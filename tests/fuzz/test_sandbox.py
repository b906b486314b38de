"""The watch that the fuzz tests keep: what it must notice, and what it must let pass."""

import sys

import numpy as np
import pytest
from fuzzing import sandbox
from fuzzing.sandbox import Sandbox


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory in /proc")
def test_an_input_that_takes_too_much_memory_fails(tmp_path, monkeypatch):
    """The memory is given back before the command ends: its peak counts, not what is left."""
    monkeypatch.setattr(sandbox, "_RESIDENT", 2**27)
    sizes = {"small": 2**24, "large": 2**28}

    def command(arguments):
        np.ones(sizes[arguments[0]], np.uint8).sum()

    monkeypatch.setattr(sandbox, "main", command)
    Sandbox(tmp_path).run("small")
    with pytest.raises(pytest.fail.Exception, match="GB more of resident memory"):
        Sandbox(tmp_path).run("large")
    Sandbox(tmp_path).run("small")  # the peak of another input does not count


def test_an_input_that_takes_too_long_fails(tmp_path, monkeypatch):
    def command(arguments):
        while True:
            pass

    monkeypatch.setattr(sandbox, "main", command)
    with pytest.raises(pytest.fail.Exception, match="took more than 20 s"):
        Sandbox(tmp_path, seconds=0.2).run("hangs")
