from __future__ import annotations

import numpy as np
import pytest
from twins.gaussian import (
    matern52_matrix,
    naive_ehvi,
    naive_ei,
    naive_eif,
    naive_graph_ei,
    naive_trial,
    random_table,
    rbf_matrix,
)

from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.methods import BUILT_IN, CONTROLS
from hpobench_nmt.testing import CONFORMANCE_CHECKS

NOISE_SD = 1e-3
# test_partial_training.py has those that train rows part of the way.
# They draw rows by number, and no row of a random table has neighbours: test_neighbourhood.py has grids.
NEIGHBOURS = ("RE", "LS")
# test_quantile_regression.py has CQR with few trees, which is quicker.
DRAWN = ("RS", "TPE", "NSGA2", "TS_M_std", "CTS", *NEIGHBOURS, *CONTROLS)
WHOLE = {name: method for name, method in BUILT_IN.items() if not method.partial and name != "CQR"}


@pytest.mark.parametrize("check", CONFORMANCE_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(
    ("name", "n_objectives"),
    [
        (method.name, n_objectives)
        for method in WHOLE.values()
        for n_objectives in method.objectives
        if n_objectives < 4
    ],
)
def test_conformance(name, n_objectives, check):
    check(BUILT_IN[name].load(), n_objectives)


@pytest.mark.parametrize("name", [name for name, method in WHOLE.items() if 5 in method.objectives])
def test_five_objectives(name):
    features, losses = random_table(1, n_rows=30, n_objectives=5)
    problem = Problem(features, 5, 30, 3)
    rng = np.random.default_rng(0)
    trial = run_trial(problem, Trainings.whole(losses), BUILT_IN[name].load(), rng, [0, 1, 2])
    assert not trial.failure and sorted(trial.rows) == list(range(30))


def test_names_of_the_papers_methods():
    single = {name for name, method in BUILT_IN.items() if 1 in method.objectives}
    multi = {name for name, method in BUILT_IN.items() if 2 in method.objectives}
    in_tables_3_and_4 = {"RS", "BO_EI_M", "BO_EI_R", "GB_EI_M", "GB_EI_R", "GB_EIF_M", "GB_EIF_R"}
    assert single >= in_tables_3_and_4
    assert multi >= {"RS", "BO_M", "BO_R", "GB_M", "GB_R"}
    assert all(name == method.name and method.description for name, method in BUILT_IN.items())


# --- naive twins: everything anew at every step, by dense solves -----------------------------------


def trial(name, features, losses, initial, n_steps):
    problem = Problem(features, losses.shape[1], n_steps, len(initial))
    factory = BUILT_IN[name].load()
    done = run_trial(problem, Trainings.whole(losses), factory, np.random.default_rng(0), initial)
    assert done.failure == ""
    return done.rows.tolist()


SINGLE_TWINS = {
    "BO_EI_M": naive_ei(matern52_matrix),
    "BO_EI_R": naive_ei(rbf_matrix),
    "BO_EI_M_std": naive_ei(matern52_matrix, standardise=True),
    "BO_EI_R_std": naive_ei(rbf_matrix, standardise=True),
}


@pytest.mark.parametrize("name", SINGLE_TWINS)
@pytest.mark.parametrize("seed", range(4))
def test_one_loss_as_its_naive_twin(name, seed):
    features, losses = random_table(seed, n_rows=60, n_objectives=1)
    initial = [int(row) for row in np.random.default_rng(seed).choice(60, 3, replace=False)]
    expected = naive_trial(SINGLE_TWINS[name], features, losses, initial, n_steps=40)
    assert trial(name, features, losses, initial, n_steps=40) == expected


@pytest.mark.parametrize("name", ["BO_EI_M", "BO_EI_M_std"])
def test_failed_trainings_teach_the_model_nothing(name):
    features, losses = random_table(9, n_rows=60, n_objectives=1)
    initial = [0, 20, 40]
    first = trial(name, features, losses, initial, n_steps=10)
    losses[[initial[1], first[3], first[5]]] = np.nan
    expected = naive_trial(SINGLE_TWINS[name], features, losses, initial, n_steps=30)
    assert trial(name, features, losses, initial, n_steps=30) == expected


@pytest.mark.parametrize(("name", "matrix"), [("GB_EIF_M", matern52_matrix), ("GB_EIF_R", rbf_matrix)])
@pytest.mark.parametrize(("seed", "n_rows"), [(0, 50), (1, 50), (2, 160)])
def test_expected_influence_as_its_naive_twin(name, matrix, seed, n_rows):
    features, losses = random_table(seed, n_rows, n_objectives=1)
    n_steps = 40 if n_rows == 50 else 6  # 160 rows tell 20 neighbours from a seventh
    initial = [5, 25, 45]
    expected = naive_trial(naive_eif(matrix), features, losses, initial, n_steps)
    assert trial(name, features, losses, initial, n_steps) == expected


def in_two_parts(features):
    """An axis with two values that are farther apart than any two rows on one side of it."""
    return np.column_stack([0.5 * features, np.arange(len(features)) % 2])


@pytest.mark.parametrize("initial", [[0, 2, 4], [0, 1, 4]], ids=["one part unseen", "both seen"])
def test_expected_influence_on_a_graph_in_two_parts_as_its_naive_twin(initial):
    features, losses = random_table(3, n_rows=80, n_objectives=1)
    features = in_two_parts(features)
    expected = naive_trial(naive_eif(matern52_matrix), features, losses, initial, n_steps=40)
    assert trial("GB_EIF_M", features, losses, initial, n_steps=40) == expected


@pytest.mark.parametrize("name", ["GB_EIF_M", "GB_EIF_R"])
def test_expected_influence_does_not_depend_on_the_units(name):
    features, losses = random_table(4, n_rows=80, n_objectives=1)
    features = in_two_parts(features)
    expected = trial(name, features, losses, [0, 2, 4], n_steps=40)
    assert trial(name, features, 100.0 * losses + 5e3, [0, 2, 4], n_steps=40) == expected


def test_expected_influence_on_rows_whose_training_failed_is_nobodys():
    features, losses = random_table(2, n_rows=50, n_objectives=1)
    losses[np.random.default_rng(0).choice(50, 15, replace=False)] = np.nan
    initial = [int(row) for row in np.flatnonzero(~np.isnan(losses[:, 0]))[:3]]
    expected = naive_trial(naive_eif(matern52_matrix), features, losses, initial, n_steps=50)
    assert trial("GB_EIF_M", features, losses, initial, n_steps=50) == expected


@pytest.mark.parametrize(("name", "matrix"), [("GB_EI_M", matern52_matrix), ("GB_EI_R", rbf_matrix)])
@pytest.mark.parametrize(("n_rows", "n_neighbours"), [(50, 20), (182, 26)])
def test_graph_based_improvement_as_its_naive_twin(name, matrix, n_rows, n_neighbours):
    features, losses = random_table(3, n_rows, n_objectives=1)
    initial = [5, 25, 45]
    expected = naive_trial(naive_graph_ei(matrix, n_neighbours), features, losses, initial, n_steps=40)
    assert trial(name, features, losses, initial, n_steps=40) == expected


MULTI_TWINS = {
    "BO_M": naive_ehvi(matern52_matrix),
    "BO_R": naive_ehvi(rbf_matrix),
    "BO_M_std": naive_ehvi(matern52_matrix, standardise=True),
    "BO_R_std": naive_ehvi(rbf_matrix, standardise=True),
}


@pytest.mark.parametrize("name", MULTI_TWINS)
@pytest.mark.parametrize(
    ("seed", "n_steps"),
    [(0, 14), pytest.param(0, 23, marks=pytest.mark.oracle), pytest.param(1, 23, marks=pytest.mark.oracle)],
)
def test_two_losses_as_their_naive_twin(name, seed, n_steps):
    features, losses = random_table(seed, n_rows=50, n_objectives=2)
    expected = naive_trial(MULTI_TWINS[name], features, losses, [0, 20, 40], n_steps)
    assert trial(name, features, losses, [0, 20, 40], n_steps) == expected


# --- properties ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["BO_EI_M_std", "BO_EI_R_std", "BO_M_std", "BO_R_std"])
def test_standardised_search_does_not_depend_on_the_units(name):
    n_objectives = BUILT_IN[name].objectives[0]
    features, losses = random_table(4, n_rows=60, n_objectives=n_objectives)
    expected = trial(name, features, losses, [0, 1, 2], n_steps=30)
    assert trial(name, features, 1000.0 * losses - 3e5, [0, 1, 2], n_steps=30) == expected
    assert trial(name, features, 0.01 * losses + 2.0, [0, 1, 2], n_steps=30) == expected


@pytest.mark.parametrize(
    "name", ["BO_EI_M_std", "BO_EI_R_std", "BO_M_std", "BO_R_std", "BO_EIpC_M_std", "RGPE_M", "TS_M_std"]
)
@pytest.mark.parametrize("constant", [0.1, -14.66, 1e6 / 3])
def test_standardised_search_among_equal_losses_does_not_depend_on_their_value(name, constant):
    # The mean of three equal numbers may differ from them in its last bit.
    n_objectives = BUILT_IN[name].objectives[0]
    features, losses = random_table(5, n_rows=60, n_objectives=n_objectives)
    expected = trial(name, features, np.zeros_like(losses), [0, 1, 2], n_steps=20)
    assert trial(name, features, np.full_like(losses, constant), [0, 1, 2], n_steps=20) == expected


@pytest.mark.parametrize("name", [name for name in WHOLE if name not in DRAWN])
def test_order_of_rows_does_not_matter(name):
    n_objectives = BUILT_IN[name].objectives[0]
    features, losses = random_table(6, n_rows=70, n_objectives=n_objectives)
    order = np.random.default_rng(0).permutation(70)
    place = np.argsort(order)
    expected = trial(name, features, losses, [3, 33, 63], n_steps=25)
    moved = trial(name, features[order], losses[order], [int(place[row]) for row in (3, 33, 63)], n_steps=25)
    assert order[moved].tolist() == expected


@pytest.mark.parametrize(
    "name", [name for name in WHOLE if name not in ("RS", "CTS", *NEIGHBOURS, *CONTROLS)]
)
def test_model_beats_random_search_on_a_smooth_table(name):
    n_objectives = BUILT_IN[name].objectives[0]
    features = np.random.default_rng(1).uniform(size=(200, 2))
    losses = np.stack([((features - 0.3) ** 2).sum(axis=1), ((features - 0.5) ** 2).sum(axis=1)], axis=1)
    # The 15 rows that are dominated least, by the losses' sum or the only loss.
    good = set(np.argsort(losses[:, :n_objectives].sum(axis=1))[:15].tolist())
    found = []
    for start in range(5):
        initial = [int(row) for row in np.random.default_rng(start).choice(200, 3, replace=False)]
        rows = trial(name, features, losses[:, :n_objectives], initial, n_steps=50)
        found.append(len(good.intersection(rows)))
    # Random search finds a quarter of them: 3.75, with a standard error of 0.65.
    assert np.mean(found) > 6.5, found


@pytest.mark.parametrize("name", [name for name in WHOLE if name not in CONTROLS])
def test_row_is_asked_for_without_any_losses(name):
    n_objectives = BUILT_IN[name].objectives[0]
    problem = Problem(np.random.default_rng(0).uniform(size=(10, 2)), n_objectives, 10, 0)
    firsts = {BUILT_IN[name].load()(problem, np.random.default_rng(seed)).ask() for seed in range(40)}
    assert firsts <= set(range(10))
    assert len(firsts) > 5


def test_random_search_is_a_uniform_permutation():
    problem = Problem(np.zeros((6, 1)), 1, 6, 0)
    counts = np.zeros((6, 6))
    for seed in range(1200):
        method = BUILT_IN["RS"].load()(problem, np.random.default_rng(seed))
        for step in range(6):
            row = method.ask()
            method.tell(row, np.zeros(1))
            counts[step, row] += 1
    assert counts.sum(axis=1).tolist() == [1200] * 6
    # Chi-squared with 5 degrees of freedom, p = 0.001.
    assert (((counts - 200) ** 2 / 200).sum(axis=1) < 20.5).all()
