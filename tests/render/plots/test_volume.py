from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import hpobench_nmt as hb
from hpobench_nmt.analysis.found_volume import found_volume
from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.render.plots.volume import plot_volume

AT = 12
METHODS = ["RS", "NSGA2"]


@pytest.fixture
def results(toy):
    tables = [dataclasses.replace(toy, name=f"t{i}", values=np.roll(toy.values, i, axis=0)) for i in range(2)]
    return benchmark(tables, METHODS, trials=40, objectives=["bleu", "seconds"], scores=["fbh"], score_at=AT)


def test_the_share_is_the_score_fbh(results):
    found = found_volume(results, dict.fromkeys(results.instances, float(AT)))
    shares = found.methods.set_index("method")["share"]
    for method in METHODS:
        own = [results.summary(table, method)[0].mean for table in results.instances]
        assert shares[method] == pytest.approx(np.mean(own))  # each table is a family
    assert list(found.methods["share"]) == sorted(shares, reverse=True)


def test_random_search_is_exact_and_within_the_interval_of_its_trials(results):
    found = found_volume(results, dict.fromkeys(results.instances, float(AT)))
    own = found.methods.set_index("method").loc["RS"]
    assert found.exact
    assert own["low"] <= own["share"] <= own["high"]
    assert found.random_search == pytest.approx(own["share"], abs=2 * (own["high"] - own["low"]))
    assert found.random_search != own["share"]


def test_it_is_drawn_best_on_top_with_random_search_as_a_line(results):
    found = found_volume(results, dict.fromkeys(results.instances, float(AT)))
    (axes,) = plot_volume(found).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == list(found.methods["method"])[::-1]
    assert list(axes.lines[0].get_xdata()) == [found.random_search] * 2
    assert hb.plot(results, "volume").axes[0].get_xlabel() == axes.get_xlabel()
    near = found.methods.assign(share=0.99, low=0.95, high=1.0)
    (axes,) = plot_volume(dataclasses.replace(found, methods=near)).axes
    assert max(axes.get_xticks()) <= 1 + 1e-9 < axes.get_xlim()[1]  # no share is above 100%


def test_a_method_whose_trials_ended_before_is_named(toy):
    results = benchmark(toy, METHODS, trials=5, objectives=["bleu", "seconds"], scores=["fto"], score_at=AT)
    found = found_volume(results, {"toy": 30.0})
    assert set(found.methods["method"]) < set(METHODS)
    assert "Without a value, because a trial failed or ended before: " in found.notes[0]


def test_one_objective_has_no_hypervolume(toy):
    results = benchmark(toy, METHODS[:1], trials=3, scores=["ftb"])
    with pytest.raises(InputError, match="two or more objectives"):
        hb.plot(results, "volume")


def test_a_report_of_a_clock_of_costs_begins_with_it(curved, tmp_path):
    results = benchmark(
        curved,
        ["RS", "MOASHA"],
        trials=4,
        objectives=["bleu", "seconds"],
        scores=["fbh"],
        curves=True,
        score_at=10,
    )
    (page,) = (path.read_text() for path in hb.report(results, tmp_path / "report.html"))
    assert page.index('id="h-headline"') < page.index("-volume") < page.index('class="scores"')
