"""Every figure of results with one call, and what cannot be drawn."""

import dataclasses
import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import hpobench_nmt as hb
from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.render import figures
from hpobench_nmt.render.figures import PLOTS, TABLE_PLOTS, run_figures
from hpobench_nmt.render.plots.style import method_styles, new_panels
from hpobench_nmt.render.subject import Subject


@pytest.fixture
def single(two):
    return benchmark(two, ["RS", "BO_EI_M_std", "GB_EIF_M"], trials=6)


@pytest.fixture
def multi(toy):
    three = ["bleu", "seconds", "memory"]
    return benchmark(toy, ["RS", "NSGA2"], objectives=three, scores=["fta", "fbh"], trials=6)


def test_every_kind_is_drawn_and_described(toy, single, multi):
    timed = benchmark(toy, ["RS"], trials=3, workers=2, scores=["ftb"])
    subjects = [Subject(results, table) for results in (single, multi, timed) for table in ("toy", "")]
    for plot in PLOTS:
        # Of what the report has the figure.
        fits = [(plot.of_table if each.table else plot.over_tables, each) for each in subjects]
        results = next(each.results for has, each in fits if has and has(each))
        figure = hb.plot(results, plot.kind)
        assert any(axes.has_data() or axes.texts for axes in figure.axes)
        if plot.one_panel:
            figure, (left, right) = new_panels(2, (8, 4))
            assert hb.plot(results, plot.kind, ax=right) is figure
            assert right.has_data()
            assert not left.has_data()
        assert f'- "{plot.kind}": {plot.about[:40]}' in (inspect.getdoc(hb.plot) or "")


def test_a_notebook_shows_a_figure_without_a_word_of_magic(single):
    figure = hb.plot(single)
    picture, size = figure._repr_png_()  # what Jupyter asks any object for
    width, height = np.frombuffer(picture[16:24], dtype=">u4").tolist()  # the header of a PNG
    assert picture.startswith(b"\x89PNG\r\n")
    assert (size["width"], size["height"]) == (width // 2, height // 2)
    assert figure._repr_html_() is None  # it has no points with texts


def test_the_list_names_every_module_with_a_plot():
    folder = Path(figures.__file__).parent / "plots"
    for name, named, found in (
        ("PLOTS", figures._OF_RUNS, PLOTS),
        ("TABLE_PLOTS", figures._OF_TABLES, TABLE_PLOTS),
    ):
        files = [
            p.stem for p in folder.glob("*.py") if re.search(rf"^{name} = ", p.read_text(), re.MULTILINE)
        ]
        assert sorted(files) == sorted(named)
        assert len({(each.kind, each.stem) for each in found}) == len(found)


def test_what_is_drawn_where_nothing_is_named(single, multi):
    assert "simple regret in bleu" in hb.plot(single).axes[0].get_ylabel()
    assert hb.plot(single, table="other").axes[0].get_title() == "other"
    assert "hypervolume" in hb.plot(multi).axes[0].get_ylabel()
    assert hb.plot(multi, "attained", pair=(1, 2)).axes[0].get_ylabel() == "memory (MB)"
    one = hb.plot(multi, "front", lookups=7).axes[0].get_legend_handles_labels()[1]
    assert [label for label in one if label.startswith("after")] == ["after 7"]
    assert "2 tables" in hb.plot(single, "runtimes", per_row=True).axes[0].get_title()


def test_results_of_a_run_that_is_not_finished(single):
    trials = {key: found for key, found in single.trials.items() if key[0] == "other"}
    part = dataclasses.replace(single, trials=trials)
    assert list(part.instances) == ["toy", "other"]
    assert hb.plot(part).axes[0].get_title() == "other"
    for kind in ("front", "regret", "scores", "wins"):
        with pytest.raises(InputError, match="no method has finished on table 'toy' yet"):
            hb.plot(part, kind, table="toy")


def test_runtimes_are_labelled_with_what_their_own_table_counts(curved, toy):
    whole = benchmark(curved, ["RS"], trials=3, clock="cost", cost="seconds", scores=["ftb"])
    assert hb.plot(whole, "expected").axes[0].get_ylabel() == "expected time in s, with 95% interval"
    clock = dataclasses.replace(whole.instances["toy"].clock, unit="GPU hours")
    other = dataclasses.replace(whole.instances["toy"], clock=clock)
    both = dataclasses.replace(
        whole,
        instances=whole.instances | {"other": other},
        trials=whole.trials | {("other", "RS"): whole.trials["toy", "RS"]},
    )
    assert hb.plot(both, "runtimes", "other").axes[0].get_xlabel() == "time on the clock, in GPU hours"


def test_runtimes_of_trials_that_see_samples(toy):
    results = benchmark(toy, ["RS"], trials=2, scores=["ftb"], sample=0.9)
    for kind in ("expected", "runtimes"):
        assert hb.plot(results, kind).axes
    specs = {spec.stem: spec for spec in run_figures(Subject(results, "toy", method_styles(["RS"])), "x-toy")}
    assert specs["x-toy-expected"].draw is not None and specs["x-toy-curves"].draw is not None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "regrets"}, "unknown kind of figure 'regrets'. Did you mean 'regret'"),
        ({"table": "toi"}, "unknown table 'toi'. Did you mean 'toy'"),
        ({"kind": "front", "methods": "RS"}, "unknown option 'methods'. Did you mean 'method'"),
        ({"kind": "front", "pair": (0, 3)}, "pair must be two different numbers of objectives from 0 to 2"),
        ({"kind": "front", "pair": (1, 1)}, "pair must be two different numbers of objectives"),
        ({"kind": "attained", "lookups": [9]}, r"'attained' is after one number of look-ups, not \[9\]"),
        ({"kind": "front", "method": "NSGA3"}, "Did you mean 'NSGA2'"),
        ({"kind": "wins", "score": "ftb"}, "unknown score 'ftb'"),
        ({"kind": "regret"}, "for one objective; the run has 3"),
        ({"kind": "workers"}, "only for runs on a clock"),
        ({"kind": "scores", "ax": "axes"}, "has several panels"),
    ],
)
def test_what_cannot_be_drawn(multi, arguments, message):
    with pytest.raises(InputError, match=message):
        hb.plot(multi, **arguments)


def test_workers_of_a_run_on_a_clock(toy):
    results = benchmark(toy, ["RS"], trials=3, workers=2, scores=["ftb"])
    assert hb.plot(results, "workers").axes
    two = benchmark(toy, ["RS"], trials=3, workers=2, scores=["fto"])
    with pytest.raises(InputError, match="the results are on a clock"):
        hb.plot(two, "front")
