"""Sentences that must be read twice: patterns that no text for users may have.

Texts are the documentation, and in the code public docstrings and all strings of several words: help,
messages, captions. The table of patterns has what to write instead. Run as a script, it prints what it finds:

    python tests/test_english.py
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
CODE = ("hpobench_nmt", "methods", "evaluation")
TEXTS = (
    "README.md",
    "CONTRIBUTING.md",
    "ARCHITECTURE.md",
    "SECURITY.md",
    "AGENTS.md",
    "RELEASING.md",
    "docs/**/*.md",
)


class Pattern(NamedTuple):
    """What is not written, what to write, and whether docstrings may have it (as names of the interface)."""

    regex: str
    instead: str
    in_docstrings: bool = False


PATTERNS = (
    Pattern(
        r"(?:^|[.:] )What (?:[\w'-]+ ){1,9}(?:is|are) (?!not\b)[a-z][^?]{2,60}?[.;]",
        "the subject first",
        True,
    ),
    Pattern(r"\b(?:goes|go|went|going|gone) on\b", "continue, resume"),
    Pattern(r"\b(?:is|are|was|were|been|be) begun\b", "starts, started"),
    Pattern(r"\bof use\b", "useful"),
    Pattern(r"\b(?:is|are|was|were|been|be) said\b(?! to be)", "reported, announced"),
    Pattern(r"\b(?:is|are|was|were|been|be) told\b(?! (?:from|apart))", "receives, learns", True),
    Pattern(r"\b(?:says? so|says? of|to say of|says? what follows)\b", "reports, describes", True),
    Pattern(r"\bmend(?:s|ed|ing)?\b", "fix"),
    Pattern(r"\banew\b", "again"),
    Pattern(r"\b(?:new|other) (?:first|second|third) (?:one|number)\b", "major, minor, patch"),
    Pattern(r"\bso many\b", "that many"),
    Pattern(r"\btoo[.;:](?:\s|$)", "as well, also"),
    Pattern(r"\bbesides\b", "also, in addition, apart from"),
    Pattern(
        r"(?<![Tt]here )\b(?:is|are|was|were) no "
        r"(?!longer|more|less|better|worse|other|need|further|such|one|\d)[a-z]+",
        "is not a ...",
    ),
    Pattern(
        r"(?<!if )(?<!where )(?<!until )\b[Tt]here (?:is|are) none\b(?! to)", "name what is missing", True
    ),
    Pattern(r"\bsays? (?:how|what|which|where|when)\b", "explains, names, states", True),
    Pattern(r"\b(?:is|are|was) there twice\b", "occurs twice", True),
    Pattern(r"\bbut for\b(?! each\b)", "except", True),
    Pattern(r"\bat the (?:most|least)\b", "at most, at least", True),
    Pattern(r"\b[Ss]ome (?:\d|fifty|hundred\b|thousand\b)", "about", True),
    Pattern(r"\bknows? no\b", "does not know, does not support", True),
    Pattern(r"\bin place of\b", "instead of", True),
    Pattern(r"\b(?:to|may|can) be had\b", "available", True),
    Pattern(r"\btells? (?:\w+ ){1,3}apart\b|\btold from\b", "distinguishes", True),
    Pattern(
        r"\b(?:bits|lines|look-ups|nats|perplexity|seconds|tokens|trials|words) a "
        r"(?:line|row|second|side|step|token|training|trial|word)\b",
        "per",
        True,
    ),
)


def sentences(text: str) -> str:
    """A text on one line, without code."""
    return re.sub(r"\s+", " ", re.sub(r"`[^`\n]*`", "`code`", text))


def texts() -> Iterator[tuple[str, str, bool]]:
    """(where, text, whether it is a docstring) of every paragraph and every string."""
    for pattern in TEXTS:
        for path in sorted(ROOT.glob(pattern)):
            if "_build" not in path.parts:
                for paragraph in paragraphs(path.read_text(encoding="utf-8")):
                    yield str(path.relative_to(ROOT)), sentences(paragraph), False
    for folder in CODE:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path.is_relative_to(ROOT / "hpobench_nmt") and path.parent.name in (*CODE, "tables"):
                continue  # links to the folders at the top
            for line, text, docstring in strings(path.read_text(encoding="utf-8")):
                yield f"{path.relative_to(ROOT)}:{line}", sentences(text), docstring


def paragraphs(page: str) -> list[str]:
    """The paragraphs, list items and table rows of a page, without its blocks of code."""
    body = re.sub(r"^```.*?^```$", "", page, flags=re.DOTALL | re.MULTILINE)
    return re.split(r"\n\s*\n|\n(?=[-|\d] ?)", body)


def strings(source: str) -> Iterator[tuple[int, str, bool]]:
    """(line, text, whether it is a docstring) of the strings of a program that users may see."""
    tree = ast.parse(source)
    docstrings, inner, parts = set(), set(), set()
    for node in ast.walk(tree):
        first = node.body[0] if isinstance(getattr(node, "body", None), list) and node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            docstrings.add(first.value)
            if isinstance(node, ast.Module) or getattr(node, "name", "_").startswith("_"):
                inner.add(first.value)
        if isinstance(node, ast.JoinedStr):
            parts.update(node.values)
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            values = (str(v.value) if isinstance(v, ast.Constant) else "{}" for v in node.values)
            yield node.lineno, "".join(values), False
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inner | parts:
            yield node.lineno, node.value, node in docstrings


def found() -> list[str]:
    """What is not written so, one line each."""
    lines = []
    for where, text, docstring in texts():
        for pattern in PATTERNS:
            if docstring and pattern.in_docstrings:
                continue
            for match in re.finditer(pattern.regex, text):
                around = text[max(0, match.start() - 60) : match.end() + 60]
                lines.append(f"{where}: …{around}… ({match[0].strip()!r}: {pattern.instead})")
    return lines


def test_no_sentence_has_to_be_read_twice():
    assert found() == []


@pytest.mark.parametrize(
    "bad",
    [
        "What the others are ahead of them is what the sources are worth.",
        "To go on with a row is no new one.",
        "The row is no candidate.",
        "What is to go is said in the changelog.",
        "A new third number mends bugs.",
        "Once so many have been begun, it stops.",
        "It takes these, too.",
        "There is none.",
        "The message says which file it is.",
        "The column is there twice.",
        "All tables but for one have curves.",
        "It takes 3 look-ups at the most.",
        "Some 50 variants were tried.",
        "The scripts know no clock.",
        "Use it in place of a table.",
        "The files are not to be had.",
        "Such a table tells methods apart badly.",
        "The loss is 3.2 nats a token.",
    ],
)
def test_what_the_patterns_find(bad):
    assert any(re.search(pattern.regex, sentences(bad)) for pattern in PATTERNS)


@pytest.mark.parametrize(
    "good",
    [
        "What should I run?",
        "Resuming a row does not count as a new one.",
        "There is no need to install it, and it is no longer slow.",
        "Use `is begun` in code.",
    ],
)
def test_what_they_leave_alone(good):
    assert not any(re.search(pattern.regex, sentences(good)) for pattern in PATTERNS)


if __name__ == "__main__":
    sys.stdout.write("".join(f"{line}\n" for line in found()))
