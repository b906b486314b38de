"""The leaderboard of lm-2026 as one HTML file, made of an archive: the same bytes for the same archive."""

from __future__ import annotations

from pathlib import Path

from hpobench_nmt.analysis.arena import arena_lead, arena_tracks, method_pages, table_pages, track_board
from hpobench_nmt.benchmarking.archive import NAME, Archive
from hpobench_nmt.core.errors import RunError
from hpobench_nmt.core.files import write_whole
from hpobench_nmt.render.html.page import fill
from hpobench_nmt.render.html.svg import method_places


def arena_page(archive: Archive) -> str:
    """The page as text, of the tables that are installed here."""
    found = arena_tracks(archive)
    pages = method_pages(archive, found)
    names = [page.name for page in pages]
    places = method_places(names)
    kinds: dict[str, list[int]] = {}
    for page in pages:
        for kind in page.kinds:
            kinds.setdefault(kind, []).append(places[page.name])
    return fill(
        "arena.html.jinja",
        names,
        {},
        title=f"Leaderboard of {NAME}",
        lead=arena_lead(archive, found),
        tracks=[
            {"name": t.name, "title": t.title, "board": track_board(t), "sentences": t.sentences}
            for t in found
        ],
        kinds=list(kinds.items()),
        pages=pages,
        table_pages=table_pages(found),
    )


def write_arena(archive: Archive, out: Path) -> Path:
    """Write the page, and return its path; RunError where it cannot be written."""
    try:
        write_whole(out, arena_page(archive).encode())
    except OSError as error:
        raise RunError(f"{out}: cannot be written: {error.strerror}.") from error
    return out
