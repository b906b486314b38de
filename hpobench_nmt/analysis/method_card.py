"""The description of a method in lines: what it does, its papers, its settings, and what it needs."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path
from typing import Any

from hpobench_nmt.benchmarking.contestants.method_settings import settings_of, shown, split_spec
from hpobench_nmt.benchmarking.contestants.plugins import load_method, resolve_methods
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.methods import KNOWN, BuiltIn


def method_card(spec: str) -> list[str]:
    """The lines that describe a method of the package or of the user; InputError if it does not exist."""
    name, _ = split_spec(spec)
    known = KNOWN.get(name)
    settings: dict[str, Any] | None = None
    missing = ""
    try:
        resolve_methods([spec])
        settings = settings_of(load_method(spec))
    except InputError as error:
        if known is None or not known.missing():
            raise
        missing = str(error)
    if known is None:
        lines = [f"{spec}: a method of yours"]
        lines += _paragraphs((load_method(spec).__doc__ or "").strip())
    else:
        lines = [f"{known.name}: {known.description}", f"objectives: {known.counts}", *about_method(known)]
    if known is not None and known.partial:
        lines.append("It stops trainings early, so it needs a table with learning curves.")
    if known is not None and known.extra:
        lines.append(f"extra: {known.extra}{'' if missing else ', installed'}")
    if missing:
        lines.append(missing)
    elif settings:
        lines.append("settings, with their values:")
        lines += [f"  {key} = {shown(value)}" for key, value in settings.items()]
        lines.append(f'Another value: --methods "{name}({next(iter(settings))}=...)".')
    else:
        lines.append("It has no settings.")
    return lines


def about_method(known: BuiltIn) -> list[str]:
    """From the docstring of a known method's module: the introduction, and the paragraphs on papers."""
    return _paragraphs(_about(f"hpobench_nmt.methods.{known.location.partition(':')[0]}"))


def _paragraphs(text: str) -> list[str]:
    first, *others = text.split("\n\n")
    return [" ".join(paragraph.split()) for paragraph in [first, *filter(_of_a_paper, others)] if paragraph]


def _about(module: str) -> str:
    """The description at the top of a module, which names its paper, without importing it."""
    found = importlib.util.find_spec(module)
    if found is None or found.origin is None:
        return ""
    return ast.get_docstring(ast.parse(Path(found.origin).read_text(encoding="utf-8"))) or ""


def _of_a_paper(paragraph: str) -> bool:
    """Whether a paragraph names a year, and is not a table of symbols."""
    return re.search(r"\b(19|20)\d\d\b", paragraph) is not None and "   " not in paragraph
