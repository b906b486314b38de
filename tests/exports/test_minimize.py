"""`hb.minimize`: its loop, what it does after failures and kills, and its file."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hpobench_nmt as hb
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.exports.optimizer import Optimizer

BAD = (math.inf, -math.inf, math.nan, None, 1.1e150, -1.1e150, 10**400, -(10**5000))
SPACE = {"layers": [1, 2, 4, 8], "rule": ["sgd", "adam", "rms"], "rate": [0.1, 0.2, 0.4, 0.8]}


def loss(config):
    return abs(config["layers"] - 4) + {"sgd": 2.0, "adam": 0.0, "rms": 1.0}[config["rule"]] + config["rate"]


def test_the_optimum_of_whole_numbers_and_labels_is_found_by_a_budget_that_covers_them():
    target = {"n": 23, "k": "a"}
    found = hb.minimize(lambda c: float(c != target), {"n": (1, 100), "k": ["a", "b"]}, "RS", budget=5000)
    assert found.best == target and found.loss == 0 and len(found.configs) == 200


def test_minimize_goes_on_after_evaluations_that_failed_and_does_not_ask_for_them_again(tmp_path):
    asked, answers = [], iter([*BAD, *map(float, range(6))])

    def diverges(config):
        asked.append(config["x"])
        return next(answers)

    options = {"space": {"x": (0.0, 1.0)}, "budget": 14, "state": tmp_path / "state.json"}
    found = hb.minimize(diverges, **options)
    assert len(set(asked)) == 14 and found.loss == 0.0 and np.isnan(found.losses[: len(BAD)]).all()
    assert hb.minimize(diverges, **options).configs == found.configs and len(asked) == 14


def test_an_exception_is_a_failed_evaluation_where_the_caller_chose_so():
    def fails(config):
        if config["rule"] == "sgd":
            raise FloatingPointError("diverged")
        return loss(config)

    found = hb.minimize(fails, SPACE, budget=48, catch=ArithmeticError)
    assert np.isnan(found.losses).sum() == 16 and len(found.configs) == 48
    with pytest.raises(FloatingPointError):
        hb.minimize(fails, SPACE, budget=48)
    with pytest.raises(FloatingPointError):
        hb.minimize(fails, SPACE, budget=48, catch=(ValueError, KeyError))


def test_exceptions_may_be_a_list():
    def fails(config):
        raise KeyError("diverged")

    assert len(hb.minimize(fails, SPACE, "RS", budget=4, catch=[ValueError, KeyError]).configs) == 4


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"budget": None}, "budget must be a whole number of 1 or more, not None"),
        ({"budget": 2.0}, "budget must be a whole number of 1 or more, not 2.0"),
        ({"least_gain": None}, "least_gain must be a number of 0 or more, not None"),
        ({"least_gain": "1"}, "least_gain must be a number of 0 or more, not '1'"),
        ({"least_gain": math.nan}, "least_gain must be a number of 0 or more, not nan"),
        ({"least_gain": -1}, "least_gain must be a number of 0 or more, not -1"),
        (
            {"catch": None},
            "catch must be a class of exceptions, such as ValueError, or a tuple or list of them",
        ),
        ({"catch": True}, "catch must be a class of exceptions, .*, not True"),
        ({"catch": "ValueError"}, "catch must be a class of exceptions, .*, not 'ValueError'"),
        ({"catch": ValueError("x")}, "catch must be a class of exceptions, such as ValueError"),
        ({"catch": (ValueError, (KeyError,))}, "catch must be a class of exceptions, such as ValueError"),
        ({"catch": [int]}, "catch must be a class of exceptions, such as ValueError"),
        ({"state": 3}, "state must be the path of a file, not 3"),
        ({"state": b"state.json"}, "state must be the path of a file, not b'state.json'"),
    ],
)
def test_a_wrong_argument_is_told_before_the_function_is_called(given, message):
    called = []
    with pytest.raises(InputError, match=message):
        hb.minimize(called.append, **{"space": SPACE, "budget": 4} | given)
    assert called == []


KILLED = """
import sys, time
import hpobench_nmt as hb

def loss(config):
    with open("log", "a") as log:
        log.write(f"{sorted(config.items())}\\n")
    if len(open("log").readlines()) == int(sys.argv[1]):
        print("now", flush=True)
        time.sleep(60)
    return abs(config["x"] - 7.3)

found = hb.minimize(loss, {"x": [float(i) for i in range(40)]}, budget=12, state="state.json")
print(found.loss)
"""


def test_minimize_goes_on_after_a_kill(tmp_path):
    (tmp_path / "run.py").write_text(KILLED)
    run = lambda at: [sys.executable, str(tmp_path / "run.py"), str(at)]  # noqa: E731
    whole = tmp_path / "whole"
    whole.mkdir()
    subprocess.run(run(0), cwd=whole, check=True, capture_output=True)
    killed = tmp_path / "killed"
    killed.mkdir()
    process = subprocess.Popen(run(7), cwd=killed, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"now\n"
    time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    subprocess.run(run(0), cwd=killed, check=True, capture_output=True)
    log = (killed / "log").read_text().splitlines()
    assert log[6] == log[7]  # what was interrupted is evaluated again
    assert log[:7] + log[8:] == (whole / "log").read_text().splitlines()
    assert (killed / "state.json").read_bytes() == (whole / "state.json").read_bytes()
    with pytest.raises(InputError, match=r"the state of another call, with another seed"):
        hb.minimize(
            loss, {"x": [float(i) for i in range(40)]}, budget=12, seed=1, state=killed / "state.json"
        )


def test_minimize_goes_on_after_an_error_and_only_with_the_same_call(tmp_path):
    path, called = tmp_path / "state.json", []

    def value(config):
        # What is being evaluated is in the file before it is.
        assert json.loads(path.read_text())["events"][-1] == {"config": config}
        called.append(config)
        if len(called) == 7:
            raise OSError("no space left on device")
        return loss(config)

    with pytest.raises(OSError, match="no space left"):
        hb.minimize(value, SPACE, "RS", budget=12, state=str(path))
    found = hb.minimize(value, SPACE, "RS", budget=12, state=path)
    whole = hb.minimize(loss, SPACE, "RS", budget=12, state=tmp_path / "whole.json")
    assert called[6] == called[7] and tuple(called[:6] + called[7:]) == found.configs == whole.configs
    assert path.read_bytes() == (tmp_path / "whole.json").read_bytes()
    again = hb.minimize(value, SPACE, "RS", budget=12, state=path)  # all is there
    assert len(called) == 13 and again.losses.tolist() == whole.losses.tolist()
    longer = hb.minimize(value, SPACE, "RS", budget=15, state=path)
    assert longer.configs[:12] == whole.configs and len(longer.configs) == 15 and len(called) == 16
    assert longer.configs == hb.minimize(loss, SPACE, "RS", budget=15).configs
    assert hb.minimize(value, SPACE, "RS", budget=4, state=path).configs == longer.configs
    tried = tmp_path / "tried.json"
    hb.minimize(loss, SPACE, "RS", budget=1, state=tried)
    assert hb.minimize(loss, SPACE, "RS", budget=15, state=tried).configs == longer.configs
    for other in ({"seed": 1}, {"n_initial": 4}, {"candidates": 999}):
        (key,) = other
        with pytest.raises(
            InputError, match=rf"state\.json: this is the state of another call, with another {key}\."
        ):
            hb.minimize(value, SPACE, "RS", state=path, **({"budget": 12} | other))


def test_minimize_is_a_loop_of_ask_and_tell_and_stops_when_all_is_evaluated():
    space = {"x": (0.0, 1.0), "rule": ["a", "b"]}

    def value(config):
        return (config.pop("x") - 0.3) ** 2 + (config.pop("rule") == "b")  # the function's own to change

    options = {"seed": 4, "n_initial": 5, "candidates": 50}
    found = hb.minimize(value, space, "RS", 12, **options)
    by_hand = Optimizer(space, "RS", budget=12, **options)
    for config in found.configs:
        assert by_hand.ask() == config
        by_hand.tell(config, value(dict(config)))
    assert [losses[0] for _, losses in by_hand.told] == found.losses[:, 0].tolist()
    others = [hb.minimize(value, space, "RS", 12, **(options | change)).configs for change in (
        {"seed": 5}, {"n_initial": 4}, {"candidates": 49},
    )]  # fmt: skip
    assert all(configs != found.configs for configs in others)
    assert len(hb.minimize(lambda c: c["x"], {"x": [1, 2, 3]}, budget=9).configs) == 3


TWELVE = """
import sys
import hpobench_nmt as hb
hb.minimize(lambda c: c["x"] ** 2, {"x": (0.0, 1.0)}, budget=12)
print([name for name in ("scipy.stats", "scipy.linalg", "numba") if name in sys.modules])
"""


def test_the_first_evaluations_do_not_import_what_takes_long_to_import():
    done = subprocess.run([sys.executable, "-c", TWELVE], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.hosts
def test_one_line_reports_that_the_inner_loops_are_compiled(tmp_path):
    compiles = "from hpobench_nmt.core.system.compiled import _Start; _Start.left = 0\n" + TWELVE
    for told in (1, 0):  # with an empty cache, and with a warm one
        done = subprocess.run(
            [sys.executable, "-c", compiles], capture_output=True, text=True, check=True,
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
        )  # fmt: skip
        assert done.stderr.count("Compiling the inner loops") == len(done.stderr.splitlines()) == told


@pytest.mark.parametrize("scalar", [np.float32(0.5), np.array(0.5), np.array([0.5]), Decimal("0.5")])
def test_any_scalar_is_a_loss(scalar):
    found = hb.minimize(lambda config: scalar, {"x": (0.0, 1.0)}, "RS", 2)
    assert found.losses[:, 0].tolist() == [0.5, 0.5]


@pytest.mark.parametrize("kind", ["bfloat16", "graph"])
def test_tensors_are_losses(kind):
    torch = pytest.importorskip("torch")
    loss = (
        torch.tensor(0.5, dtype=torch.bfloat16)
        if kind == "bfloat16"
        else torch.tensor(0.5, requires_grad=True)
    )
    found = hb.minimize(lambda config: [loss, loss], {"x": [1, 2]}, "RS", 2, objectives=2)
    assert found.losses.tolist() == [[0.5] * 2] * 2


@given(st.lists(st.tuples(*[st.sampled_from([0.0, 1.0, 2.0, None, math.nan])] * 2), min_size=1, max_size=6))
def test_an_evaluation_that_lacks_a_loss_is_never_the_best(losses):
    found = hb.minimize(
        lambda config: losses[config["x"]], {"x": list(range(len(losses)))}, "RS", len(losses), objectives=2
    )
    whole = {k for k, pair in enumerate(losses) if not any(v is None or math.isnan(v) for v in pair)}
    assert (found.best is None) == (not whole)
    assert found.best is None or found.best["x"] in whole
    assert {found.configs[k]["x"] for k in found.front} <= whole


def test_a_state_behind_a_link_stays_there(tmp_path):
    (tmp_path / "scratch").mkdir()
    (tmp_path / "link.json").symlink_to(tmp_path / "scratch" / "state.json")
    for budget in (3, 5):
        hb.minimize(loss, SPACE, "RS", budget, state=tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert len(Optimizer.load(tmp_path / "scratch" / "state.json").told) == 5
    assert [path.name for path in (tmp_path / "scratch").iterdir()] == ["state.json"]


def test_two_calls_do_not_share_a_state(tmp_path):
    (tmp_path / "link.json").symlink_to(tmp_path / "state.json")

    def inner(config):
        with pytest.raises(InputError, match=r"link\.json: another process is writing this file"):
            hb.minimize(loss, SPACE, "RS", 3, state=tmp_path / "link.json")
        return 0.0

    assert len(hb.minimize(inner, SPACE, "RS", 2, state=tmp_path / "state.json").configs) == 2
    assert len(hb.minimize(loss, SPACE, "RS", 3, state=tmp_path / "link.json").configs) == 3
