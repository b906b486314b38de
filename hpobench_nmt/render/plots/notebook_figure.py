"""A figure that notebooks show without `%matplotlib inline`, and whose points can have tooltips."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

_DPI = 192  # twice what is shown, for screens of high resolution
_USE = re.compile(r"(<use [^>]*)/>")


class NotebookFigure(Figure):
    """A figure outside of pyplot. Jupyter shows pyplot's figures alone, but asks any object for a picture.

    As SVG, the points of a scatter with a gid in `tooltips` have these texts, which browsers show on hover.
    """

    tooltips: Mapping[str, Sequence[str]] = {}

    def savefig(self, fname: Any, **options: Any) -> None:
        """Write the figure to a file; see matplotlib."""
        named = Path(fname).suffix[1:] if isinstance(fname, str | Path) else ""
        if not self.tooltips or (options.get("format") or named).lower() != "svg":
            super().savefig(fname, **options)
            return
        made = BytesIO()
        super().savefig(made, **options | {"format": "svg"})
        text = with_tooltips(made.getvalue().decode(), self.tooltips).encode()
        if isinstance(fname, str | Path):
            Path(fname).write_bytes(text)
        else:
            fname.write(text)

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        picture = BytesIO()
        self.savefig(picture, format="png", dpi=_DPI)
        width, height = (self.get_size_inches() * _DPI / 2).astype(int).tolist()
        return picture.getvalue(), {"width": width, "height": height}


def with_tooltips(svg: str, tooltips: Mapping[str, Sequence[str]]) -> str:
    """An SVG of matplotlib whose scatters, by their gids, have a text for each point."""
    for gid, texts in tooltips.items():
        before, start, rest = svg.partition(f'<g id="{gid}">')
        each = iter(texts)

        def titled(match: re.Match[str], each: Any = each) -> str:
            return f"{match[1]}><title>{escape(next(each))}</title></use>"

        svg = before + start + _USE.sub(titled, rest, count=len(texts))
    return svg
