"""The start of a method of one's own: it passes the checks, runs, and is debugged in this process."""

from pathlib import Path

import pytest

import hpobench_nmt as hb
from hpobench_nmt.benchmarking.contestants.plugins import load_method
from hpobench_nmt.benchmarking.contestants.skeleton import write_skeleton
from hpobench_nmt.testing import checks_for


def names():
    return [path.name for path in Path().iterdir() if path.name != "__pycache__"]


@pytest.mark.parametrize("n_objectives", [1, 3])
def test_what_is_written_passes_every_check(home, n_objectives):
    factory = load_method(write_skeleton(Path("my_method.py")))
    assert factory.__name__ == "MyMethod"
    for check in checks_for(factory, n_objectives):
        check(factory, n_objectives)


def test_its_lines_are_commands_that_work(toy_home, run_here):
    assert "hpobench-nmt methods --check mine.py:Mine" in run_here("methods", "new", "mine.py").stdout
    text = Path("mine.py").read_text()
    assert "--methods RS,mine.py:Mine --tables" in text
    done = run_here("run", "--debug", "--methods", "RS,mine.py:Mine", "--tables", "toy")
    assert ("1 trial" in done.stdout, done.stderr, names()) == (True, "", ["mine.py"])
    done = run_here("methods", "new", "mine.py", check=2)
    assert "mine.py exists and was not changed" in done.stderr
    assert Path("mine.py").read_text() == text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["new"], "needs the name of a new file"),
        (["new", "my-method.py"], "a name such as my_method.py"),
        (["new", "method.txt"], "a name such as my_method.py"),
        (["new", "nowhere/method.py"], "nowhere: no such folder"),
        (["new", "none.py"], "a name such as my_method.py"),
        (["new", "asha.py"], "asha.py: class Asha would be named like the method ASHA"),
        (["RS", "BO_EI_M"], "one method at a time: leave 'BO_EI_M' out"),
    ],
)
def test_what_cannot_be_written_is_refused(home, run_here, arguments, message):
    done = run_here("methods", *arguments, check=2)
    assert (message in done.stderr, names()) == (True, [])


class Wrong:
    def __init__(self, problem, rng):
        pass

    def ask(self):
        return {}["learning_rat"]

    def tell(self, index, losses):
        pass


def test_what_a_method_raises_is_raised_with_debug(toy_home, run_here):
    with pytest.raises(KeyError, match="learning_rat") as raised:
        hb.run(tables="toy", methods=[Wrong], debug=True, jobs=2, timeout=60)
    assert raised.traceback[-1].name == "ask"
    assert hb.run(tables="toy", methods=[Wrong], trials=1).failures()  # only then
    lines = ["class Wrong:", "    def __init__(self, problem, rng):", "        rng.nothing()"]
    lines += ["    def ask(self): ...", "    def tell(self, row, losses): ..."]
    Path("wrong.py").write_text("\n".join(lines))
    with pytest.raises(AttributeError, match="nothing"):
        run_here("run", "--debug", "--methods", "wrong.py:Wrong", "--tables", "toy")
    done = run_here("run", "--debug", "--tables", "toy", "--out", "r", check=2)
    assert "--debug does not write results" in done.stderr
    with pytest.raises(hb.InputError, match="a run with debug does not write results"):
        hb.run(tables="toy", methods=[Wrong], debug=True, out="r")
    assert names() == ["wrong.py"]


def test_with_debug_each_method_has_one_trial(toy_home):
    results = hb.run(tables="toy", methods=["RS", "BO_EI_M"], debug=True, trials=7)
    assert [len(trials) for trials in results.trials.values()] == [1, 1]
