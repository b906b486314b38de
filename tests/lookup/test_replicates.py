"""Replicates are part of a table: read from its folder when they are first used, and kept by its parts."""

from __future__ import annotations

import pickle
import tomllib
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import tomli_w

from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.core.hyperparameter import Hyperparameter
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.disk import rows
from hpobench_nmt.lookup.disk.folder import add_table, load_folder, save_folder
from hpobench_nmt.lookup.replicates import Replicates


@pytest.fixture
def folder(toy, again, home):
    save_folder(toy.with_replicates(again(toy, range(len(toy)))), home / "tables" / "toy")
    return home / "tables" / "toy"


def test_they_are_read_when_they_are_first_used_and_only_then(folder, toy):
    content = (folder / "replicates.csv").read_bytes()
    (folder / "replicates.csv").unlink()
    table = load_folder(folder)
    assert table.sha256 == toy.sha256 and not table.replicates.averaged
    with pytest.raises(InputError, match=r"has no replicates\.csv"):
        _ = table.replicates.rows
    (folder / "replicates.csv").write_bytes(content)
    found = table.replicates.rows
    (folder / "replicates.csv").unlink()
    assert table.replicates.rows is found
    assert not any(array.flags.writeable for array in found[:4])


def test_a_noisy_run_parses_each_file_once(folder, monkeypatch):
    parsed = Counter()
    original = rows._of_arrow

    def counting(content, wanted, texts):
        parsed["replicate" in wanted.names] += 1
        return original(content, wanted, texts)

    monkeypatch.setattr(rows, "_of_arrow", counting)
    benchmark("toy", ["RS"], trials=2, noise="replicates", scores=["ftb"])
    assert parsed == {False: 1, True: 1}


@pytest.mark.parametrize("kind", [bool, np.bool_])
def test_true_and_1_are_two_labels(kind):
    axis = Hyperparameter("odd", (1, True, (1,), (True,)), kind="categorical")
    values = pd.Series([1, kind(True), (1,), (True,), kind(True), 1], dtype=object)
    found = Replicates.of_frame(pd.DataFrame({"odd": values, "bleu": range(6)}), (axis,), ("bleu",))
    assert found.rows.configs[:, 0].tolist() == [0, 1, 2, 3, 1, 0]


def test_by_row_against_a_plain_loop(toy, again):
    frame = again(toy, [5, 0, 7, 3], times=3).sample(frac=1.0, random_state=0)
    frame.loc[frame["replicate"] == 2, "replicate"] = 0  # the table's own, which do not count
    some = [3, 7, 20]
    place, values = toy.with_replicates(frame).replicates.by_row(toy.configs[some])
    expected = [
        (some.index(toy.row(config)), tuple(line[metric.name] for metric in toy.metrics))
        for line in frame.to_dict("records")
        if line["replicate"]
        for config in [{h.name: line[h.name] for h in toy.hyperparameters}]
        if toy.row(config) in some
    ]
    assert list(zip(place.tolist(), map(tuple, values.tolist()), strict=True)) == expected


def test_they_stay_with_some_of_the_rows_and_with_a_copy_in_another_process(folder):
    table = load_folder(folder)
    part = replace(table, configs=table.configs[:3], values=table.values[:3])
    for copy in (part, pickle.loads(pickle.dumps(part))):  # noqa: S301  (before they were read, and after)
        assert copy.replicates.by_row(copy.configs)[0].tolist() == [0, 1, 2] * 5
    only = table.replicates.only(table.configs[:3]).to_frame()
    pd.testing.assert_frame_equal(
        only, table.replicates.to_frame().iloc[np.tile([0, 1, 2], 5) + np.repeat(np.arange(5), 3) * 36
        ].reset_index(drop=True),
    )  # fmt: skip


def test_of_other_hyperparameters_or_metrics_they_are_refused(folder):
    table = load_folder(folder)
    for change in (
        {"metrics": table.metrics[::-1], "values": table.values[:, ::-1]},
        {"hyperparameters": (replace(table.hyperparameters[0], name="depth"), *table.hyperparameters[1:])},
    ):
        with pytest.raises(InputError, match="its replicates have other hyperparameters or metrics"):
            replace(table, **change)


def test_seeds_and_numbers_may_be_left_out_of_a_frame(toy, again):
    frame = again(toy, [4, 2]).drop(columns=["replicate", "seed"])
    found = toy.with_replicates(frame).replicates.rows
    assert found.numbers.tolist() == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert np.isnan(found.seeds).all()


@pytest.mark.parametrize("cells", ["x,y", "0.2,y"])
def test_a_text_in_a_column_of_numbers_is_named_with_its_line(tmp_path, cells):
    (tmp_path / "t.csv").write_text("lr,loss\n0.1,1\n0.2,2\n")
    (tmp_path / "t.toml").write_text('[hyperparameters.lr]\n[metrics.loss]\ndirection="min"\n[replicates]\n')
    lines = [f"{cell},1,{seed},3\n" for seed, cell in enumerate(cells.split(","))]
    (tmp_path / "replicates.csv").write_text("lr,replicate,seed,loss\n" + "".join(lines))
    with pytest.raises(InputError, match=r"replicates\.csv, line [23]: 'lr' is '[xy]', not a number"):
        add_table(tmp_path / "t.csv", None, tmp_path / "installed")


def test_a_value_off_the_grid_is_named_with_its_line(folder, tmp_path):
    lines = (folder / "replicates.csv").read_text().splitlines()
    names = lines[0].split(",")
    cells = lines[4].split(",")
    cells[names.index("width")] = "7"
    (folder / "replicates.csv").write_text("\n".join([*lines[:4], ",".join(cells)]) + "\n")
    sheet = tomllib.loads((folder / "datasheet.toml").read_text())
    (folder / "datasheet.toml").write_text(tomli_w.dumps(sheet | {"replicates": {}}))
    with pytest.raises(InputError, match=r"replicates\.csv, line 5: width is 7, which is not among"):
        add_table(folder, None, tmp_path / "installed")
    assert not (tmp_path / "installed").exists()


SHEET = """
[replicates]
[replicate_curves]
[hyperparameters.rate]
[metrics.loss]
direction = "min"
[curves]
resource = "epoch"
[curves.metrics.loss]
own = "last"
"""


def written(folder, replicate_curves):
    """A folder of two rows, of which the first was trained three times, as a person writes it."""
    folder.mkdir(exist_ok=True)
    (folder / "table.csv").write_text("rate,loss\n0.1,2\n0.2,3\n")
    (folder / "curves.csv").write_text("row,checkpoint,epoch,cost,loss\n0,1,1,5,2\n1,1,1,5,3\n")
    (folder / "replicates.csv").write_text("rate,replicate,seed,loss\n0.1,1,7,2.5\n0.1,2,8,\n")
    if replicate_curves:
        (folder / "replicate_curves.csv").write_text("row,checkpoint,epoch,cost,loss\n" + replicate_curves)
    (folder / "datasheet.toml").write_text(SHEET)
    return folder


def test_replicates_have_curves_of_their_own(tmp_path):
    source = written(tmp_path / "mine", "0,1,1,4,3\n0,2,2,9,2.5\n1,1,1,6,\n")
    table, folder = add_table(source, None, tmp_path / "tables")
    for each in (table, load_folder(folder)):
        curves = each.replicates.rows.curves
        assert curves.lengths.tolist() == [2, 1] and curves[0].costs.tolist() == [4.0, 9.0]
        assert np.isnan(curves[1].values).all() and each.curves.lengths.tolist() == [1, 1]
        kept = each.replicates.only(each.configs[[0]]).rows
        assert (
            kept.curves.sha256 == curves.sha256
            and len(each.replicates.only(each.configs[[1]]).rows.values) == 0
        )
    assert "format = 5" in (folder / "datasheet.toml").read_text()
    (folder / "replicate_curves.csv").write_text("row,checkpoint,epoch,cost,loss\n0,1,1,4,3\n")
    with pytest.raises(InputError, match=r"replicate_curves\.csv: SHA-256 is"):
        _ = load_folder(folder).replicates.rows


@pytest.mark.parametrize(
    ("curves", "old", "new", "message"),
    [
        ("2,1,1,4,3\n", "", "", r"replicate_curves\.csv: line 2: row 2, checkpoint 1: rows go from 0 to 1"),
        ("", "", "", r"has no replicate_curves\.csv"),
        ("0,1,1,4,3\n", "[replicate_curves]\n", "", r"has no section \[replicate_curves\]"),
        ("0,1,1,4,3\n", "[replicates]\n", "", r"\[replicate_curves\] needs \[curves\], and \[replicates\]"),
    ],
)
def test_wrong_curves_of_replicates_are_refused(tmp_path, curves, old, new, message):
    source = written(tmp_path / "mine", curves)
    (source / "datasheet.toml").write_text(SHEET.replace(old, new))
    with pytest.raises(InputError, match=message):
        add_table(source, None, tmp_path / "tables")
    assert not (tmp_path / "tables" / "mine").exists()
