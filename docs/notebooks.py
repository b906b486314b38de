"""Run the notebooks in `examples/` and keep what they show: `python docs/notebooks.py`, about two minutes.

It needs `pip install -e '.[notebooks]'`. Outputs are texts and small pictures, without what differs from run
to run: `tests/test_notebooks.py` runs each notebook again and compares.
"""

from __future__ import annotations

import base64
import io
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples"
_COLOURS = 256
# Addresses of objects, folders of this machine and times.
_VOLATILE = re.compile(r" at 0x[0-9a-f]+|/(?:tmp|home|root|work)/\S*/|\d+(?:\.\d+)? m?s\b")
_KEPT = ("text/plain", "text/html", "image/png")


def executed(path: Path) -> Any:
    """The notebook with its outputs, run from top to bottom in an empty folder."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        client = NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources)
        client.execute(env={**os.environ, "COLUMNS": "80"})  # lines break there, wherever this runs
    for cell in notebook.cells:
        cell.metadata.clear()
        if cell.cell_type == "code":
            cell.outputs = _joined([_output(output) for output in cell.outputs])
    notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"], "language_info": {"name": "python"}}
    return notebook


def _joined(outputs: list[Any]) -> list[Any]:
    """Outputs with what was printed in one piece: a slow kernel sends it in several."""
    joined: list[Any] = []
    for output in outputs:
        if joined and "text" in output and joined[-1].get("name") == output.name:
            joined[-1].text += output.text
        else:
            joined.append(output)
    return joined


def _output(output: Any) -> Any:
    """An output with small pictures and without what differs from run to run."""
    output.pop("transient", None)
    if "data" not in output:
        return output
    output.data = {kind: data for kind, data in output.data.items() if kind in _KEPT}
    if "image/png" in output.data:
        output.data["image/png"] = _small(output.data["image/png"])
        for kind in ("text/plain", "text/html"):  # of which the second has the picture again
            output.data.pop(kind, None)
    output.data = {kind: _stable(kind, data) for kind, data in output.data.items()}
    return output


def _stable(kind: str, data: str) -> str:
    return data if kind == "image/png" else _VOLATILE.sub("", data)


def _small(png: str) -> str:
    from PIL import Image

    picture = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    half = picture.resize((picture.width * 2 // 3, picture.height * 2 // 3), Image.Resampling.LANCZOS)
    made = io.BytesIO()
    half.quantize(_COLOURS, dither=Image.Dither.NONE).save(made, format="png", optimize=True)
    return base64.b64encode(made.getvalue()).decode()


def main(names: list[str]) -> None:
    """Run the notebooks named, or all, and write them where they were."""
    import nbformat

    for path in sorted(EXAMPLES.glob("*.ipynb")):
        if not names or path.stem in names:
            nbformat.write(executed(path), path)  # type: ignore[no-untyped-call]
            sys.stdout.write(f"{path.name}: {path.stat().st_size / 1000:.0f} kB\n")


if __name__ == "__main__":
    main(sys.argv[1:])
