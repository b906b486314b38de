"""A method's fingerprint changes whenever a source that it depends on does, and never otherwise."""

import importlib
import subprocess
import sys

import pytest

from hpobench_nmt.benchmarking.contestants import fingerprints, source_files
from hpobench_nmt.benchmarking.contestants.fingerprints import fingerprint
from hpobench_nmt.benchmarking.contestants.plugins import resolve_methods
from hpobench_nmt.methods import BUILT_IN, ROWS_VERSIONS

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
    return method.entry.fingerprint


def edit(path, text="# edited\n"):
    path.write_text(path.read_text() + text)


@pytest.fixture
def importable(tmp_path, monkeypatch):
    """A folder on the import path, whose modules are forgotten afterwards."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path / "site" / "site-packages"))
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
    assert source_files.closure([file]) == [file]


def test_where_a_file_lies_plays_no_part(tmp_path):
    for folder in ("one", "two"):
        write(tmp_path / folder / "sweep.py", f"from near import first\n{METHOD}")
        write(tmp_path / folder / "near.py", FIRST)
    one = fingerprint(min, file=tmp_path / "one" / "sweep.py").sha256
    assert one == fingerprint(min, file=tmp_path / "two" / "sweep.py").sha256


@pytest.mark.parametrize("name", ["Sweep", "make"])
def test_an_installed_method_that_is_given_as_an_object_depends_on_its_package(importable, name):
    """What else is installed is left to its version."""
    site = importable / "site-packages"
    text = f"from theirs.helper import first\nimport other\n{METHOD}"
    text += "\ndef make(problem, rng):\n    return Sweep\n"
    write(site / "theirs" / "__init__.py", "")
    file = write(site / "theirs" / "sweep.py", text)
    helper = write(site / "theirs" / "helper.py", FIRST)
    other = write(site / "other.py", "")
    factory = getattr(importlib.import_module("theirs.sweep"), name)
    before = fingerprint(factory)
    edit(other)
    assert fingerprint(factory) == before
    for path in (helper, file):
        edit(path)
        after = fingerprint(factory)
        assert after != before, path
        before = after


SCRIPT = """
from near import first
from hpobench_nmt.benchmarking.contestants.plugins import resolve_methods
from hpobench_nmt.methods.gaussian_process import bayesian_optimisation
{method}
def flat(a, b):
    return 0.5
if __name__ == "__main__":
    for method in resolve_methods([Sweep, bayesian_optimisation(flat)]):
        print(method.name, method.entry.fingerprint)
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


# --- methods of the package ------------------------------------------------------------------------


def test_a_method_of_the_package_is_identified_by_the_version_of_its_rows(monkeypatch):
    before = {m.name: m.entry for m in resolve_methods(list(BUILT_IN))}
    assert not any(entry.fingerprint for entry in before.values())
    monkeypatch.setitem(ROWS_VERSIONS, "BO_EI_M", 7)
    after = {m.name: m.entry for m in resolve_methods(list(BUILT_IN))}
    assert [name for name in after if not after[name].same_rows(before[name])] == ["BO_EI_M"]
    assert after["BO_EI_M"].identity == "rows version 7"


def test_a_users_method_depends_on_the_methods_that_it_imports_and_on_the_trial_loop(tmp_path, monkeypatch):
    imports = {
        "none": "",
        "method": "from hpobench_nmt.methods.gaussian_process import BO_M\n",
        "part": "from hpobench_nmt.methods.kernels import rbf\n",
        "list": "from hpobench_nmt.methods import BUILT_IN\n",
    }
    files = [write(tmp_path / f"{name}.py", f"{text}first = min\n{METHOD}") for name, text in imports.items()]
    before = [fingerprint_of(f"{file}:Sweep") for file in files]

    def changed():
        after = [fingerprint_of(f"{file}:Sweep") for file in files]
        return {name for name, a, b in zip(imports, before, after, strict=True) if a != b}

    with monkeypatch.context() as patch:
        patch.setitem(ROWS_VERSIONS, "BO_EI_M", 7)
        assert changed() == {"method", "part", "list"}
    with monkeypatch.context() as patch:
        patch.setitem(ROWS_VERSIONS, "RS", 7)
        assert changed() == {"part", "list"}  # several methods share a part
    monkeypatch.setattr(fingerprints, "_TRIAL", "trial version 7")
    assert changed() == set(imports)


def test_a_base_class_in_another_file_is_part_of_a_class(importable):
    write(importable / "bases.py", f"first = min\n{METHOD}")
    file = write(importable / "mine.py", "from bases import Sweep\nclass Mine(Sweep):\n    pass\n")
    module = importlib.import_module("mine")
    before = fingerprint(module.Mine)
    for path in (importable / "bases.py", file):
        edit(path)
        after = fingerprint(module.Mine)
        assert after != before
        before = after


IMPORTS = """
import a, b.c as d
from e import f, g as h
from . import i
from ..j import k
from ...l.m import *
def later():
    import n
    class Inner:
        from o import p
try:
    import q
except ImportError:
    import r
else:
    import s
finally:
    import t
if TYPE_CHECKING:
    import no
elif x:
    import u
else:
    import v
if typing.TYPE_CHECKING:
    from no import no
else:
    import w
if not TYPE_CHECKING:
    import x
match y:
    case 1:
        import y
with z:
    for _ in ():
        import z
    while True:
        import a
"""


def test_every_import_statement_is_found_once(tmp_path):
    found = source_files._imports(write(tmp_path / "imports.py", IMPORTS))
    plain = [i.module for i in found if not i.names and not i.level]
    assert sorted(plain) == sorted(["a", "b.c", "n", "q", "r", "s", "t", "u", "v", "w", "x", "y", "z"])
    assert [(i.module, i.names, i.level) for i in found if i.names or i.level] == [
        ("e", ("f", "g"), 0),
        ("", ("i",), 1),
        ("j", ("k",), 2),
        ("l.m", (), 3),
        ("o", ("p",), 0),
    ]
    for broken in ("def (:", "import a\n\0", "x = " + "(" * 10_000):
        assert source_files._imports(write(tmp_path / "broken.py", broken)) == ()
    assert source_files._imports(tmp_path / "nowhere.py") == ()


@pytest.fixture
def tree(tmp_path):
    """A package of packages beside a module, none of it on the import path."""
    for name in (
        "top/__init__",
        "top/a",
        "top/inner/__init__",
        "top/inner/b",
        "top/inner/deep/__init__",
        "top/inner/deep/c",
        "beside",
        "top/unused",
    ):
        write(tmp_path / "tree" / f"{name}.py", "")
    return tmp_path / "tree"


@pytest.mark.parametrize(
    ("statement", "reached"),
    [
        ("", []),
        ("import beside", ["beside"]),
        ("import top.a", ["top/a"]),
        ("from top import a", ["top/a"]),
        ("from . import c, nothing", ["top/inner/deep/c"]),
        ("from .c import x", ["top/inner/deep/c"]),
        ("from .. import b", ["top/inner/b"]),
        ("from ..b import x", ["top/inner/b"]),
        ("from ... import a", ["top/a"]),
        ("from ...a import x", ["top/a"]),
        ("from ...nothing import x", []),
        ("import top.inner.b as b", ["top/inner/b"]),
        ("import nothing.at.all", []),
    ],
)
def test_what_a_file_in_a_package_reaches(tree, statement, reached):
    """With the packages around it, which importing it runs, and those on the way to what it imports."""
    file = write(tree / "top/inner/deep/mine.py", statement + "\n")
    around = ["top/__init__", "top/inner/__init__", "top/inner/deep/__init__", "top/inner/deep/mine"]
    assert source_files.closure([file]) == sorted(tree / f"{name}.py" for name in [*around, *reached])


def test_what_a_file_beside_a_package_reaches(tree):
    file = write(tree / "mine.py", "import top.inner.b\n")
    names = ["mine", "top/__init__", "top/inner/__init__", "top/inner/b"]
    assert source_files.closure([file]) == [tree / f"{name}.py" for name in names]
    assert source_files.closure([tree / "mine.txt"]) == []
