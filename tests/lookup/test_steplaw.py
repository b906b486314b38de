"""The tables of Step Law, from the authors' files."""

import csv
from pathlib import Path

import numpy as np
import pytest

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.checks.facts import check_table, find_check
from hpobench_nmt.lookup.collections import COLLECTIONS
from hpobench_nmt.lookup.collections.readers import true_rates
from hpobench_nmt.lookup.disk.folder import load_folder

FOLDER = Path(__file__).parents[3] / "shared" / "sources" / "steplaw"
here = pytest.mark.skipif(not FOLDER.is_dir(), reason="the authors' files are not in ../shared/sources")


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folders = COLLECTIONS["steplaw"].fetch(tmp_path_factory.mktemp("tables"), FOLDER)
    return {folder.name: load_folder(folder) for folder in folders}


@here
def test_every_line_of_the_files_is_a_row_of_two_tables(tables):
    assert set(tables) == set(COLLECTIONS["steplaw"].tables)
    alone = [t for name, t in tables.items() if name not in ("steplaw-dense", "steplaw-moe")]
    sizes = [len(t) for t in alone if len(t.metrics) == 2]
    assert len(sizes) == 17 and sum(sizes) == 1911 and (min(sizes), max(sizes)) == (47, 120)
    sizes = [len(t) for t in alone if len(t.metrics) == 3]
    assert len(sizes) == 16 and sum(sizes) == 708 and (min(sizes), max(sizes)) == (40, 45)
    joint, seen = tables["steplaw-dense"], set()
    for line in csv.DictReader((FOLDER / "dense_lr_bs_loss.csv").read_text().splitlines()):
        rate = min(joint.space["learning_rate"].values, key=lambda v: abs(v / float(line["lr"]) - 1))
        assert abs(rate / float(line["lr"]) - 1) < 0.006
        size, tokens, batch = (float(line[key]) for key in ("N", "D", "bs"))
        row = joint.row({"parameters": size, "tokens": tokens, "learning_rate": rate, "batch_size": batch})
        seen.add(row)
        assert joint.lookup(joint.config(row)) == {
            "smooth_loss": float(line["smooth loss"]),
            "loss": float(line["loss"]),
            "flops": 6 * size * tokens,
        }
        assert joint.curve(row).costs.tolist() == [6 * size * tokens]
        name = f"steplaw-{round(size / 1e6)}m-{tokens / 1e9:g}b"
        single = tables[name].lookup({"learning_rate": rate, "batch_size": batch})
        assert single["smooth_loss"] == float(line["smooth loss"])
    assert len(seen) == len(joint) == 1911


@here
def test_26_printed_rates_are_14(tables):
    lines = list(csv.DictReader((FOLDER / "dense_lr_bs_loss.csv").read_text().splitlines()))
    assert len({line["lr"] for line in lines}) == 26
    rates = np.array(tables["steplaw-dense"].space["learning_rate"].values)
    assert len(rates) == 14
    np.testing.assert_allclose(rates, 2 ** (np.arange(-24, -10) / 2), rtol=5e-4)
    np.testing.assert_allclose(rates[1:] / rates[:-1], np.sqrt(2), rtol=1e-3)


def test_a_rate_that_is_no_power_is_refused():
    assert true_rates(np.array([0.000345, 0.0111, 0.0009766])).tolist() == [
        0.0003453,
        0.01105,
        0.0009766,
    ]
    with pytest.raises(InputError, match="not a power of the square root of 2"):
        true_rates(np.array([0.003]))


@here
def test_check_finds_what_is_claimed_and_what_is_wrong(tables):
    facts = [f for f in find_check("steplaw", [(t, None) for t in tables.values()]) if f.table == "steplaw"]
    assert [(f.kind, f.fact) for f in facts] == [("ok", "5,238 rows, as the source says")]
    told = {name: [f.fact for f in check_table(tables[name])] for name in ("steplaw-dense", "steplaw-moe")}
    assert "1,911 rows, as the source says" in told["steplaw-dense"]
    assert "708 rows, as the source says" in told["steplaw-moe"]
    assert any(fact.startswith("smooth_loss is nearly additive") for fact in told["steplaw-moe"])
    assert not any("differ by less than 1%" in fact for facts in told.values() for fact in facts)


def test_another_file_installs_nothing(tmp_path):
    source = tmp_path / "data"
    source.mkdir()
    for name in COLLECTIONS["steplaw"].sha256:
        (source / name).write_text("lr,bs\n1,2\n")
    with pytest.raises(InputError, match="not the published file"):
        COLLECTIONS["steplaw"].fetch(tmp_path / "tables", tmp_path)  # as in a clone, whose folder is data
    assert not (tmp_path / "tables").exists() or not list((tmp_path / "tables").iterdir())
