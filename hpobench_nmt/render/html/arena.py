"""The leaderboard of lm-2026 as a folder of HTML files. The same archive gives the same bytes.

    FOLDER/index.html           the methods of each track, ranked
    FOLDER/methods/METHOD.html  each method: what it is, where it wins and loses, and its curves
    FOLDER/tables/TABLE.html    each table: its datasheet, who wins, importance, front and noise
    FOLDER/style.css            the style sheet of all pages

The pages need no network. Pages of methods and tables have no script.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpobench_nmt.analysis.paired import SIMULATED
from hpobench_nmt.arena.archive import NAME, Archive
from hpobench_nmt.arena.boards import Track, arena_lead, arena_tracks, track_board
from hpobench_nmt.arena.pages import PARTS, Chart, MethodPage, TablePage, method_pages, table_pages
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.system.files import check_name, save_file
from hpobench_nmt.core.system.text import counted, short
from hpobench_nmt.render.draw_report import FigureGroup, draw_sections
from hpobench_nmt.render.html.page import analysis_content, fill, shortened, style_sheet
from hpobench_nmt.render.html.svg import method_places

_SHEET = "style.css"
_ANALYSES = ("importance", "front", "noise")
# Styles of lines: of the method, of random search beside it, and of the track's leader.
_OWN = "stroke:var(--accent);stroke-width:2.5"
_RANDOM = "stroke:var(--soft);stroke-width:1.5;stroke-dasharray:5 3"
_LEADS = "stroke:var(--ink);stroke-width:1"
_LEFT, _RIGHT, _TOP, _BOTTOM = 36.0, 300.0, 8.0, 150.0


def arena_pages(archive: Archive) -> dict[str, str]:
    """The files as text, by their path in the folder, for the tables that are installed here."""
    found = arena_tracks(archive)
    methods, tables = method_pages(archive, found), table_pages(found)
    pages = {"index.html": _index(archive, found, methods, tables)}
    for method in methods:
        pages[f"methods/{check_name('method', method.name)}.html"] = _method(method)
    installed = {n: i.installed for track in found for n, i in track.results.instances.items()}
    groups, shared = shortened(draw_sections(list(installed.values()), "svg", _ANALYSES))
    for table in tables:
        own = [g for g in groups if g.section and g.section.table == table.name and not g.section.problem]
        pages[f"tables/{check_name('table', table.name)}.html"] = _table(table, own)
    pages[_SHEET] = style_sheet([method.name for method in methods]) + shared
    return pages


def write_arena(archive: Archive, folder: Path) -> Path:
    """Write the files, and return the path of index.html. Raises RunError if they cannot be written."""
    for name, page in arena_pages(archive).items():
        save_file(folder / name, page.encode())
    return folder / "index.html"


def _index(
    archive: Archive, found: Sequence[Track], pages: Sequence[MethodPage], tables: Sequence[TablePage]
) -> str:
    names = [page.name for page in pages]
    places = method_places(names)
    kinds: dict[str, list[int]] = {}
    for page in pages:
        for kind in page.kinds:
            kinds.setdefault(kind, []).append(places[page.name])
    figures = {
        (track.name, line["method"]): short(line["times_fewer"])
        for track in found
        for line in track.found.methods.to_dict("records")
    }
    tracks = [track.name for track in found]
    return fill(
        "arena.html.jinja",
        names,
        sheet=_SHEET,
        title=f"Leaderboard of {NAME}",
        lead=arena_lead(archive, found),
        tracks=[
            {"name": t.name, "title": t.title, "board": track_board(t), "sentences": t.sentences}
            for t in found
        ],
        kinds=list(kinds.items()),
        method_head=("method", "kind", *tracks),
        method_rows=[
            (p.name, ", ".join(p.kinds), *(figures.get((t, p.name), "–") for t in tracks)) for p in pages
        ],
        table_rows=[
            (
                t.name,
                dict(t.facts)["rows"],
                ", ".join(track for track, *_ in t.tracks),
                dict(t.facts).get("licence", "–"),
            )
            for t in tables
        ],
    )


def _method(page: MethodPage) -> str:
    charts = [_drawn(chart) for chart in page.charts]
    return _filled("arena_method.html.jinja", page, lead=", ".join(page.kinds), charts=charts)


def _filled(template: str, page: MethodPage | TablePage, **content: Any) -> str:
    return fill(template, sheet=f"../{_SHEET}", title=page.name, benchmark=NAME, page=page, **content)


def _drawn(chart: Chart) -> dict[str, Any]:
    """A chart as paths in a box of 320 by 180."""
    names = [name for name, _ in chart.lines]
    styles = (_OWN, _LEADS) if names[0] == SIMULATED else (_OWN, _RANDOM, _LEADS)
    drawn = list(zip(chart.lines, styles, strict=False))
    return {
        "chart": chart,
        "head": ("share of the budget", *names),
        # The method is drawn last, so that its line lies above the others.
        "lines": [(_path(values, chart.top), style) for (_, values), style in reversed(drawn)],
        "key": [(name, style) for (name, _), style in drawn],
        "ticks": [(_height(part), short(part * chart.top, 2)) for part in (0.0, 0.5, 1.0)],
        "marks": [(_LEFT + part * (_RIGHT - _LEFT), f"{part:.0%}") for part in (0.0, 0.5, 1.0)],
    }


def _height(part: float) -> float:
    return round(_BOTTOM - part * (_BOTTOM - _TOP), 1)


def _path(values: Floats, top: float) -> str:
    x = _LEFT + PARTS * (_RIGHT - _LEFT)
    return "M" + " ".join(f"{a:.1f} {_height(b):g}" for a, b in zip(x, values / (top or 1.0), strict=True))


def _table(page: TablePage, groups: Sequence[FigureGroup]) -> str:
    # Pages without a script have no tooltips.
    parts = [(g.section, [replace(f, hover={}) for f in g.figures]) for g in groups if g.section]
    return _filled(
        "arena_table.html.jinja",
        page,
        lead=f"{dict(page.facts)['rows']} rows, in {counted(len(page.tracks), 'track')}.",
        analyses=[analysis_content(section, figures, {}) for section, figures in parts],
    )
