"""Adding a table from a CSV file or a folder: what is kept, and how errors in it are named."""

import re
import tomllib

import numpy as np
import pandas as pd
import pytest
import tomli_w

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.disk.folder import add_table, load_folder, save_folder, undescribed_files

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


def test_the_sentinel_stands_for_missing(tmp_path):
    (tmp_path / "t.csv").write_text("x,memory\n1,0\n2,512\n")
    (tmp_path / "t.toml").write_text(
        '[hyperparameters.x]\n[metrics.memory]\ndirection = "min"\nmissing = 0\n'
    )
    table, folder = add_table(tmp_path / "t.csv", None, tmp_path / "installed")
    np.testing.assert_array_equal(table.column("memory"), [np.nan, 512])
    assert (folder / "table.csv").read_text() == "x,memory\n1,0\n2,512\n"


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
