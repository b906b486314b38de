"""The scripts in benchmarks/ are where the pages say."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = {path.relative_to(ROOT).as_posix() for path in (ROOT / "benchmarks").rglob("*.py")}


def test_the_overview_lists_every_script_in_its_folder():
    listed, folder = set(), "benchmarks"
    for line in (ROOT / "benchmarks" / "README.md").read_text("utf-8").splitlines():
        if head := re.match(r"## (\w+):", line):
            folder = f"benchmarks/{head[1]}"
        if script := re.match(r"\| `(\w+\.py)` \|", line):
            listed.add(f"{folder}/{script[1]}")
    assert listed == SCRIPTS


def test_scripts_that_pages_and_code_name_exist():
    folders = ("docs", "hpobench_nmt", "methods", "evaluation", "benchmarks", "tests")
    files = [p for f in folders for kind in ("md", "py", "toml") for p in (ROOT / f).rglob(f"*.{kind}")]
    files += [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md")]
    named = {name for path in files for name in re.findall(r"benchmarks/[\w/]+\.py", path.read_text("utf-8"))}
    assert len(named) > 30
    assert named <= SCRIPTS


def test_scripts_of_the_pages_of_figures_exist():
    for page, folder in (
        ("reference/peers.md", "benchmarks"),
        ("explanation/findings.md", "benchmarks/methods"),
    ):
        text = (ROOT / "docs" / page).read_text("utf-8")
        named = {f"{folder}/{name}" for name in re.findall(r"`(?!examples)([\w/]+\.py)", text)}
        assert named
        assert named <= SCRIPTS, page
