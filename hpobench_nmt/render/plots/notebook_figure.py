"""A figure that notebooks show without `%matplotlib inline`, and whose points can have tooltips."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

_DPI = 192  # twice the shown resolution, for screens of high resolution
_SHOWN_DPI = _DPI / 2
_NEAR = 7  # radius around a point, in pixels, that shows its tooltip
_USE = re.compile(r"(<use [^>]*)/>")


class NotebookFigure(Figure):
    """A figure without pyplot. Jupyter draws only pyplot's figures, but asks any object for a picture.

    Browsers show the texts in `tooltips` when the pointer is on a point of the scatter with that gid. In a
    notebook this needs a map of a picture, because Jupyter shows an SVG as an image without tooltips.
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
        width, height = (self.get_size_inches() * _SHOWN_DPI).astype(int).tolist()
        return picture.getvalue(), {"width": width, "height": height}

    def _repr_html_(self) -> str | None:
        """The picture with a map of its points; None without tooltips."""
        if not self.tooltips:
            return None
        picture, size = self._repr_png_()
        name = f"points-{hashlib.sha256(picture).hexdigest()[:12]}"
        areas = []
        for points in self.findobj(lambda artist: artist.get_gid() in self.tooltips):
            texts = self.tooltips[str(points.get_gid())]
            places = np.ma.filled(points.get_offsets(), np.nan)  # type: ignore[attr-defined]
            right, up = points.axes.transData.transform(places).T * _SHOWN_DPI / self.dpi  # type: ignore[union-attr]
            for x, y, text in zip(right, size["height"] - up, map(escape, texts), strict=True):
                if np.isfinite(x + y):
                    circle = f'shape="circle" coords="{x:.0f},{y:.0f},{_NEAR}"'
                    areas.append(f'<area {circle} title="{text}" alt="{text}">')
        source = f"data:image/png;base64,{b64encode(picture).decode()}"
        about = escape(f"{self.axes[0].get_ylabel()} against {self.axes[0].get_xlabel()}")
        shown = f'width="{size["width"]}" height="{size["height"]}" alt="{about}" usemap="#{name}"'
        return f'<img {shown} src="{source}"><map name="{name}">{"".join(areas)}</map>'


def with_tooltips(svg: str, tooltips: Mapping[str, Sequence[str]]) -> str:
    """An SVG of matplotlib with a text for each point of its scatters. `tooltips` has the texts by gid."""
    for gid, texts in tooltips.items():
        before, start, rest = svg.partition(f'<g id="{gid}">')
        each = iter(texts)

        def titled(match: re.Match[str], each: Any = each) -> str:
            return f"{match[1]}><title>{escape(next(each))}</title></use>"

        svg = before + start + _USE.sub(titled, rest, count=len(texts))
    return svg
