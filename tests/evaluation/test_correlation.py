"""Rank correlation between tables, against scipy, hand-made tables and the paper's figure."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.space import Hyperparameter
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.evaluation.correlation import rank_correlation, spearman, spearman_interval
from hpobench_nmt.lookup.catalogue import load_table
from hpobench_nmt.lookup.collections import COLLECTIONS
from hpobench_nmt.lookup.table import Table


def table(name, configs, values, direction="max", axes=("bpe_symbols", "layers")):
    configs = np.array(configs, dtype=float)
    hyperparameters = tuple(
        Hyperparameter(axis, tuple(np.unique(configs[:, j]).tolist())) for j, axis in enumerate(axes)
    )
    values = np.array(values, dtype=float)[:, None]
    return Table(name, hyperparameters, (Metric("score", direction),), configs, values, ("score",))


def correlate(tables, metric=None, **options):
    return rank_correlation([t.response(metric) for t in tables], **options)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=3, max_size=30))
def test_the_coefficient_is_scipys(pairs):
    x, y = np.array(pairs, dtype=float).T
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert np.isnan(spearman(x, y))
    else:
        assert spearman(x, y) == pytest.approx(spearmanr(x, y).statistic, abs=1e-12)


def test_a_coefficient_by_hand():
    # Ranks 1 2 3 4 5 against 2 1 4 3 5: 1 - 6 * (1 + 1 + 1 + 1) / (5 * 24) = 0.8
    configs = [(1, layers) for layers in range(1, 6)]
    a = table("a", configs, [10, 20, 30, 40, 50])
    b = table("b", configs, [2, 1, 4, 3, 5])
    found = correlate([a, b])
    assert found.coefficient == pytest.approx(np.array([[1.0, 0.8], [0.8, 1.0]]))
    assert found.n_common.tolist() == [[5, 5], [5, 5]]


def test_rankings_are_best_first_whatever_the_direction():
    configs = [(1, layers) for layers in range(1, 5)]
    bleu = table("a", configs, [1, 2, 3, 4])
    perplexity = table("b", configs, [40, 30, 20, 10], direction="min")
    assert correlate([bleu, perplexity]).coefficient[0, 1] == 1.0


def test_equal_values_and_the_order_of_columns_do_not_matter():
    a = table("a", [(30000, 1), (30000, 2), (30000, 4), (10000, 1)], [1, 2, 3, 9])
    b = table(
        "b", [(4, 32000), (2, 32000), (1, 32000), (8, 32000)], [3, 2, 1, 0], axes=("layers", "bpe_symbols")
    )
    found = correlate([a, b])
    assert found.n_common[0, 1] == 3
    assert found.coefficient[0, 1] == 1.0
    assert found.taken_as_equal == ("bpe_symbols of 30000 and 32000",)
    assert correlate([a, replace(a, name="c")]).taken_as_equal == ()
    assert correlate([a, b], equivalent={}).n_common[0, 1] == 0
    assert correlate([a, b], equivalent={"bpe_symbols": {30000: 32000}}).n_common[0, 1] == 3


def test_values_that_one_table_tells_apart_cannot_be_equal():
    both = table("both", [(30000, 1), (32000, 1), (30000, 2)], [1, 2, 3])
    with pytest.raises(InputError, match="'both': configurations coincide"):
        correlate([both, replace(both, name="other")])


def test_common_to_all_or_to_each_pair():
    a = table("a", [(1, n) for n in (1, 2, 3, 4)], [1, 2, 3, 4])
    b = table("b", [(1, n) for n in (1, 2, 3, 4)], [1, 2, 4, 3])
    c = table("c", [(1, n) for n in (2, 3, 4, 5)], [1, 2, 3, 4])
    every = correlate([a, b, c])
    assert set(every.n_common.ravel()) == {3}
    assert every.coefficient[0, 1] == pytest.approx(0.5)  # ranks 1 2 3 against 1 3 2
    pairs = correlate([a, b, c], common="pair")
    assert pairs.n_common[0].tolist() == [4, 4, 3]
    assert pairs.coefficient[0, 1] == pytest.approx(0.8)
    assert pairs.to_frame()["n_common"].tolist() == [4, 3, 3]


def test_no_common_configuration_is_no_coefficient():
    a = table("a", [(1, 1), (1, 2), (1, 3)], [1, 2, 3])
    b = table("b", [(2, 1), (2, 2), (2, 3)], [1, 2, 3])
    c = table("c", [(1, 1), (1, 2), (1, 3)], [1, 2, 3], axes=("bpe_symbols", "heads"))
    found = correlate([a, b, c], common="pair")
    assert found.n_common.tolist() == [[3, 0, 0], [0, 3, 0], [0, 0, 3]]
    assert np.isnan(found.coefficient[0, 1:]).all()
    assert np.isnan(found.low[0, 1:]).all()


def test_rows_without_the_metric_are_not_common():
    configs = [(1, n) for n in range(1, 6)]
    a = table("a", configs, [1, 2, np.nan, 4, 5])
    b = table("b", configs, [1, np.nan, 3, 4, 5])
    assert correlate([a, b]).n_common.tolist() == [[3, 3], [3, 3]]
    assert correlate([a, b], common="pair").n_common.tolist() == [[4, 3], [3, 4]]


def test_a_constant_metric_has_no_ranking():
    configs = [(1, n) for n in range(1, 6)]
    found = correlate([table("a", configs, [1] * 5), table("b", configs, [1, 2, 3, 4, 5])])
    assert found.n_common[0, 1] == 5
    assert np.isnan(found.coefficient[0, 1])


def test_bad_input():
    a = table("a", [(1, 1), (1, 2), (1, 3)], [1, 2, 3])
    with pytest.raises(InputError, match="at least two"):
        correlate([a])
    with pytest.raises(InputError, match="same table twice"):
        correlate([a, a])
    with pytest.raises(InputError, match="Did you mean 'score'"):
        correlate([a, replace(a, name="b")], "scor")


def test_a_perfect_order_of_few_pairs_proves_little():
    low, high = spearman_interval(1.0, 4)
    assert low < 0 and high == 1.0
    assert spearman_interval(-1.0, 4) == (-1.0, -low)
    assert 0.98 < spearman_interval(1.0, 30)[0] < 1.0
    # Two neighbours of 5 change places.
    r = spearman(np.arange(5.0), np.array([0.0, 1, 2, 4, 3]))
    assert spearman_interval(1.0, 5)[0] == spearman_interval(r, 5)[0]


@pytest.mark.parametrize("rho", [0.5, 0.95])
def test_the_interval_covers(rho):
    # For bivariate normal pairs with correlation rho, Spearman's coefficient is 6 / pi asin(rho / 2).
    rng = np.random.default_rng(1)
    n, rounds = 28, 1500
    truth = 6 / np.pi * np.arcsin(rho / 2)
    x = rng.normal(size=(rounds, n))
    y = rho * x + np.sqrt(1 - rho**2) * rng.normal(size=(rounds, n))
    intervals = [spearman_interval(spearman(a, b), n) for a, b in zip(x, y, strict=True)]
    covered = np.mean([low <= truth <= high for low, high in intervals])
    assert 0.925 <= covered <= 0.965


def test_figure_4_of_the_paper(nmthpo_home, monkeypatch):
    monkeypatch.setenv("HPOBENCH_NMT_HOME", str(nmthpo_home))
    tables = [load_table(name) for name in COLLECTIONS["nmthpo"].tables]
    found = correlate(tables)
    at = {name: i for i, name in enumerate(found.names)}
    assert (found.n_common == 28).all()
    assert round(found.coefficient[at["ja-en"], at["so-en"]], 3) == 0.084
    assert found.coefficient[at["ja-en"], at["en-ja"]] > 0.95
    others = found.coefficient[~np.eye(6, dtype=bool)]
    assert np.sort(others)[-3] < 0.7


def test_each_pair_of_tables_has_its_line_and_its_interval():
    configs = [(1, n) for n in range(6)]
    a = table("a", configs, [1, 2, 3, 4, 5, 6])
    b = table("b", configs, [2, 1, 3, 5, 4, 6])
    found = correlate([a, b])
    low, high = spearman_interval(spearman(a.values[:, 0], b.values[:, 0]), 6)
    frame = found.to_frame()
    assert list(frame.columns) == ["table", "other", "n_common", "spearman", "low", "high"]
    assert frame.to_numpy().tolist() == [["a", "b", 6, found.coefficient[0, 1], low, high]]
    assert low < found.coefficient[0, 1] < high
    assert (found.low[0, 0], found.high[0, 0]) == (1.0, 1.0)


def test_two_values_that_are_all_there_is_are_taken_as_equal_too():
    a = table("a", [(30000,)], [1], axes=("bpe_symbols",))
    b = table("b", [(32000,)], [2], axes=("bpe_symbols",))
    found = correlate([a, b])
    assert found.taken_as_equal == ("bpe_symbols of 30000 and 32000",)
    assert found.n_common[0, 1] == 1
