"""`hpobench-nmt train`: train the models of a grid."""

from __future__ import annotations

import math
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hpobench_nmt.cli.common import make_console, progress_bar, require_family, require_installed, say
from hpobench_nmt.cli.options import (
    COUNT,
    PATH,
    backend_option,
    count_option,
    flag,
    listed_option,
    option,
    path_option,
)
from hpobench_nmt.core.system.errors import InputError, RunError
from hpobench_nmt.core.system.text import counted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hpobench_nmt.runner.ledgers.ledger import Record
    from hpobench_nmt.runner.specs.spec import Spec
    from hpobench_nmt.runner.training.dispatch import OnRecord, Progress
    from hpobench_nmt.runner.training.workspace import Workspace

_MINUTE = 60.0
_UNITS = (86400, 3600, 60, 1)
_PARTS = [
    rf"(?:(\d{{1,{digits}}}(?:\.\d{{1,6}})?){unit})?"
    for digits, unit in ((4, "d"), (6, "h"), (7, "m(?:in)?"), (9, "s"))
]
_MOST_SHOWN = 5
_MOST_POINTS = 30
_TERMINATED = 143  # a shell's exit code for a program that was ended by SIGTERM

spec_argument = click.argument("spec_path", metavar="SPEC.toml", type=PATH)
out_option = path_option("-o --out", "", "Folder of the ledger.  [default: the spec's name]")
device_option = option("--device", "DEVICE,...", "auto, cpu, cuda, or cuda:0,cuda:1.", "auto")


def _shard_of(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, int]:
    """(i, n) of --shard. (1, 1) means all trainings."""
    if value is None:
        return 1, 1
    found = re.fullmatch(r"([1-9][0-9]{0,6})/([1-9][0-9]{0,6})", value)
    if not found or int(found[1]) > int(found[2]):
        raise InputError(f"--shard {value!r}: must be I/N with I from 1 to N, such as 3/8.")
    return int(found[1]), int(found[2])


def _seconds_of(ctx: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """The seconds of --time-limit."""
    if value is None:
        return None
    found = re.fullmatch("".join(_PARTS), value)
    parts = zip(found.groups(), _UNITS, strict=True) if found else ()
    seconds = sum(float(number or 0) * unit for number, unit in parts)
    if not seconds:
        raise InputError(
            f"--time-limit {value!r}: must be days, hours, minutes and seconds, such as 3h30m or 90s."
        )
    return seconds


def time_limit_option(what: str) -> Callable[[Any], Any]:
    """The option --time-limit, in seconds."""
    return option("--time-limit", "TIME", what, callback=_seconds_of)


@click.command()
@spec_argument
@out_option
@device_option
@count_option("-j --jobs", "Trainings at a time.  [default: one per device or core]")
@backend_option
@listed_option(
    "--only", "NAME=VALUE,...", "Train only configurations with these values, e.g. layers=2,dropout=0.5."
)
@count_option("--limit", "Stop after this many trainings.")
@flag("--keep", "Keep the best model of each training, in OUT/models.")
@option(
    "--updates until",
    "UPDATES",
    "Pause each training at its first checkpoint after this many updates; the next run resumes it.",
    type=COUNT,
)
@option(
    "--shard",
    "I/N",
    "Train the I-th of N equal parts, with a ledger of its own: see 'ledger merge'.",
    callback=_shard_of,
)
@time_limit_option(
    "Stop after this time, such as 3h30m, and save the state of each training; the next run resumes it."
)
@flag("--dry-run", "Show what would be trained, and describe the corpus.")
@flag("--status", "Show the progress of a run in another terminal.")
@flag("--quiet", "Do not show a progress bar.")
def train(
    spec_path: Path,
    out: Path | None,
    jobs: int | None,
    only: tuple[str, ...],
    limit: int | None,
    shard: tuple[int, int],
    time_limit: float | None,
    dry_run: bool,
    status: bool,
    quiet: bool,
    **given: Any,
) -> None:
    """Train the models of a grid and record them in a ledger.

    You can stop it at any time, and the same command resumes it. 'tables build' makes a table from the
    ledger.
    """
    require_installed("torch")
    from hpobench_nmt.runner.specs.spec import select
    from hpobench_nmt.runner.specs.spec_file import load_spec

    spec = load_spec(spec_path)
    if spec.ranges:
        raise InputError(
            f"{spec_path}: [grid] has ranges, which only 'tune' can use. To train a grid, list values."
        )
    rows = select(spec, only)
    part = f"shard-{shard[0]}-of-{shard[1]}" if shard[1] > 1 else ""
    folder = out or Path(spec.name) / part
    if status:
        _print_status(spec, folder, shard)
        return
    if dry_run:
        _print_plan(spec, rows, folder, jobs, limit, shard)
        return
    from hpobench_nmt.lookup.disk.file_names import LEDGER
    from hpobench_nmt.lookup.user_folders import training_cache
    from hpobench_nmt.runner.training.run import open_run, train_rows

    require_family(spec.family)

    @contextmanager
    def watch(count: int) -> Iterator[tuple[Progress | None, OnRecord]]:
        with progress_bar(quiet, spec.name) as progress, _lines(spec, quiet, count) as on_record:
            yield progress, on_record

    with stoppable(folder / LEDGER, time_limit):  # preparing the corpus counts
        run = open_run(spec, folder, training_cache(), jobs=jobs, **given)
        if run.caution:
            say(f"Corpus {spec.corpus['name']!r}: {run.caution}.", err=True)
        if run.mixed:
            say(f"{run.workspace.ledger}, with what is trained now: {run.mixed}", err=True)
        ended = train_rows(run, rows, shard, limit, watch, lambda message: say(message, err=True))
    say(f"{run.workspace.ledger}: {len(ended.done)} trained, {ended.failed} failed, {ended.left} to do.")
    if ended.mixed:
        say(ended.mixed)
    if ended.paused:
        say(f"{ended.paused} of them are paused: 'train' resumes them, after more --updates or to their end.")
    if run.workspace.keep:
        _print_kept(run.workspace, ended.done)
    if not ended.left and not ended.done:
        say("No training has succeeded, so there is no table to build. The ledger has the reasons.")
    elif not ended.left and part:
        say(f"When all {shard[1]} shards are there: hpobench-nmt ledger merge SHARD... --out {spec.name}")
    elif not ended.left:
        say(f"Make the table: hpobench-nmt tables build {run.workspace.ledger}")


@contextmanager
def stoppable(ledger: Path, time_limit: float | None = None) -> Iterator[None]:
    """Inside, SIGTERM or a time limit in seconds saves the states of trainings and ends the program.

    The message about it names the ledger.
    """
    from hpobench_nmt.runner.training.processes import StopAsked, saves_when_stopped
    from hpobench_nmt.runner.training.train_row import GO_ON

    try:
        with saves_when_stopped(time_limit):
            yield
    except StopAsked as stop:
        say(f"{ledger}: {stop}. {GO_ON}", err=True)
        click.get_current_context().exit(0 if stop.in_time else _TERMINATED)


@contextmanager
def _lines(spec: Spec, quiet: bool, total: int) -> Iterator[Callable[[Record], None]]:
    """Without a terminal for a progress bar, print a line for each training that ends, and one per minute."""
    from hpobench_nmt.runner.specs.spec import describe

    if quiet or sys.stderr.isatty():
        yield lambda record: None
        return
    ended = 0
    over = threading.Event()
    started = time.monotonic()

    def tell(record: Record) -> None:
        nonlocal ended
        ended += 1
        values = [f"{m.name}={record.metrics[m.name]:.6g}" for m in spec.metrics if m.name in record.metrics]
        outcome = " ".join(values[:3]) if record.status == "done" else "failed"
        say(f"{ended} of {total}: {describe(record.config)}: {outcome} ({record.seconds:.0f} s)", err=True)

    def every_minute() -> None:
        while not over.wait(_MINUTE):
            minutes = (time.monotonic() - started) / _MINUTE
            say(
                f"{ended} of {counted(total, 'training')} {'has' if ended == 1 else 'have'} ended after "
                f"{minutes:.0f} min.",
                err=True,
            )

    thread = threading.Thread(target=every_minute, daemon=True)
    thread.start()
    try:
        yield tell
    finally:
        over.set()
        thread.join()


def _print_kept(workspace: Workspace, done: Sequence[Record]) -> None:
    from hpobench_nmt.runner.disk.kept_model import MODELS
    from hpobench_nmt.runner.specs.spec import describe
    from hpobench_nmt.runner.training.run import best_kept

    kept, best = best_kept(workspace, done)
    without = len(done) - kept
    have = "has" if without == 1 else "have"
    others = (
        f" {without} of the trainings {have} no model, because models were not kept then." if without else ""
    )
    say(f"{workspace.folder / MODELS}: models of {counted(kept, 'training')}.{others}")
    if best:
        name = workspace.spec.objectives[0]
        folder = workspace.model_folder(best.config, best.replicate)
        say(f"The best {name}, {best.metrics[name]:.6g}: {describe(best.config)}: {folder}")


def _print_status(spec: Spec, folder: Path, shard: tuple[int, int]) -> None:
    from hpobench_nmt.lookup.user_folders import training_cache
    from hpobench_nmt.runner.specs.spec import describe
    from hpobench_nmt.runner.training.status import read_status
    from hpobench_nmt.runner.training.workspace import Workspace

    status = read_status(Workspace(spec, folder, training_cache()), shard)
    say(f"{len(status.done)} trained, {len(status.failed)} failed, {status.left} to do.")
    for record in status.failed:
        say(f"  failed   {describe(record.config)}: {record.reason}")
    for running in status.running:
        say(f"  running  {running.name}: {running.last_line or 'no checkpoint yet'}{_shape(running.curve)}")
    for paused in status.paused:
        at = f"update {paused.curve[-1]['update']:.0f}" if paused.curve else "its first checkpoint"
        say(f"  paused   {paused.name}: at {at}{_shape(paused.curve)}")
    if status.hours_left is not None:
        say(f"About {status.hours_left:.1f} h left with {len(status.running)} at a time.")


def _shape(curve: Sequence[Mapping[str, float]]) -> str:
    """The dev perplexity of the last checkpoints as a line of bars, followed by the last value."""
    from hpobench_nmt.render.terminal.grids import bars_of, spark

    values = [point["dev_ppl"] for point in curve if math.isfinite(point["dev_ppl"])][-_MOST_POINTS:]
    if len(values) < 2:
        return ""
    return f"  {spark(values, (min(values), max(values)), bars_of(make_console()))} {values[-1]:.2f}"


def _print_plan(
    spec: Spec,
    rows: NDArray[np.intp],
    folder: Path,
    jobs: int | None,
    limit: int | None,
    shard: tuple[int, int],
) -> None:
    """Print the trainings that `train` would run, by the spec and the ledger, and facts about the corpus."""
    from hpobench_nmt.lookup.disk.file_names import LEDGER
    from hpobench_nmt.lookup.user_folders import training_cache
    from hpobench_nmt.render.terminal.grids import print_grid
    from hpobench_nmt.runner.ledgers.plan import planned
    from hpobench_nmt.runner.specs.spec import describe
    from hpobench_nmt.runner.training.run import corpus_and_infeasible, refuse_in_vain

    refuse_in_vain(spec)
    path = folder / LEDGER
    ledger, todo = planned(spec, path, rows, shard)
    rows_of_axes = []
    for axis in spec.axes:
        condition = f", if {axis.condition}" if axis.condition else ""
        how = f"{axis.scale if axis.is_numeric else axis.kind}{condition}"
        rows_of_axes.append((axis.name, axis.values_text, how))
    head = ("hyperparameter", "values", "scale or kind")
    print_grid(head, rows_of_axes, make_console(), wrapped=("values",))
    failed = sum(record.status == "failed" for record in ledger.records)
    say(
        f"{counted(len(spec.sample), 'configuration')} of family {spec.family.name!r}, corpus "
        f"{spec.corpus['name']!r}."
    )
    again = sum(replicate > 0 for _, replicate in todo)
    say(f"In {path}: {len(ledger.records) - failed} trained, {failed} failed.")
    others = f", {again} of them again with other seeds" if again else ""
    say(f"To do: {counted(len(todo), 'training')}{others}.")
    if limit and limit < len(todo):
        say(f"This time: {limit}.")
    if ledger.records:
        mean = sum(record.seconds for record in ledger.records) / len(ledger.records)
        hours = mean * min(len(todo), limit or len(todo)) / (jobs or 1) / 3600
        say(f"A training has taken {mean:.0f} s so far: about {hours:.1f} h with {jobs or 1} at a time.")
    for row, replicate in todo[:3]:
        say(f"  {describe(spec.configuration(row))}" + (f" (again, {replicate})" if replicate else ""))
    try:
        report, wrong = corpus_and_infeasible(spec, training_cache())
    except (InputError, RunError) as error:
        say(f"Whether all can be trained on the corpus was not checked: {error}")
        return
    for line in report:
        say(f"Corpus: {line}.")
    for line in wrong[:_MOST_SHOWN]:
        say(f"Will fail: {line}")
    if len(wrong) > _MOST_SHOWN:
        say(f"… and {counted(len(wrong) - _MOST_SHOWN, 'more combination')}.")


COMMANDS = (train,)
