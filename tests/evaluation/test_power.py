from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.evaluation.power import Components, components, families_needed, power, power_at

TRUE = Components(np.array(0.30), np.array(0.25), np.array(0.115 * 20**0.5))


def study(rng, sizes, trials, log=0.2, truth=TRUE):
    """log r of one comparison, their squared standard errors, and the families of the tables."""
    family = np.repeat(np.arange(len(sizes)), sizes)
    variances = truth.trial**2 / trials
    logs = log + rng.normal(0, truth.families, len(sizes))[family] + rng.normal(0, truth.tables, len(family))
    return logs + rng.normal(0, variances**0.5), variances, [f"family {i}" for i in family]


def test_the_sizes_of_studies_of_known_components():
    """A ratio of 1.3 needs 15, 17 or 21 families of four tables, two or one; a ratio of 2 always five."""
    needed = [families_needed(1.3, float(TRUE.family_sd(tables, 20))) for tables in (4, 2, 1)]
    assert needed == [15, 17, 21]
    assert [families_needed(2, float(TRUE.family_sd(tables, 20))) for tables in (4, 2, 1)] == [5, 5, 5]
    assert power(1.3, 16, TRUE.family_sd(2, 10)) == pytest.approx(0.76, abs=0.005)
    assert families_needed(1.0001, 0.4) == math.inf
    assert power(3, 16, 1e-9) == 1.0


@pytest.mark.parametrize("ratio", [1 / 1.5, 1.0, 1.3, 2.0])
def test_power_is_the_share_of_significant_t_tests(ratio):
    rng = np.random.default_rng(0)
    means = rng.normal(math.log(ratio), 0.4, (40_000, 6))
    shown = stats.ttest_1samp(means, 0.0, axis=1).pvalue < 0.05
    assert power(ratio, 6, np.array(0.4)) == pytest.approx(shown.mean(), abs=0.01)


def test_balanced_components_by_the_analysis_of_variance():
    logs = np.array([1.0, 3.0, 0.0, 6.0, 8.0, 9.0])
    between, within = 2 * np.var([2, 3, 8.5], ddof=1), (2 + 18 + 0.5) / 3
    found = components(logs, np.full(6, 0.25), np.full(6, 16), ["a", "a", "b", "b", "c", "c"])
    assert found.tables**2 == pytest.approx(within - 0.25)
    assert found.families**2 == pytest.approx((between - within) / 2)
    assert found.trial == pytest.approx(2.0)


def test_components_of_families_of_different_sizes_are_found_again():
    """Squares of 400 large studies; trials differ between tables."""
    rng = np.random.default_rng(1)
    sizes = np.tile([1, 2, 5], 20)
    trials = np.resize([5.0, 20.0, 100.0, 12.0], sizes.sum())
    found = [components(*place_trials(study(rng, sizes, trials), trials)) for _ in range(400)]
    assert np.mean([c.families**2 for c in found]) == pytest.approx(0.09, rel=0.04)
    assert np.mean([c.tables**2 for c in found]) == pytest.approx(0.0625, rel=0.04)
    assert found[0].trial == pytest.approx(TRUE.trial)


def place_trials(made, trials):
    logs, variances, families = made
    return logs, variances, trials, families


def test_the_ranges_cover_the_true_power():
    """In about nine of ten studies, whose estimates scatter from .56 to .96 around a true power of .76."""
    rng = np.random.default_rng(2)
    trials, true = np.full(32, 10.0), float(power(1.3, 16, TRUE.family_sd(2, 10)))
    inside = []
    for seed in range(400):
        made = place_trials(study(rng, [2] * 16, trials), trials)
        found = power_at(1.3, 16, 2, 10, components(*made), components(*made, draws=1000, seed=seed))
        assert (found.ratio, found.low < found.power < found.high) == (1.3, True)
        assert found.fewest <= found.needed <= found.most
        inside.append(found.low <= true <= found.high)
    assert 0.86 < np.mean(inside) < 0.95


def test_tables_without_a_value_are_left_out():
    logs, variances, families = study(np.random.default_rng(3), [2, 3, 2], np.full(7, 10.0))
    whole = components(logs[1:], variances[1:], np.full(6, 10.0), families[1:])
    logs[0] = variances[0] = np.nan
    found = components(logs, variances, np.full(7, 10.0), families)
    assert (found.families, found.tables, found.trial) == (whole.families, whole.tables, whole.trial)


def test_one_table_in_each_family():
    """The components between families and tables cannot be told apart, so both are between families."""
    logs, variances, trials = np.array([0.1, 0.9, 0.4]), np.full(3, 0.04), np.full(3, 25.0)
    found = components(logs, variances, trials, ["a", "b", "c"])
    assert found.tables == 0.0
    assert found.families**2 == pytest.approx(np.var(logs, ddof=1) - 0.04)
    assert found.family_sd(1, 25) == pytest.approx(np.std(logs, ddof=1))
    assert (components(logs, variances, trials, ["a", "b", "c"], draws=50).tables == 0.0).all()


def test_too_few_results():
    with pytest.raises(InputError, match="two or more families, not 1"):
        components(np.ones(2), np.ones(2), np.ones(2), ["a", "a"])
    with pytest.raises(InputError, match="two or more trials"):
        components(np.ones(2), np.array([0.1, np.nan]), np.ones(2), ["a", "b"])
