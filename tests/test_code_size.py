"""Which lines benchmarks/code_size.py counts."""

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "benchmarks" / "code_size.py"
COUNTED = runpy.run_path(str(SCRIPT))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("# a comment\n\nx = 1  # another\n", {3}),
        ('"""A docstring\n\nof three lines."""\nx = 1\n', {4}),
        ('text = """A value\n\nof three lines."""\n', {1, 2, 3}),
        ("import os\nfrom sys import (\n    path,\n    argv,\n)\n\nprint(\n    path\n)\n", {7, 8, 9}),
        ('def f():\n    """What it does."""\n    import os\n\n    return os\n', {1, 5}),
        ('class A:\n    x: int\n    """What x is."""\n', {1, 2}),
        ("x = [\n    # why\n    1,\n\n]\n", {1, 3, 5}),
        ("", set()),
    ],
)
def test_lines_that_count(source, expected):
    assert COUNTED["code_lines"](source) == expected


def test_functions_that_warn_of_a_deprecation():
    source = (
        "def new():\n    pass\n\n@property\ndef old(self):\n    warn_deprecated('old')\n    return new()\n"
    )
    assert COUNTED["deprecated_lines"](source) == {5, 6, 7}


def test_every_file_of_the_package_counts_once():
    files = [path.relative_to(SCRIPT.parents[1]).as_posix() for path in COUNTED["files"]()]
    assert len(files) == len(set(files))
    assert {"hpobench_nmt/__init__.py", "methods/gaussian_process.py"} <= set(files)
    assert not any(name.startswith(("hpobench_nmt/methods/", "hpobench_nmt/evaluation/")) for name in files)
