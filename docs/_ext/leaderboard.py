"""The leaderboard of lm-2026, drawn from the archive into the built site.

It has the tables that are installed where the site is built. `-D leaderboard=0` leaves it out, to save half
a minute, or three with all tables.
"""

from __future__ import annotations

from pathlib import Path

from sphinx.application import Sphinx

from hpobench_nmt.arena.archive import read_archive
from hpobench_nmt.render.html.arena import write_arena

ARCHIVE = Path(__file__).parents[2] / "archive" / "lm-2026.parquet"
FOLDER = "_static/leaderboard"  # below the site's; reference/leaderboard.md has the link


def draw(app: Sphinx, exception: Exception | None) -> None:
    """Write the pages once the site is there."""
    if exception is None and app.builder.format == "html" and app.config.leaderboard:
        write_arena(read_archive(ARCHIVE), app.outdir / FOLDER)


def setup(app: Sphinx) -> dict[str, object]:
    """Draw them at the end of a build."""
    app.add_config_value("leaderboard", True, "", bool)
    app.connect("build-finished", draw)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
