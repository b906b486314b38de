"""Croissant cards, read by MLCommons' own reader."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from hpobench_nmt.cli.main import main
from hpobench_nmt.core.errors import InputError
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter, Space
from hpobench_nmt.lookup.card import croissant
from hpobench_nmt.lookup.catalogue import find_folder, load_table
from hpobench_nmt.lookup.folder import save_folder
from hpobench_nmt.lookup.table import Table

pytestmark = pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated")  # of mlcroissant's


def read_card(folder):
    """The card of a folder, and its record sets as lists of dictionaries."""
    mlcroissant = pytest.importorskip("mlcroissant")
    (folder / "croissant.json").write_text(json.dumps(croissant(folder)))
    dataset = mlcroissant.Dataset(jsonld=folder / "croissant.json")
    assert not dataset.metadata.issues.errors
    return dataset.metadata, {rs.id: list(dataset.records(rs.id)) for rs in dataset.metadata.record_sets}


def test_another_reader_finds_every_value_of_a_shipped_table(tmp_path, caplog):
    folder = tmp_path / "table"
    shutil.copytree(find_folder("sotu-awd-lstm"), folder)
    card, records = read_card(folder)
    table = load_table("sotu-awd-lstm")
    assert card.name == table.name
    assert "156 configurations of layers" in card.description
    assert {name: len(lines) for name, lines in records.items()} == {
        "rows": 156,
        "replicates": 25,
        "curves": len(table.curves.costs),
    }
    columns = dict(zip(table.space.names, table.configs.T, strict=True)) | {
        "dev_ppl": table.column("dev_ppl")
    }
    for name, column in columns.items():  # that reader's pandas 2 may round the last bit otherwise
        np.testing.assert_array_max_ulp([line[f"rows/{name}"] for line in records["rows"]], column)
    assert "not standard" not in caplog.text


def test_labels_and_empty_cells(tmp_path):
    axes = (
        Hyperparameter("rule", ("sgd", 'a "b", c'), kind="categorical"),
        Hyperparameter("decay", (0.5, 0.9), active_if=(("rule", ("sgd",)),)),
    )
    configs = [{"rule": "sgd", "decay": 0.9}, {"rule": 'a "b", c'}, {"rule": "sgd", "decay": 0.5}]
    codes = Space(axes).encode_all(configs)
    table = Table("labels", axes, (Metric("ppl", "min", "nats"),), codes, [[1.0], [np.nan], [3.0]], ("ppl",))
    save_folder(table, tmp_path / "t")
    card, records = read_card(tmp_path / "t")
    assert [line["rows/rule"].decode() for line in records["rows"]] == [c["rule"] for c in configs]
    assert [line["rows/decay"] for line in records["rows"]] == [0.9, None, 0.5]
    assert [line["rows/ppl"] for line in records["rows"]] == [1, None, 3]
    assert "nats" in card.record_sets[0].fields[2].description


def test_a_changed_file_is_refused(tmp_path, toy):
    save_folder(toy, tmp_path / "t")
    (tmp_path / "t" / "table.csv").write_text("x\n1\n")
    with pytest.raises(InputError, match="the file was changed"):
        croissant(tmp_path / "t")


def test_command(tmp_path, capsys):
    command = ["tables", "card", "sotu-ngram"]
    with pytest.raises(SystemExit, match="0"):
        main(command)
    printed = capsys.readouterr().out
    assert json.loads(printed)["distribution"][0]["name"] == "table.csv"
    with pytest.raises(SystemExit, match="0"):
        main([*command, "--out", str(tmp_path / "c.json")])
    assert (tmp_path / "c.json").read_text() == printed
