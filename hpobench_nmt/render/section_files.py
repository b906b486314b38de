"""The analyses of tables as figures and files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hpobench_nmt.analysis.table_front import Front
from hpobench_nmt.analysis.tables.section import Section
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.files import save_file
from hpobench_nmt.render.data_text import as_in_tables, csv_text
from hpobench_nmt.render.figures import section_figures
from hpobench_nmt.render.plots.pareto_front import plot_front, plot_front_pairs
from hpobench_nmt.render.plots.style import plain, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIGURE_FORMATS = ("png", "pdf")


def write_sections(
    sections: Sequence[Section], out: Path, formats: Sequence[str] = FIGURE_FORMATS
) -> list[Path]:
    """Write the frames as CSV files and the figures in each format. Returns the files in order.

    Files of the same name are replaced. A figure takes about 0.2 s.
    """
    written: list[Path] = []
    for section in sections:
        for stem, frame in section.files.items():
            written.append(out / f"{stem}.csv")
            save_file(written[-1], csv_text(as_in_tables(frame)).encode())
        for spec in section_figures(section):
            assert spec.draw is not None
            figure = spec.draw()
            for suffix in formats:
                written.append(out / f"{spec.stem}.{suffix}")
                save(figure, written[-1], suffix)
    return written


def front_figure(front: Front, ax: Axes | None = None) -> Figure:
    """Draw a front. With three or more objectives, it is drawn in pairs, which need more than one `ax`."""
    if len(front.metrics) == 2:
        return plain(plot_front(front, front.name, ax))
    if ax is not None:
        raise InputError("a front of three and more objectives has several panels: it cannot be drawn on ax.")
    return plain(plot_front_pairs(front, front.name))


def write_front(front: Front, path: Path) -> None:
    """Draw a front to a PNG, PDF or SVG file."""
    save(front_figure(front), path, path.suffix.lower()[1:])
