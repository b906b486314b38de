"""Make the screenshots of the README and of the site's first page: `python docs/screenshots.py`, two minutes.

They show what the README's first command prints, and the report of its results. It needs Chromium and Pillow,
which comes with matplotlib.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from hpobench_nmt import __version__
from hpobench_nmt.core.system.files import write_whole

STATIC = Path(__file__).parent / "_static"
_COLUMNS = 80
_WINDOW = (960, 800)
_COLOURS = 256
_LIGHT = TerminalTheme((246, 247, 248), (27, 31, 35), [(27, 31, 35)] * 8)
_MADE_BY = f"hpobench-nmt {__version__}"  # in both files: a test compares it with the installed version
# No fonts from elsewhere, as rich's own has: each system has one of a fixed width.
_FORMAT = f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_COLUMNS * 12 + 24} {{terminal_height}}">
<metadata>{_MADE_BY}</metadata>
<style>{{styles}}
text {{{{ font: 20px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre }}}}
</style>
<defs>{{lines}}</defs>
<rect width="100%" height="100%" rx="8" fill="#f6f7f8"/>
<g transform="translate(12, 4)">{{backgrounds}}{{matrix}}</g>
</svg>
"""


def command(home: Path, *arguments: str) -> str:
    """What a command prints in a terminal of 80 columns."""
    environment = {**os.environ, "HPOBENCH_NMT_HOME": str(home), "COLUMNS": str(_COLUMNS), "FORCE_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "hpobench_nmt", *arguments],
        check=True,
        capture_output=True,
        text=True,
        cwd=home,
        env=environment,
    )
    return done.stdout


def terminal(printed: str) -> str:
    """What a command printed, as SVG."""
    shown = ["$ hpobench-nmt run", *printed.splitlines(), " "]
    console = Console(record=True, width=_COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi("\n".join(shown)), end="")
    return console.export_svg(theme=_LIGHT, code_format=_FORMAT, unique_id="t", font_aspect_ratio=0.6)


def browser(page: Path) -> bytes:
    """The first screen of a page in a light window, as a PNG of few colours."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not program:
        sys.exit("Chromium is not installed.")
    picture = page.with_suffix(".png")
    options = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--screenshot={picture}",
    ]
    size = "--window-size={},{}".format(*_WINDOW)
    subprocess.run([program, *options, size, page.as_uri()], check=True, capture_output=True)
    made = io.BytesIO()
    whole = Image.open(picture).convert("RGB")
    few = whole.quantize(_COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    about = PngInfo()
    about.add_text("Software", _MADE_BY)
    few.save(made, format="png", optimize=True, pnginfo=about)
    return made.getvalue()


def main() -> None:
    """Write them into docs/_static."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        svg = terminal(command(home, "run", "--out", "results"))
        write_whole(STATIC / "terminal.svg", re.sub(r"[ \t]+\n", "\n", svg).encode())
        command(home, "report", "results", "--out", "report.html")
        write_whole(STATIC / "report.png", browser(home / "report.html"))


if __name__ == "__main__":
    main()
