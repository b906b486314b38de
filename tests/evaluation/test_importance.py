"""Functional ANOVA against brute-force marginals, and forests against averages of their own predictions."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestRegressor

from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.evaluation.importance import importance, leaf_boxes, model_grid, variance_shares
from hpobench_nmt.lookup.catalogue import load_table
from hpobench_nmt.lookup.table import Table


def grid_table(shape, values, name="grid", direction="min"):
    """A table with a row for every point of a grid whose values are 1, 2, 3, …"""
    axes = tuple(Hyperparameter(f"h{j}", tuple(float(v + 1) for v in range(k))) for j, k in enumerate(shape))
    configs = np.array(list(product(*[h.values for h in axes])))
    metrics = (Metric("loss", direction),)
    return Table(name, axes, metrics, configs, np.asarray(values, dtype=float)[:, None], ("loss",))


def brute_shares(points, f, included):
    """Shares by effect, from the definition: loops over points that share the values of an effect."""
    points, f = [p for p, use in zip(points, included, strict=True) if use], f[included]
    total = np.var(f)

    def explained(effect):
        groups = {}
        for point, value in zip(points, f, strict=True):
            groups.setdefault(tuple(point[j] for j in effect), []).append(value)
        return sum(len(g) * (np.mean(g) - f.mean()) ** 2 for g in groups.values()) / len(f) / total

    n = len(points[0])
    shares = {(j,): explained((j,)) for j in range(n)}
    for i, j in combinations(range(n), 2):
        shares[i, j] = max(0.0, explained((i, j)) - shares[i,] - shares[j,])
    return shares


def as_dict(found, names):
    at = {name: j for j, name in enumerate(names)}
    return {
        (at[first],) if second == "" else (at[first], at[second]): share
        for first, second, share in found.effects[["first", "second", "share"]].itertuples(index=False)
    }


grids = st.lists(st.integers(1, 4), min_size=1, max_size=4).flatmap(
    lambda shape: st.tuples(
        st.just(shape),
        st.lists(st.integers(-50, 50), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))),
    )
)


def with_labels(h):
    return Hyperparameter(h.name, tuple(f"{v:g}" for v in h.values), kind="categorical")


@settings(deadline=None)
@given(grids, st.floats(0.05, 1.0))
def test_a_full_grid_is_exact(grid, best_share):
    shape, values = grid
    f = np.array(values, dtype=float)
    threshold = np.sort(f)[int(np.ceil(best_share * len(f))) - 1]
    assume(len(set(values)) > 1)
    table = grid_table(shape, f)
    names = [h.name for h in table.hyperparameters]
    whole = importance(table.response())
    assert whole.method == "exact"
    truth = brute_shares(table.configs.tolist(), f, np.ones(len(f), dtype=bool))
    assert as_dict(whole, names) == pytest.approx(truth, abs=1e-9)
    best = f <= threshold
    if len(set(f[best])) > 1:
        part = importance(table.response(), best_share=best_share)
        assert part.threshold == threshold
        assert part.n_best == best.sum()
        assert as_dict(part, names) == pytest.approx(brute_shares(table.configs.tolist(), f, best), abs=1e-9)
    else:
        with pytest.raises(InputError, match="same in all of the best"):
            importance(table.response(), best_share=best_share)


@settings(deadline=None)
@given(grids)
def test_components_of_every_order_sum_to_the_variance(grid):
    # Singles and pairs are ours; those of three and four hyperparameters are left over, and non-negative.
    shape, values = grid
    assume(len(set(values)) > 1)
    found = importance(grid_table(shape, values).response())
    total = found.effects["share"].sum()
    assert (found.effects["share"] >= 0).all()
    assert total <= 1 + 1e-9
    if len(shape) <= 2:
        assert total == pytest.approx(1.0)


def test_shares_by_hand():
    # f = 3 a + b with a, b in {-1, 1}: variances 9 and 1, no interaction.
    points = np.array(list(product((-1, 1), (-1, 1), (-1, 1))))
    additive = importance(grid_table((2, 2, 2), 3 * points[:, 0] + points[:, 1]).response())
    assert as_dict(additive, ["h0", "h1", "h2"]) == pytest.approx(
        {(0,): 0.9, (1,): 0.1, (2,): 0, (0, 1): 0, (0, 2): 0, (1, 2): 0}
    )
    assert additive.singles["first"].tolist() == ["h0", "h1", "h2"]
    # f = a b: neither says anything alone.
    both = importance(grid_table((2, 2, 2), points[:, 0] * points[:, 1]).response())
    assert both.pairs.iloc[0][["first", "second", "share"]].tolist() == ["h0", "h1", 1.0]
    assert both.singles["share"].tolist() == [0, 0, 0]


def test_large_offsets_do_not_drown_small_effects():
    points = np.array(list(product((-1, 1), (-1, 1))))
    f = 1e9 + 3e-3 * points[:, 0] + 1e-3 * points[:, 1]
    assert importance(grid_table((2, 2), f).response()).singles["share"].tolist() == pytest.approx(
        [0.9, 0.1], abs=1e-3
    )


@settings(deadline=None, max_examples=20)
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(1, 4), min_size=1, max_size=4).filter(lambda s: np.prod(s) >= 6),
    st.floats(0.3, 1.0),
    st.integers(0, 15),
)
def test_a_forests_shares_are_those_of_its_predictions_over_the_grid(seed, shape, best_share, labelled):
    # The oracle asks every tree for its prediction at every grid point, and averages by the definition.
    rng = np.random.default_rng(seed)
    full = grid_table(shape, rng.normal(size=int(np.prod(shape))))
    hyperparameters = [with_labels(h) if labelled & 2**j else h for j, h in enumerate(full.hyperparameters)]
    columns = [h.places(full.configs[:, j]) for j, h in enumerate(full.hyperparameters)]
    codes = [np.array(h.numbers)[c] for h, c in zip(hyperparameters, columns, strict=True)]
    full = replace(full, hyperparameters=tuple(hyperparameters), configs=np.column_stack(codes))
    rows = rng.random(len(full)) < 0.7
    assume(rows.sum() >= 3)
    x, y = full.features[rows], full.values[rows, 0]
    forest = RandomForestRegressor(8, random_state=0).fit(x, y)
    axes = [h.features(np.array(h.numbers)) for h in full.hyperparameters]
    limit = np.quantile(y, best_share)
    for tree in forest.estimators_:
        f = tree.predict(full.features)
        values, boxes, weights = leaf_boxes(tree, axes)
        included = f <= limit
        shares = variance_shares(values, boxes, values <= limit, weights)
        if len(set(f[included].tolist())) < 2:
            assert shares == {}
        else:
            truth = brute_shares(full.configs.tolist(), f, included)
            assert shares == pytest.approx(truth, abs=1e-9)


def test_an_incomplete_grid_is_estimated_by_a_forest(toy):
    exact = importance(toy.response())
    assert (exact.method, exact.n_rows, exact.n_grid) == ("exact", 36, 36)
    rows = np.arange(36) != 7
    holey = replace(toy, configs=toy.configs[rows], values=toy.values[rows])
    estimate = importance(holey.response())
    assert (estimate.method, estimate.n_rows, estimate.n_grid) == ("forest", 35, 36)
    assert estimate.singles["first"].iloc[0] == exact.singles["first"].iloc[0]
    assert estimate.singles["share"].iloc[0] == pytest.approx(exact.singles["share"].iloc[0], abs=0.15)
    assert (estimate.effects["spread"] >= 0).all()
    assert exact.effects["spread"].isna().all()
    assert 0 < estimate.out_of_bag_r2 < 1
    assert np.isnan(exact.out_of_bag_r2)


def test_a_forest_on_nearly_all_rows_is_nearly_exact():
    shape = (4, 3, 3, 2, 2)
    points = np.array(list(product(*[range(k) for k in shape])), dtype=float)
    f = 4 * points[:, 0] + points[:, 1] ** 2 + points[:, 0] * points[:, 2]
    full = grid_table(shape, f)
    rows = np.arange(len(f)) % 29 != 3
    holey = replace(full, configs=full.configs[rows], values=full.values[rows])
    names = [h.name for h in full.hyperparameters]
    exact, estimate = (
        as_dict(importance(full.response()), names),
        as_dict(importance(holey.response()), names),
    )
    assert estimate == pytest.approx(exact, abs=0.03)


def test_a_forest_looks_at_the_best_part_too():
    # The first hyperparameter decides whether a training fails, and nothing among those that did not.
    shape = (3, 4, 4)
    points = np.array(list(product(*[range(k) for k in shape])), dtype=float)
    full = grid_table(shape, 100 * (points[:, 0] == 0) + 3 * points[:, 1] + points[:, 2])
    rows = np.arange(len(full)) % 11 != 5
    holey = replace(full, configs=full.configs[rows], values=full.values[rows])
    whole, best = importance(holey.response()), importance(holey.response(), best_share=0.5)
    assert (whole.method, best.method) == ("forest", "forest")
    assert whole.singles["first"].iloc[0] == "h0"
    assert best.singles["first"].tolist()[:2] == ["h1", "h2"]
    assert best.singles["share"].iloc[0] > 0.7


def test_a_forest_that_only_learned_noise_is_known_by_its_fit(toy):
    noise = np.random.default_rng(0).normal(size=(35, 3))
    found = importance(replace(toy, configs=toy.configs[1:], values=noise).response())
    assert found.out_of_bag_r2 < 0.2


def test_rows_without_the_metric_make_the_grid_incomplete(toy):
    values = toy.values.copy()
    values[4, 0] = np.nan
    found = importance(replace(toy, values=values).response())
    assert (found.method, found.n_rows) == ("forest", 35)


def test_a_value_without_a_row_is_not_part_of_the_grid():
    axes = (Hyperparameter("a", (1.0, 2.0, 3.0)), Hyperparameter("b", (1.0, 2.0)))
    configs = np.array([(1, 1), (1, 2), (3, 1), (3, 2)], dtype=float)
    table = Table("t", axes, (Metric("loss", "min"),), configs, np.array([[1.0], [2], [3], [4]]), ("loss",))
    found = importance(table.response())
    assert (found.method, found.n_grid) == ("exact", 4)
    assert found.singles["share"].tolist() == pytest.approx([0.8, 0.2])


def test_the_best_part_is_the_metrics_best(toy):
    lowest = importance(toy.response("seconds"), best_share=0.25)
    assert lowest.threshold == np.sort(toy.column("seconds"))[8]
    assert lowest.best_values == f"{lowest.threshold:.4g} or less"
    highest = importance(toy.response("bleu"), best_share=0.25)
    assert highest.threshold == np.sort(toy.column("bleu"))[-9]
    assert highest.best_values == f"{highest.threshold:.4g} or more"
    assert highest.n_best == (toy.column("bleu") >= highest.threshold).sum()


def test_the_same_seed_gives_the_same_shares(toy):
    holey = replace(toy, configs=toy.configs[1:], values=toy.values[1:])
    first, again, other = (
        importance(holey.response()),
        importance(holey.response()),
        importance(holey.response(), seed=1),
    )
    assert first.effects.equals(again.effects)
    assert not first.effects["share"].equals(other.effects["share"])


def test_bad_input(toy):
    constant = replace(toy, values=np.full_like(toy.values, 3.0))
    with pytest.raises(InputError, match="'bleu' is the same in every row"):
        importance(constant.response())
    missing = replace(toy, values=np.full_like(toy.values, np.nan))
    with pytest.raises(InputError, match="at least 2 rows that have it, not 0"):
        importance(missing.response())
    few = replace(toy, configs=toy.configs[[0, 5, 17]], values=toy.values[[0, 5, 17]])
    with pytest.raises(InputError, match="3 rows have it; with fewer than 10"):
        importance(few.response())
    for share in (0.0, -0.5, 1.5, float("nan")):
        with pytest.raises(InputError, match="share of the rows"):
            importance(toy.response(), best_share=share)
    with pytest.raises(InputError, match="Did you mean 'bleu'"):
        importance(toy.response("blue"))


def test_figure_5_of_the_paper(nmthpo_home, monkeypatch):
    monkeypatch.setenv("HPOBENCH_NMT_HOME", str(nmthpo_home))
    en_ja, sw_en = load_table("en-ja"), load_table("sw-en")
    whole = importance(en_ja.response())
    assert whole.method == "forest"
    assert whole.singles["first"].iloc[0] == "num_embed"
    assert set(whole.pairs.iloc[0][["first", "second"]]) == {"learning_rate", "num_embed"}
    assert importance(en_ja.response(), best_share=0.25).singles["first"].iloc[0] == "num_embed"
    assert importance(sw_en.response(), best_share=0.25).singles["first"].iloc[0] == "bpe_symbols"


def test_leaves_are_summed_block_by_block(monkeypatch):
    rng = np.random.default_rng(0)
    configs = np.array(list(product(range(3), range(4), range(2))))
    boxes = [configs[:, [j]] == np.arange(k) for j, k in enumerate((3, 4, 2))]
    values, included = rng.normal(size=24), rng.random(24) < 0.8
    whole = variance_shares(values, boxes, included)
    monkeypatch.setattr("hpobench_nmt.evaluation.importance._BLOCK", 5)
    assert variance_shares(values, boxes, included) == pytest.approx(whole, rel=1e-12)


def test_a_model_serves_several_parts(toy):
    holey = replace(toy, configs=toy.configs[1:], values=toy.values[1:]).response()
    model = model_grid(holey, seed=3, trees=8)
    for best_share in (None, 0.5):
        alone = importance(holey, best_share=best_share, seed=3, trees=8)
        shared = importance(holey, best_share=best_share, model=model)
        assert shared.effects.equals(alone.effects)
        assert shared.out_of_bag_r2 == alone.out_of_bag_r2


def test_a_large_table_gets_fewer_trees(monkeypatch):
    holey = grid_table((5, 4, 2), np.random.default_rng(0).normal(size=40))
    response = replace(holey, configs=holey.configs[1:], values=holey.values[1:]).response()
    assert importance(response).trees == 64
    monkeypatch.setattr("hpobench_nmt.evaluation.importance.MOST_TREE_ROWS", 39 * 20)
    assert importance(response).trees == 20
    monkeypatch.setattr("hpobench_nmt.evaluation.importance.MOST_TREE_ROWS", 39)
    assert importance(response).trees == 8
    assert importance(response, trees=3).trees == 3
    assert importance(holey.response()).trees == 0
