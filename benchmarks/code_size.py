"""Lines of code of the package, by room: comments, docstrings, blank lines and imports do not count.

    python benchmarks/code_size.py            # a line for each room, then the total
    python benchmarks/code_size.py --files    # and a line for each file

A line counts if a token other than a comment, a docstring or an import lies on it. Functions that warn of a
deprecation, and the file of old names of commands, leave with the next major version, so their lines are also
shown apart. The total includes them.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("hpobench_nmt", "methods", "evaluation", "tables")
OLD_NAMES = "old_names.py"
LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
LAYOUT.add(tokenize.ENDMARKER)


def code_lines(source: str) -> set[int]:
    """Numbers of the lines that count."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    lines = {n for t in tokens if t.type not in LAYOUT for n in range(t.start[0], t.end[0] + 1)}
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Expr(ast.Constant(str())):
                lines.difference_update(_lines(node))
    return lines


def deprecated_lines(source: str) -> set[int]:
    """Numbers of the lines of functions that call `warn_deprecated`."""
    functions = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))
    return {n for function in functions if _warns(function) for n in _lines(function)}


def _warns(function: ast.FunctionDef) -> bool:
    calls = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
    return any(isinstance(called, ast.Name) and called.id == "warn_deprecated" for called in calls)


def _lines(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def files() -> Iterator[Path]:
    """The package's files. The links in hpobench_nmt/ are not followed."""
    for folder in FOLDERS:
        yield from sorted((ROOT / folder).rglob("*.py"))


def main() -> None:
    rooms, deprecated = Counter[str](), 0
    by_file = {path.relative_to(ROOT): path.read_text("utf-8") for path in files()}
    for path, source in by_file.items():
        lines = code_lines(source)
        rooms["/".join(path.parts[:-1][:2])] += len(lines)
        deprecated += len(lines if path.name == OLD_NAMES else lines & deprecated_lines(source))
        if "--files" in sys.argv[1:]:
            print(f"{len(lines):7,}  {path.as_posix()}")
    for room, n in rooms.items():
        print(f"{n:7,}  {room}/")
    print(f"{deprecated:7,}  of these leave with version 2.0")
    print(f"{rooms.total():7,}  lines of code in {len(by_file)} files")


if __name__ == "__main__":
    main()
