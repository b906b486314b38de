import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpobench_nmt.core.errors import InputError
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.lookup.table import Table

AXIS = Hyperparameter("x", (1.0, 2.0, 3.0, 4.0))


LOSS = (Metric("loss", "min"),)


def table(values, configs=((1,), (2,), (3,), (4,)), metrics=LOSS, **kwargs):
    return Table("t", (AXIS,), metrics, np.array(configs, float), np.array(values, float), **kwargs)


def test_features_are_the_scaled_configurations(toy):
    assert toy.features.min() == 0.0
    assert toy.features.max() == 1.0
    layers = toy.configs[:, 0]
    np.testing.assert_allclose(toy.features[:, 0], np.log2(layers) / 3)
    np.testing.assert_allclose(toy.features[:, 1], (toy.configs[:, 1] - 256) / 768)


def test_arrays_are_copies_that_cannot_be_written(toy):
    for array in (toy.configs, toy.values, toy.features):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 1.0
    source = np.array([[1.0], [2.0], [3.0], [4.0]])
    mine = table(source)
    source[0, 0] = 99.0
    assert mine.values[0, 0] == 1.0


def test_losses_follow_directions():
    metrics = (Metric("bleu", "max"), Metric("time", "min"))
    mine = table([[3, 1], [5, 2], [5, 3], [np.nan, 0]], metrics=metrics)
    np.testing.assert_array_equal(mine.losses(["bleu", "time"])[:3], [[-3, 1], [-5, 2], [-5, 3]])
    np.testing.assert_array_equal(mine.losses(["bleu:min"])[:3, 0], [3, 5, 5])
    np.testing.assert_array_equal(mine.best_rows("bleu"), [1, 2])
    np.testing.assert_array_equal(mine.front(["bleu", "time"]), [0, 1])


def test_a_metric_without_values_has_no_best_row():
    assert len(table([[np.nan]] * 4).best_rows("loss")) == 0


@given(st.permutations(range(4)))
@settings(max_examples=20)
def test_the_hash_tells_versions_apart(order):
    rows = np.array([[4.0], [3.0], [2.0], [np.nan]])
    mine = table(rows)
    again = table(rows.copy())
    assert mine.sha256 == again.sha256
    moved = table(rows[list(order)])
    assert (moved.sha256 == mine.sha256) == (list(order) == [0, 1, 2, 3])
    other_direction = table(rows, metrics=(Metric("loss", "max"),))
    assert other_direction.sha256 != mine.sha256


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"configs": [[1.0], [2.0], [2.0], [4.0]]}, "rows 1, 2 have the same configuration"),
        ({"configs": [[1.0], [2.0], [2.5], [4.0]]}, "row 2: x is 2.5, which is not among its values"),
        ({"configs": [[1.0], [2.0], [np.nan], [4.0]]}, "row 2: x is nan"),
        ({"values": [[1.0], [np.inf], [1.0], [1.0]]}, "row 1: metric 'loss' is infinite"),
        ({"values": [[1.0], [1.0], [1.1e150], [1.0]]}, "row 2: metric 'loss' is 1.1e+150, beyond 1e+150"),
        ({"values": [[1.0], [2.0]]}, "4 configurations but 2 rows of metrics"),
        ({"values": np.empty((0, 1)), "configs": np.empty((0, 1))}, "has no rows"),
        ({"metrics": (Metric("x", "min"),)}, "column name 'x' is used more than once"),
        ({"objectives": ("los",)}, "unknown metric 'los'. Did you mean 'loss'?"),
        ({"name": "../evil"}, "cannot be used"),
        ({"name": ""}, "cannot be used"),
    ],
)
def test_a_wrong_table_is_refused(change, message):
    good = table([[1.0], [2.0], [3.0], [4.0]])
    with pytest.raises(InputError) as error:
        dataclasses.replace(
            good, **{k: np.array(v) if k in ("configs", "values") else v for k, v in change.items()}
        )
    assert message in str(error.value)


@pytest.mark.parametrize("spec", ["loss:up", "loss:", "lss"])
def test_a_wrong_objective_is_refused(spec):
    with pytest.raises(InputError):
        table([[1.0], [2.0], [3.0], [4.0]]).objective(spec)


@pytest.mark.parametrize("arguments", [{"direction": "up"}, {"direction": "min", "tolerance": -1.0}])
def test_a_wrong_metric_is_refused(arguments):
    with pytest.raises(InputError):
        Metric("m", **arguments)
