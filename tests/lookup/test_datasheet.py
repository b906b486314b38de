"""Whatever a datasheet holds, it becomes a table or one line that says what is wrong."""

from __future__ import annotations

import tomllib

import pandas as pd
import pytest
import tomli_w

from hpobench_nmt.core.errors import InputError
from hpobench_nmt.core.text import UNSAFE
from hpobench_nmt.lookup.folder import add_table, load_folder, load_replicates

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


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("metrics/ppl/missing", float("inf"), "metrics.ppl.missing must be a finite number, not inf."),
        ("metrics/ppl/missing", float("nan"), "metrics.ppl.missing must be a finite number, not nan."),
        ("metrics/ppl/missing", True, "metrics.ppl.missing must be a finite number, not True."),
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
            "hyperparameters.lr.values must be a list of finite numbers, not 3.",
        ),
        (
            "hyperparameters/lr/values",
            [0.1, 10**400],
            "hyperparameters.lr.values[1] must be a finite number, not 1",
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
        ("format", 2, "format 2 is not supported; this version reads 1."),
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
        ("metrics/ppl/unit", "s\x1b[31m", r"the unit of metric 'ppl', 's\x1b[31m' holds the character \x1b"),
        ("metrics/p\u202epl", {"direction": "min"}, r"\u202e"),
        ("hyperparameters/a\nb", {}, r"\n"),
        ("hyperparameters/", {}, "unknown column ''|has an empty name"),
        ("provenance/a\x07", "b", r"holds the character \x07"),
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


@pytest.fixture
def folder(tmp_path, toy, again):
    """An installed table with replicates, a spec and a ledger."""
    from hpobench_nmt.lookup.folder import save_folder

    save_folder(toy, tmp_path / "toy", again(toy, [0, 1]), {"spec.toml": b"spec", "ledger.jsonl": b"ledger"})
    return tmp_path / "toy"


@pytest.mark.parametrize(
    "name", ["table.csv", "datasheet.toml", "replicates.csv", "spec.toml", "ledger.jsonl"]
)
def test_a_link_in_a_table_folder_is_not_followed(tmp_path, folder, name):
    secret = tmp_path / "secret"
    (folder / name).rename(secret)
    (folder / name).symlink_to(secret)
    with pytest.raises(InputError, match=rf"{name}: is a symbolic link, which is not followed"):
        add_table(folder, None, tmp_path / "installed")
    assert not (tmp_path / "installed").exists()
    if name in ("table.csv", "datasheet.toml"):
        with pytest.raises(InputError, match="symbolic link"):
            load_folder(folder)
    if name in ("replicates.csv", "datasheet.toml"):
        with pytest.raises(InputError, match="symbolic link"):
            load_replicates(folder)


def test_a_link_to_nowhere_is_no_file_to_leave_out(tmp_path, folder):
    (folder / "ledger.jsonl").unlink()
    (folder / "ledger.jsonl").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match="symbolic link"):
        add_table(folder, None, tmp_path / "installed")


def test_links_that_the_user_names_are_followed(tmp_path, folder):
    (tmp_path / "link").symlink_to(folder)
    assert load_folder(tmp_path / "link").name == "toy"
    (tmp_path / "rows.csv").symlink_to(folder / "table.csv")
    sheet = tomllib.loads((folder / "datasheet.toml").read_text())
    del sheet["rows"], sheet["replicates"]
    (tmp_path / "real.toml").write_text(tomli_w.dumps(sheet))
    (tmp_path / "rows.toml").symlink_to(tmp_path / "real.toml")
    assert len(add_table(tmp_path / "rows.csv", None, tmp_path / "installed")[0]) == 36


def test_all_of_a_folder_comes_along(tmp_path, folder):
    _, target = add_table(folder, None, tmp_path / "installed")
    for name in ("table.csv", "spec.toml", "ledger.jsonl"):
        assert (target / name).read_bytes() == (folder / name).read_bytes()
    assert len(load_replicates(target)) == 10
    pd.testing.assert_frame_equal(load_replicates(target), load_replicates(folder))
