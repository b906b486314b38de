"""Tables of the user's own: columns that are ignored, features, one file with many tables."""

import re

import numpy as np
import pytest

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.catalogue import family_of
from hpobench_nmt.lookup.disk.folder import add_tables, load_folder

ROWS = """model,tokens,run,rate,size,loss
a,1e9,x1,0.1,3,5
a,1e9,x2,0.2,4,4
a,2e9,x3,0.1,3,3
a,2e9,x4,0.2,4,2
b,1e9,x5,0.1,5,2.5
b,1e9,x6,0.2,6,1.5
"""
SHEET = """
[hyperparameters.rate]
scale = "log"
[features.size]
[metrics.loss]
direction = "min"
"""
SPLIT = 'split_by = ["model", "tokens"]\nignore = ["run"]\n'


@pytest.fixture
def add(tmp_path):
    def added(rows=ROWS, sheet=SPLIT + SHEET, name="grid", **more):
        (tmp_path / f"{name}.csv").write_text(rows)
        (tmp_path / f"{name}.toml").write_text(sheet)
        return add_tables(tmp_path / f"{name}.csv", None, tmp_path / "installed", **more)

    return added


def test_one_file_makes_a_group_of_tables(add):
    tables = {table.name: load_folder(folder) for table, folder in add()}
    assert list(tables) == ["grid-a-tokens1000000000", "grid-a-tokens2000000000", "grid-b-tokens1000000000"]
    for table in tables.values():
        assert table.claims == {"collection": "grid", "collection_tables": 3, "collection_rows": 6}
        assert family_of(table) == "grid" and len(table) == 2
    last = tables["grid-b-tokens1000000000"]
    assert last.lookup({"rate": 0.2}) == {"loss": 1.5}
    assert last.features.tolist() == [[0.0, 0.0], [1.0, 1.0]]  # the rate, and the size
    assert last.to_frame()["size"].tolist() == [5, 6]


def test_features_that_were_changed_are_refused_and_those_written_without_a_hash_are_read(add):
    _, folder = add()[0]
    path, whole = folder / "datasheet.toml", (folder / "datasheet.toml").read_text()
    assert "features_sha256" not in load_folder(folder).claims
    assert whole.count('[features.size]\nvalues = [\n    3,\n    4,\n]\nscale = "linear"') == 1
    changed = whole.replace('4,\n]\nscale = "linear"', '4,\n]\nscale = "log"')
    path.write_text(changed)
    with pytest.raises(InputError, match=r"was changed, because claims\.features_sha256 does not match"):
        load_folder(folder)
    path.write_text(re.sub(r"\nfeatures_sha256 = .*", "", changed))  # as an earlier version wrote it
    assert load_folder(folder).descriptors.axes[0].scale == "log"


@pytest.mark.parametrize(
    ("rows", "sheet", "message"),
    [
        (
            ROWS + "b,3e9,x7,0.1,5,1\n",
            SPLIT + SHEET,
            "split_by makes a table with only one row, 'grid-b-tokens3000000000'",
        ),
        (
            ROWS.replace("3,3\n", "3,5\n").replace("4,2\n", "4,4\n"),
            SPLIT + SHEET,
            "makes two equal tables, 'grid-a-tok",
        ),
        (ROWS, SPLIT + SHEET + "[hyperparameters.model]\n", "'model' is described twice"),
        (
            ROWS,
            'split_by = ["modl"]\nignore = ["run"]\n' + SHEET,
            "unknown column 'modl'. Did you mean 'model'",
        ),
        (
            ROWS.replace("x6,0.2", "x6,"),
            SPLIT + SHEET,
            "grid.csv, line 7: hyperparameter 'rate' has no value",
        ),
        (
            ROWS.replace("b,1e9,x6", ",1e9,x6"),
            SPLIT + SHEET,
            "grid.csv, line 7: 'model' of split_by has no value",
        ),
        (
            ROWS.replace("b,1e9,x6", ",1e9,x6"),
            SPLIT.replace('["run"]', "[]") + 'only = {run = ["x1", "x2", "x5", "x6"]}\n' + SHEET,
            "grid.csv, line 7: 'model' of split_by has no value",
        ),
        (ROWS, SHEET, "column 'model' is not described in its datasheet. To leave it out, name it there"),
        (
            ROWS,
            'ignore = ["model", "tokens", "run", "rn"]\n' + SHEET,
            "unknown column 'rn'. Did you mean 'run'",
        ),
        (ROWS, SPLIT + SHEET + "[curves]\nresource = 'u'\n[curves.metrics.loss]\n", "cannot have curves.csv"),
        (
            ROWS,
            SPLIT + SHEET.replace("[features.size]", "[features.size]\ndefault = 3"),
            "remove active_if, default",
        ),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_written(add, tmp_path, rows, sheet, message):
    with pytest.raises(InputError) as error:
        add(rows, sheet)
    assert message in str(error.value) and "\n" not in str(error.value)
    assert not (tmp_path / "installed").exists() or not list((tmp_path / "installed").iterdir())


def test_columns_that_are_left_out(add):
    few = "run,rate,loss\nx,0.1,2\ny,0.2,None\n"
    sheet = SHEET.replace("[features.size]\n", "")
    ((table, _),) = add(few, 'ignore = ["run"]\n' + sheet)
    ((other, _),) = add(few, sheet, ignore_other=True)
    assert table.sha256 == other.sha256 and np.isnan(table.column("loss")).tolist() == [False, True]


def test_a_word_for_what_is_missing(add):
    sheet = SHEET.replace("[features.size]\n", "")
    rows = "rate,loss\n0.1,2\n0.2,diverged\n0.3,<NA>\n0.4,inf\n"
    with pytest.raises(
        InputError, match=r"line 3: 'loss' is 'diverged', not a number\. .*None, null, <NA>, N/A or -"
    ):
        add(rows, sheet)
    ((_, folder),) = add(rows, sheet + 'missing = "diverged"\n')
    assert np.isnan(load_folder(folder).column("loss")).tolist() == [False, True, True, True]


def test_seeds_within_a_file_that_is_split(add):
    rows = "model,rate,seed,loss\n" + "".join(
        f"{m},{r},{s},{r * 10 + s + ord(m)}\n" for m in "ab" for r in (0.1, 0.2) for s in (1, 2)
    )
    sheet = (
        'split_by = ["model"]\n' + SHEET.replace("[features.size]\n", "") + '[replicates]\nseed = "seed"\n'
    )
    tables = dict(add(rows, sheet))
    for table in tables:
        assert len(table) == 2 and len(table.replicates.rows.values) == 4
        assert table.lookup({"rate": 0.1})["loss"] == pytest.approx(1 + 1.5 + ord(table.name[-1]))


OPTUNA = """,number,value,duration,params_lr,params_depth,state
0,0,0.58,46,0.02,6,COMPLETE
1,1,0.68,147,0.01,7,COMPLETE
2,2,0.41,12,0.02,7,PRUNED
3,3,,3,0.01,6,FAIL
4,4,0.71,150,0.04,6,COMPLETE
"""
OF_OPTUNA = """
ignore = ["", "number", "duration"]
only = {state = ["COMPLETE"]}
[hyperparameters.params_lr]
scale = "log"
[hyperparameters.params_depth]
[metrics.value]
direction = "max"
"""


def test_only_rows_with_a_value_of_a_column_are_taken(add):
    (table, _), *_ = add(OPTUNA, OF_OPTUNA)
    assert table.column("value").tolist() == [0.58, 0.68, 0.71]  # what was pruned is no result
    assert table.row({"params_lr": 0.04, "params_depth": 6}) == 2
    (both, _), *_ = add(OPTUNA, OF_OPTUNA.replace("COMPLETE", 'COMPLETE", "PRUNED'), "both")
    assert len(both) == 4
    (deep, _), *_ = add(OPTUNA, OF_OPTUNA.replace("{", "{params_depth = [6], "), "deep")
    assert deep.column("value").tolist() == [0.58, 0.71]


def test_an_empty_cell_is_none_of_the_numbers_that_only_lists(add):
    rows = "rate,rung,loss\n0.1,3,1\n0.2,,2\n0.3,inf,3\n0.4,3,4\n"
    sheet = 'only = {{rung = {}}}\n[hyperparameters.rate]\n[metrics.loss]\ndirection = "min"\n'
    (table, _), *_ = add(rows, sheet.format("[3]"))
    assert table.column("loss").tolist() == [1, 4]
    (table, _), *_ = add(rows, sheet.format("[3, inf]"), "both")
    assert table.column("loss").tolist() == [1, 3, 4]
    for absent in ("nan", "-inf", "4"):
        with pytest.raises(InputError, match=f"unknown value '{absent}'"):
            add(rows, sheet.format(f"[{absent}]"), "none")


@pytest.mark.parametrize(
    ("rows", "sheet", "message"),
    [
        (OPTUNA, OF_OPTUNA.replace("COMPLETE", "COMPLETED"), "Did you mean 'COMPLETE'"),
        (OPTUNA, OF_OPTUNA.replace("state =", "status ="), "status"),
        (OPTUNA.replace("0.71", "x"), OF_OPTUNA, "line 6"),
        (OPTUNA, OF_OPTUNA.replace("{", "{params_lr = [0.04], params_depth = [7], "), "leaves no row"),
    ],
)
def test_what_only_cannot_take_is_one_line(add, rows, sheet, message):
    with pytest.raises(InputError, match=message) as caught:
        add(rows, sheet)
    assert "\n" not in str(caught.value)


def test_curves_of_diverged_trainings_end_at_their_first_gap(tmp_path):
    (tmp_path / "table.csv").write_text("rate,loss\n0.1,2\n0.2,\n")
    (tmp_path / "curves.csv").write_text(
        "row,checkpoint,step,cost,loss\n0,1,10,1,3\n0,2,20,2,2\n1,1,10,1,5\n1,2,20,2,\n1,3,30,3,\n"
    )
    (tmp_path / "datasheet.toml").write_text(
        'name = "gaps"\n[hyperparameters.rate]\n[metrics.loss]\ndirection = "min"\n'
        '[curves]\nresource = "step"\ntruncate_at = "nan"\n[curves.metrics.loss]\n'
    )
    ((table, _),) = add_tables(tmp_path, None, tmp_path / "installed")
    assert table.curves.lengths.tolist() == [2, 2]  # the checkpoint at which it had diverged is its last
    np.testing.assert_array_equal(table.curves.column("loss"), [3, 2, 5, np.nan])
