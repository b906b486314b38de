"""The tables of fine-tuned language models, from the authors' file."""

import dataclasses
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.checks.facts import check_table
from hpobench_nmt.lookup.collections import COLLECTIONS
from hpobench_nmt.lookup.collections.nmtlc import with_curves
from hpobench_nmt.lookup.disk.folder import load_folder, save_folder
from hpobench_nmt.lookup.table import Table

FOLDER = Path(__file__).parents[3] / "shared" / "nmtlc"
FILE = "nmtlc.pkl"
NMTLC, NMTHPO = COLLECTIONS["nmtlc"], COLLECTIONS["nmthpo"]
here = pytest.mark.skipif(not FOLDER.is_dir(), reason="the authors' file is not in ../shared/nmtlc")


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folders = NMTLC.fetch(tmp_path_factory.mktemp("tables"), FOLDER)
    return {folder.name: load_folder(folder) for folder in folders}


@here
def test_the_tables_hold_what_the_file_holds(tables):
    assert {name: len(table) for name, table in tables.items()} == {"nmtlc-zh-en": 159, "nmtlc-fr-en": 162}
    for table in tables.values():
        models = table.to_frame()["language_model"].value_counts()
        assert len(models) == 6 and set(models) <= {25, 26, 27}
    entries = pickle.loads((FOLDER / FILE).read_bytes())  # noqa: S301 - the test's own second reading
    seen = 0
    for entry in entries:
        if entry["task"] != "finetune":
            continue
        seen += 1
        table = tables[f"nmtlc-{entry['dataset_name']}"]
        settings = entry["hyperparams"]
        size = {
            (1024, 24): ("560m", "564M"),
            (2048, 24): ("1b7", "1.7B"),
            (2560, 30): ("3b",),
            (2048, 48): ("", "2.9B"),
        }
        number = size[settings["model_size"], settings["num_layers"]][entry["basemodel"] == "xglm"]
        row = table.row(
            {
                "language_model": f"{entry['basemodel']}-{number}",
                "lora_rank": settings["r"],
                "batch_size": settings["batch_size"],
                "learning_rate": settings["initial_lr"],
            }
        )
        expected = [max(entry["bleu_curve"]), min(entry["perplexity_curve"]), len(entry["bleu_curve"])]
        np.testing.assert_array_equal(table.values[row], expected)
    assert seen == 321


@here
@pytest.mark.parametrize(("name", "most"), [("nmtlc-zh-en", 25), ("nmtlc-fr-en", 27)])
def test_categories_as_columns_let_bo_find_the_best_soon(tables, name, most):
    """With the language models numbered 0 to 5, it takes 70 and 43 look-ups; random search takes 81."""
    results = benchmark(tables[name], ["BO_EI_M_std"], trials=20, scores=["ftb"])
    assert results.scores()["mean"].item() <= most


@here
def test_the_tables_have_the_curves_of_the_file(tables):
    entries = pickle.loads((FOLDER / FILE).read_bytes())  # noqa: S301 - the test's own second reading
    for pair in ("zh-en", "fr-en"):
        table, tuned = tables[f"nmtlc-{pair}"], [e for e in entries if e["dataset_name"] == pair]
        assert len(table.curves) == len(tuned)
        for row, entry in enumerate(tuned):
            curve = table.curve(row)
            assert curve.values[:, 0].tolist() == entry["bleu_curve"]
            assert curve.values[:, 1].tolist() == entry["perplexity_curve"]
            assert curve.resources.tolist() == list(range(1, len(entry["bleu_curve"]) + 1))
        largest = table.row(table.config(0) | {"language_model": "bloomz-3b"})
        assert table.curve(largest).costs[0] == 3.0


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The tables of nmthpo before and after their curves were fetched, and then they themselves once more."""
    if not FOLDER.is_dir() or not (FOLDER.parent / "nmthpo").is_dir():
        pytest.skip("the authors' files are not in ../shared")
    target = tmp_path_factory.mktemp("both")
    before = {f.name: load_folder(f) for f in NMTHPO.fetch(target, FOLDER.parent / "nmthpo")}
    assert set(before) < {f.name for f in NMTLC.fetch(target, FOLDER)}
    (target / "so-en" / "table.csv").write_text("broken")
    without = {f.name: load_folder(f) for f in NMTHPO.fetch(target, FOLDER.parent / "nmthpo")}
    assert [name for name, table in without.items() if table.curves is None] == ["so-en"]
    NMTLC.fetch(target, FOLDER)
    return before, {f.name: load_folder(f) for f in NMTHPO.fetch(target, FOLDER.parent / "nmthpo")}


def test_1903_rows_of_nmthpo_have_exactly_one_curve(published):
    before, after = published
    held = {name: int((table.curves.lengths > 0).sum()) for name, table in after.items()}
    assert held == {"zh-en": 43, "ru-en": 176, "ja-en": 150, "en-ja": 163, "sw-en": 767, "so-en": 604}
    for name, table in after.items():
        assert table.sha256 == before[name].sha256
        assert table.claims == before[name].claims
        assert table.provenance == before[name].provenance
        rows = np.flatnonzero(table.curves.lengths)
        least = np.minimum.reduceat(table.curves.column("dev_ppl"), table.curves.starts[:-1][rows])
        np.testing.assert_allclose(least, table.column("dev_ppl")[rows], atol=0.006)
        ends = table.curves.resources[table.curves.starts[1:][rows] - 1]
        wrong = rows[ends != table.column("num_updates")[rows]]
        assert wrong.tolist() == ([89] if name == "zh-en" else [])


def test_check_finds_the_known_facts_of_the_curves(published):
    _, after = published
    facts = {name: [f.fact for f in check_table(table)] for name, table in after.items()}
    assert any("75 of 118 rows have no learning curve" in fact for fact in facts["zh-en"])
    assert any("5 of 168 rows have no learning curve" in fact for fact in facts["en-ja"])
    assert any("the curves of 1 row do not end at its num_updates (row 89)" in f for f in facts["zh-en"])
    assert any("the first checkpoint in 460 of 604" in fact for fact in facts["so-en"])
    for name in after:
        assert "dev_ppl of every row is the best of its curve" in facts[name]
    for name in ("ja-en", "en-ja", "ru-en", "sw-en", "so-en"):
        assert "every curve ends at its row's num_updates" in facts[name]


@here
def test_a_table_of_another_collection_is_left_alone(tmp_path, toy):
    save_folder(dataclasses.replace(toy, name="zh-en"), tmp_path / "zh-en")
    before = (tmp_path / "zh-en" / "datasheet.toml").read_bytes()
    assert sorted(f.name for f in NMTLC.fetch(tmp_path, FOLDER)) == [
        "nmtlc-fr-en",
        "nmtlc-zh-en",
    ]
    assert (tmp_path / "zh-en" / "datasheet.toml").read_bytes() == before


def test_a_row_that_several_curves_fit_has_none():
    table = Table(
        "t",
        tuple(
            Hyperparameter(name, values)
            for name, values in {
                "num_layers": (2.0,),
                "num_embed": (256.0,),
                "num_hidden": (1024.0,),
                "num_heads": (1.0, 2.0, 4.0, 8.0),
                "learning_rate": (0.1, 0.2),
            }.items()
        ),
        (Metric("dev_ppl", "min"),),
        np.array(
            [
                [2, 256, 1024, heads, rate]
                for heads, rate in ((1, 0.1), (2, 0.1), (4, 0.1), (8, 0.1), (1, 0.2))
            ]
        ),
        np.array([[5.0], [6.0], [7.0], [7.0], [5.0]]),
    )
    found = [[9.0, 5.004], [8.0, 6.002], [7.5, 5.996], [7.001, 8.0]]
    settings = {"num_layers": 2, "model_size": 256, "ff_num_hidden": 1024, "initial_lr": 0.1}
    lines = pd.DataFrame({"perplexity_curve": found, "perplexity_optimal": list(map(min, found))})
    curves = with_curves(table, lines.assign(**settings)).curves
    # Rows 2 and 3 both claim the last one.
    assert curves.lengths.tolist() == [2, 0, 0, 0, 0]
    assert curves[0].resources.tolist() == curves[0].costs.tolist() == [2000.0, 4000.0]


def test_another_file_is_refused_before_it_is_read(tmp_path):
    (tmp_path / FILE).write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(InputError, match="not the published file"):
        NMTLC.fetch(tmp_path / "tables", tmp_path)
    assert not (tmp_path / "tables").exists() or not list((tmp_path / "tables").iterdir())
