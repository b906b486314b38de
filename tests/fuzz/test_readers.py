"""Mutated files for each reader, always the same ones. `benchmarks/faults/mutated_files.py` has more."""

import pytest
from fuzzing.readers import READERS
from fuzzing.tries import Tries


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.fuzz] if each.needs else []) for name, each in READERS.items()],
)
def test_files_are_read_or_refused_in_one_line(name, tmp_path):
    if READERS[name].missing:
        pytest.skip(f"needs {', '.join(READERS[name].missing)}")
    tries = Tries(name, READERS[name], tmp_path)
    for number in range(20):
        tries.once([0, number])
    assert sum(tries.counts.values()) == 20
