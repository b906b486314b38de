"""BO_auto: that it finds what it should, where trainings diverge and where they do not."""

from __future__ import annotations

import numpy as np
import pytest

from hpobench_nmt.core.pareto import pareto_front
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.space import Space
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.methods.auto import AutoBO, bank_of
from hpobench_nmt.methods.gaussian_process import BO_M_std


def bowl(seed, n_rows=800, diverged=None):
    """Squared distances to a point; 5% of the rows, never the best, have diverged."""
    rng = np.random.default_rng(seed)
    features = rng.uniform(size=(n_rows, 4))
    losses = ((features - rng.uniform(0.2, 0.8, size=4)) ** 2).sum(axis=1)
    if diverged is not None:
        bad = rng.random(n_rows) < 0.05
        bad[losses.argmin()] = False
        losses[bad] = diverged(rng, bad.sum())
    return features, losses


def lookups_to_the_best(method, features, losses, seed):
    """The number of look-ups, at most 120."""
    rng = np.random.default_rng(seed)
    asked = method(Problem(features, 1, len(losses), 3), rng)
    rows = [int(row) for row in rng.permutation(len(losses))[:3]]
    for row in rows:
        asked.tell(row, losses[[row]])
    while np.nanargmin(losses) not in rows and len(rows) < 120:
        rows.append(asked.ask())
        asked.tell(rows[-1], losses[[rows[-1]]])
    return len(rows)


DIVERGED = {
    "none": None,
    "20 to 40": lambda rng, n: rng.uniform(20, 40, size=n),
    "1e16": lambda rng, n: np.full(n, 1e16),
    "missing": lambda rng, n: np.full(n, np.nan),
}


@pytest.mark.parametrize("kind", DIVERGED)
def test_diverged_trainings_do_not_lead_it_astray(kind):
    found = [lookups_to_the_best(AutoBO, *bowl(seed, diverged=DIVERGED[kind]), seed) for seed in range(6)]
    assert np.mean(found) <= (20 if kind == "none" else 40) and max(found) < 120


def test_the_standardised_model_is_led_astray():
    """What the warp is for: without it, one loss of 1e16 makes all others equal."""
    found = [lookups_to_the_best(BO_M_std, *bowl(seed, diverged=DIVERGED["1e16"]), seed) for seed in range(6)]
    assert np.mean(found) > 60


def test_a_category_is_one_hyperparameter_and_shares_its_length():
    space = Space.of({"rate": [0.1, 0.2, 0.3], "kind": ["a", "b", "c"]})
    configs = space.encode_all([{"rate": r, "kind": k} for r in (0.1, 0.2, 0.3) for k in "abc"])
    problem = Problem(space.features(configs), 1, len(configs), 3, space, configs)
    lengths = bank_of(problem).inverse_squares
    assert lengths.shape[1] == 2
    assert lengths[-1, 0] != lengths[-1, 1]


def started(n_objectives=1, constraints=(), seed=0, n_rows=60):
    rng = np.random.default_rng(seed)
    features = rng.uniform(size=(n_rows, 2))
    problem = Problem(features, n_objectives, n_rows, 3, constraints=constraints)
    return AutoBO(problem, rng), features


def test_two_losses_of_which_one_diverges():
    """The front of two bowls between their centres is found although a twentieth of one loss is 1e12."""
    rng = np.random.default_rng(3)
    features = rng.uniform(size=(300, 2))
    losses = np.stack([((features - c) ** 2).sum(axis=1) for c in (0.3, 0.7)], axis=1)
    front = set(pareto_front(losses).tolist())
    bad = np.array([row for row in range(0, 300, 20) if row not in front])
    losses[bad, 0] = 1e12
    method = AutoBO(Problem(features, 2, 300, 3), rng)
    rows = [1, 2, 3]
    for row in rows:
        method.tell(row, losses[row])
    while len(rows) < 45:
        rows.append(method.ask())
        method.tell(rows[-1], losses[rows[-1]])
    assert len(front & set(rows)) > 0.6 * len(front)


def test_an_infeasible_row_is_not_the_one_to_improve_on():
    """Losses fall where the constraint is missed by far. A third of the rows hold the best feasible one."""
    method, features = started(constraints=("size<=0.5",))
    losses, violations = -features[:, 0], features[:, 0] - 0.5
    rows = [0, 1, 2]
    for row in rows:
        method.tell_constrained(row, losses[[row]], violations[[row]])
    while len(rows) < 20:
        rows.append(method.ask())
        method.tell_constrained(rows[-1], losses[[rows[-1]]], violations[[rows[-1]]])
    feasible = np.flatnonzero(violations <= 0)
    assert feasible[losses[feasible].argmin()] in rows


def test_several_workers_spread():
    method, features = started()
    for row in (0, 1, 2):
        method.tell(row, features[[row], 0])
    running = {}
    for _ in range(6):
        row = method.suggest(running)
        assert row not in running and row > 2
        running[row] = 1.0
    chosen = features[list(running)]
    gaps = np.linalg.norm(chosen[:, None] - chosen, axis=2)[np.triu_indices(6, 1)]
    assert gaps.min() > 0.01
    assert method.suggest(dict.fromkeys(range(3, 60), 1.0)) is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"isotropic": False, "vectors": 0}, "empty bank"),
        ({"cap": 0.0}, "cap above 0"),
        ({"weight": 0.0}, "weight above 0"),
        ({"additive": 1.5}, "additive of 0 to 1"),
        ({"length_sd": float("nan")}, "length_sd"),
    ],
)
def test_settings_that_cannot_be(settings, message):
    with pytest.raises(InputError, match=message):
        AutoBO(Problem(np.zeros((4, 1)), 1, 4, 3), np.random.default_rng(0), **settings)
