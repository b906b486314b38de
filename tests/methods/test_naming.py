from __future__ import annotations

import copy
import dataclasses
import functools
import hashlib

import numpy as np
import pytest

from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.files import check_name
from hpobench_nmt.methods.acquisitions.acquisition import by_expected_improvement
from hpobench_nmt.methods.gaussian_process import bayesian_optimisation
from hpobench_nmt.methods.graph_based import graph_search, influence_search
from hpobench_nmt.methods.kernels import matern52, rbf
from hpobench_nmt.methods.naming import method_name


def bound(weight, belief):
    return weight * belief.var**0.5 - belief.mean[0]


def confidence(weight):
    def acquire(belief):
        return bound(weight, belief)

    return acquire


class Confidence:
    def __init__(self, weight):
        self.weight = weight

    def __call__(self, belief):
        return bound(self.weight, belief)


@dataclasses.dataclass(frozen=True)
class Frozen(Confidence):
    weight: float


KERNELS = [matern52, rbf]
BY_CLOSURE = [confidence(w) for w in (1, 2.5, -2.5)]
BY_PARTIAL = [functools.partial(bound, 1), functools.partial(bound, 2), functools.partial(bound, weight=2)]
BY_OBJECT = [Confidence(1), Confidence(2), Frozen(1), Frozen(3)]
LAMBDAS = [
    lambda belief: belief.var,
    lambda belief: -belief.var,
]


def test_names_say_the_settings():
    assert bayesian_optimisation(matern52).name == "BO_matern52"
    assert bayesian_optimisation(rbf, standardise=True).name == "BO_rbf_std"
    assert bayesian_optimisation(rbf, acquisition=BY_CLOSURE[1]).name == "BO_rbf_acquire_2.5"
    assert bayesian_optimisation(rbf, True, BY_PARTIAL[2]).name == "BO_rbf_std_bound_weight-2"
    assert bayesian_optimisation(rbf, acquisition=BY_OBJECT[1]).name == "BO_rbf_Confidence_weight-2"
    assert graph_search(matern52).name == "GB_matern52"
    assert influence_search(rbf).name == "GB_EIF_rbf"
    assert bayesian_optimisation(rbf, name="Mine").name == "Mine"
    assert bayesian_optimisation(rbf, name="Mine").__name__ == "Mine"


def test_different_settings_have_different_names_that_can_be_files():
    acquisitions = [None, by_expected_improvement, *BY_CLOSURE, *BY_PARTIAL, *BY_OBJECT, *LAMBDAS]
    variants = [
        *(
            bayesian_optimisation(k, s, a)
            for k in (matern52, rbf)
            for s in (False, True)
            for a in acquisitions
        ),
        *(make(k) for k in (matern52, rbf) for make in (graph_search, influence_search)),
    ]
    names = [variant.name for variant in variants]
    assert [check_name("method", name) for name in names] == names
    assert len({name.casefold() for name in names}) == len(names)


def recursive(weight):
    def acquire(belief):
        return acquire(belief) * weight

    return acquire


class Slotted:
    __slots__ = ()


def test_settings_that_hold_themselves_have_names():
    # It holds itself and its weight. Four levels are shown, and of what lies deeper only the types.
    assert method_name("BO", recursive(2)) == "BO" + "_acquire" * 4 + "_function_int" + "_2" * 3
    held = Confidence(1)
    held.weight = held
    assert method_name("BO", held).startswith("BO_Confidence_weight-Confidence_weight-")


def test_methods_of_objects_are_told_apart():
    one, two = Confidence(1), Confidence(2)
    assert method_name("BO", one.__call__) == "BO_Confidence_weight-1___call__"
    assert method_name("BO", two.__call__) == "BO_Confidence_weight-2___call__"


def test_names_hold_no_memory_addresses():
    name = method_name("BO", functools.partial(bound, [confidence, 1.5]))
    assert name == "BO_bound_-function-confidence-1.5"
    assert method_name("BO", functools.partial(bound, Confidence)) == "BO_bound_Confidence"


def test_lambdas_are_told_apart_by_their_lines():
    names = [method_name("BO", f) for f in LAMBDAS]
    assert names == [f"BO_lambda{f.__code__.co_firstlineno}" for f in LAMBDAS]
    assert len(set(names)) == 2


def test_names_of_odd_settings():
    assert method_name("BO", None, "", 2.5, "a  b/c", None) == "BO_2.5_a-b-c"
    assert method_name("BO", "(x)") == "BO_-x"
    assert method_name("BO", "X") == "BO_X"
    assert method_name("BO", Slotted()) == "BO_Slotted"
    with pytest.raises(InputError, match="method name '_x' cannot be used"):
        method_name("_x")


def test_a_long_name_is_cut_and_still_differs():
    long, longer = (method_name("BO", "x" * n) for n in (120, 121))
    assert len(long) == len(longer) == 100
    assert long != longer
    assert method_name("BO", "x" * 97) == "BO_" + "x" * 97
    digest = hashlib.sha256(b"BO_\\udc80" + b"x" * 200).hexdigest()
    assert method_name("BO", "\udc80" + "x" * 200) == f"BO_-{'x' * 83}-{digest[:12]}"


@pytest.mark.parametrize("make", [bayesian_optimisation, graph_search, influence_search])
def test_a_name_that_cannot_be_a_file_is_refused(make):
    with pytest.raises(InputError, match=r"method name '\.\./mine' cannot be used"):
        make(rbf, name="../mine")


def test_variants_are_values():
    made = bayesian_optimisation(rbf, acquisition=bound)
    assert made == bayesian_optimisation(rbf, acquisition=bound) != bayesian_optimisation(rbf)
    assert copy.deepcopy(made) == made
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.kernel = matern52


def test_more_losses_than_two_may_have_an_acquisition_of_their_own():
    problem = Problem(np.zeros((4, 1)), 3, 4, 3)
    made = bayesian_optimisation(rbf, acquisition=BY_CLOSURE[0])(problem, np.random.default_rng(0))
    assert 0 <= made.ask() < 4


def test_two_variants_given_as_objects_run_together(toy):
    variants = [bayesian_optimisation(rbf, acquisition=BY_CLOSURE[0]), bayesian_optimisation(rbf)]
    results = benchmark(toy, variants, trials=2, lookups=20)
    assert results.methods == ("BO_rbf_acquire_1", "BO_rbf")
    assert not results.failures()
