"""`hpobench-nmt report`: one HTML file about a run, or its figures and tables for a paper."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Any

import click

from hpobench_nmt.cli.common import say
from hpobench_nmt.cli.options import COUNT, PATH, listed
from hpobench_nmt.core.errors import InputError
from hpobench_nmt.core.text import counted


@click.command()
@click.argument("folders", metavar="DIR...", nargs=-1, required=True, type=PATH)
@click.option("--format", "form", default="html", show_default=True, help="html, pdf, png or latex.")
@click.option(
    "--out",
    type=PATH,
    help="File for html, folder for the others.  [default: DIR/report.html, -figures or -tables]",
)
@click.option(
    "--methods",
    callback=listed,
    metavar="SPEC,...",
    help="Your own variants of Bayesian optimisation or graph-based search in these results, as they were "
    "given to 'run' (FILE.py:NAME or MODULE:NAME): their surrogates also get error curves.",
)
@click.option("--jobs", type=COUNT, help="Worker processes.  [default: all cores]")
@click.option("--open", "show", is_flag=True, help="Open the report in a browser.")
def report(folders: tuple[Path, ...], form: str, out: Path | None, show: bool, **given: Any) -> None:
    """Report on results in one HTML file.

    DIR is a results folder. Several make one report, such as the paper's two suites. The file holds all that
    it needs and can be sent around. The other formats write the figures (pdf, png) or the
    tables of scores (latex, with booktabs) for a paper.

    A report runs no code that a results folder names. The surrogate of a method of your own is only analysed
    if you name the method with --methods, and if its code is still the one that the results were made with.
    """
    if show and form != "html":
        raise InputError("--open is for --format html.")
    from hpobench_nmt.render.report import report as write

    written = write(folders, out, format=form, **given)
    if form != "html":
        say(f"{counted(len(written), 'file')} in {written[0].parent}")
        return
    say(f"Report: {written[0]}")
    if show and not webbrowser.open(written[0].resolve().as_uri()):
        say("No browser was found here: open the file in one yourself.", err=True)


COMMANDS = (report,)
