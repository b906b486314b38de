"""The tables of Gemstones, from the authors' files."""

import json
from pathlib import Path

import pytest

from hpobench_nmt.lookup.checks.facts import find_check
from hpobench_nmt.lookup.collections import COLLECTIONS
from hpobench_nmt.lookup.disk.folder import load_folder

FOLDER = Path(__file__).parents[3] / "shared" / "sources" / "gemstones"
here = pytest.mark.skipif(not FOLDER.is_dir(), reason="the authors' files are not in ../shared/sources")


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folders = COLLECTIONS["gemstones"].fetch(tmp_path_factory.mktemp("tables"), FOLDER)
    return {folder.name: load_folder(folder) for folder in folders}


@here
@pytest.mark.parametrize(
    ("name", "file", "more"),
    [
        ("gemstones-shapes", "hot_100b+_477", {}),
        ("gemstones-rates", "hot_477", {"learning_rate": "base"}),
        ("gemstones-rates", "lr_ablation_hot_477", {"learning_rate": "cooler"}),
    ],
)
def test_every_line_is_a_checkpoint(tables, name, file, more):
    table, seen = tables[name], 0
    for text in (FOLDER / f"wandb_df_for_fitting_{file}.jsonl").read_text().splitlines():
        line = json.loads(text)
        row = table.row({"width": line["width"], "depth": line["depth"], **more})
        curve = table.curve(row)
        at = curve.resources.tolist().index(line["tokens"])
        assert curve.values[at, 0] == line["final_loss"]
        cost = line["seconds_per_step"] * line["step"] * line["num_nodes"]
        assert curve.costs[at] == pytest.approx(cost, rel=1e-12)
        if at + 1 == len(curve.costs):
            assert table.values[row].tolist() == pytest.approx(
                [line["final_loss"], cost, line["params_active_precise"]], rel=1e-12
            )
        seen += 1
    of_it = (
        table.curves.lengths
        if not more
        else [
            n
            for row, n in enumerate(table.curves.lengths)
            if table.config(row)["learning_rate"] == more["learning_rate"]
        ]
    )
    assert seen == sum(of_it)


@here
def test_check_finds_what_is_claimed(tables):
    facts = [(f.table, f.fact) for f in find_check("gemstones", [(t, None) for t in tables.values()])]
    for expected in (
        ("gemstones-shapes", "22 rows, as the source says"),
        ("gemstones-shapes", "3,850 checkpoints, as the source says"),
        ("gemstones-rates", "42 rows, as the source says"),
        ("gemstones-rates", "2,100 checkpoints, as the source says"),
        ("gemstones", "64 rows, as the source says"),
    ):
        assert expected in facts
