"""Whatever a datasheet holds, it becomes a table or one line that says what is wrong."""

from __future__ import annotations

import dataclasses
import re
import tomllib

import numpy as np
import pytest
import tomli_w

from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.text import UNSAFE
from hpobench_nmt.lookup.disk.datasheet import read_datasheet
from hpobench_nmt.lookup.disk.folder import add_table, load_folder
from hpobench_nmt.lookup.disk.written_sheet import written_sheet
from hpobench_nmt.lookup.table import Table

SHEET = {
    "name": "mine",
    "hyperparameters": {"lr": {"scale": "log"}},
    "metrics": {"ppl": {"direction": "min", "unit": "nats", "missing": 0, "tolerance": 0.5}},
    "provenance": {"source": "here", "year": 2026},
    "claims": {"front": [1], "front_objectives": ["ppl"], "collection": "mine"},
}
CSV = "lr,ppl\n0.001,50.5\n0.01,40\n0.1,\n"


def add(tmp_path, sheet, csv=CSV):
    (tmp_path / "mine.csv").write_text(csv)
    content = sheet if isinstance(sheet, bytes) else tomli_w.dumps(sheet).encode()
    (tmp_path / "mine.toml").write_bytes(content)
    return add_table(tmp_path / "mine.csv", None, tmp_path / "installed")


def changed(path, value):
    sheet = tomllib.loads(tomli_w.dumps(SHEET))
    *sections, key = path.split("/")
    section = sheet
    for name in sections:
        section = section.setdefault(name, {})
    section[key] = value
    return sheet


def test_the_sheet_as_it_stands_is_fine(tmp_path):
    table, _ = add(tmp_path, SHEET)
    assert table.provenance == {"source": "here", "year": "2026"}
    assert table.claims == SHEET["claims"]


def test_a_sheet_without_a_name_is_of_the_file(tmp_path):
    sheet = {key: value for key, value in SHEET.items() if key != "name"}
    table, folder = add(tmp_path, sheet)
    assert table.name == folder.name == load_folder(folder).name == "mine"


def test_a_sheet_says_all_there_is_and_nothing_that_is_empty():
    axes = (Hyperparameter("lr", (0.5, 1.0, 2.0), "log", "1/step"), Hyperparameter("layers", (1.0, 2.0)))
    metrics = (
        Metric("bleu", "max", "BLEU", tolerance=0.0, description="on the development set"),
        Metric("memory", "min", missing=0.0),
    )
    table = Table(
        "t",
        axes,
        metrics,
        np.array([[0.5, 1.0], [2.0, 2.0]]),
        np.ones((2, 2)),
        ("memory:min", "bleu"),
        {"source": "here"},
        {"front": [0]},
    )
    sheet = written_sheet(table, {"table.csv": b"abc"})
    assert re.fullmatch("[0-9a-f]{64}", sheet["claims"].pop("sections_sha256"))
    assert sheet == {
        "format": 1,
        "name": "t",
        "objectives": ["memory:min", "bleu"],
        # Of "abc", from FIPS 180-2.
        "rows": {"count": 2, "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        "hyperparameters": {
            "lr": {"values": [0.5, 1, 2], "scale": "log", "unit": "1/step"},
            "layers": {"values": [1, 2], "scale": "linear"},
        },
        "metrics": {
            "bleu": {
                "direction": "max",
                "unit": "BLEU",
                "tolerance": 0.0,
                "description": "on the development set",
            },
            "memory": {"direction": "min", "missing": 0.0},
        },
        "provenance": {"source": "here"},
        "claims": {"front": [0]},
    }
    assert [type(v) for v in sheet["hyperparameters"]["lr"]["values"]] == [float, int, int]
    bare = written_sheet(dataclasses.replace(table, provenance={}, claims={}), {"table.csv": b"abc"})
    assert list(bare) == ["format", "name", "objectives", "rows", "hyperparameters", "metrics", "claims"]


def test_a_link_to_a_sheet_is_followed_only_if_asked(tmp_path):
    (tmp_path / "real.toml").write_text(tomli_w.dumps(SHEET))
    (tmp_path / "link.toml").symlink_to("real.toml")
    assert read_datasheet(tmp_path / "link.toml", follow_link=True).name == "mine"
    with pytest.raises(InputError, match=r"link\.toml: is a symbolic link"):
        read_datasheet(tmp_path / "link.toml")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("metrics/ppl/missing", True, "metrics.ppl.missing must be a finite number or a string, not True."),
        ("metrics/ppl/tolerance", -1, "metrics.ppl.tolerance must be a finite number of 0 or more, not -1."),
        ("metrics/ppl/tolerance", float("inf"), "metrics.ppl.tolerance must be"),
        ("metrics/ppl/unit", 3, "metrics.ppl.unit must be a string, not 3."),
        ("metrics/ppl/description", [], "metrics.ppl.description must be a string, not []."),
        ("metrics/ppl", 3, "metrics.ppl must be a section, not 3."),
        ("metrics", {}, "needs a section [metrics.NAME]."),
        ("hyperparameters", [], "hyperparameters must be a section of sections, not []."),
        (
            "hyperparameters/lr/values",
            3,
            "hyperparameters.lr.values must be a list of true or false, finite numbers, strings, lists of",
        ),
        (
            "hyperparameters/lr/values",
            [0.1, 10**400],
            "hyperparameters.lr.values[1] must be true or false, a finite number, a string, a list of",
        ),
        ("hyperparameters/lr/values", [], "hyperparameter 'lr' has no values."),
        ("hyperparameters/lr/values", [0.1, 0.01], "values must be ascending and distinct"),
        ("hyperparameters/lr/unit", False, "hyperparameters.lr.unit must be a string, not False."),
        ("objectives", "ppl", "objectives must be a list of strings, not 'ppl'."),
        ("objectives", ["pl"], "unknown metric 'pl'. Did you mean 'ppl'?"),
        ("objectives", ["ppl:up"], "the direction after ':' must be 'min' or 'max'"),
        ("name", 3, "name must be a string, not 3."),
        ("name", "../../victim", "table name '../../victim' cannot be used"),
        ("name", "/etc/victim", "table name '/etc/victim' cannot be used"),
        ("format", 6, "format 6 is not supported; this version reads 1, 2, 3, 4 and 5."),
        ("format", "1", "format '1' is not supported"),
        ("rows", 3, "rows must be a section, not 3."),
        ("rows/count", -1, "rows.count must be a whole number of 0 or more, not -1."),
        ("rows/sha256", 3, "rows.sha256 must be a string, not 3."),
        ("provenance", "mine", "provenance must be a section of values, not 'mine'."),
        ("provenance/source", ["a"], "provenance.source must be a text."),
        ("claims", 3, "claims must be a section of values, not 3."),
        ("claims/collection", "../up", "collection name '../up' cannot be used"),
        (
            "claims/collection_rows",
            0,
            "[claims]: collection_rows must be a whole number of 1 or more, not 0.",
        ),
        ("claims/collection_tables", 1.5, "[claims]: collection_tables must be a whole number of 1 or more"),
        ("claims/configurations", "many", "[claims]: configurations must be a whole number of 0 or more"),
        ("claims/failed", True, "[claims]: failed must be a whole number of 0 or more, not True."),
        ("claims/complete", 1, "[claims]: complete must be true or false, not 1."),
        ("claims/front", [3], "claims.front names row 3; the last one is 2."),
        ("claims/front", [-1], "[claims]: front[0] must be a whole number of 0 or more, not -1."),
        ("claims/front", {"a": 1}, "[claims]: front must be a list of whole numbers of 0 or more"),
        ("claims/front_objectives", ["pl"], "unknown metric 'pl'"),
        ("claims/front_objectives", [1], "[claims]: front_objectives[0] must be a string, not 1."),
        ("sections", {}, "unknown key 'sections'. Did you mean 'objectives'?"),
        (
            "metrics/ppl/unit",
            "s\x1b[31m",
            r"the unit of metric 'ppl', 's\x1b[31m' contains the character \x1b",
        ),
        ("metrics/p\u202epl", {"direction": "min"}, r"\u202e"),
        ("hyperparameters/a\nb", {}, r"\n"),
        ("hyperparameters/", {}, "unknown column ''|has an empty name"),
        ("provenance/a\x07", "b", r"the name 'a\x07' contains the character \x07"),
    ],
)
def test_what_is_wrong_is_one_line_that_names_file_and_place(tmp_path, path, value, message):
    with pytest.raises(InputError) as error:
        add(tmp_path, changed(path, value))
    text = str(error.value)
    assert any(part in text for part in message.split("|")), text
    assert str(tmp_path / "mine") in text
    assert not UNSAFE.search(text)
    assert not (tmp_path / "installed").exists()


def test_numbers_too_long_to_be_written_are_one_line(tmp_path):
    long = b"0x" + b"f" * 5000
    for line in (b'name = "mine"', b"year = 2026", b"missing = 0", b"front = [\n    1,\n]"):
        key = line.split(b" =")[0]
        sheet = tomli_w.dumps(SHEET).encode()
        assert line in sheet
        with pytest.raises(InputError) as error:
            add(tmp_path, sheet.replace(line, key + b" = " + long))
        assert len(str(error.value)) < 300


def test_a_datasheet_that_is_no_text(tmp_path):
    with pytest.raises(InputError, match=r"mine\.toml: not UTF-8 text"):
        add(tmp_path, b"name = '\xff'")
