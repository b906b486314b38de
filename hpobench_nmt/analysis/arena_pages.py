"""The pages of the leaderboard of lm-2026 for each method and for each table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from hpobench_nmt.analysis.arena import Track
from hpobench_nmt.analysis.arena_curves import Chart, charts_of, curves_of
from hpobench_nmt.analysis.fewer_trainings import SIMULATED
from hpobench_nmt.analysis.leaderboard import fewer_setting
from hpobench_nmt.analysis.method_card import about_method, method_card
from hpobench_nmt.benchmarking.archive import Archive
from hpobench_nmt.core.hyperparameter import Hyperparameter
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.text import counted, short
from hpobench_nmt.methods import KNOWN

_MOST_VALUES = 12
_QUARTER = 0.75
_DEVELOPMENT = "the tables of the development half"
# The tables that were used while a method was developed, if known. See docs/explanation/auto.md.
_TUNED = {
    "BO_auto": _DEVELOPMENT,
    "BO_levels": "eight tables with curves of the development half",
    **dict.fromkeys(("BO_EI_M", "BO_EI_R", "BO_M", "BO_R"), "the paper's tables, to repeat its figures"),
    **dict.fromkeys(("GB_EI_M", "GB_EI_R", "GB_EIF_M", "GB_EIF_R", "GB_M", "GB_R"), "the paper's tables"),
}


@dataclass(frozen=True)
class MethodPage:
    """The page of a method.

    Attributes:
        name: its name.
        kinds: the kinds by which it can be filtered.
        facts: facts about the method, each a name and a text.
        standing: a sentence for each track: the tables on which it wins and loses.
        charts: its curves, by track.
        lines: table, track, figure, rank and share of capped trials, the best first in each track.
    """

    name: str
    kinds: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    standing: tuple[str, ...]
    charts: tuple[Chart, ...]
    lines: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class TablePage:
    """The page of a table.

    Attributes:
        name: its name.
        facts: facts from its datasheet, each a name and a text.
        tracks: for each of its tracks, the track and half, the target, and a line for each method, the best
            first: its name, figure and share of capped trials.
    """

    name: str
    facts: tuple[tuple[str, str], ...]
    tracks: tuple[tuple[str, str, tuple[tuple[str, ...], ...]], ...]


def method_pages(archive: Archive, found: Sequence[Track]) -> list[MethodPage]:
    """The page of each method, in the order of the archive."""
    names = dict.fromkeys(method for track in found for method in track.results.methods)
    charts: dict[str, dict[str, Chart]] = {}
    for track in found:
        curves = curves_of(track.results, track.found)
        charts[track.name] = charts_of(track.name, track.results, curves, [SIMULATED, *_leader(track)])
    return [_method_page(archive, found, charts, name) for name in names]


def _leader(track: Track) -> list[str]:
    """The method with the largest figure in a track, if there is a figure."""
    methods = track.found.methods.dropna(subset=["times_fewer"])
    return methods.sort_values("times_fewer", ascending=False, kind="stable")["method"].tolist()[:1]


def _method_page(
    archive: Archive, found: Sequence[Track], charts: Mapping[str, Mapping[str, Chart]], name: str
) -> MethodPage:
    own = [track for track in found if name in track.results.methods]
    facts, known = [], KNOWN.get(name)
    card = next((c for t in own if (c := archive.card(t.name, name))), None)
    if known is not None:
        about = about_method(known)
        settings = [line.strip() for line in method_card(name) if line.startswith("  ")]
        facts += [("what", known.description), ("about", " ".join(about[:1]))]
        facts += [("how it works", paragraph) for paragraph in about[1:]]
        facts += [("code", f"hpobench_nmt.methods.{known.location.partition(':')[0]}")]
        facts += [("settings", "; ".join(settings) or "none")]
        facts += [("tuned on", _TUNED.get(name, "none of these tables: its settings come from its authors"))]
    if card is not None:
        facts += [("what", card.what), ("source", card.source), ("licence", card.licence)]
        facts += [("hardware", card.hardware), ("tuned on", card.tuned_on)]
    versions = archive.versions(own[0].name, name)
    facts += [("made with", ", ".join(f"{k} {v}" for k, v in versions.items()))]
    facts += [("fingerprint", archive.methods(own[0].name)[name].methods[name].of_sources[:16])]
    lines, standing = [], []
    for track in own:
        ranks = _ranks(track.found.cells)
        cells = ranks[ranks["method"] == name].sort_values("times_fewer", ascending=False, kind="stable")
        standing.append(_standing(track.name, cells))
        for line in cells.to_dict("records"):
            rank = f"{int(line['rank'])} of {int(line['of'])}"
            figure, capped = short(line["times_fewer"]), f"{line['capped']:.0%}"
            lines.append((line["table"], track.name, figure, rank, capped))
    drawn = tuple(charts[track.name][name] for track in own if name in charts[track.name])
    return MethodPage(name, _kinds(name), tuple(facts), tuple(standing), drawn, tuple(lines))


def _standing(track: str, cells: pd.DataFrame) -> str:
    """On which tables of a track a method is first, and on which it is among the last quarter."""
    if not len(cells):
        return f"{track}: the figure cannot be computed on any table."
    first = cells.loc[cells["rank"] == 1, "table"].tolist()
    last = cells.loc[cells["rank"] > 1 + _QUARTER * (cells["of"] - 1), "table"].tolist()
    more = int((cells["times_fewer"] > 1).sum())
    return (
        f"{track}: fewer trainings than random search on {more} of {counted(len(cells), 'table')}; "
        f"first on {', '.join(first) or 'none'}; in the last quarter on {', '.join(last) or 'none'}."
    )


def _kinds(name: str) -> tuple[str, ...]:
    """The kinds by which a method can be filtered."""
    known = KNOWN.get(name)
    if known is None:
        return ("submitted",)
    origin = "other libraries" if known.extra or "." in name else "built in"
    return (origin, "stops early" if known.partial else "whole trainings")


def _ranks(cells: pd.DataFrame) -> pd.DataFrame:
    """The cells with the rank of each method on its table, and the number of methods."""
    groups = cells.groupby("table", sort=False)["times_fewer"]
    return cells.assign(rank=groups.rank(ascending=False, method="min"), of=groups.transform("size")).dropna(
        subset=["rank"]
    )


def table_pages(found: Sequence[Track]) -> list[TablePage]:
    """The page of each table, in the order of the tracks."""
    installed = {n: i.installed for track in found for n, i in track.results.instances.items()}
    return [_table_page(found, name) for name in installed]


def _table_page(found: Sequence[Track], name: str) -> TablePage:
    own = [track for track in found if name in track.results.instances]
    table = own[0].results.instances[name].installed
    facts = [("rows", f"{len(table):,}")]
    facts += [("hyperparameter", _values(each)) for each in table.hyperparameters]
    facts += [("metric", _metric(each)) for each in table.metrics]
    facts += [("learning curves", "yes" if table.curves is not None else "no")]
    facts += [
        (k.replace("_", " "), str(v)) for k, v in table.provenance.items() if isinstance(v, str | int | float)
    ]
    facts += [("SHA-256", table.sha256)]
    parts = []
    for track in own:
        half = track.found.tables.set_index("table")["half"].get(name, "")
        halved = bool(track.results.suite.development)
        cells = track.found.cells[track.found.cells["table"] == name].dropna(subset=["times_fewer"])
        lines = tuple(
            (line["method"], short(line["times_fewer"]), f"{line['capped']:.0%}")
            for line in cells.sort_values("times_fewer", ascending=False, kind="stable").to_dict("records")
        )
        target = fewer_setting(track.results, track.found, name).removeprefix("times fewer: ")
        parts.append((f"{track.name}, {half}" if halved else track.name, target, lines))
    return TablePage(name, tuple(facts), tuple(parts))


def _values(h: Hyperparameter) -> str:
    """A hyperparameter with its grid, or the ends of a long grid."""
    values = [short(v) if isinstance(v, float) else str(v) for v in h.values]
    if len(values) > _MOST_VALUES:
        values = [values[0], f"… ({len(values)} values) …", values[-1]]
    scale = ", log scale" if h.kind == "numeric" and h.scale == "log" else ""
    return f"{h.name}{scale}: {', '.join(values)}{' ' + h.unit if h.unit else ''}"


def _metric(metric: Metric) -> str:
    better = "higher is better" if metric.direction == "max" else "lower is better"
    return f"{metric.label}, {better}{': ' + metric.description if metric.description else ''}"
