"""The cases of the fuzz tests: how many there are, and the seed from which they are drawn.

Each commit has cases of its own. Without git, as in an unpacked source distribution, the seed is fixed.
"""

import os
import subprocess
from pathlib import Path

import pytest

_SEED = "HPOBENCH_NMT_FUZZ_SEED"


def seed():
    """Hexadecimal digits: those of the environment, the commit's, or a fixed one."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        git = subprocess.run(command, capture_output=True, text=True, check=True).stdout[:12]
    except (OSError, subprocess.CalledProcessError):
        git = "0"
    return os.environ.get(_SEED) or git


SEED = seed()


def cases(number):
    """Decorator: run a test with this many generators `rng`, all but a tenth of them marked `fuzz`."""
    every_time = number // 10
    marks = [()] * every_time + [pytest.mark.fuzz] * (number - every_time)
    return pytest.mark.parametrize(
        "rng", [pytest.param(k, marks=mark, id=str(k)) for k, mark in enumerate(marks)], indirect=True
    )


def how_to_repeat(node):
    """The command that runs one case again, at any commit with the same tests."""
    return f"{_SEED}={SEED} pytest -m '' '{node}'"
