"""The analyses of tables as figures and files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from hpobench_nmt.analysis.section import Section
from hpobench_nmt.analysis.table_front import Front
from hpobench_nmt.core.errors import RunError
from hpobench_nmt.core.files import write_whole
from hpobench_nmt.evaluation.correlation import RankCorrelation
from hpobench_nmt.evaluation.early_ranks import EarlyRanks
from hpobench_nmt.evaluation.noise import SeedNoise
from hpobench_nmt.evaluation.sensitivity import Sensitivity
from hpobench_nmt.render.data_text import as_in_tables, csv_text
from hpobench_nmt.render.plots import table_analyses
from hpobench_nmt.render.plots.early_ranks import plot_early_ranks
from hpobench_nmt.render.plots.pareto_front import plot_front, plot_front_pairs
from hpobench_nmt.render.plots.style import plain, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURE_FORMATS = ("png", "pdf")
_DPI = 150


def figures_of(section: Section) -> dict[str, Callable[[], Figure]]:
    """Functions that draw an analysis, by the stem of a file name."""
    found = section.analysis
    match found:
        case None:
            return {}
        case RankCorrelation():
            return {section.stem: partial(table_analyses.plot_rank_correlation, found)}
        case tuple():
            return {section.stem: partial(table_analyses.plot_importance, found)}
        case Front():
            return {section.stem: partial(_draw_front, found)}
        case Sensitivity():
            return {
                section.stem: partial(table_analyses.plot_sensitivity, found, section.unit),
                f"{section.table}-search": partial(table_analyses.plot_search_cost, found),
            }
        case SeedNoise():
            return {
                section.stem: partial(table_analyses.plot_seed_noise, found, section.unit),
                f"{section.stem}-best": partial(table_analyses.plot_best_rows, found, section.unit),
            }
        case EarlyRanks():
            return {section.stem: partial(plot_early_ranks, found, section.unit)}
        case _:
            assert_never(found)


def write_sections(
    sections: Sequence[Section], out: Path, formats: Sequence[str] = FIGURE_FORMATS
) -> list[Path]:
    """Write the frames as CSV files and the figures in each format; returns the files in order.

    Files of the same name are replaced. About a fifth of a second a figure.
    """
    written: list[Path] = []
    path = out
    try:
        out.mkdir(parents=True, exist_ok=True)
        for section in sections:
            for stem, frame in section.files.items():
                path = out / f"{stem}.csv"
                write_whole(path, csv_text(as_in_tables(frame)).encode())
                written.append(path)
            for stem, draw in figures_of(section).items():
                figure = draw()
                for suffix in formats:
                    path = out / f"{stem}.{suffix}"
                    save(figure, path, suffix, _DPI)
                    written.append(path)
    except OSError as error:
        raise RunError(f"{path}: cannot be written: {error.strerror}.") from error
    return written


def _draw_front(front: Front) -> Figure:
    return plain(plot_front(front, f"{front.name}: scatter and Pareto front"))


def write_front(front: Front, path: Path) -> None:
    """Draw a front to a PNG, PDF or SVG file; of three and more objectives in pairs."""
    draw = plot_front if len(front.metrics) == 2 else plot_front_pairs
    try:
        save(draw(front, front.name), path, path.suffix.lower()[1:])
    except OSError as error:
        raise RunError(f"{path}: cannot be written: {error.strerror}.") from error
