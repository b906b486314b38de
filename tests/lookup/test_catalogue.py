"""Tables by name: where they are looked for, which of two wins, and which collection they are of."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup import catalogue
from hpobench_nmt.lookup.catalogue import (
    collections,
    family_of,
    find_folder,
    groups,
    installed,
    list_tables,
    load_table,
    members,
    remove_tables,
    search_path,
    shipped_folder,
)
from hpobench_nmt.lookup.disk.folder import save_folder
from hpobench_nmt.lookup.user_folders import added_folder, fetched_folder, training_cache


@pytest.fixture
def bare(home, tmp_path, monkeypatch):
    """A home as it is before anything is installed, without the tables that ship."""
    monkeypatch.setattr(catalogue, "shipped_folder", lambda: tmp_path / "shipped")
    return home


def put(table, root, name=None, **changes):
    """Save the table in a folder of tables, under its own name or another."""
    table = dataclasses.replace(table, **changes)
    save_folder(table, root / (name or table.name))
    return root / (name or table.name)


def test_the_folders_of_a_home(home):
    assert added_folder() == home / "tables"
    assert fetched_folder() == home / "cache"
    assert training_cache() == home / "training"
    assert search_path() == [home / "tables", home / "cache", shipped_folder()]
    assert (shipped_folder().parent / "__init__.py").is_file()
    assert shipped_folder().name == "tables"


def test_the_folders_without_a_home_are_the_systems(home, monkeypatch):
    import platformdirs

    monkeypatch.delenv("HPOBENCH_NMT_HOME")
    data = Path(platformdirs.user_data_dir("hpobench-nmt", appauthor=False))
    cache = Path(platformdirs.user_cache_dir("hpobench-nmt", appauthor=False))
    assert added_folder() == data / "tables"
    assert fetched_folder() == cache / "tables"
    assert training_cache() == cache / "training"
    monkeypatch.setenv("HPOBENCH_NMT_HOME", "")
    assert added_folder() == data / "tables"


def test_folders_that_the_user_names_come_first(home, monkeypatch):
    monkeypatch.setenv("HPOBENCH_NMT_TABLES", os.pathsep.join(["/a", "", "b"]))
    assert search_path() == [Path("/a"), Path("b"), home / "tables", home / "cache", shipped_folder()]


def test_the_first_table_of_a_name_wins(bare, toy, tmp_path, monkeypatch):
    monkeypatch.setenv("HPOBENCH_NMT_TABLES", str(tmp_path / "named"))
    roots = [tmp_path / "named", bare / "tables", bare / "cache", tmp_path / "shipped"]
    for count, root in enumerate(roots, start=1):
        for name in "dcba"[:count]:
            put(toy, root, name=name)
    assert installed() == {
        "a": roots[3] / "a",
        "b": roots[2] / "b",
        "c": roots[1] / "c",
        "d": roots[0] / "d",
    }
    assert list(installed()) == ["a", "b", "c", "d"]


def test_what_is_no_table_is_not_installed(bare, toy):
    put(toy, bare / "tables")
    put(toy, bare / "tables", name=".toy.being-written")
    (bare / "tables" / "notes.txt").write_text("a file")
    (bare / "tables" / "empty").mkdir()
    (bare / "tables" / "odd" / "datasheet.toml").mkdir(parents=True)
    (bare / "cache").write_text("no folder")
    assert list(installed()) == ["toy"]


def test_collections_are_what_the_datasheets_claim(bare, toy):
    for name, claims in (
        ("b", {"collection": "mine"}),
        ("a", {"collection": "mine"}),
        ("c", {"collection": "other"}),
        ("d", {}),
    ):
        put(toy, bare / "tables", name=name, claims=claims)
    for name, text in (("e", "claims = 3"), ("f", "[claims]\ncollection = 3"), ("g", "not TOML at all")):
        (bare / "tables" / name).mkdir()
        (bare / "tables" / name / "datasheet.toml").write_text(text)
    assert collections() == {"mine": ["a", "b"], "other": ["c"]}
    assert members("mine") == ["a", "b"]
    assert members("c") == ["c"]
    assert members("nowhere") == ["nowhere"]


def test_a_datasheet_that_changes_is_read_again(bare, toy):
    sheet = put(toy, bare / "tables", claims={"collection": "one"}) / "datasheet.toml"
    assert collections() == {"one": ["toy"]}
    sheet.write_text(sheet.read_text().replace('"one"', '"two"'))
    assert collections() == {"two": ["toy"]}
    put(toy, bare / "tables", claims={"collection": "six"})
    assert collections() == {"six": ["toy"]}


def test_a_member_that_cannot_be_read_is_named_where_members_lack(bare, toy):
    claims = {"collection": "mine", "collection_tables": 3}
    for name in "ab":
        put(toy, bare / "tables", name=name, claims=claims)
    (bare / "tables" / "c").mkdir()
    damaged = bare / "tables" / "c" / "datasheet.toml"
    damaged.write_text("[claims")
    with pytest.raises(InputError, match=rf"{damaged}: not valid TOML"):
        members("mine")
    for enough in ({"collection": "mine", "collection_tables": 2}, {"collection": "mine"}):
        for name in "ab":
            put(toy, bare / "tables", name=name, claims=enough)
        assert members("mine") == ["a", "b"]
    damaged.write_text("")
    for name in "ab":
        put(toy, bare / "tables", name=name, claims=claims)
    assert members("mine") == ["a", "b"]  # one was not installed


def test_a_folder_by_its_name_or_path(bare, toy):
    folder = put(toy, bare / "tables")
    assert find_folder("toy") == folder
    # A path need not exist; a text is one if it has a separator.
    assert find_folder(Path("toy")) == Path("toy")
    assert find_folder("./toy") == Path("./toy")
    assert find_folder(str(folder)) == folder
    # An installed table comes before a folder of its name here, and such a folder before an error.
    put(toy, Path())
    assert find_folder("toy") == folder
    put(toy, Path(), name="here")
    assert find_folder("here") == Path("here")
    assert load_table("here").name == "toy"
    assert load_table(Path("toy")).name == load_table("toy").name == "toy"


def test_a_name_that_is_no_table_is_explained(bare, toy):
    for name in "ab":
        put(toy, bare / "tables", name=name, claims={"collection": "mine"})
    for name, message in (
        ("mine", r"'mine' is a group: take one of a, b\."),
        ("nmthpo", r"table 'nmthpo' is not installed\. Get it with 'hpobench-nmt tables fetch nmthpo'\."),
        ("zh-en", r"table 'zh-en' is not installed\. Get it with 'hpobench-nmt tables fetch nmthpo'\."),
        ("c", r"unknown table 'c'\. Known: a, b\. \('hpobench-nmt tables list' shows what is installed\)"),
    ):
        with pytest.raises(InputError, match=message):
            find_folder(name)


def test_an_installed_table_is_named_as_its_folder(bare, toy):
    folder = put(toy, bare / "tables", name="renamed")
    with pytest.raises(
        InputError, match=rf"{folder}: the folder is named 'renamed', its datasheet says 'toy'"
    ):
        load_table("renamed")
    assert load_table(folder).name == "toy"  # a path says nothing of a name


def test_a_table_with_the_name_of_a_group_is_meant_by_it(home, toy):
    for name in "ab":
        own = dataclasses.replace(toy, name=name)
        put(own, added_folder(), claims={"collection": "mine", "collection_tables": 2})
    put(dataclasses.replace(toy, name="mine"), added_folder())
    assert members("mine") == ["mine"]
    assert [folder.name for folder in remove_tables("mine")] == ["mine"]
    assert members("mine") == ["a", "b"]


def test_a_group_stands_for_its_tables_and_is_removed_as_one(home, toy):
    for name in "ab":
        own = dataclasses.replace(toy, name=name)
        put(own, added_folder(), claims={"collection": "mine", "collection_tables": 2})
    put(dataclasses.replace(toy, name="alone"), added_folder())
    assert groups()["mine"] == members("mine") == ["a", "b"]
    assert "lohelp-de-en" in groups()["shipped"] and "a" not in members("shipped")
    assert [family_of(load_table(name)) for name in ("a", "alone", "lohelp-de-en")] == [
        "mine",
        "alone",
        "shipped",
    ]
    listed = list_tables().set_index("table")
    assert listed.loc[["a", "alone", "lohelp-de-en"], "group"].tolist() == ["mine", "alone", "shipped"]
    assert int(listed.loc["a", "rows"]) == len(toy)
    with pytest.raises(InputError, match=r"'shipped': its table '.*' was neither added nor fetched"):
        remove_tables("shipped")
    assert [folder.name for folder in remove_tables("mine")] == ["a", "b"]
    assert "mine" not in groups() and members("alone") == ["alone"]
    assert [folder.name for folder in remove_tables("alone")] == ["alone"]
