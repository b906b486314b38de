"""The pages of the leaderboard of lm-2026 for each method and for each table.

The curves of a method show its progress after each part of the budget, on the rows that a trial saw. With one
objective, it is the regret as a share of the distance from the median row to the best row, at most 1. With
several objectives, it is the share of the hypervolume that is missing. Means are over trials, and then over
the tables that the track's figure includes. A trial ends when its scores are settled, and keeps its last
value from then on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hpobench_nmt.analysis.fewer_trainings import FewerTrainings
from hpobench_nmt.analysis.leaderboard import fewer_setting
from hpobench_nmt.analysis.limits import limit_lines
from hpobench_nmt.analysis.method_card import about_method, method_card
from hpobench_nmt.analysis.paired import SIMULATED
from hpobench_nmt.arena.archive import NAME, Archive
from hpobench_nmt.arena.boards import Track
from hpobench_nmt.arena.digest import DIGEST
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.benchmarking.task.instance import Instance
from hpobench_nmt.benchmarking.task.scoring import length_of
from hpobench_nmt.benchmarking.task.target import budget_of
from hpobench_nmt.core.arrays import Floats
from hpobench_nmt.core.hyperparameter import Hyperparameter
from hpobench_nmt.core.objectives import Metric
from hpobench_nmt.core.system.files import read_bytes
from hpobench_nmt.core.system.text import counted, short
from hpobench_nmt.core.trajectory import Trajectory
from hpobench_nmt.evaluation.curves import hypervolume_shares, simple_regret
from hpobench_nmt.evaluation.hypervolume import table_scale
from hpobench_nmt.lookup.baselines import baseline_sentence
from hpobench_nmt.methods import CONTROLS, KNOWN

MOVED = DIGEST.with_name(f"{NAME}-moved.csv")
"""How often and how far adapters move proposals: method, rows, share, mean distance
(benchmarks/methods/moved_proposals.py writes it)."""
PARTS = np.linspace(0.0, 1.0, 41)[1:]
"""Parts of the budget at which curves have points."""
_TOLD = (0.25, 0.5, 1.0)
_MOST_VALUES = 12
_QUARTER = 0.75


@dataclass(frozen=True, eq=False)
class Chart:
    """Curves of a method and of the methods with which it is compared, in one track.

    Attributes:
        track: the name of the track.
        quantity: the quantity on the vertical axis, which begins at 0.
        top: the end of that axis, the same for all methods of the track.
        lines: the name of each curve's method and the values at `PARTS`; the method itself comes first.
        told: rows of a table, for some parts of the budget: the part, and each curve's value there.
    """

    track: str
    quantity: str
    top: float
    lines: tuple[tuple[str, Floats], ...]
    told: tuple[tuple[str, ...], ...]

    @property
    def sentence(self) -> str:
        """What the curves show, for a caption."""
        half, end = self.told[1], self.told[-1]
        parts = [f"{name} {a}, {b}" for (name, _), a, b in zip(self.lines, half[1:], end[1:], strict=True)]
        return f"After half of the budget, and after all of it: {'; '.join(parts)}."


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
        tracks: for each of its tracks, its name, the target, a line for each method, the best first (its
            name, figure and share of capped trials), and the lines of `analysis.limits`.
    """

    name: str
    facts: tuple[tuple[str, str], ...]
    tracks: tuple[tuple[str, str, tuple[tuple[str, ...], ...], list[tuple[str, ...]]], ...]


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
        tuned = ", ".join(known.tuned_on) or "no family of tables: its settings come from its authors"
        facts += [("settings", "; ".join(settings) or "none"), ("tuned on", tuned)]
    if card is not None:
        facts += [("what", card.what), ("source", card.source), ("licence", card.licence)]
        facts += [("hardware", card.hardware), ("tuned on", card.tuned_on)]
    versions = archive.versions(own[0].name, name)
    facts += [("made with", ", ".join(f"{k} {v}" for k, v in versions.items()))]
    facts += [("identity", archive.identity(own[0].name, name).unmarked.identity)]
    facts += [("start", "; ".join(f"{t.name}: {_start(t)}" for t in own))]
    facts += [("moved proposals", text) for text in [_moved(name)] if text]
    facts += [("failed trials", "; ".join(_failures(t, name) for t in own))]
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


def _start(track: Track) -> str:
    """With which rows a trial begins."""
    first = track.results.suite.n_initial
    return f"{counted(first, 'random row')}, the same for all methods" if first else "the method's own"


def _moved(method: str) -> str:
    """How often and how far a library's proposals are moved to a row; "" for methods that choose rows."""
    lines = [line.split(",") for line in read_bytes(MOVED).decode().splitlines()[1:]]
    told = [(rows, float(share), far) for name, rows, share, far in lines if name == method]
    return "; ".join(f"{share:.0%} on {rows}, by {far} in the mean" for rows, share, far in told)


def _failures(track: Track, method: str) -> str:
    """How many trials failed."""
    cells = track.found.cells[track.found.cells["method"] == method]
    return f"{track.name}: {int(cells['failed'].sum())} of {track.results.suite.trials * len(cells)}"


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
    if name in CONTROLS:
        return ("control",)
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
    facts += [(key.replace("_", " "), text) for key, text in table.provenance.items()]
    facts += [("baseline", sentence)] if (sentence := baseline_sentence(table)) else []
    facts += [("SHA-256", table.sha256)]
    parts = []
    for track in own:
        cells = track.found.cells[track.found.cells["table"] == name].dropna(subset=["times_fewer"])
        lines = tuple(
            (line["method"], short(line["times_fewer"]), f"{line['capped']:.0%}")
            for line in cells.sort_values("times_fewer", ascending=False, kind="stable").to_dict("records")
        )
        target = fewer_setting(track.results, track.found, name).removeprefix("times fewer: ")
        parts.append((track.name, target, lines, limit_lines(track.results, track.found, name)))
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


def curves_of(results: Results, found: FewerTrainings) -> dict[str, Floats]:
    """Each method's mean at `PARTS`; empty if no table gives a figure."""
    if found.reason:
        return {}
    return {
        method: np.mean([_mean(results, table, method) for table in found.tables["table"]], axis=0)
        for method in results.methods
    }


def _mean(results: Results, table: str, method: str) -> Floats:
    """The mean over the trials on one table, each on the rows that it saw."""
    instance, trials = results.instances[table], results.trials[table, method]
    values = [_curve(instance.of_trial(results.seed, i), trials[i]) for i in range(len(trials))]
    return np.asarray(np.mean(values, axis=0))


def _curve(seen: Instance, trial: Trajectory) -> Floats:
    """A trial's values at `PARTS` of its budget; after its end, the last value."""
    times = np.minimum(PARTS * budget_of(seen), length_of(trial))
    if len(seen.objectives) > 1:
        scale = table_scale(seen.scored_trainings.models)
        return np.asarray(1.0 - hypervolume_shares([trial], scale, times)[0])
    final = seen.scored[:, 0]
    best = float(np.nanmin(final))
    way = float(np.nanmedian(final)) - best or 1.0
    return np.asarray(np.minimum(simple_regret([trial], best, times)[0] / way, 1.0))


def charts_of(
    track: str, results: Results, curves: dict[str, Floats], beside: Sequence[str]
) -> dict[str, Chart]:
    """A chart for each method of a track; `beside` names the methods with which each is compared."""
    several = len(next(iter(results.instances.values())).objectives) > 1
    quantity = "hypervolume that is missing" if several else "regret"
    top = max((float(values.max()) for values in curves.values()), default=1.0)
    found = {}
    for method in curves:
        names = list(dict.fromkeys([method, *(name for name in beside if name in curves)]))
        at = [int(np.argmin(np.abs(PARTS - part))) for part in _TOLD]
        told = tuple(
            (f"{part:.0%}", *(f"{curves[name][i]:.3f}" for name in names))
            for part, i in zip(_TOLD, at, strict=True)
        )
        found[method] = Chart(track, quantity, top, tuple((n, curves[n]) for n in names), told)
    return found
