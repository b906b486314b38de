"""The report as one HTML file: no network, no script from elsewhere, the same bytes for the same results."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from hpobench_nmt.analysis import provenance, report_content
from hpobench_nmt.analysis.section import Section
from hpobench_nmt.analysis.selection import EXACT
from hpobench_nmt.analysis.table_sections import analyze_tables
from hpobench_nmt.analysis.verdicts import ALL_NOTES
from hpobench_nmt.benchmarking.store import load_results, unfinished
from hpobench_nmt.core.errors import InputError, RunError
from hpobench_nmt.core.files import write_whole
from hpobench_nmt.lookup.catalogue import installed
from hpobench_nmt.lookup.folder import load_folder, load_replicates
from hpobench_nmt.lookup.table import Table
from hpobench_nmt.render.html.charts import (
    frame_text,
    one_table,
    run_sketches,
    section_sketches,
    table_sketches,
)
from hpobench_nmt.render.html.colours import on_dark
from hpobench_nmt.render.html.pictures import Picture, Sketch, file_picture, method_places, page_picture
from hpobench_nmt.render.plots.figure import method_styles

_DASHES = {"-": "none", "--": "7 3", ":": "2 3", "-.": "7 3 2 3"}


@dataclass(frozen=True, eq=False)
class Drawn:
    """What one task made: pictures for the page or files by stem; of a table's analysis its section too."""

    key: tuple[str, ...]
    pictures: tuple[Picture, ...] = ()
    content: tuple[tuple[str, bytes], ...] = ()
    section: Section | None = None


def load_runs(folders: Sequence[Path]) -> list[report_content.Run]:
    """The runs of some results folders, read and with their statistics."""
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise InputError("the same results folder twice.")
    loaded = [load_results(folder) for folder in folders]
    names: list[str] = []
    for results in loaded:
        name = results.suite.name
        same = sum(name == other.suite.name for other in loaded)
        names.append(name if same == 1 else f"{name} ({names.count(name) + len(names) + 1})")
    runs = [
        report_content.read_run(folder, name, results)
        for folder, name, results in zip(folders, names, loaded, strict=True)
    ]
    report_content.check_same_tables(runs)
    return runs


def write_report(folders: Sequence[Path], out: Path, jobs: int = 2) -> Path:
    """Write the report of one or more results folders.

    Args:
        folders: each of one run.
        out: the HTML file.
        jobs: processes that analyse and draw.

    Raises:
        InputError: a folder is empty, damaged, or of another version.
        RunError: the file cannot be written.
    """
    page = render(load_runs(folders), jobs)
    try:
        write_whole(out, page.encode())
    except OSError as error:
        raise RunError(f"{out}: cannot be written: {error.strerror}.") from error
    return out


def draw_all(runs: Sequence[report_content.Run], form: str, jobs: int) -> list[Drawn]:
    """Every figure of the report, in order: for the page ("svg") or as files ("pdf", "png")."""
    import joblib

    methods = all_methods(runs)
    tasks: list[Any] = []
    for slug, run in zip(run_slugs(runs), runs, strict=True):
        for table in run.results.instances:
            part = one_table(run.results, table)
            tasks.append(partial(_draw_table, part, slug, table, methods, run.statistics, form))
        tasks.append(partial(_draw_run, run.results, slug, run.statistics, methods, form))
    tasks.append(partial(_draw_sections, all_tables(runs), _folders(runs), form))
    # The longest first, so that no process is left with one at the end; the results keep their order.
    weights = [-_weight(task) for task in tasks]
    order = sorted(range(len(tasks)), key=weights.__getitem__)
    found = joblib.Parallel(n_jobs=min(jobs, len(tasks)), batch_size=1, pre_dispatch="all")(
        joblib.delayed(tasks[i])() for i in order
    )
    by_task = dict(zip(order, found, strict=True))
    return [drawn for i in range(len(tasks)) for drawn in by_task[i]]


def render(runs: Sequence[report_content.Run], jobs: int = 2) -> str:
    """The page as text."""
    from jinja2 import Environment, StrictUndefined

    methods = all_methods(runs)
    places = method_places(methods)
    drawn = draw_all(runs, "svg", jobs)
    pictures = {d.key: d.pictures for d in drawn if d.section is None}
    tables = [
        {"name": table.name, "rows": f"{len(table):,}", "runs": _table_runs(runs, table.name, pictures)}
        for table in all_tables(runs)
    ]
    numbers = {str(table["name"]): i for i, table in enumerate(tables)}
    shown = [p for d in drawn for p in d.pictures]
    known = [_method(name, place) for name, place in places.items()]
    script = _asset("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_asset("report.html.jinja")).render(
        title=" and ".join(run.name for run in runs),
        lead=_lead(runs, methods),
        version=version("hpobench-nmt"),
        runs=[_run(slug, run, pictures) for slug, run in zip(run_slugs(runs), runs, strict=True)],
        tables=tables,
        analyses=[_analysis(d, numbers) for d in drawn if d.section is not None],
        methods=known,
        by_name={m["name"]: m for m in known},
        places=places,
        exact=EXACT,
        method_note=ALL_NOTES,
        provenance=provenance.provenance(runs),
        method_prints=provenance.method_prints(runs),
        style=_style_sheet(methods),
        script=script,
        script_hash=f"sha256-{digest}",
        data=_json({"methods": list(places), "figures": {p.sketch.stem: p.hover for p in shown if p.hover}}),
    )


def all_methods(runs: Iterable[report_content.Run]) -> list[str]:
    """Methods of all runs, each once: its place is its colour."""
    return list(dict.fromkeys(m for run in runs for m in run.results.methods))


def all_tables(runs: Iterable[report_content.Run]) -> list[Table]:
    """Tables of all runs, each once."""
    return list({name: i.table for run in runs for name, i in run.results.instances.items()}.values())


def _draw_table(
    results: Any, slug: str, table: str, methods: Sequence[str], statistics: Any, form: str
) -> list[Drawn]:
    sketches = table_sketches(results, slug, table, method_styles(methods), statistics)
    return [_drawn((slug, table), sketches, methods, form)]


def _draw_run(results: Any, slug: str, statistics: Any, methods: Sequence[str], form: str) -> list[Drawn]:
    return [_drawn((slug,), run_sketches(results, slug, statistics, method_styles(methods)), methods, form)]


def _draw_sections(tables: Sequence[Table], folders: Mapping[str, Path], form: str) -> list[Drawn]:
    """Analyses between tables, and those of each."""
    found = []
    for section in analyze_tables(tables, replicates=_replicates(tables, folders)):
        drawn = _drawn(("", section.table, section.kind), section_sketches(section), [], form)
        # Only what the page shows goes back to the process that asked.
        found.append(replace(drawn, section=replace(section, files={}, figures={})))
    return found


def _drawn(key: tuple[str, ...], sketches: Sequence[Sketch], methods: Sequence[str], form: str) -> Drawn:
    if form == "svg":
        return Drawn(key, tuple(page_picture(s, methods) for s in sketches if not s.files_only))
    return Drawn(key, content=tuple((s.stem, file_picture(s, form)) for s in sketches))


def _weight(task: Any) -> int:
    """A guess at what a task costs: surrogates cost the most, in large tables."""
    return (
        len(task.args[0].instances[task.args[2]].table)
        if task.func is _draw_table
        else 2000
        if task.func is _draw_sections
        else 0
    )


def _run(slug: str, run: report_content.Run, pictures: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    left = [f"{method} on {table} is not finished." for table, method in unfinished(run.results)]
    several = len(run.results.instances) > 1 and len(run.results.methods) > 1
    return {
        "name": run.name,
        "slug": slug,
        "goal": run.goal,
        "scores": run.results.suite.scores,
        "headline": report_content.headline(run),
        "notes": run.statistics.notes,
        "winners": report_content.winners(run),
        "verdicts": [v.sentence for v in run.statistics.verdicts],
        "overall": report_content.overall_board(run) if several else None,
        "across": pictures[slug,] if len(run.results.instances) > 1 else (),
        "facts": provenance.facts(run),
        "left_out": left,
        "failures": provenance.failures(run.results),
    }


def _table_runs(
    runs: Sequence[report_content.Run], table: str, pictures: Mapping[tuple[str, ...], Any]
) -> list[dict[str, Any]]:
    found = []
    for slug, run in zip(run_slugs(runs), runs, strict=True):
        if table in run.results.instances:
            cells = report_content.score_cells(run)[table]
            instance = run.results.instances[table]
            found.append(
                {
                    "name": run.name,
                    "slug": f"{slug}-{table}",
                    "goal": " and ".join(map(str, instance.objectives)),
                    "trials": run.results.suite.trials,
                    "board": report_content.table_board(run, table, cells),
                    "verdicts": [v.sentence for v in run.statistics.verdicts if v.table == table],
                    "pictures": pictures[slug, table],
                    "matrices": report_content.matrices(run, table),
                }
            )
    return found


def _analysis(drawn: Drawn, numbers: Mapping[str, int]) -> dict[str, Any]:
    section = drawn.section
    if section is None:
        raise ValueError("not a section")
    head, rows = frame_text(section.shown) if section.shown is not None else ((), [])
    return {
        "table": numbers.get(section.table),
        "title": section.title,
        "problem": section.problem,
        "notes": section.notes,
        "pictures": [p for p in drawn.pictures if p.svg],
        "head": head,
        "rows": rows,
        "open": section.kind in ("correlation", "importance"),
    }


def _folders(runs: Sequence[report_content.Run]) -> dict[str, Path]:
    """Where the tables of the runs are, as far as that is known."""
    folders = installed()
    for run in runs:
        for name, entry in run.manifest["tables"].items():
            if entry.get("source"):
                folders[name] = Path(entry["source"])
    return folders


def _replicates(tables: Sequence[Table], folders: Mapping[str, Path]) -> dict[str, Any]:
    """Trainings with other seeds. The run's own table is taken, not another one of its name."""
    return {
        t.name: load_replicates(folders[t.name])
        for t in tables
        if t.name in folders and load_folder(folders[t.name]).sha256 == t.sha256
    }


def _lead(runs: Sequence[report_content.Run], methods: Sequence[str]) -> str:
    tables = len(all_tables(runs))
    trials = sorted({run.results.suite.trials for run in runs})
    seeds = sorted({run.results.seed for run in runs})
    return (
        f"{len(methods)} method{'s' * (len(methods) > 1)} on {tables} table{'s' * (tables > 1)}, "
        f"{' or '.join(map(str, trials))} trial{'s' * (trials != [1])} each, "
        f"root seed {' and '.join(map(str, seeds))}."
    )


def _method(name: str, place: int) -> dict[str, Any]:
    style = method_styles([*(f"{i}" for i in range(place)), name])[name]
    return {"name": name, "place": place, "dash": _DASHES[style.dash], "marker": _marker(style.marker)}


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


def _style_sheet(methods: Sequence[str]) -> str:
    styles = method_styles(methods)
    places = method_places(methods)
    light = "".join(f"--m{places[m]}:{'var(--ink)' if m == EXACT else s.colour};" for m, s in styles.items())
    dark = "".join(
        f"--m{places[m]}:{'var(--ink)' if m == EXACT else on_dark(s.colour)};" for m, s in styles.items()
    )
    dark += _asset("dark.css").strip()
    rules = "".join(
        f".hide-{i} [data-m='{i}']{{display:none}}.lift-{i} .plot [data-m]:not([data-m='{i}']){{opacity:.15}}"
        for i in places.values()
    )
    sheet = re.sub(r"/\*.*?\*/", "", _asset("report.css"), flags=re.DOTALL)
    return (
        f":root{{{light}}}{sheet}"
        f"@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}"
        f"@media screen{{:root[data-theme=dark]{{{dark}}}}}{rules}"
    )


def run_slugs(runs: Sequence[report_content.Run]) -> list[str]:
    """The start of the ids and file names of each run: of letters that any of them takes, none another's."""
    slugs: list[str] = []
    for place, run in enumerate(runs):
        slug = re.sub(r"[^A-Za-z0-9_-]+", "-", run.results.suite.name).strip("-") or "run"
        # A table's name follows: neither may begin with the other.
        while any(f"{slug}-".startswith(f"{s}-") or f"{s}-".startswith(f"{slug}-") for s in slugs):
            slug = f"run{place + 1}-{slug}"
        slugs.append(slug)
    return slugs


def _json(data: Any) -> str:
    """JSON that cannot end the script element that it is in."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _asset(name: str) -> str:
    return files(__package__ or "hpobench_nmt.render.html").joinpath(name).read_text(encoding="utf-8")
