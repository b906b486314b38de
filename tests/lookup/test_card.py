"""Croissant cards, read by MLCommons' own reader."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil

import numpy as np
import pytest

from hpobench_nmt.cli.main import main
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter, Space
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.catalogue import find_folder, load_table
from hpobench_nmt.lookup.curves import Curves
from hpobench_nmt.lookup.disk.card import croissant
from hpobench_nmt.lookup.disk.folder import save_folder
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


def field(records, file, name, kind, words=""):
    found = {"@type": "cr:Field", "@id": f"{records}/{name}", "name": name, "dataType": f"sc:{kind}"}
    found["source"] = {"fileObject": {"@id": file}, "extract": {"column": name}}
    return found | ({"description": words} if words else {})


def test_a_whole_card_written_by_hand(tmp_path):
    axes = (
        Hyperparameter("rule", ("sgd", "adam"), kind="categorical"),
        Hyperparameter("lr", (0.01, 0.5), "log", "1/update"),
        Hyperparameter("decay", (1, 2), active_if=(("rule", ("sgd",)),)),
        Hyperparameter("width", tuple(range(20))),
        Hyperparameter("depth", tuple(range(21))),
    )
    ppl, bleu = Metric("ppl", "min", "nats", description="of the text"), Metric("bleu", "max")
    told = {"title": "A table.", "note": "Two rows.", "licence": "CC0", "url": "https://a.example"}
    told |= {"creator": "A. B.", "citation": "C", "last": "2026-01-02T23:04:05+00:00", "version": "1.2"}
    configs = [[0, 0.5, 2, 1, 1], [1, 0.01, np.nan, 19, 20]]
    curves = Curves("update", (ppl,), ("last",), [0, 1, 2], [1.5, 1.5], [1.0, 2.0], [[3.0], [4.0]])
    values = [[3.0, 1.0], [4.0, 2.0]]
    table = Table("made", axes, (ppl, bleu), configs, values, ("ppl", "bleu"), told, curves=curves)
    save_folder(table, tmp_path / "made")
    card = croissant(tmp_path / "made")
    del card["@context"]  # the other reader compares it
    contents = {
        "table.csv": b"rule,lr,decay,width,depth,ppl,bleu\nsgd,0.5,2,1,1,3,1\nadam,0.01,,19,20,4,2\n",
        "curves.csv": b"row,checkpoint,update,cost,ppl\n0,1,1.5,1,3\n1,1,1.5,2,4\n",
    }
    numbers = ", ".join(map(str, range(20)))
    assert card == {
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": "made",
        "description": "A table. Lookup table for hyperparameter optimization: 2 configurations of rule, lr, "
        "decay, width, depth, optimised for ppl:min and bleu:max. Two rows.",
        "license": "CC0",
        "url": "https://a.example",
        "creator": {"@type": "sc:Person", "name": "A. B."},
        "citeAs": "C",
        "datePublished": "2026-01-02",
        "version": "1.2",
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": name,
                "name": name,
                "contentUrl": name,
                "contentSize": f"{len(content)} B",
                "encodingFormat": "text/csv",
                "sha256": hashlib.sha256(content).hexdigest(),
            }
            for name, content in contents.items()
        ],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": "rows",
                "name": "rows",
                "description": "one row for each configuration of the hyperparameters, with its metrics",
                "field": [
                    field("rows", "table.csv", name, kind, words)
                    for name, kind, words in (
                        ("rule", "Text", "hyperparameter, categorical: sgd, adam"),
                        ("lr", "Float", "hyperparameter, log, 1/update: 0.01, 0.5"),
                        ("decay", "Float", "hyperparameter, linear: 1, 2"),  # empty where it is inactive
                        ("width", "Integer", f"hyperparameter, linear: {numbers}"),
                        ("depth", "Integer", f"hyperparameter, linear: {numbers}, …"),
                        ("ppl", "Float", "of the text, nats, min"),
                        ("bleu", "Float", "max"),
                    )
                ],
            },
            {
                "@type": "cr:RecordSet",
                "@id": "curves",
                "name": "curves",
                "description": "learning curves: the checkpoints of each row of table.csv",
                "field": [
                    field("curves", "curves.csv", "row", "Integer"),
                    field("curves", "curves.csv", "checkpoint", "Integer"),
                    field("curves", "curves.csv", "update", "Float"),
                    field("curves", "curves.csv", "cost", "Float"),
                    field("curves", "curves.csv", "ppl", "Float", "of the text, nats, min"),
                ],
            },
        ],
    }


@pytest.mark.parametrize("name", ["sotu-ngram", "lohelp-de-en"])
def test_the_cards_of_shipped_tables_have_a_citation(name):
    assert f"(table {name} of hpobench-nmt)" in croissant(find_folder(name))["citeAs"]


def test_what_the_datasheet_does_not_say_is_left_out(tmp_path, toy):
    plain = dataclasses.replace(toy, objectives=(), provenance={"last": "yesterday"})
    save_folder(plain, tmp_path / "t")
    card = croissant(tmp_path / "t")
    assert not {"license", "url", "creator", "citeAs", "datePublished", "version"} & card.keys()
    axes = ", ".join(toy.space.names)
    assert card["description"] == (
        f"Lookup table for hyperparameter optimization: {len(toy)} configurations of {axes}."
    )


def test_the_number_that_stands_for_missing_is_named_where_it_is_written(tmp_path, toy, again):
    save_folder(toy.with_replicates(again(toy, [0, 1])), tmp_path / "t")
    rows, replicates = (
        {field["name"]: field["description"] for field in records["field"] if "description" in field}
        for records in croissant(tmp_path / "t")["recordSet"]
    )
    assert rows["memory"].endswith("min, 0 where missing") and replicates["memory"].endswith("min")
    assert "missing" not in rows["bleu"]


def test_a_changed_file_is_refused(tmp_path, toy):
    save_folder(toy, tmp_path / "t")
    (tmp_path / "t" / "table.csv").write_text("x\n1\n")
    with pytest.raises(InputError, match="the file was changed"):
        croissant(tmp_path / "t")


def test_only_files_of_the_datasheet_are_in_it(tmp_path, toy, again):
    """A link in a folder from somebody else could point at any file of the user."""
    save_folder(toy, tmp_path / "t")
    (tmp_path / "secret").write_text("password\n")
    (tmp_path / "t" / "replicates.csv").symlink_to(tmp_path / "secret")
    (tmp_path / "t" / "curves.csv").write_text("password\n")
    assert [each["name"] for each in croissant(tmp_path / "t")["distribution"]] == ["table.csv"]
    save_folder(toy.with_replicates(again(toy, [0, 1])), tmp_path / "u")
    (tmp_path / "u" / "replicates.csv").unlink()
    (tmp_path / "u" / "replicates.csv").symlink_to(tmp_path / "secret")
    with pytest.raises(InputError, match="is a symbolic link, which is not followed"):
        croissant(tmp_path / "u")


def test_command(tmp_path, capsys):
    command = ["tables", "publish", "sotu-ngram", "--format", "croissant"]
    with pytest.raises(SystemExit, match="0"):
        main(command)
    printed = capsys.readouterr().out
    assert json.loads(printed)["distribution"][0]["name"] == "table.csv"
    with pytest.raises(SystemExit, match="0"):
        main([*command, "--out", str(tmp_path / "c.json")])
    assert (tmp_path / "c.json").read_text() == printed
