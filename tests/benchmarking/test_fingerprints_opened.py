"""What a method is loaded and made from, beyond its import statements; and what only its trials open."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import hpobench_nmt as hb
from hpobench_nmt.benchmarking.contestants import opened_files
from hpobench_nmt.benchmarking.contestants.opened_files import files_of, recorded
from hpobench_nmt.benchmarking.contestants.plugins import resolve_methods
from hpobench_nmt.benchmarking.records.manifest import read_manifest
from hpobench_nmt.benchmarking.records.store import load_results
from hpobench_nmt.benchmarking.run import run_suite
from hpobench_nmt.benchmarking.task.instance import make_instance
from hpobench_nmt.benchmarking.task.suite import Suite

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that are forked")

METHOD = """
class M:
    def __init__(self, problem, rng):
        self.left = list(range(len(problem.features)))
        {made}

    def ask(self):
        {asked}
        return self.left[{place}]

    def tell(self, index, losses):
        self.left.remove(index)
"""


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def method(path, loaded="", made="pass", asked="pass", place="0"):
    return write(
        path, f"from pathlib import Path\n{loaded}\n{METHOD.format(made=made, asked=asked, place=place)}"
    )


def fingerprint_of(path):
    (found,) = resolve_methods([f"{path}:M"])
    return found.entry.fingerprint


BESIDE = "Path(__file__).with_name('data.txt')"


@pytest.mark.parametrize(
    ("code", "changed"),
    [
        ({"loaded": "from pkg import *"}, "pkg/sub.py"),
        ({"loaded": "import importlib\nhelper = importlib.import_module('helper')"}, "helper.py"),
        ({"loaded": "helper = __import__('helper')"}, "helper.py"),
        ({"asked": "import importlib; importlib.import_module('helper')"}, "helper.py"),
        ({"asked": "from importlib import import_module; import_module('pkg.sub')"}, "pkg/sub.py"),
        ({"asked": "__import__('helper')"}, "helper.py"),
        ({"loaded": "helper = __import__('hel' + 'per')"}, "helper.py"),
        ({"loaded": f"with open({BESIDE}) as file:\n    exec(file.read())"}, "data.txt"),
        ({"loaded": f"data = {BESIDE}.read_bytes()"}, "data.txt"),
        ({"loaded": f"import numpy\ndata = numpy.genfromtxt({BESIDE})"}, "data.txt"),
        ({"made": f"self.data = {BESIDE}.read_text()"}, "data.txt"),
        ({"made": f"assert problem.n_objectives == 2; self.data = {BESIDE}.read_text()"}, "data.txt"),
        ({"made": f"{BESIDE}.read_text(); import os; os._exit(3)"}, "data.txt"),
        ({"made": f"open({BESIDE}); raise ValueError"}, "data.txt"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value.values())[:60],
)
@pytest.mark.parametrize("folder", ["mine", "site-packages/mine"])
def test_a_change_is_noticed(tmp_path, monkeypatch, folder, code, changed):
    folder = tmp_path / folder
    path = method(folder / "m.py", **code)
    write(folder / "pkg" / "__init__.py", "__all__ = ['sub']\n")
    write(folder / "pkg" / "sub.py", "SHIFT = 1\n")
    write(folder / "helper.py", "SHIFT = 1\n")
    write(folder / "data.txt", "1\n")
    write(folder / "never.txt", "1\n")
    before = fingerprint_of(path)
    write(folder / "never.txt", "2\n")
    assert fingerprint_of(path) == before
    write(folder / changed, "2\n")
    assert fingerprint_of(path) != before


def test_a_helper_that_two_methods_share_counts_for_both(tmp_path):
    """Whichever is loaded first in this process."""
    paths = [method(tmp_path / name, "helper = __import__('hel' + 'per')") for name in ("a.py", "b.py")]
    write(tmp_path / "helper.py", "")
    before = [fingerprint_of(path) for path in paths]
    write(tmp_path / "helper.py", "SHIFT = 1\n")
    assert all(now != then for now, then in zip(map(fingerprint_of, paths), before, strict=True))


def test_libraries_and_what_they_keep_do_not_count(tmp_path, monkeypatch):
    library = write(tmp_path / "lib" / "site-packages" / "drawing_library.py", "")
    cache = write(tmp_path / "cache" / "fonts.json", "")
    monkeypatch.syspath_prepend(str(library.parent))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(cache.parent))
    opened_files._system_folders.cache_clear()
    code = "import drawing_library, json, scipy.stats\n"
    code += f"open({str(cache)!r}).close()\nopen('/proc/self/stat').close()\n"
    path = method(tmp_path / "mine" / "m.py", code)
    (found,) = resolve_methods([f"{path}:M"])
    del sys.modules["drawing_library"]
    assert found.files == {path}
    opened_files._system_folders.cache_clear()


@pytest.mark.parametrize(
    ("code", "noted"),
    [
        ("open('f')", True),
        ("open('f', 'rb')", True),
        ("open('f', 'r+b')", True),
        ("open('f', 'a+')", True),
        ("open('f', 'w')", False),
        ("open('f', 'ab')", False),
        ("open('f', 'w+b')", False),
        ("os.open('f', os.O_RDONLY)", True),
        ("os.open('f', os.O_RDWR)", True),
        ("os.open('f', os.O_WRONLY | os.O_APPEND)", False),
        ("os.open('f', os.O_RDWR | os.O_TRUNC)", False),
        ("open('f', 'w').close(); open('f')", False),
        ("sqlite3.connect('f')", True),
        ("open(os.open('/dev/null', os.O_RDONLY))", False),
    ],
)
def test_what_is_read_is_noted_and_what_is_only_written_is_not(tmp_path, code, noted):
    write(tmp_path / "f", "")
    program = "import os, sqlite3\n"
    program += "from hpobench_nmt.benchmarking.contestants.opened_files import files_of, recorded\n"
    program += f"found = set()\nwith recorded(found.add):\n    {code}\nopen('f')\nprint(files_of(found))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert (str(tmp_path / "f") in done.stdout) is noted


# --- trials ----------------------------------------------------------------------------------------

SUITE = Suite("s", ("ftb",), trials=4)


@pytest.fixture
def run(toy_home, toy, tmp_path):
    """Runs a method on the toy table into a folder; what was said, and the rows of all trials."""

    def run(method, jobs=1):
        said = []
        instances = {"toy": make_instance(SUITE, hb.load_table("toy"))}
        methods = resolve_methods([method])
        found = run_suite(SUITE, instances, methods, jobs=jobs, folder=tmp_path / "r", notify=said.append)
        return said, [trial.rows.tolist() for trial in found.trials["toy", methods[0].name]]

    return run


READS = f"place = int({BESIDE}.read_text())"
IMPORTS = "import sys; sys.path.append(str(Path(__file__).parent)); place = __import__('hel' + 'per').place"


@pytest.mark.parametrize("asked", [READS, IMPORTS])
def test_results_of_trials_that_open_something_new_are_not_reused(run, tmp_path, asked):
    path = method(tmp_path / "mine" / "m.py", asked=asked, place="place")
    name = "data.txt" if "data" in asked else "helper.py"
    data = write(tmp_path / "mine" / name, "0" if "data" in asked else "place = 0")
    said, first = run(f"{path}:M")
    assert len(said) == 1
    assert said[0].startswith(
        f"method 'M' reads {name} in its trials, but not when it is loaded or constructed."
    )
    entry = read_manifest(tmp_path / "r").methods["M"]
    assert entry.not_covered == name
    assert load_results(tmp_path / "r", resolve_methods([f"{path}:M"])).methods == ("M",)
    data.write_text(data.read_text().replace("0", "-1"))
    said, second = run(f"{path}:M")
    assert said[0] == f"method 'M' read {name} in its trials, which may have changed since: it runs again."
    assert len(said) == 2
    assert second != first


@pytest.mark.parametrize("code", [{"made": READS.replace("place", "self.place")}, {"asked": "import helper"}])
def test_results_of_trials_that_open_nothing_new_are_reused(run, tmp_path, code):
    path = method(tmp_path / "mine" / "m.py", **code)
    write(tmp_path / "mine" / "data.txt", "0")
    write(tmp_path / "mine" / "helper.py", "")
    log = tmp_path / "mine" / "log"
    path.write_text(
        path.read_text().replace(
            "        self.left =", f"        open({str(log)!r}, 'a').write('x')\n        self.left ="
        )
    )
    assert run(f"{path}:M")[0] == []
    made = len(log.read_text())
    assert run(f"{path}:M")[0] == []
    assert len(log.read_text()) == made + 1  # for the fingerprint alone


def test_a_trial_that_ends_its_process_after_reading_is_marked_too(run, tmp_path):
    path = method(tmp_path / "mine" / "m.py", asked=f"{BESIDE}.read_text(); import os; os._exit(1)")
    write(tmp_path / "mine" / "data.txt", "0")
    assert run(f"{path}:M")[0][0].startswith("method 'M' reads data.txt")


class Reads:
    """An object, which runs in this process."""

    data = Path()

    def __init__(self, problem, rng):
        self.left = list(range(len(problem.features)))
        self.data.read_text()

    def ask(self):
        return self.left[0]

    def tell(self, index, losses):
        self.left.remove(index)


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_an_object_reads_in_its_trials_is_marked(run, tmp_path, monkeypatch, jobs):
    monkeypatch.setattr(Reads, "data", write(tmp_path / "data.txt", "0"))
    monkeypatch.setattr(
        sys, "path", [*sys.path, str(Path(__file__).parents[2])]
    )  # workers import this module

    class Mine(Reads):
        data = tmp_path / "data.txt"

    (said, *_), _ = run(Mine, jobs)
    assert said.startswith("method 'Mine' reads data.txt")


def test_the_mark_is_read_by_people_and_by_version_1_0(run, tmp_path):
    path = method(tmp_path / "mine" / "m.py", asked=READS)
    write(tmp_path / "mine" / "data.txt", "0")
    run(f"{path}:M")
    content = json.loads((tmp_path / "r" / "manifest.json").read_text())["methods"]["M"]
    assert list(content) == ["spec", "fingerprint"]
    assert content["fingerprint"] == f"{fingerprint_of(path)}, but trials read data.txt"


def test_paths_that_are_gone_or_compiled():
    found = set()
    with recorded(found.add), Path(__file__).open():
        pass
    assert files_of([*found, "/no/such/file", "/no/__pycache__/x.nbi"]) == {Path(__file__).resolve()}
    assert files_of([os.path.realpath(json.__file__)]) == {Path(os.path.realpath(json.__file__))}
