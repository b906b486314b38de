"""Figures of the report as SVG that a page can restyle, and the data of their tooltips.

Artists that belong to a method are marked when they are drawn (`plots.style.mark`). In the SVG they are a
group with data-m="K", where K is the method's place among the report's methods. Its colour is var(--mK), and
black is currentColor, so that one style sheet serves light, dark and print. Equal figures give equal bytes.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np

from hpobench_nmt.analysis.number_text import cell_text, span
from hpobench_nmt.analysis.replay import Replay
from hpobench_nmt.analysis.selection import EXACT
from hpobench_nmt.core.system.text import short
from hpobench_nmt.render.figure_spec import FigureSpec, HoverPoints, HoverSeries
from hpobench_nmt.render.plots.style import is_still, method_of_gid, method_styles, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Texts are shown literally, because names with a dollar sign are not formulas.
AS_IT_IS: Any = {"text.parse_math": False, "path.simplify_threshold": 0.3}
_SVG = "{http://www.w3.org/2000/svg}"
_XLINK = "{http://www.w3.org/1999/xlink}"
_INK = re.compile(r"#(?:000000|333333|000)\b")
_FONT = re.compile(r"font:\s*(?:(bold|\d{3})\s+)?(\d+(?:\.\d+)?)px[^;]*")
_FAMILY = re.compile(r"font-family:[^;]*;?")  # removed, because the page has its own font
_NUMBER = re.compile(r"-?\d+\.\d+")
_ID = re.compile(r' id="([^"]*)"')
_REFERENCE = re.compile(r"""( id="| href="#|url\(#)([\w.-]+)(["')])""")
# Styles that several pages can share, which excludes colours of methods, and patterns with ids of one page.
_STYLED = re.compile(r'(<(?:path|use|rect) (?:[^>]* )?)style="((?:(?!--m|url\()[^"])*)"')
# matplotlib writes this style into each figure. report.css has it once for all figures.
_OF_ALL = '<defs><style type="text/css">*{stroke-linejoin: round; stroke-linecap: butt}</style></defs>'
_LEAST_SHARED = 4
_CIRCLE = re.compile(r"M0 ([\d.]+)(?:C[-\d. ]+)+z?")
_FILL = re.compile(r"fill:([^;]+)")
_COMMAND = re.compile(r"([A-Za-z])([^A-Za-z]*)")
_WIDTH, _HEIGHT = 6.6, 3.7
_HOVER_POINTS = 60
_LEAST, _LARGEST = 0.85, 1.4  # pixels per point


def restyle(figure: Figure, fixed_size: bool = True) -> None:
    """Prepare a figure of one or more axes for a page, which has its own legend.

    With a fixed size, all figures of a single plot have the same margins. This is far faster than a layout
    that measures every text.
    """
    figure.patch.set_visible(False)
    for axes in figure.axes:
        axes.patch.set_visible(False)
        axes.set_title("")
        if fixed_size and axes.get_legend():
            axes.get_legend().remove()  # type: ignore[union-attr]
    if fixed_size:
        figure.set_layout_engine(None)  # "none" would leave an engine that draws everything twice
        figure.set_size_inches(_WIDTH, _HEIGHT)
        axes = figure.axes[0]
        axes.set_position((0.125, 0.135, 0.86, 0.84))
        axes.yaxis.set_label_coords(-0.115, 0.5)


def to_svg(figure: Figure, slug: str, places: Mapping[str, int], colours: Mapping[str, str]) -> str:
    """The figure as an SVG element without a size.

    Every id starts with the slug, which is unique in the page. `places` and `colours` are those of the
    methods, which were marked when the figure was drawn. A method's colour is replaced only in its groups.
    """
    import matplotlib

    buffer = io.BytesIO()
    # With a fixed salt, ids depend only on the figure.
    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": "hpobench-nmt", **AS_IT_IS}
    with matplotlib.rc_context(settings):
        plain(figure).savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    root = ElementTree.fromstring(buffer.getvalue())
    for child in list(root):
        if child.tag.endswith("metadata"):
            root.remove(child)
    used = set(re.findall(r"(?:url\(#|href=\"#)([\w-]+)", buffer.getvalue().decode()))

    def rewrite(element: ElementTree.Element, method: str | None) -> None:
        attributes = element.attrib
        name = attributes.pop("id", "")
        found = method_of_gid(name)
        if found is not None:
            method = found
            attributes["data-m"] = str(places[method])
            if name.endswith("-band"):
                attributes["class"] = "band"
        elif is_still(name):
            attributes["class"] = "still"
        elif name in used:
            attributes["id"] = f"{slug}-{name}"
        if link := attributes.pop(f"{_XLINK}href", ""):
            attributes["href"] = f"#{slug}-{link[1:]}" if link.startswith("#") else link
        element.tag = element.tag.removeprefix(_SVG)
        for key, given in list(attributes.items()):
            value = attributes[key] = given.replace("url(#", f"url(#{slug}-")
            if key == "style":
                own = () if method is None else (colours[method], places[method])
                attributes[key] = _style(value, *own)
            elif key == "transform" and value.startswith("rotate(-0 "):
                del attributes[key]
            elif key in ("d", "x", "y", "width", "height", "transform", "points") and element.tag != "image":
                attributes[key] = _NUMBER.sub(lambda m: f"{float(m[0]):.1f}".removesuffix(".0"), value)
                if key == "d":
                    attributes[key] = short_path(attributes[key])
        for child in element:
            rewrite(child, method)
        _hoist_style(element)
        _join_dots(element)

    rewrite(root, None)
    box = root.attrib["viewBox"]
    root.attrib.clear()
    root.attrib.update({"viewBox": box, "focusable": "false", "aria-hidden": "true"})
    ElementTree.register_namespace("", _SVG[1:-1])
    text = ElementTree.tostring(root, encoding="unicode")
    text = re.sub(r' xmlns(?::\w+)?="[^"]*"', "", text)
    return re.sub(r">\s+<", "><", text)


def _join_dots(element: ElementTree.Element) -> None:
    """Replace the many equal dots of a scatter by one path of lines of length 0 with round ends.

    The shape of a dot is kept, because the legend uses it.
    """
    if [child.tag for child in element] != ["defs", "g"] or len(element[0]) != 1:
        return
    (marker,), dots = element
    circle, fill = _CIRCLE.fullmatch(marker.get("d", "")), _FILL.fullmatch(dots.get("style", ""))
    if not circle or not fill or any(set(dot.keys()) != {"x", "y", "href"} for dot in dots):
        return
    d = "".join(f"M{dot.get('x')} {dot.get('y')}h0" for dot in dots)
    style = f"fill:none;stroke:{fill[1]};stroke-width:{2 * float(circle[1]):.4g};stroke-linecap:round"
    dots[:] = [ElementTree.Element("path", {"d": d, "style": style})]
    del dots.attrib["style"]


def _hoist_style(element: ElementTree.Element) -> None:
    """Move a style that all children of a group have to the group, because markers are many and alike."""
    styles = {child.get("style") for child in element}
    if element.tag == "g" and len(element) > 1 and len(styles) == 1 and "style" not in element.attrib:
        style = styles.pop()
        # A group's opacity would apply to its children together instead of each of them.
        apart = style and not re.search("(?:^|;)opacity", style)
        if style and apart and all(child.tag == "use" for child in element):
            element.attrib["style"] = style
            for child in element:
                del child.attrib["style"]


def short_path(d: str) -> str:
    """The same path in fewer characters: horizontal and vertical lines need one number, others no letter."""
    parts, letter, at = [], "", ("", "")
    for name, numbers in _COMMAND.findall(d):
        given = numbers.split()
        if name not in "ML":
            parts.append(name + " ".join(given))
            letter, at = name, (given[-2], given[-1]) if len(given) > 1 else ("", "")
            continue
        x, y = given
        if name == "M":
            parts.append(f"M{x} {y}")
        elif x == at[0]:
            parts.append(f"V{y}")
        elif y == at[1]:
            parts.append(f"H{x}")
        else:
            # Pairs of numbers after M or L are lines without a letter.
            parts.append(f"{' ' if letter in ('M', 'L') else 'L'}{x} {y}")
        letter, at = parts[-1][0].replace(" ", "L"), (x, y)
    return "".join(parts)


def _style(value: str, colour: str = "", place: int = 0) -> str:
    if colour:
        value = re.sub(re.escape(colour), f"var(--m{place})", value, flags=re.IGNORECASE)
    value = _INK.sub("currentColor", value)
    value = re.sub(r"(fill|stroke): #ffffff", r"\1: var(--paper)", value)
    value = value.replace("stroke-linejoin: round; ", "").replace("stroke-linecap: butt", "")
    value = _FONT.sub(lambda m: f"font-size: {m[2]}px" + (f"; font-weight: {m[1]}" if m[1] else ""), value)
    return re.sub(r"([:;]) ", r"\1", _FAMILY.sub("", value)).strip("; ")


def short_ids(svgs: Sequence[str]) -> list[str]:
    """SVG elements of one page with short ids. The given ids must be unique among all elements."""
    names: dict[str, str] = {}
    for svg in svgs:
        for name in _ID.findall(svg):
            names[name] = f"i{len(names):x}"
    return [_REFERENCE.sub(lambda m: m[1] + names.get(m[2], m[2]) + m[3], svg) for svg in svgs]


def shared_styles(svgs: Sequence[str]) -> tuple[list[str], str]:
    """SVG elements of one page whose shapes share classes for styles, and the style sheet of the classes.

    Colours of methods are not moved, and neither are the styles of texts, which must override the page's.
    """
    svgs = [svg.replace(_OF_ALL, "") for svg in svgs]
    counts = Counter(m[2] for svg in svgs for m in _STYLED.finditer(svg))
    names = {style: f"s{i:x}" for i, (style, n) in enumerate(counts.most_common()) if n >= _LEAST_SHARED}

    def named(match: re.Match[str]) -> str:
        style = match[2]
        return f'{match[1]}class="{names[style]}"' if style in names else match[0]

    sheet = "".join(f".{name}{{{style}}}" for style, name in names.items())
    return [_STYLED.sub(named, svg) for svg in svgs], sheet


def pixels(figure: Figure, x: Sequence[float], y: Sequence[float]) -> list[tuple[float, float]]:
    """The positions of points of the first axes in the SVG: to the right and down, in its units."""
    with np.errstate(all="ignore"):
        places = figure.axes[0].transData.transform(np.column_stack([x, y])) * (72.0 / figure.dpi)
    height = figure.get_figheight() * 72.0
    return [(float(a), float(height - b)) for a, b in places]


def frame_of(figure: Figure) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of the first axes in the SVG's units."""
    scale = 72.0 / figure.dpi
    box = figure.axes[0].bbox
    height = figure.get_figheight() * 72.0
    return (box.x0 * scale, height - box.y1 * scale, box.x1 * scale, height - box.y0 * scale)


def page_figure(
    figure: Figure, spec: FigureSpec, methods: Sequence[str]
) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    """A figure as SVG for the page, the data of its tooltips, and the report's methods that it shows."""
    styles = method_styles(methods)
    places = method_places(methods)
    restyle(figure, fixed_size=not spec.own_size)
    colours = {name: style.colour for name, style in styles.items()} | {EXACT: "#000000"}
    svg = to_svg(figure, spec.stem, places, colours)
    # Without a maximum, a figure in a wide window would have larger letters than the page. In a narrow
    # window, a figure of several panels scrolls, because its letters would be too small to read.
    points = figure.get_figwidth() * 72
    widths = f"max-width:{points * _LARGEST:.0f}px;--least:{points * _LEAST:.0f}px"
    svg = svg.replace("<svg ", f'<svg style="{widths}" ', 1)
    hover: dict[str, Any] = {}
    if spec.series is not None:
        hover = _series_hover(figure, spec.series, places)
    elif spec.points is not None:
        hover = _points_hover(figure, spec.points)
    if spec.replay is not None:
        hover["replay"] = _replay_data(figure, spec.replay, places[spec.first], places)
    shown = [m for m in styles if f'data-m="{places[m]}"' in svg]
    return svg, hover, tuple(sorted(shown, key=lambda m: places[m]))


def method_places(methods: Sequence[str]) -> dict[str, int]:
    """A number for every method. EXACT, which is computed random search, comes last."""
    return {m: i for i, m in enumerate([*methods, EXACT])}


def _series_hover(figure: Figure, series: HoverSeries, places: Mapping[str, int]) -> dict[str, Any]:
    grid = np.unique(series.frame[series.x].to_numpy(np.float64))
    if len(grid) > _HOVER_POINTS:
        wanted = np.geomspace(grid[0], grid[-1], _HOVER_POINTS)
        grid = grid[np.unique(np.minimum(np.searchsorted(grid, wanted), len(grid) - 1))]
    lines = []
    for name, part in series.frame.groupby("method", sort=False):
        at = part.set_index(series.x).reindex(grid)
        exact = at["exact"].fillna(True) if "exact" in part.columns else np.ones(len(at), dtype=bool)
        values_of = [f"{'' if e else '≥ '}{short(v)}" for v, e in zip(at[series.y], exact, strict=True)]
        line: dict[str, Any] = {"m": places[str(name)], "v": values_of}
        places_y = pixels(figure, grid.tolist(), at[series.y].tolist())
        # On a log scale a value of 0 is drawn at the bottom.
        line["y"] = [
            _place(frame_of(figure)[3] if value == 0 else y)
            for value, (_, y) in zip(at[series.y], places_y, strict=True)
        ]
        if {"low", "high"} <= set(part.columns) and part["low"].notna().any():
            line["q"] = [*map(span, at["low"], at["high"])]
        lines.append(line)
    whole = bool((grid == np.rint(grid)).all())
    values = [f"{v:.0f}" if whole else short(v) for v in grid]
    across = pixels(figure, grid.tolist(), np.ones(len(grid)).tolist())
    return {
        "frame": [round(v, 1) for v in frame_of(figure)],
        "x": [round(x, 1) for x, _ in across],
        "at": [series.label.replace("{}", v) for v in values],
        "lines": lines,
    }


def _points_hover(figure: Figure, shown: HoverPoints) -> dict[str, Any]:
    scatter: Any = figure.axes[0].collections[0].get_offsets()
    offsets: Any = np.ma.filled(np.ma.asarray(scatter, dtype=np.float64), np.nan)
    left, top, right, bottom = frame_of(figure)
    points = []
    places = pixels(figure, offsets[:, 0].tolist(), offsets[:, 1].tolist())
    for row, (x, y), (px, py) in zip(shown.rows.tolist(), offsets, places, strict=True):
        if left - 1 <= px <= right + 1 and top - 1 <= py <= bottom + 1:
            points.append([round(px, 1), round(py, 1), row, short(x, 4), short(y, 4)])
    points.sort()
    return {
        "frame": [round(v, 1) for v in (left, top, right, bottom)],
        "labels": list(shown.labels),
        "points": points,
    }


def _replay_data(figure: Figure, found: Replay, first: int, places: Mapping[str, int]) -> dict[str, Any]:
    """The trials of a replay, and the rows that they looked up: places, values and configurations."""
    rows = sorted(found.configs)
    at = {row: i for i, row in enumerate(rows)}
    values = found.points[rows]
    where = pixels(figure, values[:, 0].tolist(), values[:, 1].tolist())
    front = set(found.front.tolist())
    return {
        "names": list(found.hyperparameters),
        # Whether the staircase from one row of a front to the next starts with its vertical step.
        "up": None if found.n_objectives > 2 else int(found.maximised[0]),
        "front": len(front),
        "first": first,
        "rows": [
            [row, _place(px), _place(py), short(x, 4), short(y, 4), int(row in front)]
            + ["" if value is None else cell_text(value) for value in found.configs[row]]
            for row, (px, py), (x, y) in zip(rows, where, values, strict=True)
        ],
        "trials": [
            {
                "m": places[method],
                "trial": each.trial,
                "rows": [at[row] for row in each.rows.tolist()],
                "last": each.last.tolist(),
            }
            for method, each in found.trials.items()
        ],
    }


def _place(y: float) -> float | None:
    return round(y, 1) if np.isfinite(y) else None
