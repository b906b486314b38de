"""Matplotlib figures as SVG that a page can restyle: colours by variable, methods by attribute.

Artists that belong to a method are marked when they are drawn (`plots.style.mark`). In the SVG they are a
group with data-m="K", where K is the method's place among the report's methods. Its colour is var(--mK), and
black is currentColor, so that one style sheet serves light, dark and print. The same figure gives the same
bytes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from hpobench_nmt.render.plots.style import method_of_gid, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Texts are shown as they are: names with a dollar sign are no formulas.
AS_IT_IS: Any = {"text.parse_math": False}
_SVG = "{http://www.w3.org/2000/svg}"
_XLINK = "{http://www.w3.org/1999/xlink}"
_INK = re.compile(r"#(?:000000|333333|000)\b")
_FONT = re.compile(r"font:\s*(?:(bold|\d{3})\s+)?(\d+(?:\.\d+)?)px[^;]*")
_NUMBER = re.compile(r"-?\d+\.\d{2,}")
_WIDTH, _HEIGHT = 6.6, 3.7


def restyle(figure: Figure, fixed_size: bool = True) -> None:
    """Make a figure of one or more axes ready for a page, which has a legend of its own.

    Args:
        fixed_size: give figures of a single plot the same size and margins; far faster than a layout that
            measures every text.
    """
    figure.patch.set_visible(False)
    for axes in figure.axes:
        axes.patch.set_visible(False)
        axes.set_title("")
        if fixed_size and axes.get_legend():
            axes.get_legend().remove()  # type: ignore[union-attr]
    if fixed_size:
        figure.set_layout_engine(None)  # "none" would leave one that draws everything twice
        figure.set_size_inches(_WIDTH, _HEIGHT)
        axes = figure.axes[0]
        axes.set_position((0.125, 0.135, 0.86, 0.84))
        axes.yaxis.set_label_coords(-0.105, 0.5)


def to_svg(figure: Figure, slug: str, places: Mapping[str, int], colours: Mapping[str, str]) -> str:
    """The figure as an SVG element without a size.

    Args:
        slug: unique in the page; goes before every id.
        places: of the methods, which were marked when the figure was drawn.
        colours: of the methods, to be replaced within their own groups.
    """
    import matplotlib

    buffer = io.BytesIO()
    # One fixed salt: ids depend on nothing but the figure.
    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": "hpobench-nmt", **AS_IT_IS}
    with matplotlib.rc_context(settings):
        plain(figure).savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    root = ElementTree.fromstring(buffer.getvalue())
    for child in list(root):
        if child.tag.endswith("metadata"):
            root.remove(child)
    used = set(re.findall(r"(?:url\(#|href=\"#)([\w-]+)", buffer.getvalue().decode()))
    _rewrite(root, slug, used, places, colours, None)
    box = root.attrib["viewBox"]
    root.attrib.clear()
    root.attrib.update({"viewBox": box, "focusable": "false", "aria-hidden": "true"})
    ElementTree.register_namespace("", _SVG[1:-1])
    text = ElementTree.tostring(root, encoding="unicode")
    text = re.sub(r' xmlns(?::\w+)?="[^"]*"', "", text)
    return re.sub(r">\s+<", "><", text)


def _rewrite(
    element: ElementTree.Element,
    slug: str,
    used: set[str],
    places: Mapping[str, int],
    colours: Mapping[str, str],
    method: str | None,
) -> None:
    attributes = element.attrib
    name = attributes.pop("id", "")
    found = method_of_gid(name)
    if found is not None:
        method = found
        attributes["data-m"] = str(places[method])
    elif name in used:
        attributes["id"] = f"{slug}-{name}"
    link = attributes.pop(f"{_XLINK}href", "")
    if link:
        attributes["href"] = f"#{slug}-{link[1:]}" if link.startswith("#") else link
    element.tag = element.tag.removeprefix(_SVG)
    for key, given in list(attributes.items()):
        value = attributes[key] = given.replace("url(#", f"url(#{slug}-")
        if key == "style":
            attributes[key] = (
                _style(value) if method is None else _style(value, colours[method], places[method])
            )
        elif key in ("d", "x", "y", "width", "height", "transform", "points") and element.tag != "image":
            attributes[key] = _NUMBER.sub(lambda m: f"{float(m[0]):.1f}", value)
            if key == "d":
                attributes[key] = re.sub(r"\s+", " ", attributes[key]).strip()
    for child in element:
        _rewrite(child, slug, used, places, colours, method)


def _style(value: str, colour: str = "", place: int = 0) -> str:
    if colour:
        value = re.sub(re.escape(colour), f"var(--m{place})", value, flags=re.IGNORECASE)
    value = _INK.sub("currentColor", value)
    value = re.sub(r"(fill|stroke): #ffffff", r"\1: var(--paper)", value)
    value = value.replace("stroke-linejoin: round; ", "").replace("stroke-linecap: butt", "")
    return _FONT.sub(lambda m: f"font-size: {m[2]}px" + (f"; font-weight: {m[1]}" if m[1] else ""), value)


def pixels(figure: Figure, x: Sequence[float], y: Sequence[float]) -> list[tuple[float, float]]:
    """Where points of the first axes are in the SVG: to the right and down, in its own units."""
    import numpy as np

    scale = 72.0 / figure.dpi
    height = figure.get_figheight() * 72.0
    with np.errstate(all="ignore"):
        places = figure.axes[0].transData.transform(np.column_stack([x, y])) * scale
    return [(float(a), float(height - b)) for a, b in places]


def frame_of(figure: Figure) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of the first axes in the SVG's units."""
    scale = 72.0 / figure.dpi
    box = figure.axes[0].bbox
    height = figure.get_figheight() * 72.0
    return (box.x0 * scale, height - box.y1 * scale, box.x1 * scale, height - box.y0 * scale)
