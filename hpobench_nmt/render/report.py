"""`hb.report`: results as one HTML page, or as figures and tables for a paper."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from hpobench_nmt.analysis.report_runs import Run, load_runs, run_slugs
from hpobench_nmt.arena.beside import ARCHIVE, beside
from hpobench_nmt.benchmarking.call import processors
from hpobench_nmt.benchmarking.contestants.plugins import MethodSpec, resolve_methods
from hpobench_nmt.benchmarking.records.results import Results
from hpobench_nmt.benchmarking.records.store import load_results
from hpobench_nmt.core.system.errors import InputError, check_known
from hpobench_nmt.core.system.files import save_file
from hpobench_nmt.core.system.text import brief
from hpobench_nmt.render.draw_report import Progress, draw_report
from hpobench_nmt.render.html.page import render
from hpobench_nmt.render.latex import latex_tables

FORMATS = {"html": "report.html", "pdf": "report-figures", "png": "report-figures", "latex": "report-tables"}
"""The name of the file or folder of each format."""

ResultsOrFolder = Results | str | Path


def report(
    results: ResultsOrFolder | Iterable[ResultsOrFolder],
    out: str | Path | None = None,
    *,
    format: str = "html",
    methods: Iterable[MethodSpec] = (),
    jobs: int | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Write a report on results, like `hpobench-nmt report`, and return the paths of its files.

        results = hb.run("quick", tables=["sotu-ngram"], trials=20)
        hb.report(results, out="report.html")

    Args:
        results: results of `hb.run`, or a results folder. Several results make one report, such as those of
            the paper's two suites. "archive" adds the methods of the archive of lm-2026.
        out: a file for html, or a folder for the other formats. By default report.html, report-figures or
            report-tables, in the first results folder, or in the current folder for results in memory.
        format: "html" for a single self-contained page, "pdf" or "png" for the figures, or "latex" for the
            tables of scores.
        methods: your own variants of Bayesian optimisation or graph-based search in these results, as given
            to the run. The report then has error curves of their surrogates. This is necessary because a
            folder must not choose the code to run.
        jobs: number of worker processes; None means one for each processor core.
        progress: called with (work done, total work) as figures are drawn.

    Raises:
        InputError: a folder is empty, damaged, or from another version; a method has changed since, or is not
            in the run; or the format is unknown.
        RunError: a file cannot be written.
    """
    check_known("format", [format], FORMATS)
    several = list(results) if isinstance(results, Iterable) and not isinstance(results, str) else [results]
    for each in several:
        if not isinstance(each, Results | str | Path):
            raise InputError(f"a report needs results of hb.run or results folders, not {brief(each)}.")
    if not several:
        raise InputError("there are no results to report on.")
    own = resolve_methods(methods)
    with_archive, several = ARCHIVE in several, [each for each in several if each != ARCHIVE]
    if not several:
        raise InputError("an archive alone cannot make a report: also give results of a track of lm-2026.")
    sources = [each if isinstance(each, Results) else Path(each) for each in several]
    first = sources[0] if isinstance(sources[0], Path) else Path()
    path = first / FORMATS[format] if out is None else Path(out)
    if own and format == "latex":
        raise InputError("methods are only for figures: --format html, pdf or png.")
    if with_archive:
        sources = [beside(e if isinstance(e, Results) else load_results(e, methods)) for e in sources]
    if format == "html" and path.is_dir():
        raise InputError(f"{path}: is a folder; --out takes the name of a file.")
    if format != "html" and path.is_file():
        raise InputError(f"{path}: is a file; --out takes the name of a folder.")
    runs, jobs = load_runs(sources, own), processors() if jobs is None else jobs
    if format == "html":
        files = {path: render(runs, jobs, progress).encode()}
    elif format == "latex":
        files = {path / name: text.encode() for name, text in latex_files(runs).items()}
    else:
        groups = draw_report(runs, format, jobs, progress)
        drawn = [figure for group in groups for figure in group.figures if figure.content]
        files = {path / f"{figure.spec.stem}.{format}": figure.content for figure in drawn}
    for file, content in files.items():
        save_file(file, content)
    return list(files)


def latex_files(runs: Sequence[Run]) -> dict[str, str]:
    """LaTeX tables by the names of their files: for each run, one of each table and one over all of them."""
    return {
        f"{slug}-{table}.tex" if table else f"{slug}.tex": text
        for slug, run in zip(run_slugs(runs), runs, strict=True)
        for table, text in latex_tables(run.results, run.statistics).items()
    }
