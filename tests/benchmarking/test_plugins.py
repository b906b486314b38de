"""Methods from files, modules and entry points; and methods that misbehave."""

import dataclasses
import json
import sys

import pytest

from hpobench_nmt.benchmarking.contestants.fingerprints import MethodEntry, fingerprint
from hpobench_nmt.benchmarking.contestants.plugins import installed_entry_points, load_method, resolve_methods
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.methods import BUILT_IN

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
def plugin(toy_home, tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "helper", raising=False)  # that of another test
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


def test_methods_that_misbehave_fail_their_trials_and_no_others(plugin, run_command, run_here):
    bad = ",".join(f"{plugin / 'bad.py'}:{name}" for name in REASONS)
    methods = f"{bad},RS,{plugin / 'good.py'}:Sweep"
    arguments = ("--trials", "4", "--methods", methods, "--jobs", "2", "--out", "out")
    # With this seed, no trial is settled by its initial design, so every trial of some methods fails.
    done = run_command(*RUN[:-2], *arguments, "--seed", "2", check=1)
    assert "more failures: see score." in done.stdout
    flat = " ".join(run_here("score", "out").stdout.split())
    for name, reason in REASONS.items():
        assert f"failed: {name} on toy, trial " in flat
        assert reason in flat
    scores = json.loads(run_here("score", "out", "--format", "json").stdout)
    ftb = {r["method"]: r for r in scores if r["score"] == "ftb"}
    expected = dict.fromkeys(REASONS, 4) | {"RS": 0, "Sweep": 0}
    assert {name: r["failed"] for name, r in ftb.items()} == expected
    assert ftb["RS"]["mean"] >= 3


@pytest.mark.hosts
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
        (
            "{}/quits.py:X",
            "importing it calls sys.exit: 3. Put code for scripts below: if __name",
        ),
        ("{}/silent.py:X", "importing it calls sys.exit. Put code for scripts below"),
        ("{}/other.py:number", "has the type int, not a class or function"),
        ("{}/other.py:Mute", "has no ask and no tell"),
        ("{}/other.py:Deaf", "has suggest, but neither observe nor tell"),
        ("no.such.module:X", "module 'no' does not exist"),
        ("json:JSONDecoder", "has no ask and no tell"),
    ],
)
def test_a_method_that_cannot_be_found_is_named(plugin, spec, message):
    (plugin / "broken.py").write_text("class X(:\n")
    (plugin / "quits.py").write_text("raise SystemExit(3)\n")
    (plugin / "silent.py").write_text("import sys\nsys.exit()\n")
    (plugin / "other.py").write_text(
        "number = 3\nclass Mute:\n    pass\nclass Deaf:\n    def suggest(self, running): return 0\n"
    )
    with pytest.raises(InputError) as error:
        resolve_methods([spec.format(plugin)])
    assert message in str(error.value)


def test_two_methods_of_one_name_are_refused(plugin):
    class RS:
        def ask(self):
            return 0

        def tell(self, index, losses):
            pass

    with pytest.raises(InputError, match="has the name of a method of this package"):
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
    assert before.entry.fingerprint == same.entry.fingerprint != after.entry.fingerprint


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


def test_every_library_has_one_thread_in_a_trial(plugin, run_command, run_here):
    (plugin / "late.py").write_text(THREADS)
    two = {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    run_command(*RUN, "--methods", f"{plugin / 'late.py'}:Late", "--out", "out", **two)
    assert {r["failed"] for r in json.loads(run_here("score", "out", "--format", "json").stdout)} == {0}


# --- names and places, in this process ----------------------------------------------------------------


class Mine:
    def __init__(self, problem, rng): ...

    def ask(self): ...

    def tell(self, index, losses): ...


@pytest.fixture
def importable(tmp_path, monkeypatch):
    """A folder on the import path with a package and entry points; its modules are forgotten afterwards."""
    before = set(sys.modules)
    site = tmp_path / "site"
    (site / "their_package").mkdir(parents=True)
    (site / "their_package" / "__init__.py").write_text(
        "class Outer:\n    from their_package.sweep import Sweep\n"
    )
    (site / "their_package" / "sweep.py").write_text(GOOD.replace("from helper import first_unseen\n", ""))
    information = site / "their_package-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    points = (
        "Zoom = their_package.sweep:Sweep\nAlso = their_package:Outer.Sweep\nRS = their_package.sweep:Sweep\n"
    )
    (information / "entry_points.txt").write_text(f"[hpobench_nmt.methods]\n{points}")
    monkeypatch.syspath_prepend(str(site))
    yield site
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_method_says_where_it_is_from(plugin, monkeypatch):
    monkeypatch.chdir(plugin)
    file, built_in, given = resolve_methods(["good.py:Sweep", "BO_EI_M", Mine])
    assert (file.name, file.spec, file.source) == ("Sweep", "good.py:Sweep", f"{plugin / 'good.py'}:Sweep")
    assert (built_in.name, built_in.spec, built_in.source) == ("BO_EI_M",) * 3
    assert (given.name, given.spec, given.source, given.factory) == ("Mine", "Mine", "Mine", Mine)
    assert [m.built_in for m in (file, built_in, given)] == [False, True, False]
    # An object is no method of the package, whatever its name is.
    assert not dataclasses.replace(given, entry=MethodEntry(spec="RS")).built_in
    assert [m.objectives for m in (file, built_in, given)] == [(), (1,), ()]
    assert len({m.entry.identity for m in (file, built_in, given)}) == 3
    assert file.load().__name__ == "Sweep"
    assert built_in.load() is BUILT_IN["BO_EI_M"].load()
    assert given.load() is Mine
    source = file.source
    monkeypatch.chdir(plugin.parent)
    assert load_method(source).__name__ == "Sweep"


def test_modules_and_entry_points(importable):
    module, point, dotted = (
        resolve_methods([spec])[0] for spec in ("their_package.sweep:Sweep", "Zoom", "Also")
    )
    assert [m.name for m in (module, point, dotted)] == ["Sweep", "Zoom", "Also"]
    assert [m.source for m in (module, point, dotted)] == ["their_package.sweep:Sweep", "Zoom", "Also"]
    from their_package.sweep import Sweep

    assert module.load() is point.load() is dotted.load() is Sweep
    assert load_method("their_package:Outer.Sweep") is Sweep
    assert list(installed_entry_points())[:1] == ["Also"]
    mine = {
        name: place for name, place in installed_entry_points().items() if place.startswith("their_package")
    }
    assert mine == {
        "Also": "their_package:Outer.Sweep",
        "RS": "their_package.sweep:Sweep",
        "Zoom": "their_package.sweep:Sweep",
    }
    assert list(mine) == sorted(mine)
    # A method of the package comes before an entry point of its name.
    assert resolve_methods(["RS"])[0].load() is BUILT_IN["RS"].load()


def test_an_edited_module_is_a_new_version(importable):
    (before,) = resolve_methods(["Zoom"])
    file = importable / "their_package" / "sweep.py"
    file.write_text(file.read_text() + "# edited\n")
    assert resolve_methods(["Zoom"])[0].entry.fingerprint != before.entry.fingerprint


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "Zoo",
            r"unknown method 'Zoo'\. Did you mean 'Zoom'\? 'hpobench-nmt methods' lists them",
        ),
        ("their_package:Outer.Swep", r"unknown class 'Outer\.Swep'\. .*Outer.* \(their_package\)"),
        ("their_package.sweep:sweep", r"unknown class 'sweep'\. .*Sweep.* \(their_package\.sweep\)"),
        ("their_package:Sweep", r"unknown class 'Sweep'\. Known: Outer\."),
        (
            "wrong.py:X",
            r"method 'wrong\.py:X': it imports 'no_such_module', which is not installed\.",
        ),
        ("refuses.py:X", "^not today$"),
        ("divides.py:X", "method 'divides.py:X': importing it raised ZeroDivisionError: division by zero"),
        ("half.py:Half", r"method 'half\.py:Half' has no tell: a method needs ask and tell\."),
        ("half.py:RS", r"method 'half\.py:RS' has the name of a method of this package: rename it\."),
        ("half.py:rs", r"method 'half\.py:rs' has the name of a method of this package: rename it\."),
        ("half.py:größe", "method name 'größe' cannot be used"),
        (3, "method 'int' has the type int, not a class or function"),
    ],
)
def test_what_is_wrong_with_a_method_is_named(importable, tmp_path, monkeypatch, spec, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.py").write_text("import no_such_module\n")
    (tmp_path / "refuses.py").write_text(
        "from hpobench_nmt.core.system.errors import InputError\nraise InputError('not today')\n"
    )
    (tmp_path / "divides.py").write_text("1 / 0\n")
    (tmp_path / "half.py").write_text(
        "class Half:\n    tell = 3\n    def ask(self): ...\n"
        "class RS(Half):\n    def tell(self): ...\nrs = RS\ndef größe(problem, rng): ...\n"
    )
    modules, path = set(sys.modules), list(sys.path)
    with pytest.raises(InputError, match=message):
        resolve_methods([spec])
    assert sys.path == path
    if spec in ("wrong.py:X", "refuses.py:X", "divides.py:X"):  # nothing half-loaded is left
        assert not [name for name in set(sys.modules) - modules if "plugin" in name]


def test_two_files_of_one_name_are_two_modules(tmp_path):
    for folder, value in (("one", 1), ("two", 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.py").write_text(f"value = {value}\nclass M:\n    value = value\n")
    one, two, again = (load_method(f"{tmp_path / folder}/same.py:M") for folder in ("one", "two", "one"))
    assert (one.value, two.value, again.value) == (1, 2, 1)
    assert one.__module__ == again.__module__ != two.__module__
    assert sys.modules[two.__module__].value == 2


def test_a_name_may_stand_once(plugin):
    with pytest.raises(InputError) as error:
        resolve_methods(["RS", f"{plugin / 'good.py'}:Sweep", "RS"])
    assert str(error.value) == "method 'RS' is given twice."
    assert [m.name for m in resolve_methods(iter(["RS", "BO_EI_M"]))] == ["RS", "BO_EI_M"]


def test_each_way_of_naming_a_method_has_its_own_sources(importable, tmp_path):
    """An object counts by itself, a name in a module by that module too, wherever its class is."""

    class Other(Mine):
        pass

    one, two = resolve_methods([Mine, Other])
    assert one.entry.fingerprint == fingerprint(Mine).sha256 != two.entry.fingerprint
    passed_on = importable / "passed_on.py"
    passed_on.write_text("from their_package.sweep import Sweep\n")
    (before,) = resolve_methods(["passed_on:Sweep"])
    passed_on.write_text("from their_package.sweep import Sweep  # edited\n")
    assert resolve_methods(["passed_on:Sweep"])[0].entry.fingerprint != before.entry.fingerprint


def test_a_colon_in_the_name_of_a_folder(tmp_path):
    folder = tmp_path / "a:b"
    folder.mkdir()
    (folder / "m.py").write_text("class M:\n    def ask(self): ...\n    def tell(self, index, losses): ...\n")
    (method,) = resolve_methods([f"{folder}/m.py:M"])
    assert (method.name, method.load().__name__) == ("M", "M")
