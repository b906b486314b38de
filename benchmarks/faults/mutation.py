"""Mutation testing of one module: does a test fail when the code is changed on purpose?

    pip install -e .[dev]
    python benchmarks/faults/mutation.py evaluation/intervals.py
    python benchmarks/faults/mutation.py evaluation/intervals.py --survivors   # after tests improved
    python benchmarks/faults/mutation.py evaluation/noise.py --sample 100   # an estimate, for a large module
    python benchmarks/faults/mutation.py methods/graph_based.py --tests tests/methods/test_methods.py

Mutmut makes one mutant after another (with an operator exchanged, a number changed, or an argument left out).
For each mutant, it runs the tests that reach the mutated function until a test fails. The script prints the
mutants that survived, and a score. Bar: 90% of the mutants that are not equivalent. The printed score counts
equivalent mutants as survivors.

Without --tests, the tests are tests/ROOM/test_MODULE.py and tests/ROOM/test_MODULE_*.py: a test of another
module that fails by chance does not count. Mutmut skips decorated functions. So the module is mutated in a
copy of the repository, where `name = decorator(name)` after a function replaces `@decorator` before it. The
copy does not use numba's compilation or caches, because they would hide mutants. Leave out tests that need
machine code with --skip. Error messages, `strict` of zip, and code that runs at import (constants, defaults
of dataclasses) are not mutated.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRATCH = ROOT / "build" / "mutation"
BAR = 0.9
# Folders that the package has as links. The copy has real folders instead.
LINKED = ("evaluation", "methods", "tables")
# Decorators that hide mutants, by machine code or by cached results.
HIDING = ("compiled", "cache", "lru_cache")
# Mutmut handles these decorators.
KNOWN_TO_MUTMUT = ("classmethod", "staticmethod")
# `strict` only checks that lengths agree. Mutants without it are equivalent, so they are left out.
STRICT = re.compile(r",? *strict=\w+|, (?=\))")
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
# Compiled code computes log(0) = -inf, but Python's math raises an error.
COMPILED_MATH = """
from math import *
import numpy as np

def log(x):
    return float(np.log(x))

def exp(x):
    return float(np.exp(x))

def sqrt(x):
    return float(np.sqrt(x))
"""
# Exit codes of a mutant's tests in mutmut's records.
KILLED, SURVIVED, NO_TESTS = (1, 3), 0, (5, 33)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("module", type=Path, help="such as evaluation/intervals.py")
    parser.add_argument("--tests", nargs="+", help="test files or folders; by default the module's own")
    parser.add_argument("--survivors", action="store_true", help="test again what survived in the last run")
    parser.add_argument(
        "--skip", help="tests to leave out, as pytest's -k: those that need machine code, say"
    )
    parser.add_argument("--only", help="mutants whose function's name holds this")
    parser.add_argument("--sample", type=int, help="of all mutants only so many, drawn at random (seed 0)")
    arguments = parser.parse_args()
    given = arguments.module.absolute().relative_to(ROOT)
    module = Path("hpobench_nmt", *given.parts) if given.parts[0] in LINKED else given
    folder = SCRATCH / module.with_suffix("").as_posix().replace("/", ".")
    plain, compiled = without_decorators((ROOT / module).read_text("utf-8"))
    chosen = [f"*{arguments.only}*"] if arguments.only else []
    if arguments.survivors:
        codes = _codes(folder, module)  # None if a mutant was not in the sample
        chosen = [name for name, code in codes.items() if code is not None and code not in KILLED]
        if (folder / module).read_text("utf-8") != plain:
            sys.exit(f"{module} has changed since the last run: run without --survivors.")
        if not chosen:
            sys.exit("Nothing survived in the last run.")
        _copy(folder, only="tests")
    else:
        tests = arguments.tests or sorted(_own_tests(module))
        if not tests:
            sys.exit(f"There is no test file of {module}'s own: name some with --tests.")
        shutil.rmtree(folder, ignore_errors=True)
        _copy(folder)
        (folder / "mutants").mkdir()
        (folder / module).write_text(plain, "utf-8")
        if compiled:
            _use_compiled_math(folder / "hpobench_nmt")
        with (folder / "pyproject.toml").open("a", encoding="utf-8") as settings:
            settings.write(_settings(module, tests, compiled, arguments.skip))
        if arguments.sample:
            chosen = _drawn(folder, module, plain, arguments.sample)
    environment = {
        **os.environ,
        "NUMBA_DISABLE_JIT": "1" if compiled else "0",
        "PYTHONPATH": str(folder / "mutants"),  # for processes that tests start
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", "1", *chosen]
    with (folder / "log").open("w") as log:
        done = subprocess.run(command, cwd=folder, env=environment, stdout=log, stderr=log, check=False)
    if done.returncode:
        lines = (folder / "log").read_text(errors="replace").splitlines()
        kept = [line for line in lines if line.strip() and line.lstrip()[0] not in SPINNER]
        sys.exit("\n".join(["mutmut could not do its work:", *kept[-60:]]))
    _report(folder, module)


def without_decorators(source: str) -> tuple[str, bool]:
    """The module with assignments after functions instead of `@decorator` before them.

    Returns:
        the source, and whether functions were compiled.
    """
    lines = source.splitlines()
    compiled = False
    for node in sorted(_decorated(ast.parse(source)), key=lambda n: n.lineno, reverse=True):
        texts = [ast.unparse(d) for d in node.decorator_list]
        names = [text.split("(")[0].split(".")[-1] for text in texts]
        compiled |= "compiled" in names
        indent = " " * node.col_offset
        after = [
            f"{indent}{node.name} = ({text})({node.name})"
            for text, name in reversed(list(zip(texts, names, strict=True)))
            if name not in HIDING
        ]
        assert node.end_lineno is not None
        lines[node.end_lineno : node.end_lineno] = after
        for line in range(node.decorator_list[0].lineno, node.lineno):
            lines[line - 1] = ""
    plain = "\n".join(lines) + "\n"
    return (_with_compiled_math(plain) if compiled else plain), compiled


def _decorated(tree: ast.Module) -> list[ast.FunctionDef]:
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef)]
    functions = [node for body in bodies for node in body if isinstance(node, ast.FunctionDef)]
    return [
        f for f in functions if f.decorator_list and ast.unparse(f.decorator_list[0]) not in KNOWN_TO_MUTMUT
    ]


def _copy(folder: Path, only: str = "") -> None:
    """Copy the repository's files, tracked or new, with folders instead of links."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *([only] if only else [])]
    listed = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    for name in listed.splitlines():
        source = ROOT / name
        if source.is_symlink() or not source.exists():
            continue
        places = [folder / name]
        if Path(name).parts[0] in LINKED:
            places.append(folder / "hpobench_nmt" / name)
        for place in places:
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, place)
    shared = ROOT.parent / "shared"
    if shared.is_dir() and not only:
        (folder / "shared").symlink_to(shared)  # the authors' files, which tests expect there


def _with_compiled_math(source: str) -> str:
    return source.replace("\nimport math\n", "\nfrom hpobench_nmt import compiled_math as math\n")


def _use_compiled_math(package: Path) -> None:
    """Use it in all files with compiled functions, because the module's functions may call them."""
    (package / "compiled_math.py").write_text(COMPILED_MATH, "utf-8")
    for path in package.rglob("*.py"):
        source = path.read_text("utf-8")
        if "import compiled\n" in source:
            path.write_text(_with_compiled_math(source), "utf-8")


def _settings(module: Path, tests: list[str], compiled: bool, skip: str | None) -> str:
    options = ["-p", "no:cacheprovider", "--hypothesis-seed=0"]
    if compiled:
        options += ["-W", "ignore::RuntimeWarning"]
    if skip:
        options += ["-k", f"not ({skip})"]
    return "\n".join(
        [
            "[tool.mutmut]",
            'source_paths = ["hpobench_nmt"]',
            f'only_mutate = ["{module.as_posix()}"]',
            'also_copy = ["benchmarks", "examples", "README.md", "evaluation", "methods", "tables"]',
            f"pytest_add_cli_args_test_selection = {json.dumps(tests)}",
            f"pytest_add_cli_args = {json.dumps(options)}",
            "do_not_mutate_patterns = ['raise \\w+']",
            "timeout_multiplier = 3.0",
            "timeout_constant = 10.0",
            "use_git_change_detection = false",
            "",
        ]
    )


def _drawn(folder: Path, module: Path, source: str, n: int) -> list[str]:
    """Names of n random mutants of the module, or of all mutants if there are fewer."""
    from mutmut.mutation.file_mutation import mutate_file_contents
    from mutmut.utils.format_utils import get_mutant_name

    os.chdir(folder)  # mutmut reads its settings from there
    names = [get_mutant_name(module, name) for name in mutate_file_contents(str(module), source).mutant_names]
    return random.Random(0).sample(names, min(n, len(names)))


def _own_tests(module: Path) -> Iterator[str]:
    room = ROOT / "tests" / module.parts[1]
    for pattern in (f"test_{module.stem}.py", f"test_{module.stem}_*.py"):
        yield from (path.relative_to(ROOT).as_posix() for path in room.rglob(pattern))


def _codes(folder: Path, module: Path) -> dict[str, int | None]:
    """The exit code of each mutant, from mutmut's records."""
    meta = folder / "mutants" / f"{module}.meta"
    if not meta.exists():
        sys.exit(f"{module} has not been mutated yet: run without --survivors first.")
    codes: dict[str, int | None] = json.loads(meta.read_text("utf-8"))["exit_code_by_key"]
    return codes


def _report(folder: Path, module: Path) -> None:
    from mutmut.mutation.diff_apply import get_diff_for_mutant

    os.chdir(folder)
    codes = {name: code for name, code in _codes(folder, module).items() if code is not None}
    for name, code in list(codes.items()):
        if code != SURVIVED and code not in NO_TESTS:
            continue
        lines = get_diff_for_mutant(name, path=module).splitlines()
        changed = [line for line in lines if line[:1] in "-+" and line[:3] not in ("---", "+++")]
        if len({STRICT.sub("", line[1:]) for line in changed}) == 1:
            del codes[name]
            continue
        print(f"{name.rpartition('.')[2]}{'  (no test reaches it)' if code else ''}")
        print("\n".join("    " + line for line in changed))
    count = Counter(
        "survived"
        if c == SURVIVED
        else "not reached"
        if c in NO_TESTS
        else "killed"
        if c in KILLED
        else "timed out"
        for c in codes.values()
    )
    killed = count["killed"] + count["timed out"]
    share = killed / max(len(codes), 1)
    print(
        f"{module}: {killed} of {len(codes)} mutants killed: {share:.1%} (bar: {BAR:.0%})"
        f"  [{', '.join(f'{n} {what}' for what, n in sorted(count.items()))}]"
        f"  {'ok' if share >= BAR else 'BELOW THE BAR, unless the survivors are equivalent'}"
    )


if __name__ == "__main__":
    main()
