"""A method's fingerprint changes whenever a source that it depends on does, and never otherwise."""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import hpobench_nmt.methods
from hpobench_nmt.benchmarking import sources
from hpobench_nmt.benchmarking.plugins import resolve_methods
from hpobench_nmt.methods import BUILT_IN
from hpobench_nmt.methods.gaussian_process import bayesian_optimisation
from hpobench_nmt.methods.kernels import matern52, rbf

METHOD = """
class Sweep:
    def __init__(self, problem, rng):
        self.left = list(range(len(problem.features)))

    def ask(self):
        return first(self.left)

    def tell(self, index, losses):
        self.left.remove(index)
"""
FIRST = "def first(left):\n    return left[0]\n"


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def fingerprint_of(spec):
    (method,) = resolve_methods([str(spec)])
    return method.fingerprint


def edit(path):
    path.write_text(path.read_text() + "# edited\n")


@pytest.fixture
def importable(tmp_path, monkeypatch):
    """A folder on the import path, whose modules are forgotten afterwards."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    yield tmp_path / "site"
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_an_edited_helper_two_imports_away_is_a_new_version(tmp_path, importable):
    file = write(
        tmp_path / "mine" / "sweep.py",
        f"def load():\n    from near import first\n    return first\nfirst = load()\n{METHOD}",
    )
    write(tmp_path / "mine" / "near.py", "from far.inside import first\n")
    package = write(tmp_path / "mine" / "far" / "__init__.py", "")
    helper = write(tmp_path / "mine" / "far" / "inside.py", FIRST)
    other = write(tmp_path / "mine" / "unrelated.py", "")
    before = fingerprint_of(f"{file}:Sweep")
    edit(other)
    assert fingerprint_of(f"{file}:Sweep") == before
    for source in (helper, package, file):
        edit(source)
        after = fingerprint_of(f"{file}:Sweep")
        assert after != before, source
        before = after


def test_a_class_in_a_package_depends_on_what_the_package_runs(importable):
    write(importable / "outer" / "__init__.py", "")
    write(importable / "outer" / "inner" / "__init__.py", "")
    write(
        importable / "outer" / "inner" / "sweep.py",
        f"from ..common import first\nfrom . import beside\n{METHOD}",
    )
    write(importable / "outer" / "inner" / "beside.py", "import shared\n")
    write(importable / "outer" / "common.py", FIRST)
    write(importable / "shared.py", "")
    write(importable / "outer" / "unused.py", "")
    before = fingerprint_of("outer.inner.sweep:Sweep")
    edit(importable / "outer" / "unused.py")
    assert fingerprint_of("outer.inner.sweep:Sweep") == before
    for name in (
        "outer/__init__",
        "outer/inner/__init__",
        "outer/inner/sweep",
        "outer/common",
        "outer/inner/beside",
        "shared",
    ):
        edit(importable / f"{name}.py")
        after = fingerprint_of("outer.inner.sweep:Sweep")
        assert after != before, name
        before = after


def test_a_variant_depends_on_the_module_that_makes_it(tmp_path):
    text = "from hpobench_nmt.methods.gaussian_process import bayesian_optimisation\n"
    text += "from hpobench_nmt.methods.kernels import rbf\nfrom tune import scaled\n"
    text += "def kernel(a, b):\n    return 1.0 * scaled(rbf(a, b))\nMine = bayesian_optimisation(kernel)\n"
    file = write(tmp_path / "variant.py", text)
    helper = write(tmp_path / "tune.py", "def scaled(values):\n    return 2.0 * values\n")
    found = [fingerprint_of(f"{file}:Mine")]
    edit(helper)
    found.append(fingerprint_of(f"{file}:Mine"))
    file.write_text(text.replace("1.0 *", "3.0 *"))
    found.append(fingerprint_of(f"{file}:Mine"))
    assert len(set(found)) == 3


def test_nothing_is_run_to_find_what_a_module_imports(tmp_path):
    file = write(
        tmp_path / "sweep.py", f"if False:\n    import trap\nelse:\n    from near import first\n{METHOD}"
    )
    write(tmp_path / "near.py", FIRST)
    trap = write(tmp_path / "trap.py", f"from pathlib import Path\nPath({str(tmp_path / 'run')!r}).touch()\n")
    before = fingerprint_of(f"{file}:Sweep")
    edit(trap)
    assert fingerprint_of(f"{file}:Sweep") != before
    trap.write_text("def broken(:\n")  # a module that cannot be parsed still counts
    fingerprint_of(f"{file}:Sweep")
    assert not (tmp_path / "run").exists()


def test_modules_that_import_each_other_end(tmp_path):
    file = write(tmp_path / "sweep.py", f"import near\nfirst = min\n{METHOD}")
    write(tmp_path / "near.py", "import near\nimport farther\n")
    helper = write(tmp_path / "farther.py", "import near\nif False:\n    import nowhere_at_all\n")
    before = fingerprint_of(f"{file}:Sweep")
    edit(helper)
    assert fingerprint_of(f"{file}:Sweep") != before


def test_installed_packages_and_the_standard_library_are_not_followed(tmp_path):
    file = write(tmp_path / "sweep.py", f"import json, numpy, scipy.linalg\nfirst = min\n{METHOD}")
    assert sources._closure([file]) == [file]


def test_where_a_file_lies_plays_no_part(tmp_path):
    for folder in ("one", "two"):
        write(tmp_path / folder / "sweep.py", f"from near import first\n{METHOD}")
        write(tmp_path / folder / "near.py", FIRST)
    one = sources.fingerprint(min, file=tmp_path / "one" / "sweep.py")
    assert one == sources.fingerprint(min, file=tmp_path / "two" / "sweep.py")


# --- methods given as objects ----------------------------------------------------------------------


def constant(a, b):
    return np.ones((len(a), len(b)))


@dataclass(frozen=True)
class Settings:
    kernel: object
    weights: object = None
    name: str = "Mine"

    def __call__(self, problem, rng):
        raise NotImplementedError


def variants():
    weights = np.arange(3.0)
    return [
        Settings(matern52),
        Settings(rbf),
        Settings(constant),
        Settings(partial(constant, 1.0)),
        Settings(partial(constant, 2.0)),
        Settings(lambda a, b: weights[0]),
        Settings(rbf, weights),
        Settings(rbf, weights + 1),
        Settings(rbf, (1.0, {"a": [1]})),
        Settings(rbf, (1.0, {"a": [2]})),
        Settings(rbf, name="Other"),
    ]


def test_the_settings_of_an_object_are_part_of_it():
    one, two = ([sources.fingerprint(v) for v in variants()] for _ in range(2))
    assert one == two
    assert len(set(one)) == len(one)


def test_variants_of_this_package_have_names_and_fingerprints_of_their_own():
    given = [
        bayesian_optimisation(matern52),
        bayesian_optimisation(rbf),
        bayesian_optimisation(matern52, True),
    ]
    assert len({sources.fingerprint(method) for method in given}) == 3


def test_the_variables_that_a_function_closes_over_are_part_of_it():
    def closing(value):
        def make(problem, rng):
            return value

        return make

    assert sources.fingerprint(closing(1)) == sources.fingerprint(closing(1))
    assert sources.fingerprint(closing(1)) != sources.fingerprint(closing(2))


def test_objects_that_hold_themselves_end():
    class Holds:
        def __call__(self, problem, rng):
            return self

    one = Holds()
    one.me = [one, {"again": one}]
    assert sources.fingerprint(one) == sources.fingerprint(one)


SCRIPT = """
from near import first
from hpobench_nmt.benchmarking.plugins import resolve_methods
from hpobench_nmt.methods.gaussian_process import bayesian_optimisation
{method}
def flat(a, b):
    return 0.5
if __name__ == "__main__":
    for method in resolve_methods([Sweep, bayesian_optimisation(flat)]):
        print(method.name, method.fingerprint)
"""


def test_an_object_of_a_script_depends_on_the_script_and_its_helpers(tmp_path):
    script = write(tmp_path / "script.py", SCRIPT.format(method=METHOD))
    helper = write(tmp_path / "near.py", FIRST)

    def printed():
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
        return [line.split()[1] for line in done.stdout.splitlines()]

    before = printed()
    assert len(set(before)) == 2
    assert printed() == before
    edit(helper)
    between = printed()
    edit(script)
    after = printed()
    for found in zip(before, between, after, strict=True):
        assert len(set(found)) == 3


def test_a_class_without_a_file_is_told_apart_by_its_code():
    found = []
    for answer in ("0", "1", "1"):
        scope = {"__name__": "__typed_in__"}
        text = f"class Typed:\n    def ask(self):\n        return {answer}\n    tell = print\n"
        exec(text, scope)  # noqa: S102
        found.append(sources.fingerprint(scope["Typed"]))
    assert found[0] != found[1] == found[2]


# --- methods of the package ------------------------------------------------------------------------


def test_a_method_of_the_package_depends_on_what_it_imports_and_on_what_runs_a_trial(tmp_path, monkeypatch):
    package = Path(hpobench_nmt.__file__).parent
    copy = tmp_path / "hpobench_nmt"
    for name in ("core", "lookup", "methods", "evaluation"):
        shutil.copytree(package / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    user = write(
        tmp_path / "user" / "mine.py", f"from hpobench_nmt.methods.kernels import rbf\nfirst = min\n{METHOD}"
    )
    monkeypatch.setattr(sources, "_PACKAGE", copy)
    names = ("RS", "BO_EI_M", f"{user}:Sweep")
    before = [fingerprint_of(name) for name in names]
    changes = {
        "core/loop.py": (True, True, True),
        "core/seeds.py": (True, True, True),
        "core/space.py": (True, True, True),
        "core/trajectory.py": (True, True, True),
        "core/compiled.py": (False, True, False),
        "methods/posterior.py": (False, True, False),
        "methods/kernels.py": (False, True, True),
        "methods/random_search.py": (True, False, False),
        "methods/nsga2.py": (False, False, False),
        "methods/__init__.py": (False, False, False),
        "evaluation/ranks.py": (False, False, False),
    }
    for name, expected in changes.items():
        edit(copy / name)
        after = [fingerprint_of(name) for name in names]
        assert tuple(a != b for a, b in zip(before, after, strict=True)) == expected, name
        before = after


def test_every_method_of_the_package_has_a_fingerprint_of_its_own():
    found = resolve_methods(BUILT_IN)
    # Some names share a class: one for each number of losses.
    assert len({m.fingerprint for m in found}) == len({BUILT_IN[m.name].location for m in found})
