import dataclasses
import hashlib
import re
import tomllib

import numpy as np
import pandas as pd
import pytest
import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hpobench_nmt.core.errors import InputError
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.lookup import folder as folders
from hpobench_nmt.lookup.catalogue import shipped_folder
from hpobench_nmt.lookup.folder import (
    add_table,
    load_folder,
    save_folder,
    table_name,
    undescribed_files,
    write_into_folder,
)
from hpobench_nmt.lookup.table import Table

SHEET = """
name = "mine"
[hyperparameters.lr]
scale = "log"
[metrics.ppl]
direction = "min"
"""
CSV = "lr,ppl\n0.001,50.5\n0.01,40\n0.1,\n"


@pytest.fixture
def own(tmp_path):
    """A user's CSV file and its datasheet."""
    (tmp_path / "mine.csv").write_text(CSV)
    (tmp_path / "mine.toml").write_text(SHEET)
    return tmp_path


def test_a_table_survives_the_disk_exactly(toy, tmp_path):
    units = tuple(dataclasses.replace(h, unit=f"unit of {h.name}") for h in toy.hyperparameters)
    claims = {"front": [3, 5], "front_objectives": ["bleu", "seconds"], "notes": "all of it"}
    values = toy.values.copy()
    values[::3, 2] = np.nan  # memory, written as 0
    values[1::5, 0] = np.nan
    toy = dataclasses.replace(
        toy, hyperparameters=units, claims=claims, values=values, objectives=("seconds:max", "bleu")
    )
    save_folder(toy, tmp_path / "toy")
    again = load_folder(tmp_path / "toy")
    np.testing.assert_array_equal(again.values, toy.values)
    np.testing.assert_array_equal(again.features, toy.features)
    assert again.sha256 == toy.sha256
    for name in ("name", "hyperparameters", "metrics", "objectives", "provenance", "claims"):
        assert getattr(again, name) == getattr(toy, name)
    assert (tmp_path / "toy").stat().st_mode & 0o777 == 0o755


@given(
    st.lists(
        st.one_of(st.none(), st.floats(-1e150, 1e150)),
        min_size=2,
        max_size=2,
        unique=True,
    )
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_number_survives_the_disk_exactly(tmp_path, numbers):
    values = np.array([[np.nan if n is None else n] for n in numbers])
    table = Table(
        "n", (Hyperparameter("x", (0.1, 0.3)),), (Metric("m", "min"),), np.array([[0.1], [0.3]]), values
    )
    save_folder(table, tmp_path / "n")
    np.testing.assert_array_equal(load_folder(tmp_path / "n").values, values)


def test_saving_again_replaces_the_old_table_and_leaves_nothing_else(toy, tmp_path):
    save_folder(toy, tmp_path / "toy")
    save_folder(toy, tmp_path / "toy")
    assert [p.name for p in tmp_path.iterdir()] == ["toy"]
    assert sorted(p.name for p in (tmp_path / "toy").iterdir()) == ["datasheet.toml", "table.csv"]


def test_add_takes_a_csv_and_a_short_datasheet(own, tmp_path):
    table, folder = add_table(own / "mine.csv", None, tmp_path / "installed")
    assert len(table) == 3
    assert table.objectives == ("ppl",)
    assert table.hyperparameters[0].values == (0.001, 0.01, 0.1)
    np.testing.assert_array_equal(load_folder(folder).column("ppl"), [50.5, 40, np.nan])
    sheet = tomllib.loads((folder / "datasheet.toml").read_text())
    assert sheet["rows"]["count"] == 3
    assert len(sheet["rows"]["sha256"]) == 64


def test_add_takes_a_folder_with_and_without_a_hash(own, tmp_path, toy):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "table.csv").write_text(CSV)
    (folder / "datasheet.toml").write_text(SHEET)
    assert add_table(folder, None, tmp_path / "installed")[0].name == "mine"
    save_folder(toy, tmp_path / "toy")
    assert add_table(tmp_path / "toy", None, tmp_path / "installed")[0].sha256 == toy.sha256


def test_values_that_differ_by_rounding_are_one(own):
    cells = "lr,ppl\n0.30000000000000004,1\n0.1,2\n1e10,3\n10000000001,4\n"
    (own / "mine.csv").write_text(cells)
    for values in ("", "values = [0.1, 0.3, 1e10, 10000000001]\n"):
        (own / "mine.toml").write_text(SHEET.replace('scale = "log"\n', values))
        table, _ = add_table(own / "mine.csv", None, own / "installed")
        first = 0.3 if values else 0.1 + 0.2
        assert table.hyperparameters[0].values == (
            0.1,
            first,
            1e10,
            1e10 + 1,
        )  # whole numbers are as they are
        assert table.configs[:, 0].tolist() == [first, 0.1, 1e10, 1e10 + 1]
    (own / "mine.csv").write_text(cells + "0.3,5\n")
    (own / "mine.toml").write_text(SHEET)
    with pytest.raises(InputError, match="rows 0, 4 have the same configuration"):
        add_table(own / "mine.csv", None, own / "installed")


@pytest.mark.parametrize("section", ["[replicates]", "[replicates]\naveraged = true"])
@pytest.mark.parametrize("place", ["folder", "file"])
def test_add_keeps_replicates_that_lie_beside_the_rows(own, place, section):
    sheet = SHEET.replace('"min"', '"min"\nmissing = -1.0') + section
    source, names = own / "mine.csv", ("mine.csv", "mine.toml")
    if place == "folder":
        source, names = own, ("table.csv", "datasheet.toml")
    (own / names[0]).write_text(CSV)
    (own / names[1]).write_text(sheet)
    with pytest.raises(InputError, match=r"has no replicates\.csv"):
        add_table(source, None, own / "installed")
    (own / "replicates.csv").write_text("lr,replicate,seed,ppl\n0.01,1,7,41\n0.01,2,8,-1\n0.1,1,7,\n")
    table, folder = add_table(source, None, own / "installed")
    again = load_folder(folder).replicates
    assert again.to_frame().to_numpy()[:, :3].tolist() == [[0.01, 1, 7], [0.01, 2, 8], [0.1, 1, 7]]
    np.testing.assert_array_equal(again.to_frame()["ppl"], [41, np.nan, np.nan])
    assert table.replicates.averaged == again.averaged == ("true" in section)


@pytest.mark.parametrize(
    ("name", "section", "lack"),
    [
        ("replicates.csv", "", r"has no section \[replicates\]: it is not read\. Add the section"),
        ("curves.csv", "", r"has no section \[curves\]: it is not read\. Add the section"),
        (
            "replicates.csv",
            '[replicates]\nseed = "seed"\n',
            r"names a column of \w+\.csv instead: it is not read\. Remove",
        ),
    ],
)
def test_add_says_what_the_datasheet_does_not_describe(own, tmp_path, name, section, lack):
    (own / name).write_text("anything\n")
    cells = CSV if not section else "lr,ppl,seed\n0.001,50.5,1\n0.01,40,1\n"
    (own / "mine.csv").write_text(cells)
    (own / "mine.toml").write_text(SHEET + section)
    notes = []
    add_table(own / "mine.csv", None, tmp_path / "installed", notify=notes.append)  # it may be another's
    assert len(notes) == 1
    assert re.match(rf"{name} lies beside mine\.csv, and .*mine\.toml {lack}", notes[0])
    (own / "mine.csv").rename(own / "table.csv")
    (own / "mine.toml").rename(own / "datasheet.toml")
    with pytest.raises(InputError, match=rf"{name} lies beside table\.csv, and .*datasheet\.toml {lack}"):
        add_table(own, None, tmp_path / "installed")


def test_what_is_added_whole_leaves_nothing_to_say(own, tmp_path, folder, curved):
    save_folder(curved, tmp_path / "curved")
    assert undescribed_files(folder) == undescribed_files(tmp_path / "curved") == []
    for source in (folder, tmp_path / "curved"):  # none of them raises
        add_table(source, None, tmp_path / "installed")
    (own / "mine.csv").rename(own / "curves.csv")  # a table may have that name
    (own / "mine.toml").rename(own / "curves.toml")
    notes = []
    add_table(own / "curves.csv", None, tmp_path / "installed", notify=notes.append)
    assert notes == []


def test_add_takes_a_folder_whose_replicates_have_no_hash_yet(folder, tmp_path):
    sheet = tomllib.loads((folder / "datasheet.toml").read_text())
    sheet["replicates"] = {}
    (folder / "datasheet.toml").write_text(tomli_w.dumps(sheet))
    with pytest.raises(InputError, match=r"\[replicates\] has no sha256\. Install the folder"):
        load_folder(folder).replicates.to_frame()
    assert len(load_folder(add_table(folder, None, tmp_path / "installed")[1]).replicates.to_frame()) == 10


def test_add_takes_a_folder_whose_curves_have_no_hash_yet(curved, tmp_path):
    save_folder(curved, tmp_path / "t")
    sheet = tomllib.loads((tmp_path / "t" / "datasheet.toml").read_text())
    del sheet["curves"]["sha256"], sheet["curves"]["count"]
    (tmp_path / "t" / "datasheet.toml").write_text(tomli_w.dumps(sheet))
    with pytest.raises(InputError, match=r"\[curves\] has no sha256\. Install the folder with 'tables add'"):
        load_folder(tmp_path / "t")
    table, folder = add_table(tmp_path / "t", None, tmp_path / "installed")
    assert table.sha256 == curved.sha256
    assert load_folder(folder).curves.sha256 == curved.curves.sha256
    with (tmp_path / "t" / "table.csv").open("a") as rows:
        rows.write("\n")
    with pytest.raises(InputError, match="the file was changed or cut short"):
        add_table(tmp_path / "t", None, tmp_path / "installed")


@pytest.mark.parametrize(
    ("csv", "message"),
    [
        ("lr,ppl\n0.001,50\n0.01,forty\n", "mine.csv, line 3: 'ppl' is 'forty', not a number"),
        (
            "lr,ppl\n0.001,50\n,40\n",
            "mine.csv, line 3: hyperparameter 'lr' has no value. If it is inactive there",
        ),
        ("lr,ppl\n0.001,50\n1e200,40\n", "mine.toml: hyperparameter 'lr' has a value beyond 1e+150"),
        ("lr,ppl\n1e-200,50\n1,40\n", "mine.toml: hyperparameter 'lr': a log scale needs values of 1e-150"),
        ("lr,ppl\n0.001,50\n0.001,40\n", "rows 0, 1 have the same configuration"),
        ("lr,ppl\n0.001,True\n0.01,False\n", "not a number"),
        ("lr,pl\n0.001,50\n", "unknown column 'ppl'. Did you mean 'pl'?"),
        ("lr,ppl,extra\n0.001,50,1\n", "column 'extra' is not described"),
        ("lr,ppl\n", "has no rows"),
        ("", "not a CSV table"),
        ("lr,ppl\n1,2,3\n4,5,6,7\n", "not a CSV table"),
        ("lr,ppl\n-1,50\n2,40\n", "a log scale needs positive values"),
        (b"lr,ppl\n0.001,\xff\n", "not UTF-8 text"),
        (
            "lr,ppl\n0.001,50\n0.O1,40\n",
            "mine.csv, line 3: lr is '0.O1', but others of its cells are numbers. ",
        ),
    ],
)
def test_add_names_what_is_wrong_with_a_csv(own, tmp_path, csv, message):
    (own / "mine.csv").write_bytes(csv if isinstance(csv, bytes) else csv.encode())
    with pytest.raises(InputError) as error:
        add_table(own / "mine.csv", None, tmp_path / "installed")
    assert message in str(error.value)
    assert not (tmp_path / "installed").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("scale", "scal"),
            "unknown key 'hyperparameters.lr.scal'. Did you mean 'hyperparameters.lr.scale'?",
        ),
        (('"log"', '"logarithmic"'), "scale must be 'linear' or 'log'"),
        (
            ('direction = "min"', 'unit = "x"'),
            "mine.toml: metrics.ppl.direction is missing; it must be 'max' or 'min'",
        ),
        (('"min"', '"down"'), "direction must be 'max' or 'min', not 'down'"),
        (('name = "mine"', 'name = "a/b"'), "cannot be used"),
        (('name = "mine"', "name = mine"), "not valid TOML"),
        (('name = "mine"', "format = 7"), "format 7 is not supported"),
        (("[metrics.ppl]", "[metrics.pp]"), "unknown column 'pp'. Did you mean 'ppl'?"),
        (
            ("[metrics.ppl]", '[metrics.lr]\ndirection = "min"\n[metrics.ppl]'),
            "'lr' is both a hyperparameter and a metric",
        ),
        (('scale = "log"', "values = [0.001, 0.01]"), "row 2: lr is 0.1, which is not among its values"),
        (('scale = "log"', 'values = ["a"]'), "mine.csv, line 2: unknown value of lr '0.001'. Known: a."),
    ],
)
def test_add_names_what_is_wrong_with_a_datasheet(own, tmp_path, change, message):
    (own / "mine.toml").write_text(SHEET.replace(*change))
    with pytest.raises(InputError) as error:
        add_table(own / "mine.csv", None, tmp_path / "installed")
    assert message in str(error.value)


def test_a_tampered_or_truncated_table_is_refused(toy, tmp_path):
    save_folder(toy, tmp_path / "toy")
    rows = tmp_path / "toy" / "table.csv"
    good = rows.read_bytes()
    for bad in (good[:-20], good.replace(b"256", b"512", 1), b""):
        rows.write_bytes(bad)
        with pytest.raises(InputError, match="SHA-256"):
            load_folder(tmp_path / "toy")
    rows.unlink()
    with pytest.raises(InputError, match=r"has no table\.csv"):
        load_folder(tmp_path / "toy")


def test_a_folder_without_datasheet_or_with_a_wrong_count_is_refused(toy, tmp_path):
    save_folder(toy, tmp_path / "toy")
    sheet = tmp_path / "toy" / "datasheet.toml"
    good = sheet.read_text()
    sheet.write_text(good.replace("count = 36", "count = 35"))
    with pytest.raises(InputError, match="count is 35, the file has 36 rows"):
        load_folder(tmp_path / "toy")
    sheet.unlink()
    with pytest.raises(InputError, match=r"has no datasheet\.toml"):
        load_folder(tmp_path / "toy")
    with pytest.raises(InputError, match="no such folder"):
        load_folder(tmp_path / "nowhere")


def test_the_sentinel_stands_for_missing(tmp_path):
    (tmp_path / "t.csv").write_text("x,memory\n1,0\n2,512\n")
    (tmp_path / "t.toml").write_text(
        '[hyperparameters.x]\n[metrics.memory]\ndirection = "min"\nmissing = 0\n'
    )
    table, folder = add_table(tmp_path / "t.csv", None, tmp_path / "installed")
    np.testing.assert_array_equal(table.column("memory"), [np.nan, 512])
    assert (folder / "table.csv").read_text() == "x,memory\n1,0\n2,512\n"


def test_the_numbers_in_both_parts_of_a_datasheet_and_its_file_belong_together(folder):
    """`count` and `sha256`, which loading compares."""
    sheet = tomllib.loads((folder / "datasheet.toml").read_text())
    for section, name, count in (("rows", "table.csv", 36), ("replicates", "replicates.csv", 10)):
        content = (folder / name).read_bytes()
        assert sheet[section] == {"count": count, "sha256": hashlib.sha256(content).hexdigest()}
        assert len(content.decode().splitlines()) == count + 1


def test_replicates_survive_the_disk(toy, again, tmp_path):
    frame = again(toy, [0, 1])
    frame.loc[3, "bleu"] = np.nan
    save_folder(toy.with_replicates(frame), tmp_path / "toy")
    read = load_folder(tmp_path / "toy").replicates.to_frame()
    names = ["layers", "width", "learning_rate", "replicate", "seed", "bleu", "seconds", "memory"]
    assert list(read) == names
    pd.testing.assert_frame_equal(read, frame[names].astype(np.float64), check_dtype=False)


def test_a_table_without_replicates_has_none(toy, tmp_path):
    for table in (toy, toy.with_replicates(pd.DataFrame())):
        save_folder(table, tmp_path / "toy")
        assert load_folder(tmp_path / "toy").replicates is None
        assert not (tmp_path / "toy" / "replicates.csv").exists()


@pytest.mark.parametrize(("section", "name"), [("rows", "table.csv"), ("replicates", "replicates.csv")])
def test_the_hash_of_each_file_is_compared(folder, section, name):
    def read():
        return load_folder(folder) if section == "rows" else load_folder(folder).replicates.to_frame()

    good = (folder / name).read_text()
    (folder / name).write_text(good.replace("256", "512", 1))
    with pytest.raises(
        InputError, match=rf"{name}: SHA-256 is [0-9a-f]{{12}}…, but [0-9a-f]{{12}}… in the datasheet"
    ):
        read()
    (folder / name).unlink()
    with pytest.raises(InputError, match=rf"{folder}: has no {name}\."):
        read()
    (folder / name).write_text(good)
    read()
    sheet = tomllib.loads((folder / "datasheet.toml").read_text())
    del sheet[section]["sha256"]
    (folder / "datasheet.toml").write_text(tomli_w.dumps(sheet))
    with pytest.raises(
        InputError, match=rf"datasheet\.toml: \[{section}\] has no sha256\. Install the folder"
    ):
        read()
    if section == "rows":
        del sheet["rows"]
        (folder / "datasheet.toml").write_text(tomli_w.dumps(sheet))
        with pytest.raises(InputError, match=r"\[rows\] has no sha256"):
            read()


def test_a_wrong_place_of_the_source_is_named(own, tmp_path, toy):
    target = tmp_path / "installed"
    save_folder(toy, tmp_path / "toy")
    for source, sheet, message in (
        (tmp_path / "toy", own / "mine.toml", r"--datasheet is for a CSV file; .*/toy is a folder"),
        (tmp_path / "nowhere", None, "/nowhere: no such file or folder"),
        (own / "mine.csv", own / "no.toml", r"/no\.toml: no such file\. A CSV file needs a datasheet"),
        (tmp_path / "empty", None, r"/empty: has no datasheet\.toml, so it is not a table"),
    ):
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(InputError, match=message):
            add_table(source, sheet, target)
    assert not target.exists()


def test_a_datasheet_elsewhere_and_the_share_that_is_done(own, tmp_path):
    (own / "mine.toml").rename(own / "elsewhere.toml")
    shares = []
    table, folder = add_table(own / "mine.csv", own / "elsewhere.toml", tmp_path / "in", shares.append)
    assert (table.name, folder) == ("mine", tmp_path / "in" / "mine")
    assert shares == sorted(shares)
    assert 0 < shares[0] < 1
    assert shares[-1] == 1


def test_a_file_without_a_name_or_objectives_gives_both(own, tmp_path):
    (own / "mine.toml").write_text(SHEET.replace('name = "mine"', "") + '[metrics.bleu]\ndirection = "max"\n')
    (own / "mine.csv").write_text("lr,bleu,ppl\n0.1,3,4\n0.2,5,6\n")
    table, _ = add_table(own / "mine.csv", None, tmp_path / "in")
    assert (table.name, table.objectives) == ("mine", ("ppl",))
    np.testing.assert_array_equal(table.values, [[4, 3], [6, 5]])
    (own / "mine.toml").write_text("objectives = []\n" + SHEET)
    (own / "mine.csv").write_text(CSV)
    assert add_table(own / "mine.csv", None, tmp_path / "in")[0].objectives == ()


def test_a_table_folder_whose_datasheet_has_no_name(toy_home, folder, run_here):
    """It is named after its CSV file, also where it is run and scored."""
    assert table_name(folder) == "toy"
    sheet = tomllib.loads((folder / "datasheet.toml").read_text())
    del sheet["name"]
    (folder / "datasheet.toml").write_text(tomli_w.dumps(sheet))
    assert table_name(folder) == load_folder(folder).name == "table"
    run_here("run", "quick", "--tables", folder, "--methods", "RS", "--trials", "2", "--quiet", "--out", "r")
    assert '"table": "table"' in run_here("score", "r", "--format", "json").stdout


def test_writing_into_a_folder_keeps_what_else_is_there(toy, again, tmp_path):
    folder = tmp_path / "toy"
    folder.mkdir()
    (folder / "ledger.jsonl").write_bytes(b"ledger")
    table = toy.with_replicates(again(toy, [0, 1]))
    write_into_folder(table, folder)
    save_folder(table, tmp_path / "other")
    names = ["datasheet.toml", "replicates.csv", "table.csv"]
    assert sorted(p.name for p in folder.iterdir()) == ["datasheet.toml", "ledger.jsonl", *names[1:]]
    for name in names:
        assert (folder / name).read_bytes() == (tmp_path / "other" / name).read_bytes()
    assert load_folder(folder).sha256 == toy.sha256
    assert (folder / "ledger.jsonl").read_bytes() == b"ledger"


def test_links_in_the_tables_that_ship_are_followed(folder, tmp_path, monkeypatch):
    """Some installers link the files of a package."""
    for name in ("table.csv", "datasheet.toml", "replicates.csv"):
        (folder / name).rename(tmp_path / name)
        (folder / name).symlink_to(tmp_path / name)
    assert shipped_folder() == folders._SHIPPED
    monkeypatch.setattr(folders, "_SHIPPED", folder.parent)
    assert load_folder(folder).name == "toy"
    assert len(load_folder(folder).replicates.to_frame()) == 10


@pytest.mark.parametrize("where", ["rows", "sheet"])
def test_a_claim_that_cannot_be_is_found_on_loading(folder, where):
    sheet = tomllib.loads((folder / "datasheet.toml").read_text())
    claim = {"front": [36]} if where == "rows" else {"front_objectives": ["blue"]}
    (folder / "datasheet.toml").write_text(tomli_w.dumps(sheet | {"claims": claim}))
    message = "names row 36; the last one is 35" if where == "rows" else "unknown metric 'blue'"
    with pytest.raises(InputError, match=rf"{folder}/datasheet\.toml: .*{message}"):
        load_folder(folder)
    (folder / "datasheet.toml").write_text(tomli_w.dumps(sheet | {"claims": {"front": [35]}}))
    assert load_folder(folder).claims == {"front": [35]}


@pytest.fixture
def folder(tmp_path, toy, again):
    """An installed table with replicates, a spec and a ledger."""
    table = toy.with_replicates(again(toy, [0, 1]))
    save_folder(table, tmp_path / "toy", {"spec.toml": b"spec", "ledger.jsonl": b"ledger"})
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
            load_folder(folder).replicates.to_frame()


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
    assert len(load_folder(target).replicates.to_frame()) == 10
    frames = [load_folder(place).replicates.to_frame() for place in (target, folder)]
    pd.testing.assert_frame_equal(*frames)


def test_the_metric_of_a_diverged_training_is_missing_whether_the_datasheet_names_it_or_not(tmp_path):
    (tmp_path / "diverged.csv").write_text("lr,loss\n0.1,inf\n0.01,2.5\n0.001,-1e151\n0.0001,Infinity\n")
    for missing in ("", "missing = inf"):
        sheet = f'[hyperparameters.lr]\nscale = "log"\n[metrics.loss]\ndirection = "min"\n{missing}\n'
        (tmp_path / "diverged.toml").write_text(sheet)
        table, folder = add_table(tmp_path / "diverged.csv", None, tmp_path / "installed")
        np.testing.assert_array_equal(table.column("loss"), [np.nan, 2.5, np.nan, np.nan])
        assert load_folder(folder).sha256 == table.sha256
