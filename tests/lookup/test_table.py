import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpobench_nmt.core.objectives import Metric, Objective
from hpobench_nmt.core.space import Hyperparameter, Space
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.disk.folder import load_folder, save_folder
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


def test_whole_numbers_become_doubles():
    mine = Table("t", (AXIS,), LOSS, np.array([[1], [2]]), np.array([[3], [4]]))
    assert mine.configs.dtype == mine.values.dtype == np.float64
    assert mine.values.tolist() == [[3.0], [4.0]]


def test_configurations_that_float32_has_rounded_are_those_of_the_grid():
    rates = (Hyperparameter("lr", (0.001, 0.01, 0.1), "log"),)
    exact = Table("t", rates, LOSS, np.array([[0.001], [0.01], [0.1]]), np.ones((3, 1)))
    single = Table("t", rates, LOSS, np.array([[0.001], [0.01], [0.1]], dtype=np.float32), np.ones((3, 1)))
    assert single.configs.tolist() == exact.configs.tolist() and single.sha256 == exact.sha256
    assert exact.row({"lr": np.float32(0.1)}) == exact.row({"lr": float(np.float32(0.1))}) == 2


def test_the_largest_value_is_still_one():
    for value in (1e150, -1e150):
        assert table([[1.0], [value], [1.0], [1.0]]).values[1, 0] == value
    assert np.isnan(table([[1.0], [-1.1e150], [1.0], [1.0]]).values[1, 0])


def test_a_response_is_one_metric_over_the_space():
    mine = large(300)
    for asked, name, direction in (
        (None, "up", "max"),
        ("down", "down", "min"),
        ("up:min", "up", "min"),
        (Objective("down", "max"), "down", "max"),
    ):
        found = mine.response(asked)
        assert found.table == "large"
        assert found.objective == Objective(name, direction)
        assert found.hyperparameters == mine.hyperparameters
        np.testing.assert_array_equal(found.configs, mine.configs)
        np.testing.assert_array_equal(found.values, mine.column(name))
    assert dataclasses.replace(mine, objectives=("down",)).response().objective.metric == "down"


def test_losses_follow_directions():
    metrics = (Metric("bleu", "max"), Metric("time", "min"))
    mine = table([[3, 1], [5, 2], [5, 3], [np.nan, 0]], metrics=metrics)
    np.testing.assert_array_equal(mine.losses(["bleu", "time"])[:3], [[-3, 1], [-5, 2], [-5, 3]])
    np.testing.assert_array_equal(mine.losses(["bleu:min"])[:3, 0], [3, 5, 5])
    np.testing.assert_array_equal(mine.best_rows("bleu"), [1, 2])
    np.testing.assert_array_equal(mine.front(["bleu", "time"]), [0, 1])
    for wrong in ("bleu", []):
        with pytest.raises(InputError, match="objectives must be a list of one or more metrics, not "):
            mine.front(wrong)


def test_a_metric_without_values_has_no_best_row():
    mine = table([[np.nan]] * 4)
    assert mine.configs[mine.best_rows("loss")].shape == (0, 1)


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
        (
            {"configs": [[1.0], [2.0], [np.nan], [4.0]]},
            "row 2: hyperparameter 'x' has no value. If it is inactive",
        ),
        ({"values": [[1.0], [2.0]]}, "4 configurations but 2 rows of metrics"),
        ({"values": np.empty((0, 1)), "configs": np.empty((0, 1))}, "has no rows"),
        ({"metrics": (Metric("x", "min"),)}, "column name 'x' is used more than once"),
        ({"objectives": ("los",)}, "unknown metric 'los'. Did you mean 'loss'?"),
        ({"objectives": ("loss", "loss:max")}, "the same objective twice"),
        ({"metrics": Metric("loss", "min")}, "metrics must be a tuple of Metric objects."),
        ({"hyperparameters": ("x",)}, "hyperparameters must be a tuple of Hyperparameter objects."),
        ({"name": "../evil"}, "table name '../evil' cannot be used"),
        ({"name": ""}, "table name '' cannot be used"),
    ],
)
def test_a_wrong_table_is_refused(change, message):
    good = table([[1.0], [2.0], [3.0], [4.0]])
    with pytest.raises(InputError) as error:
        dataclasses.replace(
            good, **{k: np.array(v) if k in ("configs", "values") else v for k, v in change.items()}
        )
    assert message in str(error.value)


def test_a_value_that_is_infinite_or_too_large_to_be_squared_is_missing():
    diverged = table([[np.inf], [2.0], [1.1e150], [-np.inf]])
    np.testing.assert_array_equal(diverged.values, [[np.nan], [2.0], [np.nan], [np.nan]])
    assert diverged.sha256 == table([[np.nan], [2.0], [np.nan], [np.nan]]).sha256
    assert table([[1e150], [-1e150], [1.0], [2.0]]).values[:2].tolist() == [[1e150], [-1e150]]


@pytest.mark.parametrize("row", [-1, 4, 9999])
def test_a_row_that_is_none_is_refused(row):
    with pytest.raises(InputError, match=f"has rows 0 to 3, and no row {row}"):
        table([[1.0], [2.0], [3.0], [4.0]]).config(row)


@pytest.mark.parametrize("spec", ["loss:up", "loss:", "lss"])
def test_a_wrong_objective_is_refused(spec):
    with pytest.raises(InputError):
        table([[1.0], [2.0], [3.0], [4.0]]).objective(spec)


@pytest.mark.parametrize("arguments", [{"direction": "up"}, {"direction": "min", "tolerance": -1.0}])
def test_a_wrong_metric_is_refused(arguments):
    with pytest.raises(InputError):
        Metric("m", **arguments)


def large(n_rows=5000, seed=0):
    """More rows than any block, with two metrics of which one or both are missing in some rows."""
    rng = np.random.default_rng(seed)
    axes = (
        Hyperparameter("a", tuple(map(float, range(100)))),
        Hyperparameter("b", tuple(map(float, range(1, 101)))),
    )
    places = rng.choice(10_000, size=n_rows, replace=False)
    values = rng.integers(0, 40, size=(n_rows, 2)).astype(float)
    values[rng.random(n_rows) < 0.1, 0] = np.nan
    values[rng.random(n_rows) < 0.1, 1] = np.nan
    metrics = (Metric("up", "max"), Metric("down", "min", tolerance=0.0))
    return Table(
        "large", axes, metrics, np.column_stack([places // 100, places % 100 + 1.0]), values, ("up", "down")
    )


def test_a_row_where_one_of_two_losses_is_missing_is_on_no_front():
    mine = large()
    losses = mine.losses(["up", "down"])
    np.testing.assert_array_equal(losses, np.column_stack([-mine.column("up"), mine.column("down")]))
    complete = ~np.isnan(mine.values).any(axis=1)
    assert not complete.all()
    expected = [
        i
        for i in np.flatnonzero(complete)
        if not any(
            (losses[j] <= losses[i]).all() and (losses[j] < losses[i]).any()
            for j in np.flatnonzero(complete & (losses[:, 0] <= losses[i, 0]))
        )
    ]
    assert mine.front(["up", "down"]).tolist() == expected
    best = np.nanmax(mine.column("up"))
    assert mine.best_rows("up").tolist() == [i for i, v in enumerate(mine.column("up")) if v == best]


def test_the_first_row_that_repeats_a_configuration_is_named():
    mine = large()
    configs = mine.configs.copy()
    configs[4000] = configs[4990] = configs[17]
    configs[30] = configs[4995]
    with pytest.raises(
        InputError, match=r"table 'large': rows 17, 4000, 4990 have the same configuration\. A table"
    ):
        dataclasses.replace(mine, configs=configs)
    configs[100:109] = configs[5]
    with pytest.raises(InputError, match="rows 5, 100, 101, 102, 103, 104, 105, 106, 107, 108 have the same"):
        dataclasses.replace(mine, configs=configs)
    configs[:] = configs[0]
    with pytest.raises(InputError, match="rows 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, … have the same"):
        dataclasses.replace(mine, configs=configs)


def test_a_value_beyond_either_end_of_the_grid_is_named():
    mine = large()
    for wrong in (-1.0, 50.5, 100.0, 12345.0):
        configs = mine.configs.copy()
        configs[4321, 0] = wrong
        shown = r"\[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …\]"
        with pytest.raises(
            InputError, match=rf"row 4321: a is {wrong:g}, which is not among its values {shown}\."
        ):
            dataclasses.replace(mine, configs=configs)


def test_configurations_are_told_apart_where_the_grid_is_larger_than_an_integer():
    n = 40
    axes = tuple(Hyperparameter(f"h{j}", tuple(map(float, range(7)))) for j in range(n))
    configs = np.random.default_rng(0).integers(7, size=(300, n)).astype(float)
    values = np.zeros((300, 1))
    Table("t", axes, LOSS, configs, values)
    for j in range(n):  # rows that differ in one hyperparameter, whichever it is
        configs[200] = configs[100]
        configs[200, j] = (configs[100, j] + 1) % 7
        Table("t", axes, LOSS, configs, values)
    configs[200] = configs[100]
    with pytest.raises(InputError, match="rows 100, 200 have the same"):
        Table("t", axes, LOSS, configs, values)


def test_a_column_has_its_own_values(toy):
    for j, metric in enumerate(toy.metrics):
        np.testing.assert_array_equal(toy.column(metric.name), toy.values[:, j])
        assert toy.metric(metric.name) is metric
    with pytest.raises(InputError, match=r"unknown metric 'blue'\. Did you mean 'bleu'\? \(table 'toy'\)"):
        toy.column("blue")


def test_objectives_from_texts():
    mine = large()
    assert mine.objective("up") == Objective("up", "max")
    assert mine.objective("up:min") == Objective("up", "min")
    assert mine.objective("down:max") == Objective("down", "max")
    assert mine.objective(Objective("down", "max")) == Objective("down", "max")
    with pytest.raises(InputError, match="unknown metric 'left'"):
        mine.objective(Objective("left", "max"))
    with pytest.raises(InputError, match="unknown metric 'left'"):
        mine.objective("left:min")
    with pytest.raises(
        InputError, match="objective 'up:big': the direction after ':' must be 'min' or 'max'"
    ):
        mine.objective("up:big")
    assert mine.main_metric == "up"
    assert dataclasses.replace(mine, objectives=()).main_metric == "up"
    assert dataclasses.replace(mine, objectives=("down",)).main_metric == "down"


def test_a_metrics_name_may_hold_a_colon():
    metrics = (Metric("loss:dev", "min"), Metric("loss", "min"))
    axis = Hyperparameter("x", (0.0, 1.0))
    mine = Table("t", (axis,), metrics, [[0.0], [1.0]], [[1.0, 4.0], [2.0, 3.0]], ("loss:dev",))
    assert [str(mine.objective(spec)) for spec in ("loss:dev", "loss:dev:max", "loss", "loss:max")] == [
        "loss:dev:min", "loss:dev:max", "loss:min", "loss:max",
    ]  # fmt: skip
    assert mine.losses(["loss:dev:max", "loss"]).tolist() == [[-1.0, 4.0], [-2.0, 3.0]]


def test_the_tolerance():
    mine = large()
    assert mine.tolerance("down") == 0.0
    up = mine.column("up")
    up = up[~np.isnan(up)]
    assert mine.tolerance("up") == pytest.approx(0.05 * (up.max() - np.median(up)))
    assert mine.tolerance("up:min") == pytest.approx(0.05 * (np.median(up) - up.min()))
    # Half of the rows are as good as the best: then it is the way to the worst.
    assert table([[1.0], [1.0], [1.0], [5.0]]).tolerance("loss") == pytest.approx(0.2)
    assert table([[1.0], [1.0], [1.0], [1.0]]).tolerance("loss") == 0.0
    assert np.isnan(table([[np.nan]] * 4).tolerance("loss"))


def test_the_hash_is_of_rows_space_and_metrics_only():
    mine = large()
    other = dataclasses.replace(
        mine, name="b", objectives=("up",), provenance={"a": "b"}, claims={"failed": 1}
    )
    assert other.sha256 == mine.sha256
    changes = [
        {"configs": mine.configs[::-1]},
        {"values": np.where(mine.values == 3, 4, mine.values)},
        {
            "hyperparameters": (
                dataclasses.replace(mine.hyperparameters[0], name="c"),
                mine.hyperparameters[1],
            )
        },
        {
            "hyperparameters": (
                mine.hyperparameters[0],
                dataclasses.replace(mine.hyperparameters[1], scale="log"),
            )
        },
        {"metrics": (dataclasses.replace(mine.metrics[0], name="c"), mine.metrics[1]), "objectives": ()},
        {"metrics": (mine.metrics[0], dataclasses.replace(mine.metrics[1], direction="max"))},
    ]
    hashes = {dataclasses.replace(mine, **change).sha256 for change in changes} | {mine.sha256}
    assert len(hashes) == len(changes) + 1
    tolerance = (mine.metrics[0], dataclasses.replace(mine.metrics[1], tolerance=1.0, unit="s"))
    assert dataclasses.replace(mine, metrics=tolerance).sha256 == mine.sha256
    # A NaN has many bit patterns, and is one value.
    values = mine.values.copy()
    values[np.isnan(values)] = -np.nan
    assert dataclasses.replace(mine, values=values).sha256 == mine.sha256
    # A file does not tell -0.0 from 0.
    zeros = table([[0.0], [2.0], [np.nan], [4.0]])
    assert dataclasses.replace(zeros, values=-zeros.values).sha256 != zeros.sha256
    assert dataclasses.replace(zeros, values=[[-0.0], [2.0], [np.nan], [4.0]]).sha256 == zeros.sha256
    # The hash of an earlier version stands in results folders.
    assert table([[1.0], [2.0], [np.nan], [4.0]]).sha256 == HASH


def test_the_hash_tells_what_can_be_suggested_between_rows():
    kinds = (
        Hyperparameter("opt", ("sgd", "rms", "adam"), kind="categorical"),
        Hyperparameter("size", (1, 2)),
    )
    codes = np.array([[0, 1], [0, 2], [2, np.nan]])

    def made(**size):
        axes = (kinds[0], dataclasses.replace(kinds[1], **size))
        return Table("t", axes, (Metric("loss", "min"),), codes, np.ones((3, 1)))

    some, more = ((("opt", ("sgd",)),), (("opt", ("sgd", "rms")),))
    assert made(active_if=some).sha256 != made(active_if=more).sha256 == made(active_if=more).sha256
    real = made(active_if=some, integer=False)
    assert made(active_if=some, integer=True).sha256 == made(active_if=some).sha256 != real.sha256


@pytest.mark.parametrize(
    "axis",
    [
        {"values": (1.0, 2.5), "kind": "categorical"},
        {"values": [np.float64(1), np.int64(2)], "kind": "ordinal"},
        {"values": (1, 2), "active_if": [["opt", [0.0, np.int64(1)]]]},
        {"values": (1, 2), "active_if": (("opt", (1.0,)),), "default": 2.0},
    ],
)
def test_the_hash_survives_the_disk(axis, tmp_path):
    opt = Hyperparameter("opt", (0.0, 1.0), kind="categorical")
    other = Hyperparameter("size", **axis)
    codes = Space((opt, other)).encode_all([{"opt": 1, "size": other.values[0]}])
    made = Table("t", (opt, other), (Metric("loss", "min"),), codes, [[1.0]])
    save_folder(made, tmp_path / "t")
    again = load_folder(tmp_path / "t")
    assert again.sha256 == made.sha256
    assert {again.hyperparameters, made.hyperparameters} == {made.hyperparameters}


def test_a_value_that_stands_for_missing_is_refused():
    """A file could not tell it from a value that is missing."""
    axes, metric = (Hyperparameter("size", (1, 2)),), Metric("loss", "min", missing=-1.0)
    message = "row 1: loss is -1, which means a missing value in its files: use NaN there, or another"
    with pytest.raises(InputError, match=message):
        Table("t", axes, (metric,), [[1.0], [2.0]], [[0.0], [-1.0]])


HASH = "e357aa1fba0938000495549da8b545f334adccd18e6057fc26fed77cb540f63f"


def test_a_table_is_short_to_look_at():
    mine = large()
    assert repr(mine) == "<Table 'large': 5,000 rows of a, b; measured: up, down>"
    html = mine._repr_html_()
    assert html.startswith("<p><b>large</b>: 5,000 rows, optimised for up:max, down:min</p><table")
    assert html.count("<tr") == 6
    axes = tuple(Hyperparameter(f"<b>{j}", (0.0, 1.0)) for j in range(12))
    odd = Table("t", axes, LOSS, np.eye(2, 12), np.ones((2, 1)), ("loss",))
    assert "<b>9, …; measured: loss>" in repr(odd)
    ten = Table("t", axes[:10], LOSS, np.eye(2, 10), np.ones((2, 1)))
    assert "<b>8, <b>9; measured: loss>" in repr(ten)
    digits = (Hyperparameter("x", tuple(map(float, range(10)))),)
    with pytest.raises(InputError, match=r"among its values \[0, 1, 2, 3, 4, 5, 6, 7, 8, 9\]\."):
        Table("t", digits, LOSS, np.array([[10.0]]), np.ones((1, 1)))
    assert "<b>0" not in odd._repr_html_()
    assert "&lt;b&gt;0" in odd._repr_html_()
    assert "<p><b>t</b>: 2 rows</p>" in dataclasses.replace(odd, objectives=())._repr_html_()
    holes = table([[np.nan], [1.0], [1.0], [1.0]])._repr_html_()
    assert "<td></td>" in holes
    assert "NaN" not in holes
    for columns, cut in ((20, False), (21, True)):  # as wide as a notebook shows well
        axes = tuple(Hyperparameter(f"h{j}", (0.0, 1.0)) for j in range(columns - 1))
        wide = Table("t", axes, LOSS, np.eye(2, columns - 1), np.ones((2, 1)))._repr_html_()
        assert ("<td>...</td>" in wide) is cut
    assert len(repr(dataclasses.replace(odd, name="x" * 100))) < 400


def test_the_frame_holds_every_row():
    mine = large(300)
    frame = mine.to_frame()
    assert list(frame) == ["a", "b", "up", "down"]
    np.testing.assert_array_equal(frame.to_numpy(), np.hstack([mine.configs, mine.values]))
    assert len(mine.to_frame(7)) == 7


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"configs": np.zeros((5000, 3))}, r"configs must have shape \(rows, 2\), not \(5000, 3\)"),
        ({"values": np.zeros(5000)}, r"values must have shape \(rows, 2\), not \(5000,\)"),
        (
            {"hyperparameters": (), "configs": np.zeros((5000, 0))},
            "at least one hyperparameter and one metric",
        ),
        (
            {"metrics": (), "values": np.zeros((5000, 0)), "objectives": ()},
            "at least one hyperparameter and one",
        ),
        ({"objectives": ("up:left",)}, "must be 'min' or 'max'"),
    ],
)
def test_a_table_of_the_wrong_shape(change, message):
    with pytest.raises(InputError, match=message):
        dataclasses.replace(large(), **change)


def test_whole_numbers_are_integers_in_frames_unless_some_are_inactive():
    axes = (
        Hyperparameter("layers", (1, 2)),
        Hyperparameter("share", (1.0, 2.0), integer=False),
        Hyperparameter("heads", (4, 8), active_if=(("layers", (2,)),)),
    )
    configs = np.array([[1.0, 1.0, np.nan], [2.0, 2.0, 8.0]])
    frame = Table("t", axes, LOSS, configs, np.ones((2, 1))).to_frame()
    assert [str(kind) for kind in frame.dtypes] == ["int64", "float64", "float64", "float64"]
    assert frame["layers"].tolist() == [1, 2] and frame["heads"].tolist()[1] == 8
