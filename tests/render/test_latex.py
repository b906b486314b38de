"""Scores as LaTeX, where names are hostile: a naive reader of TeX finds only the commands that are meant."""

import re
from dataclasses import replace

import pytest

from hpobench_nmt.benchmarking.call import benchmark
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.render.latex import run_latex, tex

# What \input and its kind are made of, what ends a cell, row or line, and what prints as another sign.
HOSTILE = [r"\input{/etc/passwd}", r"\write18{rm}", "^^5cinput", "a & b", r"a \\ b", "50% off", "$x$", "#1"]
HOSTILE += ["a_b", "{", "}", "~", "^", "|", "`", "<", ">", "a--b", "a---b", "''", ",,", "a\nb", "a\r\\end{x}"]
COMMANDS = {"\\textbackslash": "\\", "\\textasciitilde": "~", "\\textasciicircum": "^", "\\textless": "<"}
COMMANDS |= {"\\textgreater": ">", "\\textbar": "|", "\\textasciigrave": "`"}
COMMANDS |= {"\\" + c: c for c in "&%$#_{}"}


def read_by_tex(text):
    """The signs that TeX prints; asserts that nothing in the text acts."""
    assert not re.search("--|''|,,", text)  # ligatures
    shown, at = "", 0
    for token in re.findall(r"\\[a-zA-Z]+(?:\{\})?|\\.|.", text, re.DOTALL):
        at += len(token)
        if token.startswith("\\"):
            shown += COMMANDS[token.removesuffix("{}") if token != r"\{" else token]
        else:
            assert token in "{}" or not re.match(r"[&%$#_~^|<>`\\\n\r]", token), (text, token)
            shown += "" if token in "{}" else token
    assert at == len(text)
    return shown


@pytest.mark.parametrize("name", HOSTILE)
def test_tex_shows_a_text_as_it_is(name):
    shown = name.replace("\n", r"\n").replace("\r", r"\r")
    assert read_by_tex(tex(name)) == shown


def test_usual_names_stay_as_they_are():
    assert [tex(name) for name in ("zh-en", "RS", "ftb", "-0.3", "1.5±2")] == [
        "zh-en", "RS", "ftb", "-0.3", r"1.5$\pm$2"
    ]  # fmt: skip


def test_a_run_on_a_table_of_hostile_names(toy):
    names = [r"\input{x} & 50%", "$m_1$"]
    metrics = [replace(m, name=n) for m, n in zip(toy.metrics[:2], names, strict=True)]
    table = replace(
        toy, metrics=(*metrics, Metric("`m`", "min")), objectives=tuple(names), values=toy.values[:, :3]
    )
    results = benchmark(table, ["RS"], trials=2, scores=["fbp"], objectives=names)
    text = run_latex(results)
    assert r"\input" not in text
    body = "".join(line for line in text.splitlines(keepends=True) if line.endswith("\\\\\n"))
    # Beside the name of each method three cells, and no line has more.
    assert body.count("&") == 3 * body.count(r" \\")
