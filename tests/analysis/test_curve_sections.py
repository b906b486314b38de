"""What is said and drawn of a table's learning curves."""

from __future__ import annotations

import dataclasses
import io

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import hpobench_nmt as hb
from hpobench_nmt.analysis.tables.curve_sections import curve_section, curve_summary, table_early_ranks
from hpobench_nmt.analysis.tables.sections import analyze_tables
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.render.figures import section_figures
from hpobench_nmt.render.terminal.table_summary import print_summary


def test_the_section_of_a_table_with_curves(curved, toy):
    section = curve_section(curved)
    frame = section.analysis.frame
    first = frame.iloc[0]
    assert (section.kind, section.title) == ("curves", "toy: learning curves of bleu")
    assert section.notes[0].startswith(
        f"33 rows have a learning curve. Once 33 have a value (at update 1), their order agrees with the "
        f"final one by a Spearman coefficient of {first['order']:.2f} (95% interval "
    )
    assert f"{first['kept']:.0%} of the best tenth" in section.notes[0]
    best = section.analysis.ranks
    row = int(best[best["place"] == 1]["row"].iloc[0])
    assert curved.column("bleu")[row] == max(
        x for i, x in enumerate(curved.column("bleu")) if i not in (0, 7, 20)
    )
    (spec,) = section_figures(section)
    panels = spec.draw().axes
    assert [len(panel.lines) for panel in panels] == [2, 11, 4]
    kinds = [each.kind for each in analyze_tables([curved, dataclasses.replace(toy, name="other")])]
    assert kinds.count("curves") == 1


def test_a_line_on_the_curves_in_the_summary_of_a_table(curved, toy):
    line = curve_summary(curved)
    assert "33 of 36 rows, 2 to 4 checkpoints, 3 in the median" in line
    assert "1.00 at 4." in line
    for table, there in ((curved, True), (toy, False)):
        file = io.StringIO()
        print_summary(table, Console(file=file, width=500), 3)
        assert (line in file.getvalue()) == there


def test_the_direction_that_an_objective_names_is_the_one_that_counts(curved):
    kept = curved.curves.lengths > 0
    other = dataclasses.replace(curved, objectives=("bleu:min",))
    for table, metric in ((curved, "bleu:min"), (other, None)):
        found = table_early_ranks(table, metric)
        best = found.ranks[found.ranks["place"] == 1]["row"].iloc[0]
        ends = curved.curves.of_rows(np.flatnonzero(kept))
        least = np.minimum.reduceat(ends.column("bleu"), ends.starts[:-1])
        assert best == np.flatnonzero(kept)[np.argmin(least)]


def test_a_metric_that_checkpoints_measure_in_another_way_is_followed(curved):
    expected = table_early_ranks(curved, "bleu")
    renamed = dataclasses.replace(
        curved.curves, metrics=(hb.Metric("bleu_at_checkpoints", "max", "BLEU"),), own=(None,)
    )
    for objectives, metric in ((("bleu",), None), ((), "bleu:max"), ((), "bleu_at_checkpoints")):
        table = dataclasses.replace(curved, curves=renamed, objectives=objectives)
        found = table_early_ranks(table, metric)
        assert found.metric == "bleu_at_checkpoints"
        pd.testing.assert_frame_equal(found.ranks, expected.ranks)
        assert curve_section(table, metric).unit == "BLEU"


def test_many_trainings_may_have_diverged_from_their_first_checkpoint_on(curved):
    values = curved.curves.values.copy()
    values[: curved.curves.starts[12]] = np.nan  # 10 of the 33 rows that have a curve
    table = dataclasses.replace(curved, curves=dataclasses.replace(curved.curves, values=values))
    (section,) = analyze_tables([table], kinds=["curves"])
    assert section.notes[0].startswith("33 rows have a learning curve. Once 23 have a value (at update 1)")
    flat = dataclasses.replace(curved.curves, values=np.ones_like(values))
    (note,) = curve_section(dataclasses.replace(curved, curves=flat)).notes
    assert note == "33 rows have a learning curve, and all curves are alike."


def test_a_metric_that_the_curves_lack_is_refused(curved, toy):
    with pytest.raises(InputError, match="the learning curves have no seconds; they have bleu"):
        table_early_ranks(curved, "seconds")
    with pytest.raises(InputError, match="table 'toy' has no learning curves"):
        table_early_ranks(toy)
    (section,) = analyze_tables([curved], metric="seconds", kinds=["curves"])
    assert "have no seconds" in section.problem
