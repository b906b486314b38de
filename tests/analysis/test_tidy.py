"""Results of other programs, as a tidy frame or CSV file."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import hpobench_nmt as hb
from hpobench_nmt.analysis.tidy import paired_with_baseline
from hpobench_nmt.core.system.errors import InputError

COLUMNS = ["method", "task", "family", "trial", "budget", "value"]
# Best values by budget 1, 2, 3, 4 of three trials: the baseline's median after 2 is 5.
BASELINE = [[9, 7, 5, 1], [8, 5, 2, 6], [4, 4, 4, 4]]
OURS = [[5, 9, 9, 9], [6, None, 6, 5], [6, 6, 6, 6]]


def frame_of(methods, task="t", family="f"):
    rows = [
        (name, task, family, trial, k + 1, value)
        for name, trials in methods.items()
        for trial, values in enumerate(trials)
        for k, value in enumerate(values)
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


FRAME = frame_of({"ours": OURS, "random": BASELINE})


def test_the_target_is_the_median_of_the_baseline_after_half_of_the_budget():
    paired = paired_with_baseline(FRAME, ["ours", "random"])
    assert paired.runtimes["t"].tolist() == [[1, 4, 4], [3, 2, 1]]
    t, g = np.array([1, 4, 4]), np.array([3, 2, 1])
    bias = (g.var(ddof=1) / g.mean() ** 2 - t.var(ddof=1) / t.mean() ** 2) / 6
    found = hb.compare(FRAME, methods=["ours", "random"])
    assert found.here.ratio == pytest.approx(np.exp(np.log(g.mean() / t.mean()) + bias))
    assert found.here.best_possible > 1 and np.isnan(found.others.ratio)
    assert "Of 3 trials, ours reached it in 1 before the end, and random in 3." in str(found)


def test_only_the_order_of_values_and_budgets_matters():
    """One runtime is past the end, and rows come in any order."""
    shuffled = FRAME.sample(frac=1, random_state=0)
    changed = shuffled.assign(budget=shuffled["budget"] * 60.0, value=np.exp(shuffled["value"].astype(float)))
    longer = pd.concat([changed, pd.DataFrame([("ours", "t", "f", 2, 300.0, 0.0)], columns=COLUMNS)])
    expected = hb.compare(FRAME, methods=["ours", "random"])
    for frame in (shuffled, changed, longer):
        found = hb.compare(frame, methods=["ours", "random"])
        assert found.here.ratio == pytest.approx(expected.here.ratio)
        assert found.here.p == pytest.approx(expected.here.p)


def test_families_have_the_same_weight(tmp_path):
    frames = [
        frame_of({"ours": OURS, "random": BASELINE}, task, family)
        for task, family in (("t", "f"), ("u", "f"), ("v", "g"))
    ]
    three = pd.concat(frames)
    three.loc[(three["task"] == "v") & (three["method"] == "ours"), "value"] = 0.0
    figure = paired_with_baseline(three, ["ours", "random"]).figure("ours", "random")
    assert figure.logs[0, 0] == figure.logs[1, 0] != figure.logs[2, 0]
    found = hb.compare(three, methods=["ours", "random"])
    assert np.log(found.here.ratio) == pytest.approx((figure.logs[0, 0] + figure.logs[2, 0]) / 2)
    assert found.families == 2 and "over 3 tasks of 2 families" in found.sentence
    three.to_csv(tmp_path / "theirs.csv", index=False)
    assert hb.compare(tmp_path / "theirs.csv", methods=["ours", "random"]).lines == found.lines
    power = hb.power(str(tmp_path / "theirs.csv"), "ours", "random", families=8)
    assert (np.diff(power["power"]) >= 0).all()


def test_there_is_no_verdict_on_other_families_even_for_names_that_are_known():
    tasks = [frame_of({"BO_EI_M": OURS, "RS": BASELINE}, f"t{k}", f"f{k}") for k in range(6)]
    found = hb.compare(pd.concat(tasks), methods=["BO_EI_M", "RS"])
    assert np.isnan(found.others.p) and "On other families: no verdict" in str(found)


def test_the_same_run_many_times_is_not_tested():
    copies = frame_of({"ours": [[9, 3, 3, 3]] * 3, "random": BASELINE})
    assert "no test" in str(hb.compare(copies, methods=["ours", "random"]))


@pytest.mark.parametrize(
    ("changed", "methods", "message"),
    [
        ({}, [], "name a method and then the baseline, of ours, random"),
        ({}, ["our", "random"], "unknown method 'our'. Did you mean 'ours'"),
        ({"trial": FRAME["trial"] + (FRAME["method"] == "ours")}, ["ours", "random"], r"ours lacks .*\(0\)"),
        ({"family": FRAME["trial"].astype(str)}, ["ours", "random"], "task t: is in two families, 0, 1, 2"),
        ({"budget": FRAME["budget"] - 1}, ["ours", "random"], "row 0: needs a method, a task"),
        ({"task": None}, ["ours", "random"], "row 0: needs a method, a task"),
        ({"budget": "much"}, ["ours", "random"], "'budget' is 'much', not a number"),
        ({"value": None}, ["ours", "random"], "random has no value after half of the budget, 2"),
    ],
)
def test_frames_that_cannot_be_compared_are_refused(changed, methods, message):
    with pytest.raises(InputError, match=message):
        hb.compare(FRAME.assign(**changed), methods=methods)


def test_a_trial_that_ended_early_without_the_target_is_refused_by_name():
    early = FRAME[~((FRAME["method"] == "ours") & (FRAME["trial"] == 2) & (FRAME["budget"] > 3))]
    with pytest.raises(InputError, match="task t, trial 2 of ours: ended at 3 of 4 without the target"):
        hb.compare(early, methods=["ours", "random"])
    up_to_there = paired_with_baseline(early[early["budget"] <= 3], ["ours", "random"])
    assert up_to_there.runtimes["t"].tolist() == [[1, 1, 1], [2, 1, 1]]  # the target is 8, after 1 of 3


def test_other_sources_are_refused():
    with pytest.raises(InputError, match=r"has no column family\. It needs method, task, family"):
        hb.compare(FRAME.drop(columns="family"), methods=["ours", "random"])
    with pytest.raises(InputError, match="into one data frame or CSV file"):
        hb.compare(FRAME, FRAME, methods=["ours", "random"])
    with pytest.raises(InputError, match="no such file"):
        hb.compare("nowhere.csv", methods=["ours", "random"])
