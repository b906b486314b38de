"""The notebooks in examples/ run from top to bottom, and show what they have shown."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
_MOST_BYTES = 250_000


def shown(notebook):
    """What each cell of code shows: texts, and of pictures that they are there."""
    found = []
    for cell in (cell for cell in notebook["cells"] if cell["cell_type"] == "code"):
        texts = []
        for output in cell["outputs"]:
            assert output["output_type"] in ("execute_result", "display_data", "stream"), output
            data = output.get("data", {"text/plain": output.get("text", "")})
            picture = data.pop("image/png", None)
            texts.append(["picture"] if picture else [("".join(text)) for _, text in sorted(data.items())])
        found.append(("".join(cell["source"]), texts))
    return found


def test_there_are_five():
    assert [path.stem for path in NOTEBOOKS] == [
        *("early_stopping", "first_benchmark", "old_sweep", "own_method", "pareto_front")
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_a_notebook_holds(path):
    """Programs that compile, results that were kept, links that lead somewhere, and nothing of a machine."""
    text = path.read_text(encoding="utf-8")
    assert len(text.encode()) < _MOST_BYTES
    notebook = json.loads(text)
    cells = shown(notebook)
    for source, _ in cells:
        compile(source, path.name, "exec")
    assert any(texts == [["picture"]] for _, texts in cells)
    assert any(texts and texts != [["picture"]] for _, texts in cells)
    assert "/tmp/" not in text and "/home/" not in text and "/root/" not in text
    for other in NOTEBOOKS:
        text = text.replace(f"]({other.name})", "")
    assert ".ipynb)" not in text


@pytest.mark.hosts
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_the_same_again(path, home):
    for package in ("nbclient", "ipykernel"):
        pytest.importorskip(package, reason="pip install -e '.[notebooks]'")
    executed = runpy.run_path(str(ROOT / "docs" / "notebooks.py"))["executed"]
    again = json.loads(json.dumps(executed(path)))
    assert shown(again) == shown(json.loads(path.read_text(encoding="utf-8")))
