"""Kinds of files that were once read wrongly: each is right, or asks, for any values."""

import gzip
import io
import itertools
import json
import zipfile
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from written_rows import GRID, texts

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.imports.importing import Unsure, import_table, make_table
from hpobench_nmt.lookup.imports.roles import roles_file, stated
from hpobench_nmt.lookup.imports.sweep import Choices

NAMES = st.sampled_from(
    [
        "alpha",
        "rank",
        "window",
        "precision",
        "bits",
        "gain",
        "map",
        "memory",
        "reward",
        "params",
        "param_count",
        "config_hash_len",
        "params_x",
        "epoch",
        "group",
        "model",
        "word_error_rate",
        "drop_rate",
        "file",
        "success",
        "opt",
        "x",
        "y",
        "train_batch_size",
        "train_tokens",
        "eval_len",
        "train_time_budget",
        "test_limit",
    ]
)
CELLS = st.one_of(
    st.sampled_from([[16, 32], ["a", "b"], [1, 2, 3], ["016", "16"], [0.5, 0.25], [True, False]]),
    st.lists(st.floats(-9, 9), min_size=6, max_size=6, unique=True),
)


@settings(deadline=None, max_examples=30, derandomize=True)
@given(st.dictionaries(NAMES, CELLS, min_size=1, max_size=4), st.booleans(), st.data())
def test_only_trainings_that_agree_in_all_settings_are_merged(read, columns, lines, data):
    """The invariant: settings are whatever is no seed, metric, time or identifier."""
    n = data.draw(st.integers(4, 12))
    rows = [
        {name: data.draw(st.sampled_from(cells)) for name, cells in columns.items()}
        | {"lr": data.draw(st.sampled_from([0.1, 0.2])), "seed": k, "val_loss": 1 + k / 7}
        for k in range(n)
    ]
    outcomes = {"word_error_rate"}
    identities = {"group", "file", "success"}
    merged = {"seed", "val_loss"} | outcomes | identities
    distinct = {json.dumps({k: v for k, v in row.items() if k not in merged}) for row in rows}
    try:
        if lines:
            table = read("".join(json.dumps(row) + "\n" for row in rows), "rows.jsonl").table
        else:
            table = read(texts(rows)).table
    except InputError:
        return
    sure_outcomes = {m.name for m in table.metrics}
    if not sure_outcomes & set(columns):
        failed = sum(not row.get("success", True) for row in rows)
        assert len(table) >= len(distinct) - failed


@pytest.mark.parametrize("name", ["precision", "bits", "gain", "map", "memory", "reward", "params"])
def test_a_name_alone_is_no_role(read, name):
    """Few values that cross with others are a setting, whatever they are called."""
    rows = [row | {name: v, "val_loss": k} for k, (row, v) in enumerate(itertools.product(GRID, (16, 32)))]
    with pytest.raises(Unsure, match=rf"{name} .hyperparameter: it has few values, but the name of a metric"):
        read(texts(rows))
    table = read(texts(rows), guessed=True).table
    assert len(table) == 8 and name in table.space.names


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("word_error_rate", "min"), ("error_rate", "min"), ("train_time_ms", "min"),
        ("peak_alloc_mib", "min"),
        ("total_flos", "min"), ("tokens_per_sec", "max"), ("sec_per_token", "min"), ("used_epochs", None),
        ("drop_rate", None), ("hit_rate", None), ("global_step", None), ("eval_samples", None),
    ],
)  # fmt: skip
@settings(deadline=None, max_examples=5)
@given(numbers=st.lists(st.integers(100, 10**6), min_size=4, max_size=4, unique=True))
def test_another_number_in_every_row_of_a_grid_is_an_outcome(read, name, way, numbers):
    rows = [row | {name: v, "val_loss": k} for k, (row, v) in enumerate(zip(GRID, numbers, strict=True))]
    table = read(texts(rows), metrics=("val_loss:min",)).table
    assert table.space.names == ("lr", "layers")
    assert {m.name: m.direction for m in table.metrics}.get(name) == way


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(0, 999), min_size=4, max_size=4, unique=True))
def test_per_cent_signs_are_numbers(read, tenths):
    rows = [row | {"val_acc": f"{v / 10}%"} for row, v in zip(GRID, tenths, strict=True)]
    np.testing.assert_array_equal(read(texts(rows)).table.column("val_acc"), [v / 10 for v in tenths])
    with pytest.raises(InputError, match=r"'val_acc' is '92\.5x', not a number"):
        read(texts([*rows[:3], rows[3] | {"val_acc": "92.5x"}]))


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(1, 10**6), min_size=4, max_size=4, unique=True))
def test_durations_of_days_and_of_the_standard_are_seconds(read, seconds):
    def written(k, each):
        hours, rest = divmod(each, 3600)
        return str(timedelta(seconds=each)) if k % 2 else f"PT{hours}H{rest // 60}M{rest % 60}S"

    rows = [
        row | {"val_loss": k, "duration": written(k, each)}
        for k, (row, each) in enumerate(zip(GRID, seconds, strict=True))
    ]
    np.testing.assert_array_equal(read(texts(rows)).table.column("seconds"), seconds)
    assert {m.name: m.unit for m in read(texts(rows)).table.metrics} == {"val_loss": "", "seconds": "s"}
    notes = read(texts([rows[0] | {"duration": "long"}, *rows[1:]])).notes
    assert notes[0].startswith("1 of 4 cells of duration are not durations")


@pytest.mark.parametrize("net", ["gpt: nano", "gpt: info", "a: inf", "nan"])
def test_dictionaries_in_cells_keep_their_texts(read, net):
    rows = [
        {"": k, "summary": str({"val_loss": [1.5, -np.inf, np.nan][k % 3]}), "name": f"r{k}",
         "config": str({"lr": 0.1 * (k + 1), "net": [net, "plain"][k % 2]})}
        for k in range(6)
    ]  # fmt: skip
    table = read(texts(rows)).table
    if net != "nan":
        assert set(table.space["net"].values) == {net, "plain"}
    assert np.isfinite(table.column("val_loss")).tolist() == [True, False, False] * 2


def test_a_header_may_begin_with_a_hash_or_be_in_two_rows(read):
    body = "".join(f"{k},{'ab'[k % 2]},0.{k + 1},{k}\n" for k in range(4))
    assert read("#trial,opt,lr,val_loss\n" + body).table.space.names == ("opt", "lr")
    with pytest.raises(InputError, match="holds numbers where the names of the columns should be"):
        read(body.replace("a", "1").replace("b", "2"))
    two = ",number,value,params,params,state\n,,,lr,opt,\n"
    two += "0,0,0.5,0.1,adam,COMPLETE\n1,1,0.4,0.01,sgd,COMPLETE\n"
    assert read(two, metrics=("value:min",)).table.space.names == ("lr", "opt")


def test_columns_of_epochs_are_a_curve(read):
    rows = [row | {f"epoch_{e}": 3 + k - e for e in range(1, 6)} for k, row in enumerate(GRID)]
    with pytest.raises(Unsure, match=r"value_by_epoch .objective: it is not known whether smaller or larger"):
        read(texts(rows))
    table = read(texts(rows), metrics=("value_by_epoch:min",)).table
    assert table.curves.lengths.tolist() == [5] * 4 and table.curves[0].resources.tolist() == [1, 2, 3, 4, 5]
    assert table.column("value_by_epoch").tolist() == [-2, -1, 0, 1]


@settings(deadline=None, max_examples=10)
@given(st.integers(2, 30), st.sampled_from([0.1, 0.25, 1 / 3]))
def test_fractional_steps_go_through_unchanged(read, n, unit):
    steps = [round(unit * k, 6) for k in range(1, n + 1)]
    rows = [
        {"run_id": f"r{r}", "epoch": step, "lr": 0.1 + r, "val_loss": 9 - step}
        for r in range(3)
        for step in steps
    ]
    table = read(texts(rows)).table
    np.testing.assert_array_equal(table.curves[0].resources, steps)
    np.testing.assert_array_equal(table.curves[0].costs, steps)


@pytest.mark.parametrize("depth", [101, 400, 800, 930, 980, 5000])
def test_deep_lists_are_refused_in_one_line(read, depth):
    with pytest.raises(InputError, match=r"nested too deeply"):
        read('{"lr": 0.1, "x": ' + "[" * depth + "]" * depth + "}\n", "deep.jsonl")


def test_roles_are_written_and_read_again(tmp_path):
    path = tmp_path / "sweep.csv"
    rows = [row | {"bits": v, "val_loss": k, "foo": k * 0.37} for k, (row, v) in
            enumerate(itertools.product(GRID, (4, 8)))]  # fmt: skip
    path.write_text(texts(rows))
    with pytest.raises(Unsure) as unsure:
        import_table(path)
    file = tmp_path / "sweep.roles.toml"
    file.write_text(roles_file(unsure.value.imported.about))
    assert import_table(path, roles=file).sha256 == import_table(path, guessed=True).sha256
    file.write_text(
        file.read_text().replace('role = "hyperparameter"\nscale = "linear"\nguess', 'role = "seed"\nguess')
    )
    table = import_table(path, roles=file)
    assert table.space.names == ("lr", "layers") and table.replicates.averaged
    roles = {"bits": "ignore", "foo": "metric:max", "val_loss": "objective:min"}
    assert [m.direction for m in import_table(path, roles=roles).metrics] == ["min", "max"]
    with pytest.raises(
        InputError, match=r"roles: bits\.role must be 'hyperparameter', 'ignore', 'metric', 'objective' or"
    ):
        import_table(path, roles={"bits": "bit"})


def test_a_default_name_is_short(tmp_path):
    path = tmp_path / f"{'long-' * 9}.csv"
    path.write_text(texts([row | {"val_loss": k} for k, row in enumerate(GRID)]))
    assert import_table(path).name == "long-long-long-long-long"


@pytest.mark.parametrize("names", [("train.loss", "valid.loss", "test.loss"), ("a.loss", "valid.loss")])
def test_lists_of_one_name_in_several_sections_are_several_curves(read, names):
    rows = [{"hp": {"lr": k / 10}} for k in range(1, 5)]
    for k, row in enumerate(rows):
        for place, name in enumerate(names):
            row[name.split(".")[0]] = {"loss": [9.0 + place, 5.0 + place + k / 10]}
    table = read("".join(json.dumps(row) + "\n" for row in rows), "rows.jsonl", guessed=True).table
    assert {m.name for m in table.curves.metrics} == set(names) and table.objectives == ("valid.loss",)
    for place, name in enumerate(names):
        np.testing.assert_array_equal(table.column(name), [5.0 + place + k / 10 for k in range(4)])


def test_pairs_of_step_and_value_are_a_curve(read):
    """So are sections whose keys are steps. The last value is the result, also if it is no number."""
    for write in (dict, lambda pairs: [list(pair) for pair in pairs]):
        pairs = [[(100, 3.0 + k), (200, 2.0 + k if k else None)] for k in range(4)]
        rows = [{"hp": row, "val_loss": write(own)} for row, own in zip(GRID, pairs, strict=True)]
        table = read("".join(json.dumps(row) + "\n" for row in rows), "rows.jsonl").table
        np.testing.assert_array_equal(table.column("val_loss"), [np.nan, 3, 4, 5])
        assert table.curves[1].resources.tolist() == [100, 200] and table.curves.lengths.tolist() == [2] * 4


def test_a_folder_with_a_file_for_each_training(tmp_path, imported):
    for k, row in enumerate(GRID):
        (tmp_path / f"run-{k}.json").write_text(json.dumps({"config": row, "metrics": {"acc": k}}, indent=2))
    table = imported(tmp_path, name="runs").table
    assert table.space.names == ("lr", "layers") and table.column("acc").tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("pack", [gzip.compress, lambda content: zipped(content)])
def test_compressed_files_are_read(tmp_path, imported, pack):
    path = tmp_path / "sweep.csv.packed"
    path.write_bytes(pack(texts([row | {"val_loss": k} for k, row in enumerate(GRID)]).encode()))
    assert imported(path).table.column("val_loss").tolist() == [0, 1, 2, 3]


def zipped(content):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("results.csv", content)
    return file.getvalue()


@settings(deadline=None, max_examples=10)
@given(st.integers(2**53, 2**60))
def test_whole_numbers_that_no_double_holds_are_never_one_value(read, number):
    rows = [{"tokens_in": number + k, "opt": "ab"[k // 2], "val_loss": k} for k in range(4)]
    try:
        table = read("".join(json.dumps(row) + "\n" for row in rows), "rows.jsonl", guessed=True).table
    except InputError:
        return
    assert len(table) == 4


def test_what_the_user_states_in_a_file_of_roles_holds(tmp_path):
    """Scales and units come through, a wrong scale is refused, and the reason names the user."""
    path, file = tmp_path / "sweep.csv", tmp_path / "sweep.roles.toml"
    path.write_text(texts([row | {"val_loss": k, "foo": k * 0.37} for k, row in enumerate(GRID)]))
    roles = {"foo": "ignore", "layers": "hyperparameter"}
    roles |= {"lr": {"role": "hyperparameter", "scale": "linear", "unit": "1/s"}}
    roles |= {"val_loss": {"role": "objective", "direction": "min", "unit": "nat"}}
    table = import_table(path, roles=roles)
    assert (table.space["lr"].scale, table.space["lr"].unit, table.metrics[0].unit) == (
        "linear",
        "1/s",
        "nat",
    )
    imported = make_table(path, "", Choices(stated(roles=roles)))
    assert ("hyperparameter", "lr", "0.01 to 0.1, 2 values; as you say") in imported.decisions
    file.write_text(roles_file(imported.about))
    assert import_table(path, roles=file).sha256 == table.sha256
    with pytest.raises(InputError, match=r"roles: lr\.scale must be 'linear' or 'log'"):
        import_table(path, roles={"lr": {"role": "hyperparameter", "scale": "ln"}})


def test_settings_beside_a_sure_one_are_not_taken_for_outcomes(read):
    """A random search: of its settings, only one has a name or values that are sure."""
    rng = np.random.default_rng(0)
    rows = [
        {"x1": rng.random(), "x2": rng.random(), "kind": "ab"[k % 2], "result": rng.random()}
        for k in range(30)
    ]
    table = read(texts(rows), guessed=True).table
    assert (table.space.names, table.objectives, len(table)) == (("x1", "x2", "kind"), ("result",), 30)


@pytest.mark.parametrize("way", ["+", "-"])
def test_hours_are_counted_across_zones(read, way):
    rows = [
        {f"params.{name}": value for name, value in row.items()}
        | {"metrics.val_loss": k, "run_id": f"r{k}", "experiment_id": 0, "status": "FINISHED",
           "start_time": f"2024-03-31T01:30:00{way}01:00", "end_time": f"2024-03-31T0{k + 5}:30:00{way}02:00"}
        for k, row in enumerate(GRID)
    ]  # fmt: skip
    hours = read(texts(rows)).table.column("seconds") / 3600
    np.testing.assert_array_equal(hours, np.arange(4) + (3 if way == "+" else 5))
