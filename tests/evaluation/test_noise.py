"""Seed noise: by hand, by brute force, and on simulated trainings whose noise is known."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau

from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.evaluation import noise
from hpobench_nmt.evaluation.noise import (
    _agreement,
    _Group,
    _kendall,
    _pairs_within,
    _seeds,
    _without_shared_seeds,
    pooled_noise,
    seed_noise,
)
from hpobench_nmt.lookup.table import Table


def line_table(values, direction="max"):
    axis = Hyperparameter("width", tuple(float(w) for w in range(1, len(values) + 1)))
    metric = Metric("score", direction)
    return Table(
        "line",
        (axis,),
        (metric,),
        np.array(axis.values)[:, None],
        np.array(values, float)[:, None],
        ("score",),
    )


def replicates(lines):
    return pd.DataFrame(
        [
            (width, r + 1, 100 * width + r, value)
            for width, values in lines.items()
            for r, value in enumerate(values)
        ],
        columns=["width", "replicate", "seed", "score"],
    )


def test_the_pooled_spread_by_hand():
    # Squares about the means: 2 (of 1, 2, 3) and 8 (of 10, 14); degrees of freedom 2 + 1.
    found = pooled_noise([np.array([1.0, 2, 3]), np.array([10.0, 14]), np.array([7.0])])
    assert found.df == 3
    assert found.sd == pytest.approx((10 / 3) ** 0.5)
    # Student's 97.5% quantile for 3 degrees of freedom is 3.182446.
    assert found.smallest_difference == pytest.approx(3.182446 * 2**0.5 * found.sd, rel=1e-6)
    # Chi-squared quantiles for 3 degrees of freedom: 0.215795 and 9.348404.
    assert found.low == pytest.approx((10 / 9.348404) ** 0.5, rel=1e-5)
    assert found.high == pytest.approx((10 / 0.215795) ** 0.5, rel=1e-5)


@pytest.mark.parametrize(("groups", "size"), [(5, 6), (3, 2)])
def test_simulated_noise_is_measured_and_differences_are_believed_at_the_right_rate(groups, size):
    rng = np.random.default_rng(7)
    sd, rounds = 0.4, 2000
    covered = believed = 0
    estimates = []
    for _ in range(rounds):
        means = rng.normal(scale=5, size=groups)
        noise = pooled_noise([m + rng.normal(scale=sd, size=size) for m in means])
        estimates.append(noise.sd**2)
        covered += noise.low <= sd <= noise.high
        # Two more trainings that are equally good: noise alone must pass for a difference in 5% of cases.
        believed += abs(np.diff(rng.normal(scale=sd, size=2))[0]) > noise.smallest_difference
    assert np.mean(estimates) == pytest.approx(sd**2, rel=0.06)
    assert 0.935 <= covered / rounds <= 0.965
    assert 0.035 <= believed / rounds <= 0.065


def test_a_table_and_its_replicates():
    table = line_table([10, 20, 30, 30.5])
    again = replicates({1: [10.5, 9.5], 3: [29, 31, 33], 4: [28.0]})
    found = seed_noise(table.response(), again)
    # Best of the table first, and the table's own row is one of the trainings.
    assert found.configurations["row"].tolist() == [3, 2, 0]
    assert found.configurations["n"].tolist() == [2, 4, 3]
    assert found.configurations["mean"].tolist() == pytest.approx([29.25, 30.75, 10])
    assert found.configurations["range"].tolist() == [2.5, 4.0, 1.0]
    assert found.configurations["sd"].tolist() == pytest.approx(
        [np.std(v, ddof=1) for v in ([30.5, 28], [30, 29, 31, 33], [10, 10.5, 9.5])]
    )
    assert found.pooled == pooled_noise(
        [np.array(v, float) for v in ([30.5, 28], [30, 29, 31, 33], [10, 10.5, 9.5])]
    )
    # The best row was lucky: its replicate is 2.5 worse.
    assert found.configurations["luck"].iloc[0] == pytest.approx(2.5 / found.pooled.sd)
    assert found.configurations["luck"].iloc[1] == pytest.approx(-1 / found.pooled.sd)
    # Row 3 is above row 2 in the table; its replicate is below all three of row 2's.
    pairs = found.agreement.set_index(["row", "other_row"])["probability"]
    assert pairs.to_dict() == {(3, 2): 0.0, (3, 0): 1.0, (2, 0): 1.0}
    assert found.order_holds == pytest.approx(2 / 3)
    # Round 1 has all three configurations, round 2 two of them, round 3 only one.
    first = kendalltau([30.5, 30, 10], [28, 29, 10.5]).statistic
    assert found.kendall == pytest.approx((first + 1) / 2)
    assert found.trainings["source"].value_counts().to_dict() == {"replicate": 6, "table": 3}


@pytest.mark.parametrize("direction", ["min", "max"])
def test_pairs_and_rows_that_noise_may_swap(direction):
    rng = np.random.default_rng(3)
    values = np.round(rng.normal(scale=2, size=40), 1)
    table = line_table(values, direction)
    again = replicates({w: values[w - 1] + rng.normal(scale=0.3, size=3) for w in (3, 9, 20)})
    found = seed_noise(table.response(), again)
    limit = found.pooled.smallest_difference
    naive = [abs(a - b) <= limit for a, b in combinations(values.tolist(), 2)]
    assert found.pairs_within == pytest.approx(np.mean(naive))
    best = values.max() if direction == "max" else values.min()
    assert found.rows_within == (np.abs(values - best) <= limit).sum()
    assert found.n_rows == 40
    assert found.ranked["value"].tolist() == sorted(values.tolist(), reverse=direction == "max")
    assert found.ranked["gap"].tolist() == np.abs(found.ranked["value"] - best).tolist()
    assert values[found.ranked["row"]].tolist() == found.ranked["value"].tolist()


def test_what_a_shared_seed_does_to_all_alike_is_no_noise():
    rng = np.random.default_rng(11)
    means, models = rng.normal(scale=3, size=6), rng.normal(scale=50, size=4)
    lines = [
        (c + 1, r + 1, 7 + r, means[c] + model + rng.normal(scale=0.1))
        for c in range(6)
        for r, model in enumerate(models)
        if (c, r) != (2, 3)  # one is missing, so that means of means would be wrong
    ]
    again = pd.DataFrame(lines, columns=["width", "replicate", "seed", "score"])
    table = line_table(means + rng.normal(scale=0.1, size=6))
    found = seed_noise(table.response(), again)
    assert found.shared_seeds == 4
    # 29 trainings, 6 means and 4 seeds.
    assert found.pooled.df == 19
    assert 0.06 < found.pooled.sd < 0.16
    # Spreads are without the models' effects, means as measured.
    assert (found.configurations["sd"] < 0.3).all()
    by_row = found.configurations.set_index("row")["mean"]
    for row, measured in again.groupby("width")["score"]:
        assert by_row[row - 1] == pytest.approx(np.append(measured, table.values[int(row) - 1]).mean())
    # An independent least-squares fit.
    own = pd.DataFrame({"width": range(1, 7), "seed": 0, "score": table.values[:, 0]})
    every = pd.concat([again, own])
    design = pd.get_dummies(every[["width", "seed"]].astype(str)).to_numpy(float)
    _, squares, rank, _ = np.linalg.lstsq(
        np.delete(design, -1, axis=1), every["score"].to_numpy(), rcond=None
    )
    assert rank == 10
    assert found.pooled.sd == pytest.approx(float(squares[0] / 19) ** 0.5)
    # With seeds of their own, the same trainings are far noisier.
    apart = seed_noise(table.response(), again.assign(seed=range(len(again))))
    assert apart.shared_seeds == 0
    assert apart.pooled.sd > 10
    assert apart.order_holds < 0.8 < 0.9 < found.order_holds
    assert seed_noise(table.response(), again.drop(columns="seed")).pooled == apart.pooled


def test_the_luck_of_chosen_rows_is_no_effect_of_the_seeds_that_they_share():
    rng = np.random.default_rng(3)
    table = line_table(rng.normal(30, 1.0, 300))
    best = np.argsort(-table.values[:, 0])[:3]
    # Equally good configurations, trained again with the same three seeds, which do nothing.
    lines = [(row + 1.0, r + 1, r, rng.normal(30, 1.0)) for row in best for r in range(3)]
    again = pd.DataFrame(lines, columns=["width", "replicate", "seed", "score"])
    found = seed_noise(table.response(), again)
    assert found.shared_seeds == 3
    of_best = again.loc[again["width"] == best[0] + 1, "score"].tolist()
    own = float(table.values[best[0], 0])
    first = found.configurations.iloc[0]
    assert first["mean"] == pytest.approx(np.mean([own, *of_best]))
    # In units of the spread of single trainings, seeds and all.
    groups = [np.append(part, table.values[int(w) - 1, 0]) for w, part in again.groupby("width")["score"]]
    assert first["luck"] == pytest.approx((own - np.mean(of_best)) / pooled_noise(groups).sd)
    assert (found.configurations["luck"] > 1).all()
    values = found.trainings.query("source == 'replicate' and configuration == 0")["value"]
    assert values.tolist() == of_best
    # The spread does not count that luck: 12 trainings less 3 means and 3 seeds.
    assert found.pooled.df == 6
    assert found.pooled.low < 1.0 < found.pooled.high


def test_the_order_of_means_is_not_confirmed_by_the_trainings_that_made_it():
    rng = np.random.default_rng(5)
    values = rng.normal(30, 1.0, (20, 3))
    table = line_table(values.mean(axis=1))
    again = replicates({row + 1: line for row, line in enumerate(values.tolist())})
    found = seed_noise(table.response(), again, averaged=True)
    # All configurations are equally good, yet single trainings take after the means that they are part of.
    assert seed_noise(table.response(), again).order_holds > 0.6
    assert np.isnan(found.order_holds)
    assert np.isnan(found.kendall)
    assert len(found.agreement) == 0
    assert found.between_rows == pytest.approx(found.pooled.smallest_difference / 3**0.5)
    assert found.configurations["mean"].tolist() == pytest.approx(found.configurations["in_table"].tolist())


def test_lower_is_better():
    found = seed_noise(
        line_table([3, 1, 2], "min").response(), replicates({1: [3, 3.1], 2: [1.2, 1.1], 3: [2, 2.2]})
    )
    assert found.configurations["row"].tolist() == [1, 2, 0]
    assert found.configurations["luck"].iloc[0] > 0
    assert found.kendall == 1.0
    assert found.order_holds == 1.0


def test_ties_between_replicates_count_half():
    found = seed_noise(line_table([1, 2]).response(), replicates({1: [5, 6], 2: [5, 6]}))
    assert found.agreement["probability"].tolist() == [0.5]


def test_the_tables_own_trainings_are_not_counted_twice():
    again = replicates({1: [10.5, 9.5]})
    own = pd.DataFrame({"width": [1.0], "replicate": [0], "seed": [1], "score": [10.0]})
    table = line_table([10, 20])
    assert (
        seed_noise(table.response(), pd.concat([again, own])).pooled
        == seed_noise(table.response(), again).pooled
    )


def test_configurations_without_a_row_still_tell_of_the_spread():
    # Their own training failed, or has no such metric.
    table = line_table([10, np.nan])
    found = seed_noise(table.response(), replicates({1: [10.5, 9.5], 2: [4, 5, 6], 9: [1, 2]}))
    assert found.configurations["row"].tolist() == [0, 1, -1]
    assert found.configurations["n"].tolist() == [3, 3, 2]
    assert found.pooled.df == 5
    assert found.n_rows == 1
    assert found.ranked.to_dict("list") == {"row": [0], "value": [10.0], "gap": [0.0]}
    assert len(found.agreement) == 0
    assert np.isnan(found.kendall)
    assert np.isnan(found.order_holds)


def test_noise_of_zero():
    found = seed_noise(line_table([1, 2, 2]).response(), replicates({1: [1, 1], 2: [2, 2]}))
    assert found.pooled.sd == 0
    assert found.pooled.smallest_difference == 0
    assert found.rows_within == 2
    assert found.pairs_within == pytest.approx(1 / 3)
    assert found.configurations["luck"].isna().all()


def test_bad_input(toy):
    table = line_table([1, 2])
    with pytest.raises(InputError, match="no configuration was trained twice"):
        seed_noise(table.response(), replicates({}))
    with pytest.raises(InputError, match="no configuration was trained twice"):
        seed_noise(table.response(), replicates({9: [1.0]}))
    with pytest.raises(InputError, match=r"unknown column 'width'.*replicates of 'line'"):
        seed_noise(table.response(), replicates({1: [1, 2]}).rename(columns={"width": "wide"}))
    with pytest.raises(InputError, match="unknown column 'score'"):
        seed_noise(table.response(), replicates({1: [1, 2]}).drop(columns="score"))
    with pytest.raises(InputError, match="unknown metric"):
        seed_noise(table.response("bleu"), replicates({1: [1, 2]}))
    one = replace(toy, configs=toy.configs[:1], values=toy.values[:1])
    frame = pd.concat([one.to_frame()] * 3)
    assert seed_noise(one.response("seconds"), frame).pooled.sd == 0


def test_pairs_that_differ_by_no_more_than_a_limit():
    values = np.array([0.0, 1.0, 3.0])
    assert [_pairs_within(values, limit) for limit in (0.5, 1.0, 2.0, 3.0)] == [0, 1 / 3, 2 / 3, 1]
    assert _pairs_within(np.array([2.0, 2.0]), 0.0) == 1.0
    assert np.isnan(_pairs_within(np.array([2.0]), 1.0))
    assert np.isnan(_pairs_within(np.array([]), 1.0))


def group(row, own, *values):
    return _Group(row, (float(row),), own, np.array(values) + 100.0, np.array(values, dtype=float), False)


def test_kendall_over_the_rounds_that_have_an_order():
    rising = [group(0, 1.0, 5, 1, 7), group(1, 2.0, 6, 1), group(2, 3.0, 4, 1)]
    # Round 1 is 5 6 4 against 1 2 3: of three pairs one agrees. Round 2 is constant, round 3 has one value.
    assert _kendall(rising) == pytest.approx(-1 / 3)
    assert _kendall([*rising, group(3, np.nan, 9)]) == pytest.approx(-1 / 3)
    assert np.isnan(_kendall([group(0, 2.0, 5), group(1, 2.0, 6)]))  # the table has no order
    assert np.isnan(_kendall([group(0, 2.0, 5, 6)]))
    assert np.isnan(_kendall([]))


def test_agreement_of_single_replicates_by_hand():
    groups = [group(4, 9.0, 3, 1), group(7, 5.0, 2, 1), group(1, 5.0, 0), group(2, np.nan, 8)]
    found = _agreement(groups)
    assert list(found.columns) == ["row", "other_row", "difference", "probability"]
    # 3 and 1 against 2 and 1: two of four pairs as in the table, one tie, one the other way round.
    assert found.to_numpy().tolist() == [[4, 7, 4.0, 0.625], [4, 1, 4.0, 1.0]]
    assert _agreement(groups[::-1])["probability"].tolist() == [1.0, 0.625]


def test_seeds_that_are_no_numbers_are_not_known():
    frame = pd.DataFrame({"seed": ["7", None, "first", 8]})
    np.testing.assert_array_equal(_seeds(frame), [7.0, np.nan, np.nan, 8.0])
    np.testing.assert_array_equal(_seeds(frame[[]]), [np.nan] * 4)


def test_a_shared_seed_is_taken_out_by_hand():
    # Seed 1 adds 4 to what both configurations had in the table, seed 2 is used once and adds 1.
    one, other = (1.0,), (2.0,)
    values, shared, lost = _without_shared_seeds(
        [one, other, one], np.array([14.0, 24.0, 11.0]), [1.0, 1.0, 2.0], {one: 10.0, other: 20.0}
    )
    # Least squares of 14, 11, 10 and of 24, 20: the effect e minimises what is left about both means.
    grid = np.linspace(3, 5, 200_001)
    left = (
        sum(
            (np.array([14 - grid, np.full_like(grid, 11), np.full_like(grid, 10)]) - m) ** 2
            for m in [(35 - grid) / 3]
        ).sum(axis=0)
        + ((24 - grid - 20) ** 2) / 2
    )
    effect = grid[left.argmin()]
    assert values == pytest.approx([14 - effect, 24 - effect, 11.0], abs=1e-4)
    assert (shared, lost) == (1, 1)
    unshared = _without_shared_seeds([one, other], np.array([1.0, 2.0]), [1.0, 2.0], {one: 0.0, other: 0.0})
    assert (unshared[0].tolist(), *unshared[1:]) == ([1.0, 2.0], 0, 0)


def test_too_few_trainings_are_refused_in_words():
    with pytest.raises(InputError, match=r"^no configuration was trained twice"):
        pooled_noise([np.array([1.0]), np.array([2.0])])
    with pytest.raises(InputError, match=r"^the trainings share too many seeds"):
        pooled_noise([np.array([1.0, 2.0])], effects=1)
    assert pooled_noise([np.array([1.0, 2.0, 4.0])], effects=1).df == 1


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_chosen_configurations_go_from_the_best_to_the_median_one(sign):
    chosen = noise._some({(float(i),): sign * i for i in range(101)}, sign)
    values = [sign * value for value in chosen.values()]
    assert values == sorted(values)
    assert (len(values), values[0], values[-1]) == (50, 0, 50)


@pytest.mark.parametrize(("direction", "rows"), [("max", [8, 6, 4]), ("min", [0, 2, 4])])
def test_of_many_configurations_some_are_looked_at(direction, rows, monkeypatch):
    monkeypatch.setattr(noise, "_MOST_CONFIGURATIONS", 3)
    again = replicates({width: (width + 0.5, width + 0.25) for width in range(1, 10)})
    found = seed_noise(line_table(range(1, 10), direction).response("score"), again)
    assert found.configurations["row"].tolist() == rows
    assert found.configurations["n"].tolist() == [3, 3, 3]  # with the own training of the table


def test_hyperparameters_named_as_a_column_of_the_noise_get_another_name():
    axes = (Hyperparameter("mean", (1.0, 2.0)), Hyperparameter("cell", ("a", "b"), kind="categorical"))
    codes = np.array([[1.0, 0.0], [2.0, 1.0]])
    table = Table("t", axes, (Metric("score", "max"),), codes, np.array([[5.0], [6.0]]), ("score",))
    lines = {"mean": [1.0, 1.0, 2.0], "cell": ["a", "a", "b"], "score": [3.0, 4.0, 6.5]}
    found = seed_noise(table.response("score"), pd.DataFrame(lines)).configurations
    assert len(set(found.columns)) == len(found.columns)
    assert found["mean"].tolist() == [6.25, 4.0]
    assert found.iloc[:, 1].tolist() == [2.0, 1.0] and found.iloc[:, 2].tolist() == ["b", "a"]
