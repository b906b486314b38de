"""`hpobench-nmt report`: one HTML file about a run, or its figures and tables for a paper."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click

from hpobench_nmt.cli.common import listed, say
from hpobench_nmt.core.errors import InputError, unknown
from hpobench_nmt.core.text import counted

_FORMATS = ("html", "pdf", "png", "latex")


@click.command()
@click.argument("folders", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--format", "form", default="html", show_default=True, help="html, pdf, png or latex.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="File for html, folder for the others.  [default: DIR/report.html, -figures or -tables]",
)
@click.option(
    "--methods",
    callback=listed,
    metavar="SPEC,...",
    help="Your own variants of Bayesian optimisation or graph-based search in these results, as they were "
    "given to 'run' (FILE.py:NAME or MODULE:NAME): their surrogates get error curves too.",
)
@click.option("--jobs", type=click.IntRange(min=1), help="Worker processes.  [default: all cores]")
@click.option("--open", "show", is_flag=True, help="Open the report in a browser.")
def report(
    folders: tuple[Path, ...],
    form: str,
    out: Path | None,
    methods: tuple[str, ...],
    jobs: int | None,
    show: bool,
) -> None:
    """Report on results in one HTML file.

    DIR is a results folder. Several make one report, such as the paper's two suites. The file holds all that
    it needs and can be sent around. The other formats write the figures (pdf, png) or the
    tables of scores (latex, with booktabs) for a paper.

    A report runs no code that a results folder names. The surrogate of a method of your own is only analysed
    if you name the method with --methods, and if its code is still the one that the results were made with.
    """
    if form not in _FORMATS:
        raise unknown("format", form, _FORMATS)
    if show and form != "html":
        raise InputError("--open is for --format html.")
    if methods and form == "latex":
        raise InputError("--methods is for the figures: --format html, pdf or png.")
    import joblib

    from hpobench_nmt.benchmarking.plugins import resolve_methods

    own = resolve_methods(methods)
    n_jobs = jobs or int(joblib.cpu_count())
    if form == "html":
        from hpobench_nmt.render.html.page import write_report

        path = out or folders[0] / "report.html"
        if path.is_dir():
            raise InputError(f"{path}: is a folder; --out takes the name of a file.")
        write_report(folders, path, n_jobs, own)
        say(f"Report: {path}")
        if show and not webbrowser.open(path.resolve().as_uri()):
            say("No browser was found here: open the file in one yourself.", err=True)
        return
    from hpobench_nmt.render.report_files import write_figures, write_latex

    target = out or folders[0] / ("report-tables" if form == "latex" else "report-figures")
    if target.is_file():
        raise InputError(f"{target}: is a file; --out takes the name of a folder.")
    if form == "latex":
        written = write_latex(folders, target)
    else:
        written = write_figures(folders, target, form, n_jobs, own)
    say(f"{counted(len(written), 'file')} in {target}")
