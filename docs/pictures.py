"""Make the pictures of the README and the site: `python docs/pictures.py`, about a minute.

Those of the gallery are what the code of `docs/reference/gallery.md` saves. Each is drawn for a light and
for a dark page.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import hpobench_nmt as hb
from hpobench_nmt.analysis.selection import EXACT
from hpobench_nmt.core.system.files import write_whole
from hpobench_nmt.render.html.page import on_dark
from hpobench_nmt.render.html.svg import short_ids, to_svg
from hpobench_nmt.render.plots.curves import plot_regret
from hpobench_nmt.render.plots.notebook_figure import NotebookFigure
from hpobench_nmt.render.plots.style import COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOCS = Path(__file__).parent
STATIC = DOCS / "_static"
METHODS = ("RS", "BO_auto", "BO_EI_M", "BO_EI_M_std", "GB_EIF_M")
# Lines and texts, and the ground, of a light and a dark page.
_INKS = {"light": ("#1b1f23", "#ffffff"), "dark": ("#e3e6e8", "#131416")}
# Its colours mean something that the ground would change.
_ON_WHITE = ("workers", "replay")
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def gallery() -> dict[str, Figure]:
    """The figures that the code of the gallery saves, by the names of their files."""
    figures: dict[str, Figure] = {}

    def keep(figure: Figure, path: str, **options: Any) -> None:
        figures[Path(path).stem] = figure

    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(NotebookFigure, "savefig", keep):
        os.chdir(folder)
        try:
            for code in _BLOCK.findall((DOCS / "reference" / "gallery.md").read_text(encoding="utf-8")):
                exec(compile(code, "gallery.md", "exec"), {})  # noqa: S102
        finally:
            os.chdir(here)
    return figures


def draw(figure: Figure, name: str) -> None:
    """Write a figure for a light and for a dark page, with the colours that the report has there."""
    white = name in _ON_WHITE
    figure.patch.set_visible(white)
    for axes in figure.axes:
        axes.patch.set_visible(white)
    methods = [EXACT, *hb.list_methods()["method"]]
    (svg,) = short_ids([to_svg(figure, name, dict.fromkeys(methods, 0), dict.fromkeys(methods, ""))])
    own = 'xmlns="http://www.w3.org/2000/svg" fill="currentColor" font-family="system-ui, sans-serif"'
    svg = svg.replace("<svg ", f"<svg {own} ", 1)
    for theme, (ink, ground) in _INKS.items():
        text = svg
        if white:
            ink, ground = _INKS["light"]
        elif theme == "dark":
            for colour in COLOURS:
                text = re.sub(colour, on_dark(colour), text, flags=re.IGNORECASE)
        text = text.replace("currentColor", ink).replace("var(--paper)", ground)
        write_whole(STATIC / "gallery" / f"{name}-{theme}.svg", text.encode())


def main() -> None:
    """Draw each picture into docs/_static/gallery."""
    for name, figure in gallery().items():
        draw(figure, name)
    results = hb.run("modern-single", tables="sotu-ngram", methods=METHODS, trials=100, score_at=50, jobs=2)
    draw(plot_regret(results), "ngram-regret")


if __name__ == "__main__":
    main()
