"""Figures and captions of runs on a clock."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

from hpobench_nmt.analysis.captions import curves_finding, distribution_finding, expected_finding
from hpobench_nmt.analysis.run_curves import hypervolume_curves, regret_curves, surrogate_curves, time_in
from hpobench_nmt.analysis.run_workers import worker_rows, worker_times, workers_finding
from hpobench_nmt.analysis.runtimes import expected_runtime_frame, runtime_distribution, target_runtimes
from hpobench_nmt.analysis.selection import EXACT, clock_milestones, typical_time
from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.benchmarking.task.scoring import exact_score
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.render.figures import run_figures
from hpobench_nmt.render.plots.style import method_styles
from hpobench_nmt.render.plots.workers import plot_workers
from hpobench_nmt.render.subject import Subject


@pytest.fixture
def halved(curved):
    """ASHA and random search with 3 workers on the curves."""
    return benchmark(
        curved, ["ASHA", "RS"], trials=6, clock="cost", curves=True, n_initial=0, workers=3, scores=("ftb",)
    )


def test_regret_over_time(halved):
    found = regret_curves(halved, "toy", [5.0, 20.0])
    assert found.unit == "s"
    assert EXACT not in set(found.frame["method"])
    best = halved.instances["toy"].losses.min()
    for method in halved.methods:
        curve = found.frame[found.frame["method"] == method].set_index("lookups")
        for time in (5.0, 20.0):
            at_time = [
                t.losses[t.timing.finishes <= time, 0].min(initial=np.inf) - best
                for t in halved.trials["toy", method]
            ]
            mean = np.mean(at_time)
            # Of some trials only there is no mean.
            assert curve.loc[time, "mean"] == pytest.approx(mean if mean < np.inf else np.nan, nan_ok=True)
            assert curve.loc[time, "trials"] == np.isfinite(at_time).sum()
        assert np.isnan(curve["mean"].iloc[0])
        assert curve["mean"].iloc[-1] == 0.0
        np.testing.assert_allclose(curve["best_value"], -(best + curve["mean"]))
    assert curves_finding(found, 20.0).startswith("Mean simple regret in bleu (BLEU) after 20 s: ")


def test_with_workers_on_look_ups_random_search_has_its_exact_curve(toy):
    results = benchmark(toy, ["RS"], trials=600, workers=4, scores=("ftb",))
    frame = regret_curves(results, "toy").frame
    ours, exact = (frame[frame["method"] == m].set_index("lookups")["mean"] for m in ("RS", EXACT))
    np.testing.assert_allclose(ours.loc[1:5], exact.loc[1:5], rtol=0.15)
    shares = runtime_distribution(target_runtimes(results)).frame
    ours, exact = (shares[shares["method"] == m]["share"].to_numpy() for m in ("RS", EXACT))
    assert np.abs(ours - exact).max() < 0.04


def test_runtimes_and_their_exact_means_on_the_cost_clock(curved):
    results = benchmark(curved, ["RS"], trials=600, clock="cost", scores=("ftb",))
    found = target_runtimes(results)
    frame = expected_runtime_frame(found).set_index(["method", "target"])["ert"]
    for target in found.targets["toy"]:
        mean, _ = exact_score(results.instances["toy"], target)
        assert frame[EXACT, target.name] == mean
        assert frame["RS", target.name] == pytest.approx(mean, rel=0.12)
    shares = runtime_distribution(found, per_row=True, also=[0.1])
    assert (shares.unit, shares.per_row) == ("time / time to train all rows", True)
    assert EXACT not in set(shares.frame["method"])
    assert "after 10% of the time that all rows take" in distribution_finding(shares, 0.1)
    assert expected_finding(expected_runtime_frame(found), "s").startswith(
        "Expected time in s to the hardest"
    )
    units = ("look-ups", "look-ups per worker", "s")
    assert [time_in(unit) for unit in units] == ["look-ups", "look-ups per worker", "time in s"]
    with pytest.raises(InputError, match="error curves of surrogates are not available"):
        surrogate_curves(results, "toy")


def test_hypervolume_over_time(curved):
    results = benchmark(
        curved,
        ["RS"],
        trials=5,
        clock="cost",
        cost="seconds",
        workers=2,
        scores=("fta",),
        objectives=("bleu", "seconds"),
    )
    frame = hypervolume_curves(results, "toy").frame
    assert frame["mean"].iloc[-1] == 1.0
    assert (np.diff(frame["mean"]) >= 0).all()


def test_times_that_are_worth_a_column(halved, toy):
    times = clock_milestones(halved, "toy")
    assert set(times) <= {d * 10.0**p for d in (1, 2, 5) for p in range(-5, 4)}
    longest = max(t.timing.finishes[-1] for trials in halved.trials.values() for t in trials)
    assert longest / 2.5 <= times[-1] <= longest
    costs = halved.instances["toy"].trainings.costs[halved.instances["toy"].trainings.starts[1:] - 1]
    assert typical_time(halved.instances["toy"], 20) == pytest.approx(costs.mean() * 20 / 3, rel=0.2)
    assert clock_milestones(benchmark(toy, ["RS"], trials=1), "toy") == ()


def test_what_the_workers_do(halved, toy):
    found = worker_times(halved, "toy", "ASHA", trial=2)
    trial = halved.trials["toy", "ASHA"][2]
    numbers = halved.instances["toy"].numbers
    frame = found.frame
    assert frame["row"].tolist() == trial.rows.tolist() == numbers[trial.candidates].tolist()
    assert frame["again"].sum() == len(trial.rows) - len(set(trial.rows.tolist()))
    assert frame["value"].max() == -halved.instances["toy"].losses.min()
    assert frame["best"].to_numpy()[frame["value"].argmax()]
    assert (frame["value"][frame["best"]].diff().dropna() > 0).all()
    assert sum(int(line[1]) for line in worker_rows(found)) == len(frame)
    busy = (frame["finish"] - frame["start"]).sum() / (3 * found.end)
    assert f"busy for {busy:.0%} of" in workers_finding(found)
    lengths = [t.timing.finishes[-1] for t in halved.trials["toy", "ASHA"]]
    assert lengths[worker_times(halved, "toy", "ASHA").trial] == sorted(lengths)[2]
    axes = plot_workers(found).axes[0]
    bars = [(bar.get_x(), bar.get_width(), round(bar.get_y() + bar.get_height() / 2)) for bar in axes.patches]
    expected = zip(frame["start"], frame["finish"] - frame["start"], frame["worker"], strict=True)
    assert bars == list(expected)
    for what, message in (
        ({"method": "RSS"}, "unknown method"),
        ({"method": "RS", "trial": 6}, "trials 0 to 5"),
    ):
        with pytest.raises(InputError, match=message):
            worker_times(halved, "toy", **what)
    with pytest.raises(InputError, match="do not have a clock"):
        worker_times(benchmark(toy, ["RS"], trials=1), "toy", "RS")
    failed = [dataclasses.replace(t, failure="x") for t in halved.trials["toy", "RS"]]
    with pytest.raises(InputError, match="every trial failed, or ended before a training had"):
        worker_times(dataclasses.replace(halved, trials={("toy", "RS"): failed}), "toy", "RS")


@pytest.mark.parametrize("workers", [1, 2, 4, 8])
def test_the_legend_and_the_scale_of_workers_are_whole(curved, workers):
    results = benchmark(curved, ["ASHA"], trials=1, workers=workers, clock="cost", curves=True,
                           scores=("ftb",), constraints=["memory<=1500"], stop="exhausted")  # fmt: skip
    figure = plot_workers(worker_times(results, "toy", "ASHA"))
    figure.canvas.draw()
    (legend,), (axes, bar) = figure.legends, figure.axes
    assert [text.get_text() for text in legend.get_texts()] == [
        "the trial's best so far",
        "resumes a row",
        "failed, or misses memory<=1500",
    ]
    for part in (legend, bar.yaxis.label, axes.title, axes.xaxis.label):
        box = part.get_window_extent()
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1
    assert legend.get_window_extent().y1 < axes.xaxis.label.get_window_extent().y0


def test_the_figures_of_a_report_speak_of_time(halved):
    specs = run_figures(Subject(halved, "toy", method_styles(["ASHA", "RS", EXACT])), "s-toy")
    assert [spec.stem for spec in specs if spec.draw and not spec.files_only] == [
        "s-toy-curves",
        "s-toy-runtimes",
        "s-toy-expected",
        "s-toy-workers",
    ]
    for spec in specs:
        assert spec.problem == ""
        assert not re.search("look-?up", f"{spec.finding} {spec.head}"), spec.stem
        spec.draw()
