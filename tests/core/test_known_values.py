"""What is known of hyperparameters by their names."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from hpobench_nmt.core.known_values import KNOWN_VALUES, described, known_of, known_prior
from hpobench_nmt.core.space import Space

WIDE = {
    "Learning_Rate": (1e-6, 1.0, "log"),
    "one_minus_beta1": (1e-4, 1.0, "log"),
    "beta2": [0.0, 0.9, 0.99, 0.999, 0.9999],
    "dropout": (0.0, 0.9),
    "lr": ["small", "large"],
}


def test_names_aliases_and_complements_are_found_where_the_range_encloses_them():
    known = known_of(Space.of(WIDE))
    assert described(known) == "Learning_Rate around 0.0016, one_minus_beta1 around 0.1, beta2 around 0.99"
    assert described(known_of(Space.of({"x": (0.0, 1.0)}))) == "nothing"
    assert not known_of(Space.of(WIDE), without=list(WIDE))


@pytest.mark.parametrize(
    ("space", "counts"),
    [
        ({"lr": (10**-3.7, 10**-1.9)}, True),
        ({"lr": (10**-3.69, 1.0)}, False),
        ({"lr": (1e-9, 10**-1.91)}, False),
        ({"lr": (10.0, 40.0)}, False),
        ({"beta1": (0.5, 0.99)}, True),
        ({"beta1": (0.8, 0.99)}, False),
        ({"one_minus_beta1": (0.01, 0.5)}, True),
        ({"one_minus_lr": (0.0, 1.0)}, False),
    ],
)
def test_a_range_that_does_not_enclose_the_centre_has_another_meaning(space, counts):
    assert bool(known_of(Space.of(space))) == counts


def test_densities_are_normal_in_log10_and_add_up():
    space = Space.of(WIDE)
    codes = np.array([[1e-3, 0.1, 0.99, 0.0, 0], [1.0, 1e-4, 0.9, 0.0, 1], [1e-6, 1.0, 0.9999, 0.0, 0]])
    found = known_prior(space, codes, known_of(space))
    exact = [
        norm.logpdf(math.log10(rate), -2.8, 0.9)
        + norm.logpdf(math.log10(b1), -1, 0.5)
        + norm.logpdf(math.log10(1 - b2), -2.2, 0.7)
        for rate, b1, b2, *_ in codes
    ]
    np.testing.assert_allclose(found - found[0], np.array(exact) - exact[0])
    inactive = known_prior(space, np.array([[1e-3, np.nan, 0.99, 0.0, 0]]), known_of(space))
    away = known_prior(space, np.array([[1e-3, 10**-1.5, 0.99, 0.0, 0]]), known_of(space))
    assert inactive[0] == pytest.approx(away[0])


def test_typical_values_replace_centres():
    space = Space.of({"learning_rate": (1.0, 1000.0, "log"), "l2": (1e-9, 1.0, "log")})
    assert described(known_of(space)) == "l2 around 1e-06"
    known = known_of(space, typical={"learning_rate": 30.0, "l2": 0.0})
    assert described(known) == "learning_rate around 30, l2 around 1e-06"
    assert known_of(Space.of({"beta1": (0.0, 0.999)}), typical={"beta1": 0.95})["beta1"].value == 0.95


def test_each_value_has_names_of_its_own_and_a_source():
    names = [name for known in KNOWN_VALUES for name in known.names]
    assert len(set(names)) == len(names) and all(name == name.lower() for name in names)
    assert all(known.source and known.deviation >= 0.5 for known in KNOWN_VALUES)
