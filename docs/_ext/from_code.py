"""Directives that show what the code says, so that a page cannot go stale.

{module-doc} package.module   the docstring of a module; lists in two columns become tables
{suite-keys}                  the keys of a suite file
{suite-list}                  the suites that ship, each as the file that it is
{family-list}                 the model families
{setting-list}                the model families' settings and metrics
{corpus-list}                 the corpora's options
{method-list}                 the methods, with the extras that they need
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
from itertools import pairwise
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from hpobench_nmt.runner.settings import Setting, Settings, settings_of


class ModuleDoc(SphinxDirective):
    """The docstring of a module."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Paragraphs, tables and literal blocks."""
        found = importlib.util.find_spec(self.arguments[0])  # not imported: it may need torch
        source = Path(found.origin) if found and found.origin else None
        text = ast.get_docstring(ast.parse(source.read_text("utf-8"))) if source else None
        if not text:
            raise ExtensionError(f"{self.arguments[0]} has no docstring.")
        self.env.note_dependency(str(source))
        return [_block(block) for block in re.split(r"\n\s*\n", text)]


def _block(text: str) -> nodes.Node:
    """A part of a docstring between empty lines."""
    lines = inspect.cleandoc(text).splitlines()
    if lines[0].split()[0] == "symbol":
        head, *rows = _aligned(lines)
        return _table(head, rows)
    if all(line.startswith(("- ", "  ")) for line in lines):
        items = re.split(r"^- ", "\n".join(lines), flags=re.MULTILINE)[1:]
        paragraphs = [nodes.paragraph("", "", *_words(" ".join(item.split()))) for item in items]
        return nodes.bullet_list("", *[nodes.list_item("", paragraph) for paragraph in paragraphs])
    columns = _columns(lines)
    if columns:
        return _table((), columns)
    if text.startswith(" "):
        return _literal("\n".join(lines), "text")
    return nodes.paragraph("", "", *_words(" ".join(lines)))


def _aligned(lines: list[str]) -> list[tuple[str, ...]]:
    """The rows of a list whose columns begin where those of its first line do."""
    starts = [match.start() for match in re.finditer(r"\S+(?: \S+)*", lines[0])]
    ends = [*starts[1:], None]
    rows: list[tuple[str, ...]] = []
    for line in lines:
        if any(start and line[start - 1 : start].strip() for start in starts):
            raise ExtensionError(f"a cell is wider than its column: {line}")
        cells = tuple(line[start:end].strip() for start, end in zip(starts, ends, strict=True))
        if cells[0]:
            rows.append(cells)
        else:
            rows[-1] = tuple(f"{a} {b}".strip() for a, b in zip(rows[-1], cells, strict=True))
    return rows


def _columns(lines: list[str]) -> list[tuple[str, ...]]:
    """The rows of a list in two columns, "key   what it is"; none where the lines are no such list."""
    start = re.match(r"(\S.*?)\s{2,}(?=\S)", lines[0])
    if not start or start[1].endswith(";"):  # formulas
        return []
    rows: list[tuple[str, ...]] = []
    for line in lines:
        key, gap, value = re.fullmatch(r"(\S.*?)?(\s{2,}|$)(.*)", line).groups()  # type: ignore[union-attr]
        if key and value and not gap.strip():
            rows.append((key, value))
        elif not key and line.startswith(" " * start.end()):
            rows[-1] = (rows[-1][0], f"{rows[-1][1]} {line.strip()}")
        else:
            return []
    return rows


def _words(text: str) -> list[nodes.Node]:
    """A text whose `code` is marked as such."""
    parts = re.split(r"`+([^`]+)`+", text)
    return [nodes.literal(text=part) if i % 2 else nodes.Text(part) for i, part in enumerate(parts) if part]


class SuiteKeys(SphinxDirective):
    """The keys of a suite file."""

    def run(self) -> list[nodes.Node]:
        """One table, of the fields with a text below them."""
        from hpobench_nmt.benchmarking.task.suite import Suite

        (described,) = ast.parse(inspect.getsource(Suite)).body
        rows = []
        for field, text in pairwise(described.body):
            match field, text:
                case ast.AnnAssign(ast.Name(key)), ast.Expr(ast.Constant(str(words))):
                    rows.append((key, " ".join(words.split())))
        return [_table(("key", "what it is"), rows)]


class SuiteList(SphinxDirective):
    """The suites that ship."""

    def run(self) -> list[nodes.Node]:
        """A section for each."""
        from hpobench_nmt.benchmarking.task.suite_files import suite_files

        return [
            _section(f"suite-{name}", name, [_literal(path.read_text(), "toml")])
            for name, path in suite_files().items()
        ]


class FamilyList(SphinxDirective):
    """The model families."""

    def run(self) -> list[nodes.Node]:
        """One table."""
        from hpobench_nmt.runner.families import FAMILIES, load_family

        rows = [(name, family.models, family.source) for name in FAMILIES for family in [load_family(name)]]
        return [_table(("family", "models", "from"), rows)]


class SettingList(SphinxDirective):
    """What a spec may set for each family, and what the family measures."""

    def run(self) -> list[nodes.Node]:
        """A section with two tables for each."""
        from hpobench_nmt.runner.families import FAMILIES, load_family

        sections = []
        for name in FAMILIES:
            family = load_family(name)
            metrics = [(m.name, m.direction, m.unit, m.description) for m in family.metrics]
            parts = [_settings(family.settings), _table(("metric", "better", "unit", "what it is"), metrics)]
            sections.append(_section(f"family-{name}", name, parts))
        return sections


class CorpusList(SphinxDirective):
    """What a spec may set for each corpus."""

    def run(self) -> list[nodes.Node]:
        """A section with a table for each."""
        from hpobench_nmt.runner.corpora.load import READERS

        use = {"text": "For language models.", "parallel": "For translation."}
        return [
            _section(
                f"corpus-{name}",
                name,
                [nodes.paragraph("", use[reader.kind]), _settings(reader.options)],
            )
            for name, reader in READERS.items()
        ]


class MethodList(SphinxDirective):
    """The methods that can be named."""

    def run(self) -> list[nodes.Node]:
        """One table."""
        from hpobench_nmt.methods import KNOWN

        rows = [
            (name, entry.description, entry.counts, entry.extra and f"hpobench-nmt[{entry.extra}]")
            for name, entry in KNOWN.items()
        ]
        return [_table(("method", "what it is", "objectives", "needs"), rows)]


def _settings(kind: type[Settings]) -> nodes.table:
    rows = [(s.name, _default(s), _domain(s), s.about.description) for s in settings_of(kind).values()]
    return _table(("setting", "default", "values", "what it is"), rows)


def _default(setting: Setting) -> str:
    """As it is written in a spec."""
    if setting.default is None:
        return "must be set"
    return "[]" if setting.default == () else repr(setting.default)


def _domain(setting: Setting) -> str:
    kind, low, high, unit = setting.kind.__name__, setting.about.low, setting.about.high, setting.about.unit
    if setting.choices:
        return ("list of " if setting.several else "") + " | ".join(setting.choices)
    if setting.several:
        return "text, or list of texts"
    if kind in ("bool", "str"):
        return {"bool": "true | false", "str": "text"}[kind]
    ends = f"{low:g} to {high:g}" if high < float("inf") else f"{low:g} and more"
    return f"{'whole, ' if kind == 'int' else ''}{ends} {unit}".strip()


def _section(name: str, title: str, parts: list[nodes.Node]) -> nodes.section:
    section = nodes.section(ids=[nodes.make_id(name)])
    section += nodes.title(text=title)
    section += parts
    return section


def _literal(text: str, language: str) -> nodes.literal_block:
    return nodes.literal_block(text, text, language=language)


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> nodes.table:
    columns = len(rows[0])
    group = nodes.tgroup(cols=columns)
    group += [nodes.colspec(colwidth=1) for _ in range(columns)]
    if head:
        group += nodes.thead("", _row(head))
    group += nodes.tbody("", *[_row(row, code=True) for row in rows])
    return nodes.table("", group, classes=["from-code"])


def _row(cells: tuple[str, ...], code: bool = False) -> nodes.row:
    def entry(place: int, text: str) -> nodes.entry:
        inside = [nodes.literal(text=text)] if code and place == 0 else _words(text)
        return nodes.entry("", nodes.paragraph("", "", *inside))

    return nodes.row("", *[entry(place, text) for place, text in enumerate(cells)])


def mark_code(app: object, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """An indented block after a sentence is code: the docstrings leave out the marks."""
    marked: list[str] = []
    for line in lines:
        before = next((other for other in reversed(marked) if other.strip()), "")
        deeper = len(line) - len(line.lstrip()) > len(before) - len(before.lstrip())
        is_text = before and not before.lstrip().startswith(("..", ":")) and not before.endswith("::")
        if line.strip() and deeper and is_text and not marked[-1].strip():
            indent = " " * (len(before) - len(before.lstrip()))
            marked += [f"{indent}::", ""]
        marked.append(line)
    lines[:] = marked


def setup(app: Sphinx) -> dict[str, object]:
    """Register the directives."""
    for name, directive in {
        "module-doc": ModuleDoc,
        "suite-keys": SuiteKeys,
        "suite-list": SuiteList,
        "family-list": FamilyList,
        "setting-list": SettingList,
        "corpus-list": CorpusList,
        "method-list": MethodList,
    }.items():
        app.add_directive(name, directive)
    app.connect("autodoc-process-docstring", mark_code)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
