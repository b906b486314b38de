"""Masks of programs: what they hide and keep, and that they expose a program that knows a table by heart."""

import shlex
import sys

import numpy as np
import pytest

import hpobench_nmt as hb
from hpobench_nmt.benchmarking.contestants.masks import masked
from hpobench_nmt.benchmarking.contestants.plugins import load_method
from hpobench_nmt.benchmarking.contestants.program import one_trial
from hpobench_nmt.core.arrays import frozen
from hpobench_nmt.core.hyperparameter import Hyperparameter
from hpobench_nmt.core.problem import Problem
from hpobench_nmt.core.space import Space
from hpobench_nmt.core.trainings import Trainings
from hpobench_nmt.core.trial_loop import run_trial


@pytest.fixture
def spec(tmp_path):
    """Writes a program, and gives its spec."""

    def written(program: str, settings: str) -> str:
        path = tmp_path / "agent.py"
        path.write_text(program)
        return f"cmd{settings}:{shlex.quote(sys.executable)} {path}"

    return written


def masked_problem(seed=0, **rules):
    axes = (
        Hyperparameter("rate", (0.001, 0.01, 0.1), scale="log", unit="nats"),
        Hyperparameter("depth", (1, 2, 4, 8)),
        Hyperparameter("rule", ("sgd", "adam"), kind="categorical"),
        Hyperparameter("beta", (0.5, 0.9), active_if=(("rule", ("adam",)),), default=0.9),
        Hyperparameter("size", ("s", "m", "l"), kind="ordinal"),
    )
    space = Space(axes)
    configs = [
        {"rate": r, "depth": d, "rule": u, "size": s} | ({"beta": b} if u == "adam" else {})
        for r in axes[0].values for d in axes[1].values for s in "sml" for u, b in
        (("sgd", 0), ("adam", 0.5), ("adam", 0.9))
    ]  # fmt: skip
    codes = frozen(space.encode_all(configs))
    problem = Problem(frozen(space.features(codes)), 1, len(codes), 1, space, codes, **rules)
    return problem, masked(problem, np.random.default_rng(seed))


def test_a_mask_keeps_orders_and_conditions_and_hides_values_labels_and_rows():
    problem, mask = masked_problem()
    for place, row in enumerate(mask.rows.tolist()):
        real, shown = problem.config(row), mask.problem.config(place)
        assert real.keys() == shown.keys() and ("beta" in shown) == (real["rule"] == "adam")
        assert mask.problem.row(shown) == place
        np.testing.assert_array_equal(problem.features[row], mask.problem.features[place])
    pairs = [(problem.config(r), mask.problem.config(p)) for p, r in enumerate(mask.rows.tolist())]
    for name in ("rate", "depth", "size"):
        maps = {(real[name], shown[name]) for real, shown in pairs}
        assert len(maps) == len(problem.space[name].values)
        order = problem.space[name].values.index
        ordered = [shown for _, shown in sorted(maps, key=lambda pair: order(pair[0]))]
        assert ordered == sorted(ordered)
    assert not set(problem.space["depth"].values[1:-1]) & {shown["depth"] for _, shown in pairs}
    assert {shown["rule"] for _, shown in pairs} == {"v1", "v2"}
    told = mask.losses(np.linspace(-3, 3, 50)[:, None])[:, 0]
    assert (np.diff(told) > 0).all() and mask.losses(np.array([np.nan, 0.0])[:1]) != 0
    assert masked_problem(seed=1)[1].rows.tolist() != mask.rows.tolist()
    prior = np.arange(108.0)
    np.testing.assert_array_equal(masked_problem(prior=frozen(prior))[1].problem.prior, mask.rows)


LOOKS = """
import json, sys
told = []
for line in sys.stdin:
    message = json.loads(line)
    if message["message"] == "problem":
        problem = message
    if message["message"] == "tell":
        config = message["config"]
        assert problem["rows"][message["row"]] == [config.get(h["name"]) for h in problem["hyperparameters"]]
        told.append(message["row"])
    if message["message"] == "ask":
        assert message["left"] == problem["budget"] - len(told), message
        again = problem.get("again") and len(told) < 4
        print(json.dumps({"row": told[0] if again else min(set(range(20)) - set(told))}), flush=True)
"""


@pytest.mark.parametrize("again", [False, True])
def test_a_masked_program_gets_its_own_rows_and_looks_left_and_may_look_again(spec, again):
    losses = np.arange(20.0)[:, None]
    settings = '(names="hidden", values="hidden")'
    features = frozen(np.linspace(0.0, 1.0, 20)[:, None])
    method, problem = load_method(spec(LOOKS, settings)), Problem(features, 1, 20, 1, again=again)
    draws = (lambda row, number: losses[row] + number) if again else None
    with one_trial(method, None) as make:
        rng = np.random.default_rng(3)
        trial = run_trial(problem, Trainings.whole(losses), make, rng, [7], again=draws)
    assert not trial.failure and len(trial.rows) == 20
    assert trial.rows.tolist() != sorted(trial.rows.tolist())
    if again:
        assert trial.rows[:4].tolist() == [7] * 4 and trial.losses[:4, 0].tolist() == [7, 8, 9, 10]
    else:
        assert sorted(trial.rows) == list(range(20))


KNOWS = """
import json, sys
best = {best}
for line in sys.stdin:
    message = json.loads(line)
    if message["message"] == "problem":
        names = [h["name"] for h in message["hyperparameters"]]
        rows = [dict(zip(names, row)) for row in message["rows"]]
        left = [row for row, config in enumerate(rows) if list(config.values()) in best]
        left += [row for row in range(len(rows)) if row not in left]
    if message["message"] == "tell" and message["row"] in left:
        left.remove(message["row"])
    if message["message"] == "ask":
        print(json.dumps({{"row": left[0]}}), flush=True)
"""


TPE = """
import json, math, sys
told = []
for line in sys.stdin:
    message = json.loads(line)
    if message["message"] == "problem":
        rows = message["rows"]
    if message["message"] == "tell":
        told.append((message["losses"][0], message["row"]))
    if message["message"] == "ask":
        told.sort(key=lambda pair: (pair[0] is None, pair[0] or 0))
        cut = max(1, len(told) // 4)
        good, bad = ([rows[row] for _, row in part] for part in (told[:cut], told[cut:]))
        def value(row):
            count = lambda part, axis: sum(other[axis] == rows[row][axis] for other in part) + 1
            return sum(math.log(count(good, axis) / count(bad, axis)) for axis in range(len(rows[row])))
        free = set(range(len(rows))) - {row for _, row in told}
        print(json.dumps({"row": max(sorted(free), key=value)}), flush=True)
"""


@pytest.mark.hosts
def test_a_program_that_knows_the_best_rows_by_heart_is_unmasked_and_tpe_is_not(spec):
    table = hb.load_table("sotu-ngram")
    order = np.argsort(table.losses(table.objectives[:1])[:, 0])[:20].tolist()
    best = [list(table.config(row).values()) for row in order]

    def compared(program):
        plain, hidden = (
            hb.run(tables="sotu-ngram", methods=[spec(program, settings)], trials=20, lookups=60)
            for settings in ("", '(names="hidden", values="hidden")')
        )
        return hb.compare(plain, hidden).here

    knows, tpe = compared(KNOWS.format(best=best)), compared(TPE)
    assert knows.p < 0.01 < 0.05 < tpe.p, (knows, tpe)
