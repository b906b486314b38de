"""piBO and PriorBand against naive twins, and what good and misleading priors do."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm
from twins.gaussian import gaussian_process, log_improvement, matern52_matrix
from twins.made import smooth_curves

from hpobench_nmt.core.priors import around, guess_prior
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.space import Hyperparameter, Space
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial
from hpobench_nmt.methods import BUILT_IN
from hpobench_nmt.methods.early.partial_training import training_levels
from hpobench_nmt.methods.early.successive_halving import Hyperband
from hpobench_nmt.methods.user_priors import KnownBO, PiBO, PriorBand, PriorSampler, log_changes
from hpobench_nmt.testing import PARALLEL_CHECKS

SPACE = Space(
    (
        Hyperparameter("rate", (0.001, 0.01, 0.1, 1.0), "log"),
        Hyperparameter("layers", (1, 2, 3)),
        Hyperparameter("cell", ("lstm", "gru", "rhn"), kind="categorical"),
    )
)
CODES = np.array(
    [[r, n, c] for r in (0.001, 0.01, 0.1, 1.0) for n in (1, 2, 3) for c in range(3)], dtype=float
)


def test_a_guess_weights_rows_by_their_distance():
    found = guess_prior(SPACE, CODES, {"rate": 0.01, "cell": "gru"}, "here")
    for (rate, _, cell), weight in zip(CODES, found, strict=True):
        steps = (math.log10(rate) + 2) / 3
        assert weight == pytest.approx(-8 * steps**2 - 8 * (cell != 1))
    between = guess_prior(SPACE, CODES, {"rate": math.sqrt(1e-3)}, "here")  # no value of the grid
    assert len(set(np.flatnonzero(np.isclose(between, between.max())))) == 18
    for wrong, message in (
        ({"rat": 1}, r"unknown hyperparameter 'rat'.*rate"),
        ({"cell": "gro"}, "here: prior: .*gru"),
        ({"rate": 0.0}, "here: prior: rate = 0.0 is not possible on the log scale"),
        ({}, "here: the prior is empty"),
    ):
        with pytest.raises(InputError, match=message):
            guess_prior(SPACE, CODES, wrong, "here")


def test_a_pair_encloses_four_fifths_of_a_normal_on_the_scale():
    found = guess_prior(SPACE, CODES, {"rate": (0.01, 1.0)}, "here")
    exact = norm(math.log10(0.1), 1 / norm.ppf(0.9))
    assert exact.cdf(0.0) - exact.cdf(-2.0) == pytest.approx(0.8)
    weights = exact.logpdf(np.log10(CODES[:, 0]))
    np.testing.assert_allclose(found - found.max(), weights - weights.max(), atol=1e-12)
    for wrong in ((0.1, 0.01), (0.1,), (0.1, 0.1)):
        with pytest.raises(InputError, match=r"rate = .* must be two numbers, the smaller one first"):
            guess_prior(SPACE, CODES, {"rate": wrong}, "here")


def trial_of(make, problem, losses):
    return run_trial(problem, Trainings.whole(losses), make, np.random.default_rng(0), [0, 5, 9])


def test_bo_known_prefers_known_values_less_and_less():
    configs = np.column_stack([np.geomspace(1e-6, 1.0, 60), np.random.default_rng(3).random(60)])
    space = Space(
        tuple(
            Hyperparameter(name, tuple(np.unique(column)), scale)
            for name, column, scale in zip(("lr", "x"), configs.T, ("log", "linear"), strict=True)
        )
    )
    losses = (space.features(configs) ** 2).sum(axis=1)[:, None]
    problem = Problem(space.features(configs), 1, 30, 3, space, configs)
    usual = trial_of(BUILT_IN["BO_auto"].load(), problem, losses).rows.tolist()
    known, strong, none = (
        trial_of(lambda p, r, beta=beta: KnownBO(p, r, beta), problem, losses).rows.tolist()
        for beta in (3.0, 1e6, 0.0)
    )
    assert none == usual != known
    by_prior = np.argsort(abs(np.log10(configs[:, 0]) + 2.8), kind="stable")
    assert strong[3:8] == by_prior[:5].tolist()
    assert configs[known[3], 0] > 1e-4 and losses[known].min() == losses.min()  # the smallest rates are good


def test_bo_known_takes_the_prior_of_the_problem_and_its_gain_is_without_it():
    features = np.random.default_rng(3).random((60, 2))
    losses = ((features - 0.3) ** 2).sum(axis=1)[:, None]
    problem = Problem(features, 1, 40, 3, prior=around(features, np.array([0.9, 0.9])))
    with_prior, without = KnownBO(problem, None), KnownBO(replace(problem, prior=None), None)
    for row in (0, 5, 9):
        with_prior.tell(row, losses[row])
        without.tell(row, losses[row])
    assert with_prior.ask() != without.ask()
    assert with_prior.expected_gain({}) == without.expected_gain({})
    with pytest.raises(InputError, match="beta must be 0 or more"):
        KnownBO(problem, None, -1.0)


def test_a_problem_refuses_a_prior_that_does_not_fit():
    for prior in (np.zeros(3), np.array([0.0, -np.inf])):
        with pytest.raises(InputError, match="a finite log-weight for each of the 2 candidates"):
            Problem(np.zeros((2, 1)), 1, 2, 0, prior=prior)


@pytest.mark.parametrize("beta", [10.0, 0.0, 200.0])
def test_pibo_as_its_naive_twin(beta):
    rng = np.random.default_rng(1)
    features = rng.random((50, 3))
    losses = ((features - 0.3) ** 2).sum(axis=1) + 0.1 * rng.random(50)
    losses[7] = np.nan
    prior = around(features, np.array([0.9, 0.5, 0.1]))
    problem = Problem(features, 1, 30, 3, prior=prior)
    seen = [4, 20, 30]
    while len(seen) < 30:
        known = [row for row in seen if not np.isnan(losses[row])]
        unseen = [row for row in range(50) if row not in seen]
        y = (losses[known] - losses[known].mean()) / losses[known].std()
        mean, sd = gaussian_process(matern52_matrix(features), known, unseen, y, 1e-3)
        pi = np.exp(prior) / np.exp(prior).sum()
        value = log_improvement(y.min(), mean, sd) + beta / len(known) * np.log(pi[unseen])
        seen.append(unseen[int(value.argmax())])
    done = run_trial(
        problem, Trainings.whole(losses[:, None]), lambda p, r: PiBO(p, r, beta), rng, [4, 20, 30]
    )
    assert done.rows.tolist() == seen


def test_without_a_prior_pibo_is_bayesian_optimisation():
    features = np.random.default_rng(3).random((60, 2))
    losses = ((features - 0.3) ** 2).sum(axis=1)[:, None]
    problem = Problem(features, 1, 40, 3)
    ours, theirs = (
        run_trial(problem, Trainings.whole(losses), make, np.random.default_rng(0), [0, 1, 2]).rows.tolist()
        for make in (PiBO, BUILT_IN["BO_EI_M_std"].load())
    )
    assert ours == theirs


def test_a_good_prior_helps_and_a_misleading_one_is_forgotten():
    features = np.random.default_rng(3).random((300, 2))
    losses = ((features - 0.25) ** 2).sum(axis=1)[:, None]
    best = int(losses.argmin())
    needed = {}
    for name, prior in (("none", None), ("good", [0.3, 0.3]), ("misleading", [0.95, 0.95])):
        weights = None if prior is None else around(features, np.array(prior))
        problem = Problem(features, 1, 300, 0, prior=weights)
        trials = [
            run_trial(problem, Trainings.whole(losses), PiBO, np.random.default_rng(seed)).rows.tolist()
            for seed in range(4)
        ]
        needed[name] = np.mean([rows.index(best) + 1 for rows in trials])
    assert needed["good"] <= needed["none"] < needed["misleading"] < 100


def test_the_first_row_is_drawn_from_the_prior():
    features = np.linspace(0.0, 1.0, 5)[:, None]
    prior = around(features, np.array([0.25]))
    problem = Problem(features, 1, 5, 0, prior=prior)
    firsts = [PiBO(problem, np.random.default_rng(seed)).suggest({1: math.inf}) for seed in range(400)]
    expected = np.exp(prior) * (np.arange(5) != 1)
    shares = np.bincount(firsts, minlength=5) / 400
    np.testing.assert_allclose(shares, expected / expected.sum(), atol=0.08)


def test_pibo_suggests_no_row_that_is_running():
    features = np.linspace(0.0, 1.0, 9)[:, None]
    problem = Problem(features, 1, 9, 2, workers=3, prior=around(features, np.array([0.5])))
    method = PiBO(problem, np.random.default_rng(0))
    method.tell(0, np.array([1.0]))
    method.tell(8, np.array([1.0]))
    running, order = {}, []
    while (row := method.suggest(running)) is not None:
        running[row] = math.inf
        order.append(row)
    assert order[0] == 4 and sorted(order) == [1, 2, 3, 4, 5, 6, 7]


def naive_changes(features, row):
    """m by the letter, for two numbers and a category of three values in columns 2 to 4."""
    found = []
    for other in features:
        factors = []
        for j in (0, 1):
            values = sorted(set(features[:, j].tolist()))
            total = sum(math.exp(-8 * (v - features[row, j]) ** 2) for v in values)
            moved = math.exp(-8 * (other[j] - features[row, j]) ** 2) / total
            factors.append((other[j] == features[row, j]) / 2 + moved / 2)
        same = (other[2:] == features[row, 2:]).all()
        factors.append(1 / 2 if same else 1 / 4)
        found.append(math.prod(factors))
    return np.array(found) / sum(found)


def test_changes_to_the_incumbent():
    features = SPACE.features(CODES)
    owners = np.array([0, 1, 2, 2, 2])
    for row in (0, 17):
        np.testing.assert_allclose(np.exp(log_changes(features, row, owners)), naive_changes(features, row))
    alone = np.array([[0.0], [0.5], [1.0]])
    moved = np.exp(-8 * (alone[:, 0] - 0.5) ** 2)
    expected = 0.5 * np.array([0.0, 1.0, 0.0]) + 0.5 * moved / moved.sum()
    np.testing.assert_allclose(np.exp(log_changes(alone, 1, np.array([0]))), expected)


def test_the_odds_of_changes_and_prior():
    prior = np.log([0.1, 0.2, 0.3, 0.4, 0.5, 0.5])
    problem = Problem(np.linspace(0, 1, 6)[:, None], 1, 6, 0, prior=prior)
    sampler = PriorSampler(problem, np.random.default_rng(0), 3, n_levels=3)
    for level, row, loss in ((0, 5, 0.0), (0, 4, 1.0), (0, 3, 2.0), (2, 4, 0.5)):
        sampler.learn(row, level, loss)
    for row, loss in enumerate([3.0, 1.0, 2.0, 4.0, 5.0, 6.0]):
        sampler.learn(row, 1, loss)
    m = np.array([0.2, 0.1, 0.4, 0.1, 0.1, 0.1])
    # Level 1 is the highest with 3 rows; rows 1 and 2 are the best third there, and row 1 counts twice.
    ours, theirs = 2 * 0.1 + 0.4, 2 * 0.2 / 2 + 0.3 / 2
    assert sampler._share(np.log(m)) == pytest.approx(ours / (ours + theirs))
    sampler._log_prior = np.log([0.1, 0.2, 0.3, 0.4, 0.5, 0.5]) - 600.0  # of a table of very many rows
    ours, theirs = 2 * 0.1 + 0.4, 2 * 0.2 + 0.3
    assert sampler._share(np.log(m) - 600.0) == pytest.approx(ours / (ours + theirs))


def test_priorband_draws_near_the_incumbent_once_a_training_has_ended():
    """The prior is all on row 0, the incumbent is row 3, and each level has just as many rows as it needs."""
    prior = np.array([0.0, -60.0, -60.0, -60.0, -60.0, -60.0])
    problem = Problem(np.linspace(0, 1, 6)[:, None], 1, 6, 0, prior=prior)
    sampler = PriorSampler(problem, np.random.default_rng(0), 3, n_levels=3)
    free = np.ones(6, dtype=bool)
    for level in (0, 1):
        for row, loss in ((3, 0.1), (4, 0.2), (5, 0.3)):
            sampler.learn(row, level, loss)
    assert {sampler.choose(free, 20) for _ in range(20)} == {0}
    sampler.learn(4, 2, 0.2)
    drawn = [sampler.choose(free, 20) for _ in range(50)]
    assert drawn.count(3) > 20 > drawn.count(0)


def test_priorband_has_the_levels_of_its_eta():
    resources = np.array([1.0, 2.0, 8.0])
    problem = Problem(np.zeros((9, 1)), 1, 9, 0, resources=resources, clock="cost")
    for eta in (2, 3):
        found = PriorBand(problem, np.random.default_rng(0), eta)._field.levels
        assert found == training_levels(problem, eta)


def test_priorband_draws_as_its_naive_twin():
    features, given = smooth_curves(4, n_rows=80, failing=(3, 9))
    codes = np.column_stack([features.round(1), np.arange(80) % 3])
    axes = [Hyperparameter(name, (0.0, 1.0), continuous=True, integer=False) for name in ("x", "y")]
    space = Space((*axes, SPACE[2]))
    prior = around(features, np.array([0.5, 0.2]))
    problem = Problem(
        space.features(codes), 1, 80, 0, space, codes,
        workers=3, resources=np.unique(given.resources), clock="cost", prior=prior,
    )  # fmt: skip
    pi = np.exp(prior) / np.exp(prior).sum()
    used = []

    def naive_choice(arrived, free, level, rng):
        if rng.random() < 1 / (1 + 3**level):
            return None
        density = pi
        enough = [k for k, rows in arrived.items() if len(rows) >= 3]
        if 3 in arrived and enough:
            incumbent = min((loss, row) for rows in arrived.values() for row, loss in rows)[1]
            m = naive_changes(problem.features, incumbent)
            top = sorted(arrived[max(enough)], key=lambda pair: pair[1])
            top = [row for row, _ in top[: len(top) // 3]]
            scores = [sum((len(top) - i) * p[row] for i, row in enumerate(top)) for p in (m, pi)]
            if rng.random() < scores[0] / sum(scores):
                density = m
        used.append("m" if density is not pi else "pi")
        rows = np.flatnonzero(free)
        return int(rng.choice(rows, 1, p=density[rows] / density[rows].sum())[0])

    class Compared:
        def __init__(self, inner):
            self.inner, self.arrived = inner, {}

        def learn(self, row, level, loss):
            self.arrived.setdefault(level, []).append((row, loss))
            self.inner.learn(row, level, loss)

        def choose(self, free, level):
            expected = naive_choice(self.arrived, free, level, copy.deepcopy(self.inner._rng))
            assert self.inner.choose(free, level) == expected
            return expected

    class Noting(PriorBand):
        def __init__(self, problem, rng):
            super().__init__(problem, rng)
            self._field.sampler = Compared(self._field.sampler)

    assert not run_trial(problem, given, Noting, np.random.default_rng(0)).failure
    assert used.count("m") > 5 and used.count("pi") > 5


def test_priorband_begins_near_a_good_prior_and_leaves_a_misleading_one():
    features, given = smooth_curves(0, n_rows=300)
    plain = Problem(features, 1, 130, 0, workers=4, resources=np.unique(given.resources), clock="cost")

    def gaps(make, prior=None):
        """How far from the best place the rows are that begin, in their order; the mean of trials."""
        problem = plain if prior is None else replace(plain, prior=around(features, np.array(prior)))
        found = []
        for seed in range(6):
            rows = run_trial(problem, given, make, np.random.default_rng(seed)).rows.tolist()
            found.append(np.linalg.norm(features[list(dict.fromkeys(rows))] - 0.3, axis=1))
        return np.mean(found, axis=0)

    usual = gaps(Hyperband)[:80].mean()
    assert gaps(PriorBand, [0.3, 0.3])[:80].mean() < 0.8 * usual
    misled = gaps(PriorBand, [0.9, 0.9])
    assert misled[:27].mean() > usual > misled[60:120].mean()


@pytest.mark.parametrize("check", PARALLEL_CHECKS, ids=lambda check: check.__name__)
def test_conformance(check):
    check(PriorBand)


@pytest.mark.parametrize("beta", [-1.0, math.inf, math.nan])
def test_beta_must_be_a_number(beta):
    with pytest.raises(InputError, match="beta must be 0 or more"):
        PiBO(Problem(np.zeros((2, 1)), 1, 2, 0), np.random.default_rng(0), beta)
