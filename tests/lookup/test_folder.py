"""Table folders on disk: saved, loaded and compared with their hashes, and which links are followed."""

import dataclasses
import hashlib
import tomllib

import numpy as np
import pandas as pd
import pytest
import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.catalogue import shipped_folder
from hpobench_nmt.lookup.disk import folder as folders
from hpobench_nmt.lookup.disk.folder import add_table, load_folder, save_folder, table_name, write_into_folder
from hpobench_nmt.lookup.table import Table


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
