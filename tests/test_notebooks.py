"""The notebooks in examples/ run from top to bottom, and show what they have shown."""

from __future__ import annotations

import base64
import io
import json
import re
import runpy
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from packaging.version import Version

import hpobench_nmt as hb

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
    if path.stem == "old_sweep" and Version(metadata.version("scikit-learn")) < Version("1.7"):
        return  # its random forests give the importance of a hyperparameter other last digits
    assert shown(again) == shown(json.loads(path.read_text(encoding="utf-8")))


@pytest.mark.hosts
def test_a_front_in_a_notebook_shows_each_configuration_where_it_is_drawn(home):
    nbclient = pytest.importorskip("nbclient", reason="pip install -e '.[notebooks]'")
    pytest.importorskip("ipykernel", reason="pip install -e '.[notebooks]'")
    from nbformat.v4 import new_code_cell, new_notebook
    from PIL import Image

    program = 'import hpobench_nmt as hb\nhb.load_table("lohelp-de-en").pareto().plot()'
    notebook = new_notebook(cells=[new_code_cell(program)])
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    (output,) = notebook.cells[0].outputs
    html, png = output.data["text/html"], output.data["image/png"]
    assert png.replace("\n", "") in html and 'usemap="#points-' in html
    areas = re.findall(r'<area shape="circle" coords="(\d+),(\d+),7" title="([^"]*)" alt="\3">', html)
    front = hb.load_table("lohelp-de-en").pareto()
    assert sorted(re.search(r"row (\d+), ", text)[1] for *_, text in areas) == sorted(map(str, front.rows))
    assert all("learning_rate" in text and "dev_bleu" in text for *_, text in areas)
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB"), dtype=int)
    for x, y, _ in areas:
        red, green, blue = pixels[2 * int(y), 2 * int(x)]  # twice as many as are shown
        assert red > 1.5 * green > 1.5 * blue
