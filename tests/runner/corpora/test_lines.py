import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpobench_nmt.runner.corpora import lines as module
from hpobench_nmt.runner.corpora.lines import Lines

LINES = st.lists(st.text(st.characters(exclude_characters="\n", codec="utf-8"), max_size=9), min_size=1)


@given(LINES, st.integers(1, 30), st.integers(1, 5))
def test_lines_are_a_sequence_of_texts(lines: list[str], at_once: int, together: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_AT_ONCE", at_once)
        patch.setattr(module, "_LINES_AT_ONCE", together)
        found = Lines.of(lines)
        assert list(found) == lines
        assert len(found) == len(lines)
    assert [found[i] for i in range(-len(lines), len(lines))] == lines + lines
    assert found[1:-1] == tuple(lines[1:-1])
    assert found[::-2] == tuple(lines[::-2])
    assert found == lines == found
    assert found == Lines(np.frombuffer("\n".join(lines).encode(), np.uint8))
    assert found != [*lines, "more"]
    assert found != [*lines[:-1], lines[-1] + "x"]
    assert found != "".join(lines)
    with pytest.raises(IndexError):
        found[len(lines)]
