"""Methods from files, modules and entry points; and methods that misbehave."""

import json
import sys

import pytest

from hpobench_nmt.benchmarking.plugins import resolve_methods
from hpobench_nmt.core.errors import InputError

RUN = ("run", "quick", "--tables", "toy", "--trials", "4")

GOOD = """
from helper import first_unseen

class Sweep:
    def __init__(self, problem, rng):
        self.seen = set()
        self.n = len(problem.features)

    def ask(self):
        return first_unseen(self.seen, self.n)

    def tell(self, index, losses):
        self.seen.add(index)
"""

BAD = """
import os, sys, signal

class Base:
    def __init__(self, problem, rng):
        self.n = len(problem.features)
        self.told = []

    def tell(self, index, losses):
        self.told.append(index)

class Twice(Base):
    def ask(self):
        return self.told[0]

class Outside(Base):
    def ask(self):
        return self.n

class Negative(Base):
    def ask(self):
        return -1

class Float(Base):
    def ask(self):
        return 3.0

class Nothing(Base):
    def ask(self):
        pass

class Raises(Base):
    def ask(self):
        raise RuntimeError(f"no idea {object()}")

class Interrupts(Base):
    def ask(self):
        raise KeyboardInterrupt

class Exits(Base):
    def ask(self):
        sys.exit(7)

class Vanishes(Base):
    def ask(self):
        os._exit(9)

class Killed(Base):
    def ask(self):
        os.kill(os.getpid(), signal.SIGKILL)

class Sometimes(Base):
    def __init__(self, problem, rng):
        super().__init__(problem, rng)
        self.order = rng.permutation(self.n).tolist()
        self.doomed = rng.random() < 0.3

    def ask(self):
        if self.doomed:
            os._exit(1)
        return next(row for row in self.order if row not in self.told)
"""


@pytest.fixture
def plugin(toy_home, tmp_path):
    folder = tmp_path / "plugin folder"
    folder.mkdir()
    (folder / "helper.py").write_text(
        "def first_unseen(seen, n):\n    return next(row for row in range(n) if row not in seen)\n"
    )
    (folder / "good.py").write_text(GOOD)
    (folder / "bad.py").write_text(BAD)
    return folder


def test_a_class_in_a_file_runs_with_its_neighbours_imported(plugin, run_command):
    done = run_command(*RUN, "--methods", f"RS,{plugin / 'good.py'}:Sweep", "--jobs", "2", "--out", "out")
    assert "Sweep" in done.stdout
    assert "failed" not in done.stdout


def test_a_class_in_a_module_and_an_entry_point_run(plugin, run_command, tmp_path):
    site = tmp_path / "site"
    (site / "my_package").mkdir(parents=True)
    (site / "my_package" / "__init__.py").write_text("")
    (site / "my_package" / "sweep.py").write_text(GOOD)
    (site / "helper.py").write_text((plugin / "helper.py").read_text())
    information = site / "my_package-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(
        "[hpobench_nmt.methods]\nSweeper = my_package.sweep:Sweep\n"
    )
    listed = run_command("methods", PYTHONPATH=str(site))
    assert "Sweeper" in listed.stdout
    done = run_command(
        *RUN, "--methods", "Sweeper,my_package.sweep:Sweep", "--out", "out", PYTHONPATH=str(site)
    )
    assert "failed" not in done.stdout
    frame = json.loads(run_command("score", "out", "--format", "json", PYTHONPATH=str(site)).stdout)
    by_method = {(r["method"], r["score"]): r["mean"] for r in frame}
    assert by_method["Sweeper", "ftb"] == by_method["Sweep", "ftb"]


REASONS = {
    "Twice": "which was looked up before",
    "Outside": "ask returned row 36, but rows go from 0 to 35",
    "Negative": "ask returned row -1, but rows go from 0 to 35",
    "Float": "ask returned float 3.0, not a row number",
    "Nothing": "ask returned NoneType None, not a row number",
    "Raises": "ask raised RuntimeError: no idea <object object at 0x…>",
    "Interrupts": "ask raised KeyboardInterrupt",
    "Exits": "the method tried to exit the process (exit code 7)",
    "Vanishes": "the method ended its process (exit code 9)",
    "Killed": "the method ended its process (SIGKILL -9)",
}


def test_methods_that_misbehave_fail_their_trials_and_no_others(plugin, run_command):
    bad = ",".join(f"{plugin / 'bad.py'}:{name}" for name in REASONS)
    methods = f"{bad},RS,{plugin / 'good.py'}:Sweep"
    arguments = ("--trials", "4", "--methods", methods, "--jobs", "2", "--out", "out")
    done = run_command(*RUN[:-2], *arguments, check=1)  # because every trial of some methods fails
    flat = " ".join(done.stdout.split())
    for name, reason in REASONS.items():
        assert f"failed: {name} on toy, trial " in flat
        assert reason in flat
    scores = json.loads(run_command("score", "out", "--format", "json").stdout)
    ftb = {r["method"]: r for r in scores if r["score"] == "ftb"}
    # A trial whose scores are settled by its initial design asks the method nothing.
    asked = ftb["Twice"]["failed"]
    assert 2 <= asked <= 4
    expected = dict.fromkeys(REASONS, asked) | {"RS": 0, "Sweep": 0}
    assert {name: r["failed"] for name, r in ftb.items()} == expected
    assert ftb["RS"]["mean"] >= 3


def test_only_the_trials_that_end_their_process_fail(plugin, run_command):
    methods = ("--methods", f"{plugin / 'bad.py'}:Sometimes", "--trials", "12")
    run_command(*RUN[:-2], *methods, "--jobs", "1", "--out", "one")
    run_command(*RUN[:-2], *methods, "--jobs", "2", "--out", "two")
    one, two = (run_command("score", out, "--format", "json").stdout for out in ("one", "two"))
    assert one == two
    failed = json.loads(one)[0]["failed"]
    assert 0 < failed < 12


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("BO_EI_N", "unknown method 'BO_EI_N'. Did you mean 'BO_EI_"),
        ("nowhere.py:Sweep", "nowhere.py: no such file"),
        ("{}/good.py:Swep", "unknown class 'Swep'. Did you mean 'Sweep'?"),
        ("{}/broken.py:X", "importing it raised SyntaxError"),
        ("{}/quits.py:X", "importing it raised SystemExit"),
        ("{}/other.py:number", "is a int, not a class or function"),
        ("{}/other.py:Mute", "has no ask and no tell"),
        ("no.such.module:X", "there is no module 'no'"),
        ("json:JSONDecoder", "has no ask and no tell"),
    ],
)
def test_a_method_that_cannot_be_found_is_named(plugin, spec, message):
    (plugin / "broken.py").write_text("class X(:\n")
    (plugin / "quits.py").write_text("raise SystemExit(3)\n")
    (plugin / "other.py").write_text("number = 3\nclass Mute:\n    pass\n")
    with pytest.raises(InputError) as error:
        resolve_methods([spec.format(plugin)])
    assert message in str(error.value)


def test_two_methods_of_one_name_are_refused(plugin):
    class RS:
        def ask(self):
            return 0

        def tell(self, index, losses):
            pass

    with pytest.raises(InputError, match="has the name of one that comes with the package"):
        resolve_methods(["RS", RS])


def test_loading_a_file_leaves_the_import_path_alone(plugin):
    before = list(sys.path)
    resolve_methods([f"{plugin / 'good.py'}:Sweep"])
    assert sys.path == before


def test_names_that_differ_in_case_only_are_refused(plugin):
    class Mine:
        def ask(self):
            return 0

        def tell(self, index, losses):
            pass

    class MINE(Mine):
        pass

    with pytest.raises(InputError, match="two methods are named 'MINE'"):
        resolve_methods([Mine, MINE])


def test_an_edited_file_is_a_new_version(plugin):
    variant = "from hpobench_nmt.methods.gaussian_process import bayesian_optimisation\n"
    variant += "from hpobench_nmt.methods.kernels import rbf\nMine = bayesian_optimisation(rbf)\n"
    (plugin / "variant.py").write_text(variant)
    (before,) = resolve_methods([f"{plugin / 'variant.py'}:Mine"])
    (same,) = resolve_methods([f"{plugin / 'variant.py'}:Mine"])
    (plugin / "variant.py").write_text(variant.replace("(rbf)", "(rbf, standardise=True)"))
    (after,) = resolve_methods([f"{plugin / 'variant.py'}:Mine"])
    assert before.fingerprint == same.fingerprint != after.fingerprint


THREADS = """
from threadpoolctl import threadpool_info

class Late:
    def __init__(self, problem, rng):
        import scipy.linalg
        threads = {library["num_threads"] for library in threadpool_info()}
        if threads != {1}:
            raise RuntimeError(f"threads: {threads}")
        self.left = list(range(len(problem.features)))

    def ask(self):
        return self.left[-1]

    def tell(self, index, losses):
        self.left.remove(index)
"""


def test_every_library_has_one_thread_in_a_trial(plugin, run_command):
    (plugin / "late.py").write_text(THREADS)
    run_command(*RUN, "--methods", f"{plugin / 'late.py'}:Late", "--out", "out", OPENBLAS_NUM_THREADS="2")
    assert {r["failed"] for r in json.loads(run_command("score", "out", "--format", "json").stdout)} == {0}
