"""The analyses of tables in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from hpobench_nmt.analysis.section import Section
from hpobench_nmt.render.terminal.grids import print_frame, print_text


def print_sections(sections: Sequence[Section], console: Console) -> None:
    """Print titles, notes and the frames worth seeing."""
    for i, section in enumerate(sections):
        if i:
            console.print()
        print_text(section.title, console, "bold")
        if section.problem:
            print_text(f"Left out: {section.problem}", console)
        for note in section.notes:
            print_text(f"- {note}", console)
        if section.shown is not None and len(section.shown):
            console.print()
            print_frame(section.shown, console)
