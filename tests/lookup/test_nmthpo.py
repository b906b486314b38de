"""The published tables. Skipped where the authors' files are not at hand."""

import shutil

import numpy as np
import pytest

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.catalogue import load_table
from hpobench_nmt.lookup.checks.facts import check_collection, check_table, twins
from hpobench_nmt.lookup.collections import COLLECTIONS

TABLES = COLLECTIONS["nmthpo"].tables
ROWS = {"zh-en": 118, "ru-en": 176, "ja-en": 150, "en-ja": 168, "sw-en": 767, "so-en": 604}


@pytest.fixture(autouse=True)
def _home(nmthpo_home, monkeypatch):
    monkeypatch.setenv("HPOBENCH_NMT_HOME", str(nmthpo_home))


@pytest.mark.parametrize("name", TABLES)
def test_tables_hold_the_authors_numbers(name, authors_files):
    table = load_table(name)
    assert len(table) == ROWS[name]
    np.testing.assert_array_equal(table.configs, np.loadtxt(authors_files / f"{name}.hyps"))
    evals = np.loadtxt(authors_files / f"{name}.evals")
    np.testing.assert_array_equal(np.nan_to_num(table.values), evals)
    # The authors' scaled values are rounded to three places.
    np.testing.assert_allclose(table.features, np.loadtxt(authors_files / f"{name}.hyps_scaled"), atol=6e-4)


@pytest.mark.parametrize("name", TABLES)
def test_fronts_agree_with_the_authors(name, authors_files):
    published = np.flatnonzero(np.loadtxt(authors_files / f"{name}.fronts"))
    np.testing.assert_array_equal(load_table(name).front(["dev_bleu", "dev_gpu_time"]), published)


def facts(name):
    return [f.fact for f in check_table(load_table(name))]


def test_check_finds_the_known_facts():
    tables = [load_table(name) for name in TABLES]
    total, missing_in_all = check_collection("nmthpo", tables)
    assert missing_in_all.fact == "35 rows in all have no gpu_memory"
    assert total.fact == "the 6 tables hold 1,983 rows, but the source states 2,245 systems"
    missing = {name: [f for f in facts(name) if f.startswith("no gpu_memory in ")] for name in TABLES}
    assert {name: int(f[0].split()[3]) for name, f in missing.items() if f} == {
        "zh-en": 1,
        "sw-en": 25,
        "so-en": 9,
    }
    (twin_fact,) = [f for f in facts("zh-en") if "groups" in f]
    assert twin_fact.startswith(
        "75 of 118 rows fall into 33 groups that agree exactly in dev_bleu, dev_ppl, num_updates, num_param "
        "and differ only in bpe_symbols"
    )
    assert all(not twins(load_table(name)) for name in TABLES if name != "zh-en")
    assert any("3 rows share the best dev_bleu, 14.66" in f for f in facts("zh-en"))
    assert any("0.53 ahead of the next" in f for f in facts("en-ja"))
    for name in TABLES:
        assert any("published Pareto front of dev_bleu and dev_gpu_time agrees" in f for f in facts(name))


def test_files_from_a_folder_are_checked_too(home, tmp_path, authors_files):
    copy = tmp_path / "copy"
    shutil.copytree(authors_files, copy)
    (copy / "ja-en.evals").chmod(0o644)
    content = (copy / "ja-en.evals").read_bytes()
    (copy / "ja-en.evals").write_bytes(content.replace(b"15.45", b"25.45", 1))
    with pytest.raises(InputError, match=r"ja-en\.evals: SHA-256 is .* not the published file"):
        COLLECTIONS["nmthpo"].fetch(home / "cache", source=copy)
    (copy / "ja-en.evals").unlink()
    with pytest.raises(InputError, match=r"has no file ja-en\.evals"):
        COLLECTIONS["nmthpo"].fetch(home / "cache", source=copy)
    assert not (home / "cache").exists()
