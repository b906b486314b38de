"""Sensitivity against naive counts, and grid searches against all of them."""

from dataclasses import replace
from itertools import combinations, permutations, product
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.evaluation.random_search import none_drawn
from hpobench_nmt.evaluation.sensitivity import (
    coarse_grids,
    grid_steps,
    random_order,
    sensitivity,
    share_within,
)
from hpobench_nmt.lookup.catalogue import load_table
from hpobench_nmt.lookup.table import Table


def grid_table(shape, values, rows=None, direction="min"):
    axes = tuple(
        Hyperparameter(f"h{j}", tuple(1.001**v if k > 50 else float(2**v) for v in range(k)), "log")
        for j, k in enumerate(shape)
    )
    configs = np.array(list(product(*[h.values for h in axes])))
    keep = np.ones(len(configs), dtype=bool) if rows is None else rows
    metrics = (Metric("loss", direction, tolerance=1.0),)
    return Table("grid", axes, metrics, configs[keep], np.asarray(values, float)[keep][:, None], ("loss",))


def of(table, objective=None, tolerance=None):
    near_enough = table.tolerance(objective or table.main_metric) if tolerance is None else tolerance
    return sensitivity(table.response(objective), near_enough)


def grids_of(table, counts, seed=0):
    return coarse_grids(table.hyperparameters, table.configs, counts, seed=seed)


@st.composite
def tables(draw):
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3).filter(lambda s: np.prod(s) >= 3))
    n = int(np.prod(shape))
    values = draw(st.lists(st.integers(0, 6), min_size=n, max_size=n).filter(lambda v: len(set(v)) > 1))
    rows = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    rows[[int(np.argmin(values)), int(np.argmax(values))]] = True
    return grid_table(shape, values, rows)


def steps_between(table, a, b):
    """Moves between neighbouring values, one by one."""
    moves = 0
    for h, x, y in zip(table.hyperparameters, table.configs[a], table.configs[b], strict=True):
        at, to = h.values.index(x), h.values.index(y)
        while at != to:
            at += 1 if to > at else -1
            moves += 1
    return moves


@settings(deadline=None)
@given(tables())
def test_counts_by_distance_from_the_best(table):
    loss = table.column("loss")
    best = [r for r in range(len(table)) if loss[r] == loss.min()]
    steps = [min(steps_between(table, r, b) for b in best) for r in range(len(table))]
    found = of(table)
    assert found.tolerance == 1.0
    assert found.steps.tolist() == steps
    assert found.gaps.tolist() == (loss - loss.min()).tolist()
    assert found.by_steps["rows"].sum() == len(table)
    for line in found.by_steps.itertuples():
        ring = [loss[r] - loss.min() for r in range(len(table)) if steps[r] == line.steps]
        assert (line.rows, line.within) == (len(ring), sum(g <= 1 for g in ring))
        assert line.share == pytest.approx(line.within / line.rows)
        assert line.median_gap == np.median(ring)
    near = [loss[r] - loss.min() <= 1 for r in range(len(table)) if steps[r] in (1, 2)]
    far = [loss[r] - loss.min() <= 1 for r in range(len(table)) if steps[r] > 2]
    assert (found.n_near, found.n_far) == (len(near), len(far))
    for share, counts in ((found.near, near), (found.far, far)):
        assert (np.isnan(share) and not counts) or share == pytest.approx(np.mean(counts))


@settings(deadline=None)
@given(tables(), st.integers(0, 3))
def test_coarse_grids_against_all_of_them(table, tolerance):
    loss = table.column("loss")
    counts = loss - loss.min() <= tolerance
    axes = [h.values for h in table.hyperparameters]
    found = grids_of(table, counts)
    assert found["values"].tolist() == list(range(1, max(map(len, axes)) + 1))
    for line in found.itertuples():
        successes, sizes = [], []
        for choice in product(*[combinations(axis, min(line.values, len(axis))) for axis in axes]):
            on_grid = [
                r
                for r, c in enumerate(table.configs)
                if all(v in tried for v, tried in zip(c, choice, strict=True))
            ]
            successes.append(any(counts[r] for r in on_grid))
            sizes.append(len(on_grid))
        assert line.choices == len(successes)
        assert line.success == pytest.approx(np.mean(successes))
        assert line.trials == pytest.approx(np.mean(sizes))
        assert line.exact


def test_too_many_grids_are_sampled():
    table = grid_table((9, 9, 9), np.arange(729.0))
    counts = np.zeros(729, dtype=bool)
    counts[300] = True
    found = grids_of(table, counts).set_index("values")
    assert found.loc[4, "choices"] == comb(9, 4) ** 3
    assert found["exact"].tolist() == [True] + [False] * 6 + [True, True]
    for g in range(1, 10):
        assert found.loc[g, "success"] == pytest.approx((g / 9) ** 3, abs=0.025)
    assert found.equals(grids_of(table, counts).set_index("values"))
    assert not found.equals(grids_of(table, counts, seed=1).set_index("values"))


def test_random_choices_among_many_values_are_all_as_likely():
    table = grid_table((60, 2), np.arange(120.0))
    for row in (0, 60, 118):
        counts = np.zeros(120, dtype=bool)
        counts[row] = True
        found = grids_of(table, counts).set_index("values")
        assert found.loc[[4, 9, 60], "success"].tolist() == pytest.approx([4 / 60, 9 / 60, 1], abs=0.02)
        assert found["exact"].tolist() == [True, True] + [False] * 7 + [True]
    counts = np.arange(18) == 4
    assert grids_of(grid_table((18,), range(18)), counts)["success"][8] == pytest.approx(9 / 18, abs=0.03)


def test_many_rows_that_count_are_all_looked_for():
    # More of them than are looked for at once.
    table = grid_table((3000,), np.arange(3000.0))
    counts = np.arange(3000) % 2 == 0
    found = grids_of(table, counts).set_index("values")
    assert found.loc[1, "success"] == pytest.approx(1500 / 3000)
    assert found.index.tolist() == [*range(1, 10), 3000]


@pytest.mark.parametrize(("n_rows", "n_targets"), [(6, 1), (6, 2), (7, 4), (3, 3)])
def test_a_search_in_random_order(n_rows, n_targets):
    trials = np.array(
        [1 + min(order.index(t) for t in range(n_targets)) for order in permutations(range(n_rows))]
    )
    mean, median, most = random_order(n_rows, n_targets)
    assert mean == pytest.approx(trials.mean())
    assert np.mean(trials <= median) >= 0.5 > np.mean(trials < median)
    assert np.mean(trials <= most) >= 0.95 > np.mean(trials < most)
    chance = 1 - none_drawn(n_rows, n_targets)
    assert chance == pytest.approx([np.mean(trials <= t) for t in range(n_rows + 1)])


def test_random_orders_of_many_rows_are_quick():
    mean, median, most = random_order(300_000, 3)
    assert mean == 300_001 / 4
    # A share x of many rows holds none of three with chance (1 - x)^3.
    assert median / 300_000 == pytest.approx(1 - 0.5 ** (1 / 3), abs=1e-4)
    assert most / 300_000 == pytest.approx(1 - 0.05 ** (1 / 3), abs=1e-4)


def test_how_far_one_hyperparameter_can_be_moved_alone():
    # Best at (4, 2); along h0 rows 2 and 4 count, 1 does not, and 8 does not although 16 would.
    loss = np.full((5, 2), 9.0)
    loss[:, 1] = [5, 0.5, 0, 3, 1]
    found = of(grid_table((5, 2), loss.ravel()))
    reach = found.reach.set_index("hyperparameter")
    assert reach.loc["h0"].tolist() == [4.0, 2.0, 4.0, 0.4]
    assert reach.loc["h1"].tolist() == [2.0, 2.0, 2.0, 0.5]
    assert found.interval_trials == 3 * 2  # one value in every 2/5, and in every half
    assert of(grid_table((49,), [0, *[5] * 48])).interval_trials == 49
    holey = grid_table((5, 2), loss.ravel(), rows=np.arange(10) != 3)  # the row (2, 2)
    assert of(holey).reach["lowest"].tolist() == [4.0, 2.0]


def test_a_fine_grid_has_neighbours_too():
    table = grid_table((41,), np.abs(np.arange(41.0) - 20))
    steps = grid_steps(table.hyperparameters, table.configs, np.array([20]))
    assert steps[[20, 19, 21, 15, 14, 0, 40]].tolist() == [0, 1, 1, 1, 2, 4, 4]


def test_distances_to_many_rows_by_tree():
    table = grid_table((9, 7, 5, 3), np.zeros(945))
    rows = np.random.default_rng(0).permutation(945)
    one_by_one = np.min(
        [grid_steps(table.hyperparameters, table.configs, rows[i : i + 1]) for i in range(40)], axis=0
    )
    np.testing.assert_array_equal(grid_steps(table.hyperparameters, table.configs, rows[:40]), one_by_one)
    # With a fine hyperparameter a step is not a difference in rank.
    fine = grid_table((41, 2), np.zeros(82))
    steps = grid_steps(fine.hyperparameters, fine.configs, np.arange(0, 40, 2))
    assert steps[[0, 38, 39, 48, 49, 80, 81]].tolist() == [0, 0, 1, 1, 2, 5, 6]


def test_share_within():
    gaps = np.array([0.0, 0.5, 2.0, np.nan])
    assert share_within(gaps, np.array([0.0, 0.5, 1.9, 2.0])).tolist() == pytest.approx(
        [1 / 3, 2 / 3, 2 / 3, 1]
    )


def test_the_tolerance():
    table = grid_table((4,), [0, 10, 20, 30])
    assert of(table).tolerance == 1.0
    untold = replace(table, metrics=(Metric("loss", "min"),))
    assert of(untold).tolerance == untold.tolerance("loss") == 0.75
    tied = replace(untold, values=np.array([[0.0], [0], [0], [30]]))
    assert of(tied).tolerance == 1.5
    assert of(table, tolerance=20).by_steps["within"].sum() == 3
    # On paper 14.66 - 14.16 is 0.5.
    close = replace(table, values=np.array([[14.66], [14.16], [13], [12]]))
    assert of(close, "loss:max", 0.5).by_steps["within"].sum() == 2


def test_rows_that_are_sparse_on_their_grid():
    assert of(grid_table((4, 3), range(12))).coverage == 1.0
    rows = np.arange(12) % 3 == 0
    assert of(grid_table((4, 3), range(12), rows)).coverage == pytest.approx(4 / 12)


def test_missing_values_are_left_out_but_cost_a_search_like_others(toy):
    values = toy.values.copy()
    values[::7, 0] = np.nan
    found = of(replace(toy, values=values))
    assert found.by_steps["rows"].sum() == 30
    assert found.random_trials[0] == pytest.approx(37 / (found.by_steps["within"].sum() + 1))


def test_one_hyperparameter_and_two_rows():
    found = of(grid_table((2,), [1, 5]))
    assert found.by_steps[["steps", "rows", "within"]].to_numpy().tolist() == [[0, 1, 1], [1, 1, 0]]
    assert found.grids["success"].tolist() == [0.5, 1.0]
    assert np.isnan(found.far)


def test_bad_input(toy):
    constant = replace(toy, values=np.full_like(toy.values, 3.0))
    with pytest.raises(InputError, match="'bleu' is the same in every row"):
        of(constant)
    missing = replace(toy, values=np.full_like(toy.values, np.nan))
    with pytest.raises(InputError, match="'bleu' is missing in every row"):
        of(missing)
    with pytest.raises(InputError, match="tolerance must be 0 or more, not -1"):
        of(toy, tolerance=-1)
    with pytest.raises(InputError, match="no row is within"):
        random_order(5, 0)


def test_the_published_tables(nmthpo_home, monkeypatch):
    monkeypatch.setenv("HPOBENCH_NMT_HOME", str(nmthpo_home))
    # Table 3's random search: 192 look-ups on average to 0.5 BLEU on sw-en.
    assert of(load_table("sw-en")).random_trials[0] == 192


def test_the_frames_have_their_columns():
    found = of(grid_table((4, 3), range(12)))
    assert list(found.reach.columns) == ["hyperparameter", "best", "lowest", "highest", "share"]
    assert list(found.by_steps.columns) == ["steps", "rows", "within", "share", "median_gap"]
    assert list(found.grids.columns) == ["values", "trials", "choices", "success", "exact"]
    assert (found.table, found.objective) == ("grid", "loss:min")


def conditional():
    """Momentum is active for sgd only, beta for adam only; the best row is one of adam's."""
    rate = Hyperparameter("rate", (1.0, 2.0, 3.0))
    optimizer = Hyperparameter("optimizer", ("sgd", "adam"), kind="categorical")
    momentum = Hyperparameter("momentum", (0.5, 0.9), active_if=(("optimizer", ("sgd",)),))
    beta = Hyperparameter("beta", (0.1, 0.2, 0.3), active_if=(("optimizer", ("adam",)),))
    nan = np.nan
    configs = [(r, 0, m, nan) for r in rate.values for m in momentum.values]
    configs += [(r, 1, nan, b) for r in rate.values for b in beta.values]
    loss = {(2, 0, 0.9): 0.5, (2, 1, 0.1): 0.0, (2, 1, 0.2): 1.0, (3, 1, 0.1): 0.9}
    values = [loss.get((c[0], c[1], c[2] if c[1] == 0 else c[3]), 5.0) for c in configs]
    axes = (rate, optimizer, momentum, beta)
    return Table("grid", axes, (Metric("loss", "min", tolerance=1.0),), np.array(configs),
                 np.array(values)[:, None], ("loss",))  # fmt: skip


def test_what_is_inactive_in_the_best_row_cannot_be_changed():
    found = of(conditional())
    reach = found.reach.set_index("hyperparameter")
    assert reach.loc["rate"].tolist() == [2.0, 2.0, 3.0, 2 / 3]
    # With sgd, beta is gone and momentum comes: one of its values counts.
    assert reach.loc["optimizer"].tolist() == ["adam", "sgd or adam", "sgd or adam", 1.0]
    assert reach.loc["momentum"].tolist() == ["inactive", "", "", 1.0]
    assert reach.loc["beta"].tolist() == [0.1, 0.1, 0.2, 2 / 3]
    assert found.interval_trials == 2 * 1 * 1 * 2
    assert found.coverage == 1.0


def test_an_inactive_value_does_not_keep_a_row_from_a_grid():
    table = conditional()
    counts = table.column("loss") <= 1.0
    found = grids_of(table, counts)
    for line in found.itertuples():
        successes, sizes = [], []
        sets = [combinations(h.numbers, min(line.values, len(h.values))) for h in table.hyperparameters]
        for choice in product(*sets):
            on_grid = [
                all(np.isnan(v) or v in tried for v, tried in zip(c, choice, strict=True))
                for c in table.configs
            ]
            successes.append((counts & on_grid).any())
            sizes.append(sum(on_grid))
        assert line.success == pytest.approx(np.mean(successes))
        assert line.trials == pytest.approx(np.mean(sizes))
    some = np.arange(15) != 2  # momentum 0.5 at rate 2: three points of the grid's 36
    assert of(
        replace(table, configs=table.configs[some], values=table.values[some])
    ).coverage == pytest.approx(33 / 36)


@pytest.mark.parametrize("n", [3, 6, 7, 10, 49])
def test_whole_numbers_of_trials_come_out_whole(n):
    # One row in each column of n x n: sums of 1/n, that are short of 1 or beyond it, would not do.
    axes = (Hyperparameter("x", tuple(range(n))), Hyperparameter("y", tuple(range(n))))
    configs = np.column_stack([np.repeat(np.arange(float(n)), n), np.tile(np.arange(float(n)), n)])
    trials = coarse_grids(axes, configs, configs[:, 0] == 0)["trials"].tolist()
    assert trials[:3] == [1.0, 4.0, 9.0]


def test_more_grids_than_floats_can_count():
    axes = tuple(Hyperparameter(f"x{i}", tuple(range(60))) for i in range(70))
    configs = np.repeat(np.arange(60.0)[:, None], 70, axis=1)
    grids = coarse_grids(axes, configs, configs[:, 0] == 0).set_index("values")
    assert grids["choices"][1] == pytest.approx(60.0**70)
    assert grids["choices"][9] == np.inf
    assert grids["trials"][1] == pytest.approx(60.0**-69)
    assert grids["trials"][60] == 60
