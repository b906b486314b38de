from __future__ import annotations

import hashlib
import itertools
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpobench_nmt.core.seeds import generator, initial_rows, method_generator


def first_words(rng):
    return tuple(rng.bit_generator.random_raw(4).tolist())


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**64), trial=st.integers(0, 1000), n_rows=st.integers(1, 800), data=st.data())
def test_initial_rows_are_distinct_rows_of_the_table(seed, trial, n_rows, data):
    n_initial = data.draw(st.integers(1, n_rows))
    rows = initial_rows(seed, "zh-en", trial, n_rows, n_initial)
    assert len(rows) == len(set(rows)) == n_initial
    assert all(type(row) is int and 0 <= row < n_rows for row in rows)
    assert initial_rows(seed, "zh-en", trial, n_rows, n_initial) == rows


def test_initial_rows_differ_by_seed_table_and_trial():
    designs = [
        tuple(initial_rows(seed, table, trial, 10_000, 5))
        for seed, table, trial in itertools.product(range(4), ("zh-en", "ru-en", "ja-en"), range(10))
    ]
    assert len(set(designs)) == len(designs)


def test_initial_rows_are_uniform():
    rows = np.array([initial_rows(0, "toy", trial, 10, 3) for trial in range(3000)])
    for position in range(3):
        counts = np.bincount(rows[:, position], minlength=10)
        assert ((counts - 300) ** 2 / 300).sum() < 27.9  # chi-squared, 9 degrees of freedom, p = 0.001


def test_generators_differ_by_seed_table_method_and_trial():
    streams = [
        first_words(method_generator(*parts))
        for parts in itertools.product(range(3), ("zh-en", "ru-en"), ("RS", "NSGA2", "BO_M"), range(5))
    ]
    streams += [first_words(generator(seed, "initial", "zh-en", 0)) for seed in range(3)]
    assert len(set(streams)) == len(streams)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("ab", "c"), ("a", "bc")),
        ((1,), ("1",)),
        (("a", 1, 2), ("a", 12)),
        ((0,), ()),
        (("a", "b"), ("b", "a")),
    ],
)
def test_parts_are_kept_apart(one, other):
    assert first_words(generator(0, *one)) != first_words(generator(0, *other))
    assert first_words(generator(0, *one)) == first_words(generator(0, *one))


def test_seeds_beyond_32_bits_are_kept_apart():
    seeds = [0, 1, 2**32, 2**32 + 1, 2**64, 2**100]
    assert len({first_words(generator(seed, "a")) for seed in seeds}) == len(seeds)


def test_global_random_state_plays_no_part():
    state = np.random.get_state()  # noqa: NPY002
    try:
        np.random.seed(1)  # noqa: NPY002
        before = initial_rows(0, "zh-en", 0, 118, 3)
        np.random.seed(2)  # noqa: NPY002
        assert initial_rows(0, "zh-en", 0, 118, 3) == before
    finally:
        np.random.set_state(state)  # noqa: NPY002


def test_streams_stay_as_they_are_from_release_to_release():
    # Published results can be reproduced only as long as these words do not change.
    assert first_words(method_generator(0, "zh-en", "RS", 0)) == (
        10594716301593146932,
        15172374983077776132,
        13074302788920969720,
        8049437749312684317,
    )


def words_of(seed, text):
    """The generator as the docstring of the module says it, with words taken from the digest one by one."""
    digest = hashlib.sha256(text.encode()).digest()
    words = [int.from_bytes(digest[i : i + 4], "little") for i in range(0, 32, 4)]
    return np.random.default_rng(np.random.SeedSequence([seed, *words]))


def test_designs_and_streams_are_those_of_their_names():
    design = words_of(5, "str:initial\x1fstr:zh-en\x1fint:7").choice(118, size=3, replace=False)
    assert initial_rows(5, "zh-en", 7, 118, 3) == design.tolist()
    stream = words_of(5, "str:method\x1fstr:zh-en\x1fstr:RS\x1fint:7")
    assert first_words(method_generator(5, "zh-en", "RS", 7)) == first_words(stream)


PROGRAM = """
from hpobench_nmt.core.seeds import initial_rows, method_generator
for trial in range(5):
    print(initial_rows(7, "zh-en", trial, 118, 3))
    print(method_generator(7, "zh-en", "BO_EI_M", trial).random(3).tolist())
"""


def test_fresh_processes_with_any_hash_seed_draw_the_same():
    outputs = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "1", "4242", "random")
    ]
    here = ""
    for trial in range(5):
        here += f"{initial_rows(7, 'zh-en', trial, 118, 3)}\n"
        here += f"{method_generator(7, 'zh-en', 'BO_EI_M', trial).random(3).tolist()}\n"
    assert outputs == [here] * 4


def test_a_design_that_is_changed_by_its_user_is_drawn_whole_again():
    rows = initial_rows(3, "zh-en", 1, 118, 3)
    kept = list(rows)
    rows.clear()
    assert initial_rows(3, "zh-en", 1, 118, 3) == kept
    assert len(initial_rows(3, "zh-en", 1, 118, 4)) == 4
