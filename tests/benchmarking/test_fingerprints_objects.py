"""The fingerprint of a method that is given as an object: its settings, its closures, its code."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import pytest

from hpobench_nmt.benchmarking.contestants.fingerprints import fingerprint
from hpobench_nmt.methods.gaussian_process import bayesian_optimisation
from hpobench_nmt.methods.kernels import matern52, rbf


def constant(a, b):
    return np.ones((len(a), len(b)))


@dataclass(frozen=True)
class Settings:
    kernel: object
    weights: object = None
    name: str = "Mine"

    def __call__(self, problem, rng):
        raise NotImplementedError


def variants():
    weights = np.arange(3.0)
    return [
        Settings(matern52),
        Settings(rbf),
        Settings(constant),
        Settings(partial(constant, 1.0)),
        Settings(partial(constant, 2.0)),
        Settings(lambda a, b: weights[0]),
        Settings(rbf, weights),
        Settings(rbf, weights + 1),
        Settings(rbf, (1.0, {"a": [1]})),
        Settings(rbf, (1.0, {"a": [2]})),
        Settings(rbf, name="Other"),
    ]


def test_the_settings_of_an_object_are_part_of_it():
    one, two = ([fingerprint(v) for v in variants()] for _ in range(2))
    assert one == two
    assert len(set(one)) == len(one)


def test_variants_of_this_package_have_names_and_fingerprints_of_their_own():
    given = [
        bayesian_optimisation(matern52),
        bayesian_optimisation(rbf),
        bayesian_optimisation(matern52, True),
    ]
    assert len({fingerprint(method) for method in given}) == 3


def test_the_settings_of_such_a_variant_count_and_not_only_how_it_looks():
    def variant(scale):
        return bayesian_optimisation(lambda a, b, scale=scale: scale * rbf(a, b))

    assert fingerprint(variant(1)) == fingerprint(variant(1))
    assert fingerprint(variant(1)) != fingerprint(variant(2))


def test_the_variables_that_a_function_closes_over_are_part_of_it():
    def closing(value):
        def make(problem, rng):
            return value

        return make

    assert fingerprint(closing(1)) == fingerprint(closing(1))
    assert fingerprint(closing(1)) != fingerprint(closing(2))


def test_objects_that_hold_themselves_end():
    class Holds:
        def __call__(self, problem, rng):
            return self

    one = Holds()
    one.me = [one, {"again": one}]
    assert fingerprint(one) == fingerprint(one)


def test_a_class_without_a_file_is_told_apart_by_its_code():
    found = []
    for answer in ("0", "1", "1"):
        scope = {"__name__": "__typed_in__"}
        text = f"class Typed:\n    def ask(self):\n        return {answer}\n    tell = print\n"
        exec(text, scope)  # noqa: S102
        found.append(fingerprint(scope["Typed"]))
    assert found[0] != found[1] == found[2]


# --- one rule at a time ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Slotted:
    value: object


class OfSlots:
    __slots__ = ("__private", "value")

    def __init__(self, value, private=0):
        self.value, self.__private = value, private


class OfOneSlot(OfSlots):
    __slots__ = "other"


class Weighted:
    def __init__(self, value):
        self.value = value

    def kernel(self, a, b):
        return self.value


class Heavier(Weighted):
    pass


def with_attribute(value):
    def kernel(a, b):
        return 1.0

    kernel.weight = value
    return kernel


def compiled(value):
    """As numba and functools wrap: an object that can be called, with the function inside."""

    class Dispatcher:
        py_func = staticmethod(lambda a, b, scale=value: scale)

    return Dispatcher()


def frame(middle):
    """One of 1,000 rows, of which pandas shows the first and the last."""
    rows = pd.DataFrame({"x": np.arange(1000), "y": "text"})
    rows.loc[500, "x"] = middle
    return rows


def kinds():
    """Of each kind of setting, some that must be told apart."""
    one, two = np.zeros(4, np.int32), np.zeros((2, 2), np.int32)
    return {
        "numbers": [1, 1.0, True, 1 + 0j, np.float64(1), np.float32(1), "1", b"1", None, "None", 2, -1],
        "arrays": [
            one,
            two,
            np.zeros(2, np.int64),
            np.ones(4, np.int32),
            one.reshape(1, 4),
            one.reshape(4, 1),
        ],
        "sequences": [(1, 2), [1, 2], [1, 2, 3], [2, 1], [[1], 2], [1, [2]], [[1, 2]], [], ()],
        "dictionaries": [{"a": 1}, {"a": 2}, {"b": 1}, {"a": 1, "b": 1}, {1: "a"}],
        "partials": [
            partial(constant),
            partial(constant, 1),
            partial(constant, 2),
            partial(constant, a=1),
            partial(constant, b=1),
            partial(constant, a=2),
            partial(rbf),
        ],
        "defaults": [lambda a, x=1: x, lambda a, x=2: x],
        "keyword defaults": [lambda a, *, x=1: x, lambda a, *, x=2: x],
        "attributes": [with_attribute(1), with_attribute(2)],
        "bound methods": [Weighted(1).kernel, Weighted(2).kernel],
        "objects": [Weighted(1), Weighted(2), Heavier(1), Slotted(1), Slotted(2), Weighted, Heavier],
        "slots": [OfSlots(1), OfSlots(2), OfSlots(1, 2), OfOneSlot(1), OfOneSlot(2)],
        "frames": [frame(0), frame(1), frame(0).rename(columns={"x": "z"}), frame(0)["x"], frame(1)["x"]],
        "sets": [{1, 2}, {1, 3}, frozenset({1, 2}), {"1", "2"}, set()],
        "compiled": [compiled(1), compiled(2)],
        "of a library": [re.compile("a"), re.compile("b"), json.JSONDecoder],
        "arrays of objects": [
            np.array([1, None]),
            np.array([2, None]),
            *(np.array([None] * 2000 + [last] + [None] * 2000) for last in (1, 2)),
        ],
    }


@pytest.mark.parametrize("kind", kinds())
def test_settings_of_each_kind_are_told_apart_and_stay_the_same(kind):
    one, two = ([fingerprint(Settings(rbf, value)) for value in kinds()[kind]] for _ in range(2))
    assert one == two
    assert len(set(one)) == len(one)


def test_a_set_is_the_same_in_every_process():
    code = (
        "from functools import partial\n"
        "from hpobench_nmt.benchmarking.contestants.fingerprints import fingerprint\n"
        "print(fingerprint(partial(int, {'matern', 'rbf', 'linear', 'constant'})).sha256)"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "123"
    }
    assert len(found) == 1


def test_what_has_no_settings_of_its_own_is_the_same_everywhere():
    """Objects of libraries by what they say, without the address; and a variable that has no value yet."""
    assert fingerprint(Settings(rbf, object())) == fingerprint(Settings(rbf, object()))

    def closing():
        if False:
            value = 1
        return lambda: value

    assert fingerprint(closing()) == fingerprint(closing())
