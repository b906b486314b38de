"""Sections of an analysis of tables: what is computed, what their notes say, and what is left out."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from one_section import only, section_of

from hpobench_nmt.analysis.tables.sections import analyze_tables, kept_rows, without_others
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.evaluation.correlation import rank_correlation
from hpobench_nmt.evaluation.importance import importance, predictable_share
from hpobench_nmt.evaluation.noise import seed_noise
from hpobench_nmt.evaluation.sensitivity import sensitivity
from hpobench_nmt.lookup.catalogue import load_table
from hpobench_nmt.lookup.collections import COLLECTIONS
from hpobench_nmt.lookup.table import Table
from hpobench_nmt.render.figures import section_figures


def test_every_analysis_of_two_tables(two, again):
    sections = analyze_tables([two[0].with_replicates(again(two[0], [3, 9, 20])), two[1]])
    each = ["importance", "front", "sensitivity"]
    assert [(s.table, s.kind) for s in sections] == [
        ("", "correlation"),
        *[("toy", kind) for kind in (*each, "noise")],
        *[("other", kind) for kind in each],
    ]
    assert not any(s.problem for s in sections)
    assert all(s.notes and s.files and s.shown is not None for s in sections)
    drawn = [{spec.stem for spec in section_figures(s)} for s in sections]
    assert all(drawn)
    stems = [stem for s, figures in zip(sections, drawn, strict=True) for stem in (*s.files, *figures)]
    both = sum(len(set(s.files) & figures) for s, figures in zip(sections, drawn, strict=True))
    assert len(stems) - len(set(stems)) == both


def test_under_a_constraint_all_is_of_the_rows_that_keep_it(curved, again):
    rules = ["seconds<=40", "memory<=1500"]
    kept = kept_rows(curved, rules)
    assert kept.tolist() == ((curved.column("seconds") <= 40) & (curved.column("memory") <= 1500)).tolist()
    assert 10 < kept.sum() < 30
    rows, others = np.flatnonzero(kept), np.flatnonzero(~kept)
    frame = again(curved, [*rows[:3], *others[:2]])
    table = without_others(curved.with_replicates(frame), kept)
    assert len(table.replicates.to_frame()) == 3 * len(frame) // 5
    sections = analyze_tables([table])
    # The same as of a table that has no other rows, but for the numbers of the rows.
    part = replace(
        curved,
        configs=curved.configs[rows],
        values=curved.values[rows],
        curves=curved.curves.of_rows(rows),
        replicates=table.replicates,
    )
    expected = analyze_tables([part])
    pd.testing.assert_frame_equal(only(sections, "importance").shown, only(expected, "importance").shown)
    # Who searches has to train the others as well, as they have to train what fails.
    assert only(sections, "sensitivity").shown["trainings"].tolist()[-1] == 36
    front, own = (only(found, "front").files["toy-front"] for found in (sections, expected))
    assert front["row"].tolist() == rows[own["row"]].tolist()
    assert only(sections, "front").notes == only(expected, "front").notes
    noise, own = (only(found, "noise").files["toy-noise"] for found in (sections, expected))
    assert noise["row"].tolist() == rows[own["row"]].tolist()
    curves, own = (only(found, "curves").files["toy-curves"] for found in (sections, expected))
    pd.testing.assert_frame_equal(curves, own)
    with pytest.raises(InputError, match="table 'toy': no row keeps seconds<=1: the nearest has seconds "):
        kept_rows(curved, ["seconds<=1"])


def test_what_is_left_out_by_a_constraint_is_said_so(curved, again):
    rules = ["bleu>=15", "memory<=1500"]  # what keeps them is no grid
    kept = kept_rows(curved, rules)
    frame = again(curved, [*np.flatnonzero(kept)[:3], *np.flatnonzero(~kept)[:2]])
    sections = analyze_tables([curved.with_replicates(frame)], constraints=rules)
    expected = analyze_tables([without_others(curved.with_replicates(frame), kept)])
    assert [s.kind for s in sections] == [s.kind for s in expected]
    assert only(sections, "noise").notes == only(expected, "noise").notes
    assert only(sections, "importance").notes[1:] == only(expected, "importance").notes[1:]
    assert (
        f"because only {kept.sum()} of the 24 configurations of the grid keep bleu>=15 and memory<=1500 "
        "and have bleu"
    ) in only(sections, "importance").notes[0]
    elsewhere = curved.with_replicates(again(curved, np.flatnonzero(~kept)[:2]))
    noise = section_of("noise", elsewhere, constraints=rules)
    assert noise.problem == (
        "no configuration that satisfies bleu>=15 and memory<=1500 was trained again, so a spread cannot be "
        "measured."
    )


def test_what_is_said_is_what_was_computed(two, again):
    toy = two[0]
    frame = again(toy, [3, 9, 20])
    sections = analyze_tables([toy.with_replicates(frame), two[1]], tolerance=0.7)
    r = rank_correlation([table.response() for table in two])
    note = only(sections, "correlation").notes[1]
    assert f"toy and other, {r.coefficient[0, 1]:.3f}" in note
    assert f"{r.n_common[0, 1]} configurations" in note
    whole = importance(toy.response()).singles.iloc[0]
    exact, over, best, ranks = only(sections, "importance", "toy").notes
    assert ranks.endswith(f"with R2 {predictable_share(toy.features, toy.response().losses):.2f}.")
    assert exact.startswith("Exact: all 36")
    assert over.startswith(f"Over the whole space, {whole['first']} explains the most, {whole['share']:.0%}")
    threshold = np.sort(toy.column("bleu"))[-9]
    assert best.startswith(f"Among the best 25% (9 rows, {threshold:.4g} or more), ")
    front = only(sections, "front", "toy")
    assert front.files["toy-front"]["row"].tolist() == sorted(
        toy.front(["bleu", "seconds"]), key=lambda row: -toy.column("bleu")[row]
    )
    found = sensitivity(toy.response(), tolerance=0.7)
    n = int(found.by_steps["within"].sum())
    within = f"{n} of 36 configurations ({n / 36:.1%}), including the best, are within 0.7 BLEU of the best."
    assert only(sections, "sensitivity", "toy").notes[0].startswith(within)
    noise = seed_noise(toy.response(), frame)
    spread, believe, rows, leads, order = only(sections, "noise").notes
    assert f"{noise.pooled.sd:.3g} BLEU" in spread
    assert "15 degrees of freedom" in spread
    assert f"{noise.pooled.smallest_difference:.3g} BLEU" in believe
    assert f"{noise.rows_within} rows, including the best, cannot be distinguished from the best" in rows
    bleu = np.sort(toy.column("bleu"))[::-1]
    assert leads.startswith(
        f"The best row leads the 2nd by {bleu[0] - bleu[1]:.3g} BLEU, the 5th by {bleu[0] - bleu[4]:.3g}, "
        f"the 10th by {bleu[0] - bleu[9]:.3g}. "
    )
    assert leads.endswith(f"standard deviation {2**0.5 * noise.pooled.sd:.3g}.")
    assert f"{noise.order_holds:.0%} of cases" in order


def test_the_best_row_trained_again_is_told(toy, again):
    best = int(np.argmax(toy.column("bleu")))
    frame = again(toy, [best, 3], times=4)
    notes = section_of("noise", toy.with_replicates(frame)).notes
    mean = frame["bleu"][::2].mean()
    own = toy.column("bleu")[best]
    assert f"The best row has {own:.3g} BLEU; trained again 4 times, {mean:.3g} on average." in notes


def test_of_many_configurations_that_were_trained_again_some_are_looked_at(again):
    x = np.arange(60.0)
    wide = Table(
        "wide", (Hyperparameter("x", tuple(x)),), (Metric("bleu", "max"),), x[:, None], x[:, None], ("bleu",)
    )
    notes = section_of("noise", wide.with_replicates(again(wide, range(60), times=1))).notes
    assert notes[0].startswith(
        "60 configurations were trained again with other seeds; the following is about 31 of them, from the "
        "best to the median. Standard deviation within"
    )


def test_why_importance_is_estimated(toy):
    values = toy.values.copy()
    values[:6, 0] = np.nan
    notes = section_of("importance", replace(toy, values=values)).notes
    assert "because only 30 of the 36 configurations of the grid have bleu." in notes[0]
    rate = replace(toy.hyperparameters[-1], active_if=(("layers", toy.hyperparameters[0].values[1:]),))
    configs = toy.configs.copy()
    configs[configs[:, 0] == 1.0, 2] = np.nan
    _, first = np.unique(np.nan_to_num(configs, nan=-1.0), axis=0, return_index=True)
    some = replace(toy, hyperparameters=(*toy.hyperparameters[:-1], rate), configs=configs[first],
                   values=toy.values[first])  # fmt: skip
    assert "because learning_rate is inactive in some rows." in section_of("importance", some).notes[0]


def test_a_relation_that_may_be_none_is_called_so(toy):
    shuffled = np.random.default_rng(0).permutation(toy.values)
    section = section_of("correlation", toy, replace(toy, name="shuffled", values=shuffled))
    assert "may not be a relation at all" in section.notes[1]
    unrelated = replace(toy, values=np.random.default_rng(1).normal(size=toy.values.shape))
    assert section_of("front", unrelated).notes[-1].endswith("no clear relation.")
    turned = replace(toy, name="turned", values=-toy.values)
    assert section_of("correlation", toy, turned).notes[1] == (
        "toy and turned, -1.000 (-1.00 to -1.00, 36 configurations)."
    )
    bound = replace(toy, values=np.repeat(toy.values[:, :1], 3, axis=1))
    assert "tend to be worse in the other" in section_of("front", bound).notes[-1]


def test_rows_that_carry_the_variance_are_named_and_left_out_once(toy):
    name = toy.main_metric
    column = [metric.name for metric in toy.metrics].index(name)
    collapsed = toy.values.copy()
    collapsed[[4, 30], column] = -400.0  # more is better
    notes = section_of("importance", replace(toy, values=collapsed)).notes
    assert notes[-1].startswith("2 rows are far worse than the rest and have ")
    without = toy.values.copy()
    without[[4, 30], column] = np.nan
    rest = importance(replace(toy, values=without).response(name), seed=0)
    for hyperparameter, share in zip(rest.singles["first"], rest.singles["share"], strict=True):
        assert f"{hyperparameter} {share:.0%}" in notes[-1]
    assert not any("far worse" in note for note in section_of("importance", toy).notes)


def test_a_lead_that_the_trees_do_not_support_is_called_so(toy):
    noise = np.random.default_rng(2).normal(size=toy.values.shape)
    holey = replace(toy, configs=toy.configs[1:], values=noise[1:])
    method, whole, *_ = section_of("importance", holey).notes
    assert "35 of the 36 configurations" in method
    assert "the shares below may not hold for the table" in method
    assert "a lead smaller than the spread between the trees" in whole


def test_tables_without_a_common_configuration(toy):
    elsewhere = replace(
        toy,
        name="elsewhere",
        hyperparameters=tuple(replace(h, name=f"other_{h.name}") for h in toy.hyperparameters),
    )
    sections = analyze_tables([toy, elsewhere], kinds=["correlation"])
    assert [s.title for s in sections] == [f"Rank correlation: {table.name}" for table in (toy, elsewhere)]
    problems = [s.problem for s in sections]
    assert len(problems) == 2
    assert all("shares no configuration with the others" in p for p in problems)
    shifted = tuple(
        replace(h, values=tuple(v + 0.5 for v in h.values)) if h.name == "layers" else h
        for h in toy.hyperparameters
    )
    apart = replace(toy, name="apart", hyperparameters=shifted, configs=toy.configs + np.array([0.5, 0, 0]))
    section = section_of("correlation", toy, apart)
    notes = section.notes
    assert notes[0].startswith("No configuration is common to the 2 tables")
    assert notes[-1] == "toy and apart have no configuration in common."
    figure = section_figures(section)[0].draw()
    assert "none" in [text.get_text() for text in figure.axes[0].texts]


def test_tables_that_only_pairs_of_have_something_in_common(toy):
    def part(name, rows):
        return replace(toy, name=name, configs=toy.configs[rows], values=toy.values[rows])

    rows = np.arange(36)
    section = section_of(
        "correlation", part("a", rows < 24), part("b", rows >= 12), part("c", (rows < 12) | (rows >= 24))
    )
    assert section.notes[0].startswith("No configuration is common to the 3 tables")
    assert section.notes[1].startswith("Most alike: a and b, 1.000")
    assert section.shown["n_common"].tolist() == [12, 12, 12]


def test_nothing_is_said_of_grids_that_have_few_rows():
    rng = np.random.default_rng(0)
    configs = rng.random((40, 3))
    axes = tuple(Hyperparameter(f"h{j}", tuple(np.sort(configs[:, j]).tolist())) for j in range(3))
    loss = ((configs - 0.5) ** 2).sum(axis=1)
    table = Table("random", axes, (Metric("loss", "min"),), configs, loss[:, None], ("loss",))
    section = section_of("sensitivity", table)
    assert section.notes[-1].startswith("Only 0.1% of the grid's points have a row")
    assert not any("smallest grid" in note for note in section.notes)
    assert section.shown is None


def test_a_best_part_without_variance_leaves_the_whole_space(toy):
    values = toy.values.copy()
    values[:, 0] = np.minimum(values[:, 0], np.median(values[:, 0]))
    section = section_of("importance", replace(toy, values=values))
    assert not section.problem
    assert section.notes[-1].endswith("same in all of the best 25%: no variance can be explained.")
    assert section.shown.columns.tolist() == ["explained by", "whole (%)"]


def test_replicates_that_say_nothing_are_left_out(toy, again):
    with pytest.raises(InputError, match=r"unknown column 'bleu'.*of the replicates"):
        toy.with_replicates(again(toy, [1]).drop(columns="bleu"))
    assert not any(s.kind == "noise" for s in analyze_tables([toy.with_replicates(again(toy, []))]))


def test_options_that_make_sense_for_no_table(toy):
    for options, message in (
        ({"metric": "blue"}, "Did you mean 'bleu'"),
        ({"objectives": ("bleu", "second")}, "Did you mean 'seconds'"),
        ({"best_share": 0.0}, "above 0 and up to 1, not 0"),
        ({"tolerance": -1.0}, "0 or more, not -1"),
    ):
        with pytest.raises(InputError, match=message):
            analyze_tables([toy], **options)
    with pytest.raises(InputError, match="no table"):
        analyze_tables([])
    with pytest.raises(InputError, match="same table twice"):
        analyze_tables([toy, toy])
    assert (
        "does not have two objectives"
        in only(analyze_tables([toy], objectives=("bleu", "bleu")), "front").problem
    )


def test_other_metrics(toy):
    sections = analyze_tables([toy], metric="seconds", objectives=("memory", "seconds"))
    assert "importance for seconds" in only(sections, "importance").title
    assert "0.7" not in only(sections, "sensitivity").notes[0]
    assert only(sections, "front").title == "toy: memory and seconds"
    reverse = analyze_tables([toy], metric="seconds:max")
    assert sensitivity(toy.response("seconds:max"), toy.tolerance("seconds:max")).by_steps.equals(
        only(reverse, "sensitivity").files["toy-sensitivity-by-steps"]
    )


def test_the_published_tables(nmthpo_home, monkeypatch):
    monkeypatch.setenv("HPOBENCH_NMT_HOME", str(nmthpo_home))
    sections = analyze_tables([load_table(name) for name in COLLECTIONS["nmthpo"].tables])
    notes = only(sections, "correlation").notes
    assert notes[0].startswith("28 configurations are common to the 6 tables")
    assert notes[1] == "Taken as equal: bpe_symbols of 30000 and 32000."
    assert notes[2].startswith("Most alike: ja-en and en-ja, 0.964")
    assert notes[3].startswith("Least alike: ja-en and so-en, 0.084")
    assert not any(s.problem for s in sections)
