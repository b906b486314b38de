"""Tables as functions of a configuration, where the grid is whole and where it is not."""

import numpy as np
import pytest

import hpobench_nmt as hb
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.table import Table


@pytest.fixture
def half(toy):
    values = toy.values.copy()
    values[0] = np.nan
    kept = [row for row in range(len(toy)) if row != 3]
    return Table("half", toy.hyperparameters, toy.metrics, toy.configs[kept], values[kept], toy.objectives)


def test_a_table_is_minimised(toy):
    found = hb.minimize(toy.function(), toy.space, budget=len(toy))
    assert toy.row(found.best) in toy.best_rows(toy.main_metric)
    assert toy.function(["seconds", "bleu"])(toy.config(3)) == [toy.values[3, 1], -toy.values[3, 0]]


def test_what_has_no_row_is_an_error_none_or_the_nearest_row_by_choice(toy, half):
    absent, lacking = toy.config(3), toy.config(0)
    for config, message in ((absent, "no row has layers="), (lacking, "this row has no bleu")):
        with pytest.raises(InputError, match=message):
            half.function()(config)
        assert half.function(otherwise="none")(config) is None
        here = half.space.features(half.space.encode(config)[None])[0]
        gaps = np.linalg.norm(half.features - here, axis=1)
        gaps[np.isnan(half.values[:, 0])] = np.inf
        expected = half.losses([half.main_metric])[gaps.argmin(), 0]
        assert half.function(otherwise="nearest")(config) == expected
        assert half.function(otherwise="nearest")(toy.config(5)) == -toy.values[5, 0]
    with pytest.raises(InputError, match="unknown choice 'near'"):
        half.function(otherwise="near")
    failed = hb.minimize(half.function(otherwise="none"), half.space, budget=len(toy))
    assert np.isnan(failed.losses).sum() == 2
