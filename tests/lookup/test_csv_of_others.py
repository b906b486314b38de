"""CSV files as other programs and people write them: what is read, and what is refused in plain words."""

import numpy as np
import pytest

from hpobench_nmt.analysis.table_front import pareto
from hpobench_nmt.core.constraints import Constraint
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.disk.folder import add_table

SHEET = '[hyperparameters.lr]\n[metrics.loss]\ndirection = "min"\n'


def added(tmp_path, csv, sheet=SHEET):
    (tmp_path / "mine.csv").write_text(csv)
    (tmp_path / "mine.toml").write_text(sheet)
    return add_table(tmp_path / "mine.csv", None, tmp_path / "installed")[0]


@pytest.mark.parametrize("end", ["\n", "\r\n\r\n", "   \n", "\n \t\n\n"])
def test_blank_lines_at_the_end_are_no_rows(tmp_path, end):
    table = added(tmp_path, f"lr,loss\n0.1,1\n0.01,2\n{end}")
    assert table.column("loss").tolist() == [1.0, 2.0]
    front = pareto(str(tmp_path / "mine.csv"), ["loss:min", "lr:min"])
    assert len(front.points) == 2


@pytest.mark.parametrize(
    "cell", ["None", "none", "null", "NULL", "<NA>", "N/A", "n/a", "#N/A", "-", "NA", "NaN", "nan", ""]
)
def test_what_programs_write_for_missing_is_missing(tmp_path, cell):
    table = added(tmp_path, f"lr,loss\n0.1,1.5\n0.01,{cell}\n")
    np.testing.assert_array_equal(table.column("loss"), [1.5, np.nan])
    slowly = added(tmp_path, f"lr,loss\n0.1,1.5\u00a0\n0.01,{cell}\n")  # not as Arrow likes it
    np.testing.assert_array_equal(slowly.column("loss"), [1.5, np.nan])


@pytest.mark.parametrize(
    ("csv", "message"),
    [
        ("lr,loss\n0.1,1_5\n0.01,2\n", "mine.csv, line 2: 'loss' is '1_5', not a number"),
        ("lr;loss\n0,1;1,5\n0,01;2,5\n", "the columns are separated by ';'. Save it with ',' between"),
        ("lr\tloss\n0.1\t1.5\n", "the columns are separated by tabs. Save it with ','"),
        ("# from a sweep\nlr,loss\n0.1,1\n", "mine.csv, line 1: a comment. Remove it"),
        (",lr,loss\n0,0.1,1\n", "column '' is not described in its datasheet"),
    ],
)
def test_what_is_wrong_is_told_in_the_files_own_words(tmp_path, csv, message):
    with pytest.raises(InputError) as error:
        added(tmp_path, csv)
    assert message in str(error.value)


def test_a_number_has_no_underscores_anywhere(tmp_path):
    numeric = SHEET.replace("[hyperparameters.lr]", '[hyperparameters.lr]\nkind = "numeric"')
    with pytest.raises(InputError, match="line 3: 'lr' is '64_64', not a number"):
        added(tmp_path, "lr,loss\n128,1\n64_64,2\n", numeric)
    assert added(tmp_path, "lr,loss\n128_1,1\n64_64,2\n").space["lr"].labels == ("128_1", "64_64")
    with pytest.raises(InputError, match="line 3: 'lr' is '64_64', not a number"):
        (tmp_path / "mine.csv").write_text("lr,loss\n128,1\n64_64,2\n")
        pareto(str(tmp_path / "mine.csv"), ["loss:min", "lr:min"])
    with pytest.raises(InputError, match="write METRIC<=NUMBER"):
        Constraint.parse("loss<=1_5")


def test_a_front_needs_columns_that_are_there_once(tmp_path):
    (tmp_path / "twice.csv").write_text("acc,acc,size\n0.5,0.7,1\n0.6,0.1,2\n")
    with pytest.raises(InputError, match=r"twice\.csv: column 'acc' occurs twice"):
        pareto(str(tmp_path / "twice.csv"), ["acc:max", "size:min"])


def test_infinite_values_are_on_no_front(tmp_path):
    (tmp_path / "diverged.csv").write_text("loss,size\n-inf,1\n2,2\n-1e151,3\n")
    front = pareto(str(tmp_path / "diverged.csv"), ["loss:min", "size:min"])
    assert (len(front.points), front.kept.sum(), front.rows.tolist()) == (3, 1, [1])
