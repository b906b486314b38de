"""`hpobench-nmt archive`: other methods' results in the benchmark lm-2026, beside one's own."""

from __future__ import annotations

import hashlib
from pathlib import Path

import click

from hpobench_nmt.cli.common import Commands, progress_bar, say, writing
from hpobench_nmt.cli.options import COUNT, PATH, listed
from hpobench_nmt.core.errors import RunError
from hpobench_nmt.core.files import read_bytes
from hpobench_nmt.core.text import counted

_archive_option = click.option(
    "--archive", "place", type=PATH, metavar="FILE", help="The archive.  [default: the one that is installed]"
)


@click.group(cls=Commands)
def archive() -> None:
    """Results of many methods in lm-2026, for 'run --beside archive'."""


@archive.command("show")
@_archive_option
def archive_show(place: Path | None) -> None:
    """List what the archive has: tracks, methods and their versions."""
    from hpobench_nmt.benchmarking.beside import load_archive

    found = load_archive(place or "archive")
    say(f"{found.path}, SHA-256 {found.sha256}")
    for track in found.manifests:
        names = found.methods(track)
        tables = {table for of, table, _ in found.groups if of == track}
        say(
            f"{track}: {counted(len(names), 'method')} on {counted(len(tables), 'table')}: {', '.join(names)}"
        )


@archive.command("fetch")
@click.option("--from", "source", default="", metavar="FILE|URL", help="A copy of lm-2026.parquet.")
@click.option(
    "--sha256",
    default="",
    metavar="HASH",
    help="The hash that it must have.  [default, from the web: that of the archive which this version knows]",
)
def archive_fetch(source: str, sha256: str) -> None:
    """Install the archive, after a check that it is one of this version of lm-2026.

    Without --from it comes from the address in the package's metadata, if there is one.
    """
    from hpobench_nmt.analysis.digest import load_digest
    from hpobench_nmt.benchmarking.submissions import install_archive

    known = load_digest().archive
    from_web = not source or source.startswith(("https://", "http://"))
    path = install_archive(source, sha256 or (known if from_web else ""))
    say(f"Installed {path}.")
    if hashlib.sha256(read_bytes(path)).hexdigest() != known:
        say("It is another one than the digest of this version is of.")


@archive.command("make")
@click.argument("out", metavar="FOLDER", type=PATH)
@click.option("--track", "chosen", callback=listed, metavar="TRACK,...", help="Some tracks.  [default: all]")
@click.option(
    "-m", "--methods", callback=listed, metavar="METHOD,...", help="Some methods.  [default: all that fit]"
)
@click.option(
    "--onto",
    type=PATH,
    metavar="FILE",
    help="Keep what this archive has, and run what it lacks; 'archive' is the one that is installed.",
)
@click.option("-j", "--jobs", type=COUNT, metavar="N", help="Worker processes.  [default: all cores]")
@click.option("--quiet", is_flag=True, help="No progress bar.")
def archive_make(
    out: Path,
    chosen: tuple[str, ...],
    methods: tuple[str, ...],
    onto: Path | None,
    jobs: int | None,
    quiet: bool,
) -> None:
    """Run methods in the tracks of lm-2026, and write FOLDER/lm-2026.parquet.

    The results folder of each track stays in FOLDER: the same command resumes, and with other methods adds
    them. A method that a track cannot have, because of its objectives or workers, is left out there. Methods
    run one after the other, in the order given.
    """
    from hpobench_nmt.benchmarking.archive import NAME
    from hpobench_nmt.benchmarking.beside import load_archive
    from hpobench_nmt.benchmarking.submissions import join_parts, make_track, track_folders
    from hpobench_nmt.benchmarking.suite import track_of, tracks

    for track in chosen:
        track_of(NAME, track)
    before = load_archive(onto) if onto else None
    for track in chosen or tracks(NAME):
        with progress_bar(quiet, track) as progress:
            folder = out / tracks(NAME)[track]
            make_track(track, methods, folder, jobs, progress, lambda text: say(text, err=True), before)
    _write(join_parts([out] if track_folders(out) or not before else [], before), out)


@archive.command("join")
@click.argument("out", metavar="FOLDER", type=PATH)
@click.argument("parts", metavar="PART...", nargs=-1, required=True, type=PATH)
def archive_join(out: Path, parts: tuple[Path, ...]) -> None:
    """Write FOLDER/lm-2026.parquet of several parts.

    A part is an archive's file, or a folder of 'archive make', also of one that was stopped: methods that
    have finished all tables are taken. A method can be in one part only.
    """
    from hpobench_nmt.benchmarking.submissions import join_parts

    _write(join_parts(parts), out)


def _write(content: bytes, out: Path) -> None:
    """Write an archive and its digest into a folder, and say where they are."""
    from hpobench_nmt.analysis.digest import DIGEST, digest_bytes
    from hpobench_nmt.benchmarking.archive import NAME, read_archive
    from hpobench_nmt.benchmarking.submissions import save_archive
    from hpobench_nmt.core.files import write_whole

    path = out / f"{NAME}.parquet"
    with writing(out):
        digest = save_archive(content, path)
        write_whole(out / DIGEST.name, digest_bytes(read_archive(path)))
    say(f"{path}: {path.stat().st_size / 1e6:.1f} MB, SHA-256 {digest}")
    say(f"{out / DIGEST.name}: its digest, which comes with the package")


@archive.command("verify")
@click.argument("track", default="plain")
@click.option("-m", "--methods", callback=listed, metavar="METHOD,...", help="Methods of this package.")
@click.option(
    "-t", "--tables", callback=listed, metavar="TABLE,...", help="Some tables.  [default: installed]"
)
@click.option(
    "--trials", type=COUNT, metavar="N", default=1, show_default=True, help="Run the first N trials again."
)
@_archive_option
def archive_verify(
    track: str, methods: tuple[str, ...], tables: tuple[str, ...], trials: int, place: Path | None
) -> None:
    """Run the first trials of the archive in a TRACK again, and compare them.

    On the same processor and library versions they are equal. Elsewhere sums may be rounded in another way,
    so that a method takes another row now and then; the mean of each score then lies within the range of the
    archive's trials. The exit code is 1 if one does not.
    """
    from hpobench_nmt.benchmarking.beside import load_archive
    from hpobench_nmt.benchmarking.submissions import verify_archive

    found = verify_archive(load_archive(place or "archive"), track, methods, tables, trials)
    total, equal = sum(each.trials for each in found), sum(each.equal for each in found)
    say(f"{track}: {equal} of {counted(total, 'trial')} equal to those of the archive.")
    outside = [each for each in found if not each.within and each.equal < each.trials]
    if outside:
        first = outside[0]
        raise RunError(
            f"scores outside the range of the archive's trials: {len(outside)} of {len(found)}, such as "
            f"{first.method} on {first.table}."
        )


@archive.command("add")
@click.argument("folder", metavar="FOLDER", type=PATH)
@click.option("--method", required=True, metavar="SPEC", help="The method, as it was given to 'run'.")
@click.option("--card", required=True, type=PATH, metavar="FILE", help="A TOML file on the method.")
@_archive_option
@click.option("-o", "--out", type=PATH, metavar="FILE", help="Where to write.  [default: the archive]")
def archive_add(folder: Path, method: str, card: Path, place: Path | None, out: Path | None) -> None:
    """Add a method to the archive from the results FOLDER of a track.

    Three trials on each table run again first, and must be equal. The card has the keys what, source,
    licence, hardware and tuned_on, a line each.
    """
    from hpobench_nmt.benchmarking.beside import load_archive
    from hpobench_nmt.benchmarking.submissions import add_to_archive, save_archive

    found = load_archive(place or "archive")
    content = add_to_archive(found, folder, method, card, notify=say)
    path = out or found.path
    with writing(path.parent):
        digest = save_archive(content, path)
    say(f"Added to {path}, SHA-256 {digest}.")


@archive.command("page")
@_archive_option
@click.option("-o", "--out", type=PATH, default=Path("leaderboard"), show_default=True, metavar="FOLDER")
def archive_page(place: Path | None, out: Path) -> None:
    """Write the leaderboard of an archive, of the tables that are installed, into FOLDER.

    FOLDER/index.html ranks the methods of each track. Each method and each table has a page below it.
    """
    from hpobench_nmt.benchmarking.beside import load_archive
    from hpobench_nmt.render.html.arena import write_arena

    say(f"Leaderboard: {write_arena(load_archive(place or 'archive'), out)}")


COMMANDS = (archive,)
