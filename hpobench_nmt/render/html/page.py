"""The report as one HTML file, which loads nothing from elsewhere. The same results give the same bytes."""

from __future__ import annotations

import base64
import colorsys
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pandas as pd

from hpobench_nmt.analysis import provenance, report_content
from hpobench_nmt.analysis.board import Board, figure_board, table_boards
from hpobench_nmt.analysis.failures import grouped_failures
from hpobench_nmt.analysis.leaderboard import fewer_setting, meaning, setting, subject_to
from hpobench_nmt.analysis.limits import limit_lines
from hpobench_nmt.analysis.number_text import column_text
from hpobench_nmt.analysis.report_runs import Run, all_methods, all_tables, run_slugs
from hpobench_nmt.analysis.selection import EXACT
from hpobench_nmt.analysis.tables.section import Section
from hpobench_nmt.analysis.verdicts import ALL_NOTES
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.benchmarking.records.store import unfinished
from hpobench_nmt.core.system.text import counted, printable
from hpobench_nmt.evaluation.scores import SCORES
from hpobench_nmt.methods import CONTROLS
from hpobench_nmt.render.draw_report import FigureGroup, Progress, draw_report
from hpobench_nmt.render.figure_spec import DrawnFigure
from hpobench_nmt.render.html.svg import method_places, shared_styles, short_ids
from hpobench_nmt.render.plots.style import method_styles

if TYPE_CHECKING:
    from jinja2 import Template

_MOST_REASONS = 20
_ANSWERS = ("fewer", "volume")
# Minimum luminances on a dark background: of colours that are dark on white, and of all others. They differ
# so much that methods of the second row of colours can be distinguished from those of the first.
_OF_DARK, _LEAST = 0.5, 0.15
_DARK = 0.12
_STEPS = 400
_DASHES = {"-": "none", "--": "7 3", ":": "2 3", "-.": "7 3 2 3"}


def render(runs: Sequence[Run], jobs: int = 2, progress: Progress | None = None) -> str:
    """The page as text."""
    methods, slugs = all_methods(runs), run_slugs(runs)
    groups, shared = shortened(draw_report(runs, "svg", jobs, progress))
    drawn_for = {g.key: g.figures for g in groups if g.section is None}
    figures = {key: _available(found) for key, found in drawn_for.items()}
    found = list(zip(slugs, runs, [table_boards(run.results, run.statistics) for run in runs], strict=True))
    tables = [{"name": t.name, "runs": _table_runs(found, t.name, figures)} for t in all_tables(runs)]
    numbers = {str(table["name"]): i for i, table in enumerate(tables)}
    drawn = [figure for group in groups for figure in group.figures]
    found_runs = [
        _run(slug, run, figures) | {"left_out": _left_out(slug, run, drawn_for)}
        for slug, run in zip(slugs, runs, strict=True)
    ]
    return fill(
        "report.html.jinja",
        methods,
        more_style=shared,
        title=" and ".join(run.name for run in runs),
        lead=_lead(runs, methods),
        scores=_scores(runs),
        version=version("hpobench-nmt"),
        runs=found_runs,
        tables=tables,
        across=any(run["across"] for run in found_runs),
        analyses=[
            analysis_content(g.section, g.figures, numbers)
            for g in groups
            if g.section is not None and not g.section.problem
        ],
        method_note=ALL_NOTES,
        provenance=provenance.provenance(runs),
        method_prints=provenance.method_prints(runs),
        figures={f.spec.stem: f.hover for f in drawn if f.hover},
    )


def fill(
    template: str,
    methods: Sequence[str] = (),
    figures: Mapping[str, Any] = MappingProxyType({}),
    more_style: str = "",
    sheet: str = "",
    **content: Any,
) -> str:
    """A page from a template of this folder. All content except drawings is escaped.

    `methods` are the methods that have a colour, and `figures` has the data of tooltips. The page contains
    its style sheet, followed by `more_style`, unless `sheet` is the address of a style sheet.
    """
    places, styles = method_places(methods), method_styles(methods)
    known = [
        {"name": m, "place": i, "dash": _DASHES[styles[m].dash], "marker": _marker(styles[m].marker)}
        for m, i in places.items()
    ]
    script = _asset("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return _template(template).render(
        methods=known,
        by_name={m["name"]: m for m in known},
        places=places,
        exact=EXACT,
        controls=CONTROLS,
        style="" if sheet else style_sheet(methods) + more_style,
        sheet=sheet,
        script=script,
        script_hash=f"sha256-{digest}",
        data=_json({"methods": list(places), "figures": figures}),
        **content,
    )


@cache
def _template(name: str) -> Template:
    """Compiled once, because the leaderboard fills a template for every method."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_shown
    )
    return environment.from_string(_asset("parts.html.jinja") + _asset(name))


def shortened(groups: Sequence[FigureGroup]) -> tuple[list[FigureGroup], str]:
    """The figures with short ids and shared styles, and the style sheet that they share."""
    svgs, sheet = shared_styles(short_ids([figure.svg for group in groups for figure in group.figures]))
    each = iter(svgs)
    short = [
        replace(group, figures=tuple(replace(figure, svg=next(each)) for figure in group.figures))
        for group in groups
    ]
    return short, sheet


def _available(figures: Sequence[DrawnFigure]) -> list[DrawnFigure]:
    """Without figures that cannot be drawn, except the answer, whose reader must learn why it is missing."""
    return [f for f in figures if not f.spec.problem or f.spec.stem.endswith("-fewer")]


def _left_out(slug: str, run: Run, figures: Mapping[tuple[str, ...], Sequence[DrawnFigure]]) -> list[str]:
    """What a run's part of the report lacks, and why."""
    own = [f for key, found in figures.items() if key[0] == slug for f in found if f.spec.problem]
    open_ = [f"{m} on {table} is not finished." for table, m in unfinished(run.results)]
    return list(dict.fromkeys([*open_, *(f"{f.spec.title}: {f.spec.problem}" for f in own)]))


def _run(slug: str, run: Run, figures: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    several = len(run.results.instances) > 1 and not run.statistics.fewer.reason
    # The figures of the answer come first. Other figures over tables come later.
    answers = [f"{slug}-{kind}" for kind in _ANSWERS]
    first = [figure for figure in figures[slug,] if figure.spec.stem in answers]
    others = [figure for figure in figures[slug,] if figure not in first]
    return {
        "name": run.name,
        "slug": slug,
        "goal": run.goal,
        "scores": run.results.suite.scores,
        "headline": report_content.headline(run),
        "notes": run.statistics.notes,
        "winners": report_content.winners(run),
        "verdicts": [v.sentence for v in run.statistics.verdicts],
        "overall": figure_board(run.results, run.statistics.fewer) if several else None,
        "first": first,
        "across": others if len(run.results.instances) > 1 else (),
        "facts": provenance.facts(run),
        "failures": _failures(run.results),
    }


def _table_runs(
    runs: Sequence[tuple[str, Run, Mapping[str, Board]]], table: str, figures: Mapping[tuple[str, ...], Any]
) -> list[dict[str, Any]]:
    """The content about a table, for each run on it. `runs` has (slug, run, leaderboards)."""
    return [
        {
            "name": run.name,
            "slug": f"{slug}-{table}",
            "setting": setting(run.results, table),
            "counted": fewer_setting(run.results, run.statistics.fewer, table),
            "kept": subject_to(run.results, table),
            "goal": " and ".join(map(str, run.results.instances[table].objectives)),
            "board": boards[table].best_first(),
            "verdicts": [v.sentence for v in run.statistics.verdicts if v.table == table],
            "figures": figures[slug, table],
            "matrices": report_content.matrices(run, table),
            "limits": limit_lines(run.results, run.statistics.fewer, table)
            if len(run.results.instances) == 1
            else [],
        }
        for slug, run, boards in runs
        if table in run.results.instances
    ]


def analysis_content(
    section: Section, figures: Sequence[DrawnFigure], numbers: Mapping[str, int]
) -> dict[str, Any]:
    """The content of an analysis for the template. `numbers` are those of the tables in the page's menu."""
    shown = pd.DataFrame() if section.shown is None else section.shown
    columns = [column_text(shown[name], name in section.exact) for name in shown.columns]
    return {
        "table": numbers.get(section.table),
        "title": section.title,
        "notes": section.notes,
        "figures": [f for f in figures if f.svg],
        "head": tuple(map(str, shown.columns)),
        "rows": list(zip(*columns, strict=True)),
        "open": section.kind in ("correlation", "importance"),
    }


def _failures(results: Results) -> list[tuple[str, str, str, str]]:
    """(method, table, trials, reason) of the first groups of failed trials."""
    groups = grouped_failures(results)
    lines = [(g.method, g.table, g.which, g.reason) for g in groups[:_MOST_REASONS]]
    if len(groups) > _MOST_REASONS:
        lines.append(("…", "", "", counted(len(groups) - _MOST_REASONS, "more reason")))
    return lines


def _lead(runs: Sequence[Run], methods: Sequence[str]) -> str:
    tables = len(all_tables(runs))
    trials = sorted({run.results.suite.trials for run in runs})
    seeds = sorted({run.results.seed for run in runs})
    return (
        f"{counted(len(methods), 'method')} on {counted(tables, 'table')}, {' or '.join(map(str, trials))} "
        f"trial{'s' * (trials != [1])} each, root seed {' and '.join(map(str, seeds))}."
    )


def _scores(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """(name, description) of each score of the runs."""
    named = [(score, run.results.suite) for run in runs for score in run.results.suite.scores]
    better = {name: "lower" if SCORES[name].lower_is_better else "higher" for name, _ in named}
    return list(dict.fromkeys((s, f"{meaning(suite, s)}; {better[s]} is better") for s, suite in named))


def _marker(marker: str) -> str:
    """A matplotlib marker as an SVG path in a swatch of 26 x 12."""
    if not marker:
        return ""
    from matplotlib.markers import MarkerStyle

    made = MarkerStyle(marker)
    path = made.get_path().transformed(made.get_transform())
    parts = []
    for points, code in path.iter_segments(curves=True):
        letter = {1: "M", 2: "L", 3: "Q", 4: "C", 79: "Z"}[int(code)]
        pairs = [f"{13 + 8 * x:.1f} {6 - 8 * y:.1f}" for x, y in points.reshape(-1, 2)]
        parts.append("Z" if letter == "Z" else letter + " ".join(pairs))
    return "".join(parts)


def style_sheet(methods: Sequence[str]) -> str:
    """The style sheet of a page, with a colour for each method."""
    styles, places = method_styles(methods), method_places(methods)
    colours = {places[m]: "" if m == EXACT else s.colour for m, s in styles.items()}
    light = "".join(f"--m{i}:{colour or 'var(--ink)'};" for i, colour in colours.items())
    dark = "".join(f"--m{i}:{on_dark(c) if c else 'var(--ink)'};" for i, c in colours.items())
    dark += _asset("dark.css").strip()
    rules = "".join(
        f".hide-{i} [data-m='{i}']{{display:none}}.lift-{i} .plot [data-m]:not([data-m='{i}']){{opacity:.15}}"
        f".lift-{i} .band[data-m='{i}'] use{{fill-opacity:.3!important}}"
        for i in places.values()
    )
    sheet = re.sub(r"/\*.*?\*/", "", _asset("report.css"), flags=re.DOTALL)
    return (
        f":root{{{light}}}{sheet}"
        f"@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}"
        f"@media screen{{:root[data-theme=dark]{{{dark}}}}}{rules}"
    )


def on_dark(colour: str) -> str:
    """A colour of the same hue that stands out on a dark background. Dark colours become the lightest."""
    from matplotlib.colors import to_hex, to_rgb

    hue, lightness, saturation = colorsys.rgb_to_hls(*to_rgb(colour))
    wanted = _OF_DARK if luminance(to_rgb(colour)) < _DARK else _LEAST
    for step in range(_STEPS + 1):
        rgb = colorsys.hls_to_rgb(hue, lightness + (1 - lightness) * step / _STEPS, saturation)
        if luminance(rgb) >= wanted:
            break
    return str(to_hex(rgb))


def luminance(rgb: Sequence[float]) -> float:
    """Relative luminance, as the Web Content Accessibility Guidelines define it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _shown(value: Any) -> Any:
    """Text whose control characters are escaped. Any other value is returned as it is."""
    return printable(value, lines=True) if type(value) is str else value


def _json(data: Any) -> str:
    """JSON that cannot end the script element around it, and whose control characters are escaped."""

    def safe(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {_shown(key): safe(item) for key, item in value.items()}
        return [safe(item) for item in value] if isinstance(value, list | tuple) else _shown(value)

    text = json.dumps(safe(data), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _asset(name: str) -> str:
    return files(__package__ or "hpobench_nmt.render.html").joinpath(name).read_text(encoding="utf-8")
