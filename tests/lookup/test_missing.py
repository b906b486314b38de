"""What a datasheet declares as missing is missing in the rows, in their curves and in their replicates."""

from dataclasses import replace

import numpy as np
import pytest

from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.curves import Curves
from hpobench_nmt.lookup.disk import curve_files
from hpobench_nmt.lookup.disk.folder import add_table, load_folder, save_folder

SHEET = """
[hyperparameters.lr]
[metrics.loss]
direction = "min"
missing = {missing}
[metrics.size]
direction = "min"
[replicates]
[curves]
resource = "update"
{more}
[curves.metrics.loss]
[curves.metrics.size]
"""


@pytest.fixture
def add(tmp_path):
    """A function that adds a table in whose three files a loss of the last row is this cell."""

    def add(missing, cell, more=""):
        (tmp_path / "t.toml").write_text(SHEET.format(missing=missing, more=more))
        (tmp_path / "t.csv").write_text(f"lr,loss,size\n0.1,2,-1\n0.2,{cell},-1\n")
        (tmp_path / "replicates.csv").write_text(f"lr,replicate,seed,loss,size\n0.1,1,1,{cell},-1\n")
        curves = f"0,1,1,1,3,-1\n0,2,2,2,2,-1\n1,1,1,1,4,-1\n1,2,2,2,{cell},-1\n"
        (tmp_path / "curves.csv").write_text("row,checkpoint,update,cost,loss,size\n" + curves)
        _, folder = add_table(tmp_path / "t.csv", None, tmp_path / "installed")
        return load_folder(folder)

    return add


@pytest.mark.parametrize("part", [2**23, 15])
@pytest.mark.parametrize(
    ("missing", "cell"), [("-1", "-1"), ("-1", "-1.0"), ('"diverged"', "diverged"), ('"-1"', "-1")]
)
def test_it_is_missing_in_all_files(add, monkeypatch, missing, cell, part):
    monkeypatch.setattr(curve_files, "_PART", part)
    table = add(missing, cell)
    np.testing.assert_array_equal(table.values, [[2, -1], [np.nan, -1]])
    np.testing.assert_array_equal(table.replicates.rows.values, [[np.nan, -1]])
    np.testing.assert_array_equal(table.curves.values, [[3, -1], [2, -1], [4, -1], [np.nan, -1]])
    with pytest.raises(InputError, match=r"line \d: '?loss'? is 'divergd', not a number"):
        add('"diverged"', "divergd")


def test_a_curve_may_end_at_its_first_missing_value(add, tmp_path):
    assert len(add("4", "5", 'truncate_at = "nan"').curves.costs) == 3
    with pytest.raises(InputError, match="row 1, checkpoint 1: loss is missing before the last checkpoint"):
        add("4", "5")


def test_a_value_that_the_file_of_curves_could_not_hold_is_refused(tmp_path, toy):
    ends, one = np.arange(1.0, len(toy) + 1), np.zeros((len(toy), 1))
    curves = Curves("update", (Metric("memory", "min"),), (None,), np.arange(len(toy) + 1), ends, ends, one)
    said = r"table 'toy', curves\.csv: memory is 0, which means a missing value there\. Use NaN"
    with pytest.raises(InputError, match=said):
        save_folder(replace(toy, curves=curves), tmp_path / "t")
    assert not (tmp_path / "t").exists()
