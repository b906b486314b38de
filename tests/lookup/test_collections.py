"""The registry of published collections is all that the rest of the program knows of them."""

import pytest

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.catalogue import load_table
from hpobench_nmt.lookup.collections import COLLECTIONS, collection_of


def test_a_collection_is_found_by_its_tables():
    assert collection_of("zh-en") is COLLECTIONS["nmthpo"]
    assert collection_of("toy") is None
    tables = [table for collection in COLLECTIONS.values() for table in collection.tables]
    assert len(set(tables)) == len(tables)


@pytest.mark.parametrize("name", COLLECTIONS)
def test_what_is_not_installed_names_its_collection(home, run_here, name):
    collection = COLLECTIONS[name]
    for missing in (name, collection.tables[0]):
        with pytest.raises(InputError, match=rf"{missing}' is not installed\. .*tables fetch {name}'"):
            load_table(missing)
    listed = run_here("tables", "list").stderr
    assert f"'hpobench-nmt tables fetch {name}': {collection.given.title}." in listed
    refused = run_here("tables", "fetch", name, "--from", "nowhere", check=2).stderr
    assert f"nowhere: no such folder. Give {collection.files}." in refused


def test_an_unknown_collection_gets_the_nearest(home, run_here):
    refused = run_here("tables", "fetch", "nmthp", check=2).stderr
    assert "unknown collection 'nmthp'. Did you mean 'nmthpo'?" in refused


def test_a_collection_is_fetched_by_its_own_function(authors_files, home, run_here):
    done = run_here("tables", "fetch", "nmthpo", "--from", authors_files)
    assert "Licence: MIT, copyright (c) 2020 Xuan Zhang." in done.stdout
    assert COLLECTIONS["nmthpo"].address.startswith("https://")
    assert {load_table(name).claims["collection"] for name in COLLECTIONS["nmthpo"].tables} == {"nmthpo"}
