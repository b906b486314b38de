"""The tables of fine-tuned language models, from the authors' file."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from hpobench_nmt.core.errors import InputError
from hpobench_nmt.lookup.collections import nmtlc
from hpobench_nmt.lookup.folder import load_folder

FOLDER = Path(__file__).parents[3] / "shared" / "nmtlc"
here = pytest.mark.skipif(not FOLDER.is_dir(), reason="the authors' file is not in ../shared/nmtlc")


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folders = nmtlc.fetch(tmp_path_factory.mktemp("tables"), FOLDER)
    return {folder.name: load_folder(folder) for folder in folders}


@here
def test_the_tables_hold_what_the_file_holds(tables):
    assert {name: len(table) for name, table in tables.items()} == {"nmtlc-zh-en": 159, "nmtlc-fr-en": 162}
    for table in tables.values():
        models = table.to_frame()["language_model"].value_counts()
        assert len(models) == 6 and set(models) <= {25, 26, 27}
    entries = pickle.loads((FOLDER / nmtlc.FILE).read_bytes())  # noqa: S301 - the test's own second reading
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
    import hpobench_nmt as hb

    results = hb.benchmark(tables[name], ["BO_EI_M_std"], trials=20, scores=["ftb"])
    assert results.scores()["mean"].item() <= most


def test_another_file_is_refused_before_it_is_read(tmp_path):
    (tmp_path / nmtlc.FILE).write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(InputError, match="not the published file"):
        nmtlc.fetch(tmp_path / "tables", tmp_path)
    assert not (tmp_path / "tables").exists() or not list((tmp_path / "tables").iterdir())
