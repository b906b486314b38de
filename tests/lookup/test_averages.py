"""Tables whose rows are means of several trainings, from CSV and from Parquet."""

from __future__ import annotations

import tomllib

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.evaluation.noise import seed_noise
from hpobench_nmt.lookup.disk.folder import add_table, load_folder
from hpobench_nmt.lookup.groups import configurations_of, means, training_numbers, wrong_seed

SHEET = """
name = "mine"
[hyperparameters.lr]
scale = "log"
[hyperparameters.act]
[hyperparameters.momentum]
active_if = {act = ["relu"]}
[metrics.ppl]
direction = "min"
[metrics.seconds]
direction = "min"
[replicates]
seed = "run"
"""
FRAME = pd.DataFrame(
    [
        (0.1, "relu", 0.5, 7, 10.0, 1),
        (0.01, "tanh", np.nan, 7, 30.0, 2),
        (0.1, "relu", 0.5, 8, 14.0, 1),
        (0.01, "tanh", np.nan, 9, np.nan, 4),
        (0.01, "relu", 0.5, 1, 20.0, 3),
    ],
    columns=["lr", "act", "momentum", "run", "ppl", "seconds"],
)


@pytest.fixture(params=["csv", "parquet"])
def source(request, tmp_path):
    path = tmp_path / f"mine.{request.param}"
    (tmp_path / "mine.toml").write_text(SHEET)
    if request.param == "csv":
        FRAME.to_csv(path, index=False)
    else:
        FRAME.astype({"act": "category", "run": "int32", "seconds": "float32"}).to_parquet(path)
    return path


def test_rows_are_means_in_the_order_of_their_first_training(source, tmp_path):
    table, folder = add_table(source, None, tmp_path / "in")
    again = load_folder(folder)
    assert table.replicates.averaged
    assert again.replicates.averaged
    assert again.sha256 == table.sha256
    assert [again.config(row) for row in range(3)] == [
        {"lr": 0.1, "act": "relu", "momentum": 0.5},
        {"lr": 0.01, "act": "tanh"},
        {"lr": 0.01, "act": "relu", "momentum": 0.5},
    ]
    # A training failed: what the mean would be is not known.
    np.testing.assert_array_equal(again.column("ppl"), [12, np.nan, 20])
    np.testing.assert_array_equal(again.column("seconds"), [1, 3, 3])
    trainings = load_folder(folder).replicates.to_frame()
    assert trainings["seed"].tolist() == [7, 8, 7, 9, 1]
    assert trainings["replicate"].tolist() == [1, 2, 1, 2, 1]
    np.testing.assert_array_equal(trainings["ppl"], [10, 14, 30, np.nan, 20])
    assert trainings["act"].tolist() == ["relu", "relu", "tanh", "tanh", "relu"]
    assert tomllib.loads((folder / "datasheet.toml").read_text())["replicates"]["averaged"] is True


def test_an_installed_one_can_be_added_elsewhere(source, tmp_path):
    _, folder = add_table(source, None, tmp_path / "in")
    _, other = add_table(folder, None, tmp_path / "other")
    for file in folder.iterdir():
        assert (other / file.name).read_bytes() == file.read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"run": [7, 7, 7, 9, 1]}, r"(line 4|row 2): seed 7 occurs twice for this configuration"),
        ({"run": [7, 7, 8, 9.5, 1]}, r"(line 5|row 3): the seed is empty, not a whole number"),
        ({"run": [7, 7, 8, np.nan, 1]}, r"(line 5|row 3): the seed is empty, not a whole number"),
        ({"ppl": ["a", "b", "c", "d", "e"]}, "not a number|type .*string, not numbers"),
        ({"momentum": [0.5, 0.5, 0.5, np.nan, 0.5]}, r"(line 3|row 1)"),
        ({"more": [1, 2, 3, 4, 5]}, "column 'more' is not described"),
    ],
)
def test_bad_trainings(source, tmp_path, change, message):
    frame = FRAME.assign(**change)
    frame.to_csv(source, index=False) if source.suffix == ".csv" else frame.to_parquet(source)
    with pytest.raises(InputError, match=message):
        add_table(source, None, tmp_path / "in")
    assert not (tmp_path / "in").exists()


def test_bad_sheets(source, tmp_path):
    for old, new, message in [
        ('seed = "run"', 'seed = "runs"', "unknown column 'runs'. Did you mean 'run'"),
        ('seed = "run"', 'seed = "ppl"', "'ppl' cannot be a hyperparameter or metric if"),
        ("metrics.seconds", "metrics.seed", "'seed' cannot be a hyperparameter or metric if"),
        ("[replicates]", "[curves]\n[replicates]", "curves"),
    ]:
        (tmp_path / "mine.toml").write_text(SHEET.replace(old, new))
        with pytest.raises(InputError, match=message):
            add_table(source, None, tmp_path / "in")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" * 100, b"lr,ppl\n1,2\n"])
def test_what_is_no_parquet_file(tmp_path, content):
    (tmp_path / "mine.toml").write_text(SHEET)
    (tmp_path / "mine.parquet").write_bytes(content)
    with pytest.raises(InputError, match=r"mine.parquet: not a Parquet file"):
        add_table(tmp_path / "mine.parquet", None, tmp_path / "in")


def test_a_small_file_that_stands_for_very_many_cells(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({name: pa.nulls(2**22) for name in FRAME})
    with pq.ParquetWriter(tmp_path / "mine.parquet", table.schema, compression="zstd") as writer:
        for _ in range(11):
            writer.write_table(table)
    assert (tmp_path / "mine.parquet").stat().st_size < 1_000_000
    (tmp_path / "mine.toml").write_text(SHEET)
    with pytest.raises(InputError, match="46,137,344 rows are too many"):
        add_table(tmp_path / "mine.parquet", None, tmp_path / "in")


def test_truth_values_and_odd_types(tmp_path):
    sheet = 'name = "mine"\n[hyperparameters.tied]\n[metrics.ppl]\ndirection = "min"\n'
    (tmp_path / "mine.toml").write_text(sheet)
    frame = pd.DataFrame({"tied": [True, False], "ppl": np.array([1, 2], dtype="uint8")})
    frame.to_parquet(tmp_path / "mine.parquet")
    table, _ = add_table(tmp_path / "mine.parquet", None, tmp_path / "in")
    assert [table.config(row) for row in (0, 1)] == [{"tied": True}, {"tied": False}]
    assert table.lookup({"tied": False}) == {"ppl": 2}
    frame.assign(ppl=pd.to_datetime(["2026-01-01", "2026-01-02"])).to_parquet(tmp_path / "mine.parquet")
    with pytest.raises(InputError, match=r"'ppl' holds values of type timestamp.*, not numbers"):
        add_table(tmp_path / "mine.parquet", None, tmp_path / "in")


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0.0, 1.0, np.nan])), min_size=1, max_size=12))
def test_groups_and_means_against_a_plain_loop(lines):
    configs = np.array(lines, dtype=float)
    values = np.random.default_rng(len(lines)).standard_normal((len(lines), 2))
    values[0, 1] = np.nan
    first, number = configurations_of(configs)
    keys = [repr(line) for line in configs.tolist()]
    order = list(dict.fromkeys(keys))
    assert [keys[i] for i in first] == order
    assert [order[n] for n in number] == keys
    assert training_numbers(number).tolist() == [keys[: i + 1].count(key) for i, key in enumerate(keys)]
    expected = [values[[k == key for k in keys]].mean(axis=0) for key in order]
    np.testing.assert_allclose(means(values, number), expected, rtol=1e-12, atol=1e-15)
    assert wrong_seed(np.arange(float(len(lines))), number) is None


def test_the_mean_of_equal_trainings_is_their_value():
    assert means(np.full((3, 1), 0.1), np.zeros(3, dtype=np.int64)).tolist() == [[0.1]]


def test_noise_of_a_table_of_means(tmp_path):
    """Rows are no trainings of their own, and differ by less noise than single trainings do."""
    rng = np.random.default_rng(0)
    lines = [(x, seed, x / 10 + rng.normal()) for x in range(200) for seed in range(4)]
    frame = pd.DataFrame(lines, columns=["x", "run", "ppl"])
    frame.to_csv(tmp_path / "mine.csv", index=False)
    sheet = 'name = "m"\n[hyperparameters.x]\n[metrics.ppl]\ndirection = "min"\n[replicates]\nseed = "run"\n'
    (tmp_path / "mine.toml").write_text(sheet)
    table, folder = add_table(tmp_path / "mine.csv", None, tmp_path / "in")
    found = seed_noise(table.response(), load_folder(folder).replicates.to_frame(), averaged=True)
    assert len(found.configurations) == 50
    ranked = found.ranked["row"].tolist()
    assert found.configurations["row"].iloc[0] == ranked[0]
    assert found.configurations["row"].iloc[-1] == ranked[100]
    assert found.pooled.low < 1 < found.pooled.high
    assert found.pooled.df == 50 * 3 - 3
    assert found.averaged_over == 4
    assert set(found.trainings["source"]) == {"replicate"}
    assert found.configurations["luck"].isna().all()
    limit = found.pooled.smallest_difference / 2
    assert found.between_rows == limit
    assert found.rows_within == (found.ranked["gap"] <= limit).sum()
    np.testing.assert_allclose(found.configurations["mean"], found.configurations["in_table"], atol=1e-9)


@pytest.mark.parametrize("seed", [0.5, np.nan, np.inf, -np.inf, 2.0**53 + 2, -(2.0**53) - 2])
def test_a_seed_that_is_no_whole_number_of_53_bits(seed):
    number = np.zeros(4, dtype=np.int64)
    assert wrong_seed(np.array([-(2.0**53), 2.0**53, -3, 0]), number) is None
    assert wrong_seed(np.array([1.0, 2.0, seed, seed]), number) == (
        2,
        "the seed is empty, not a whole number, or beyond 2^53.",
    )


def test_the_first_seed_that_is_there_twice_is_named():
    seeds = np.array([3.0, 5.0, 3.0, 5.0, 3.0])
    assert wrong_seed(seeds, np.array([0, 0, 1, 1, 2])) is None
    said = "seed 5 occurs twice for this configuration."
    assert wrong_seed(seeds, np.array([0, 1, 2, 1, 0])) == (3, said)


def test_trainings_are_numbered_in_the_order_of_the_lines_however_many_there_are():
    number = np.random.default_rng(0).integers(0, 3, 300)  # sorting short lists keeps their order anyway
    expected = [number[: i + 1].tolist().count(n) for i, n in enumerate(number)]
    assert training_numbers(number).tolist() == expected
