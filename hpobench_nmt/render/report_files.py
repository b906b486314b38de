"""The figures and tables of a report as files for a paper: PDF or PNG, and LaTeX."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from hpobench_nmt.analysis.report_content import overall_board, score_cells
from hpobench_nmt.analysis.report_runs import load_runs, run_slugs
from hpobench_nmt.benchmarking.plugins import NamedMethod
from hpobench_nmt.benchmarking.results import Results
from hpobench_nmt.core.errors import RunError
from hpobench_nmt.core.files import write_whole
from hpobench_nmt.render.draw_report import draw_report
from hpobench_nmt.render.latex import overall_latex, table_latex


def write_figures(
    sources: Sequence[Results | Path],
    out: Path,
    form: str,
    jobs: int = 2,
    methods: Sequence[NamedMethod] = (),
) -> list[Path]:
    """Write every figure of one or more runs into a folder, as "pdf" or "png".

    Args:
        sources: results or results folders, each of one run.
        out: the folder to write to.
        form: "pdf" or "png".
        jobs: processes that analyse and draw.
        methods: methods of your own, from resolve_methods: those with a surrogate get its curves.
    """
    groups = draw_report(load_runs(sources, methods), form, jobs)
    return _write(out, ((f"{f.spec.stem}.{form}", f.content) for g in groups for f in g.figures if f.content))


def write_latex(sources: Sequence[Results | Path], out: Path) -> list[Path]:
    """Write the scores as LaTeX tables: one for each table of each run, one over the tables of each run."""
    made: list[tuple[str, bytes]] = []
    runs = load_runs(sources)
    for slug, run in zip(run_slugs(runs), runs, strict=True):
        if len(run.results.instances) > 1 and len(run.results.methods) > 1:
            made.append((f"{slug}.tex", overall_latex(overall_board(run)).encode()))
        for table, found in score_cells(run).items():
            made.append((f"{slug}-{table}.tex", table_latex(run.results, table, found).encode()))
    return _write(out, made)


def _write(out: Path, made: Iterable[tuple[str, bytes]]) -> list[Path]:
    written = []
    for name, data in made:
        path = out / name
        try:
            write_whole(path, data)
        except OSError as error:
            raise RunError(f"{path}: cannot be written: {error.strerror}.") from error
        written.append(path)
    return written
