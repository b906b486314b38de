"""`hpobench-nmt archive`: results of many methods in the benchmark lm-2026, to compare your own with."""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path

import click

from hpobench_nmt.cli.common import Commands, progress_bar, say, writing
from hpobench_nmt.cli.options import PATH, count_option, flag, listed_option, option, path_option
from hpobench_nmt.core.system.errors import RunError
from hpobench_nmt.core.system.files import read_bytes
from hpobench_nmt.core.system.text import counted

_archive_option = path_option("--from place", "FILE", "The archive.  [default: the installed archive]")


@click.group(cls=Commands)
def archive() -> None:
    """Results of many methods in lm-2026, for 'run --beside archive'."""


@archive.command("show")
@_archive_option
def archive_show(place: Path | None) -> None:
    """List the tracks and methods of the archive, and their versions."""
    from hpobench_nmt.arena.beside import load_archive

    found = load_archive(place or "archive")
    say(f"{found.path}, SHA-256 {found.sha256}")
    for track in found.manifests:
        own = found.methods(track)
        tables = {table for of, table, _ in found.groups if of == track}
        say(f"{track}: {counted(len(own), 'method')} on {counted(len(tables), 'table')}: {', '.join(own)}")


@archive.command("fetch")
@option("--from source", "FILE|URL", "A copy of lm-2026.parquet.", default=None)
@option(
    "--sha256",
    "HASH",
    "The hash that the file must have.  [default, for a download: the hash that this version knows]",
    default="",
)
def archive_fetch(source: str | None, sha256: str) -> None:
    """Install an archive, if it belongs to this version of lm-2026.

    Without --from, it is downloaded from the address in the package's metadata, if there is one.
    """
    from hpobench_nmt.arena.digest import load_digest
    from hpobench_nmt.arena.submissions import install_archive

    known = load_digest().archive
    from_web = source is None or source.startswith(("https://", "http://"))
    path = install_archive(source, sha256 or (known if from_web else ""))
    say(f"Installed {path}.")
    if hashlib.sha256(read_bytes(path)).hexdigest() != known:
        say("It is not the archive from which this version's digest was made.")


@archive.command("make")
@click.argument("out", metavar="FOLDER", type=PATH)
@click.argument("parts", metavar="[PART]...", nargs=-1, type=PATH)
@listed_option("--track chosen", "TRACK,...", "Only these tracks.  [default: all]")
@listed_option("-m --methods", "METHOD,...", "Only these methods.  [default: all that fit]")
@path_option(
    "--from onto",
    "FILE",
    "Keep the results of this archive, and run only what it lacks; 'archive' is the installed archive.",
)
@count_option("-j --jobs", "Worker processes.  [default: all cores]")
@flag("--quiet", "No progress bar.")
def archive_make(
    out: Path,
    parts: tuple[Path, ...],
    chosen: tuple[str, ...],
    methods: tuple[str, ...],
    onto: Path | None,
    jobs: int | None,
    quiet: bool,
) -> None:
    """Run methods in the tracks of lm-2026, and write FOLDER/lm-2026.parquet.

    The results folders of the tracks stay in FOLDER. The same command resumes the runs, and a command with
    other methods adds their results. If a method does not support the objectives or workers of a track, the
    track leaves it out. Methods run one after the other, in the order given.

    With PARTS, nothing is run: they are joined. A part is the file of an archive, or a folder of 'archive
    make', of which the methods that have finished all tables are used. A method can be in one part only.
    """
    from hpobench_nmt.arena.archive import NAME
    from hpobench_nmt.arena.beside import load_archive
    from hpobench_nmt.arena.submissions import join_parts, make_track, track_folders
    from hpobench_nmt.benchmarking.task.suite_files import track_of, tracks

    if parts:
        _write(join_parts(parts), out)
        return
    for track in chosen:
        track_of(NAME, track)
    before = load_archive(onto) if onto else None
    for track in chosen or tracks(NAME):
        with progress_bar(quiet, track) as progress:
            folder = out / tracks(NAME)[track]
            make_track(track, methods, folder, jobs, progress, lambda text: say(text, err=True), before)
    _write(join_parts([out] if track_folders(out) or not before else [], before), out)


def _write(content: bytes, out: Path) -> None:
    """Write an archive and its digest into a folder, and print their paths."""
    from hpobench_nmt.arena.archive import NAME, archive_of
    from hpobench_nmt.arena.digest import DIGEST, digest_bytes
    from hpobench_nmt.arena.submissions import save_archive
    from hpobench_nmt.core.system.files import write_whole

    path = out / f"{NAME}.parquet"
    with writing(out):
        runtimes = digest_bytes(archive_of(content, path))
        digest = save_archive(content, path)
        write_whole(out / DIGEST.name, runtimes)
    say(f"{path}: {path.stat().st_size / 1e6:.1f} MB, SHA-256 {digest}")
    say(f"{out / DIGEST.name}: its digest, which comes with the package")


@archive.command("verify")
@click.argument("track", default="plain")
@listed_option("-m --methods", "METHOD,...", "Only these methods of this package.")
@listed_option("-t --tables", "TABLE,...", "Only these tables.  [default: the installed ones]")
@count_option("--trials", "Trials of each method and table to run again.", usual=1)
@option("--seed", "N", "Chooses the trials.  [default: a new seed]", type=int)
@option(
    "--allow-rounding rounded",
    "N",
    "Accept N unequal trials, except of RS. For other processors or versions of libraries.",
    type=click.IntRange(0),
    default=0,
)
@count_option("-j --jobs", "Worker processes.  [default: all cores]")
@path_option("--digest", "FILE", "The digest.  [default: beside the archive, or the package's]")
@flag("--quiet", "No progress bar.")
@_archive_option
def archive_verify(
    track: str,
    methods: tuple[str, ...],
    tables: tuple[str, ...],
    trials: int,
    seed: int | None,
    rounded: int,
    jobs: int | None,
    digest: Path | None,
    quiet: bool,
    place: Path | None,
) -> None:
    """Compare the archive's hashes with its digest, and run trials of a TRACK again.

    The hashes of all tracks are compared first, which takes seconds. Then one trial of each method and
    installed table runs again. With the same processor and library versions, the trials are equal. Elsewhere
    sums may be rounded differently, so that a method sometimes chooses another row. The exit code is 1 unless
    all hashes and trials are equal. With --seed, the command resumes.
    """
    from hpobench_nmt.arena.beside import load_archive
    from hpobench_nmt.arena.verification import BLIND, check_hashes, plan_verification, unequal_trials
    from hpobench_nmt.benchmarking.call import processors

    archive = load_archive(place or "archive")
    say(check_hashes(archive, digest))
    seed = secrets.randbelow(2**31) if seed is None else seed
    chosen = plan_verification(archive, track, methods, tables, trials, seed)
    for name, reason in chosen.not_verified.items():
        say(f"Not verified: {name} ({reason}).")
    if chosen.libraries:
        say(f"Sums may be rounded differently: the archive has {', '.join(chosen.libraries)}.")
    jobs = jobs or processors()
    total = len(chosen.blocks) + chosen.equal
    say(
        f"Seed {seed} chose {counted(total, 'trial')}, of which {len(chosen.blocks)} are left to run: about "
        f"{max(chosen.seconds / jobs / 60, 0.1):.1f} minutes in {counted(jobs, 'process', 'processes')}. "
        f"--seed {seed} resumes."
    )
    with progress_bar(quiet, track) as progress:
        unequal = unequal_trials(chosen, jobs, progress)
    for block in unequal:
        say(f"Not equal: trial {block.first} of {block.method.name} on {block.table}.")
    say(f"{track}: {total - len(unequal)} of {counted(total, 'trial')} equal to those of the archive.")
    if len(unequal) > rounded or any(block.method.name in BLIND for block in unequal):
        raise RunError(f"trials of track {track} that differ from the archive's: {len(unequal)}.")


@archive.command("add")
@click.argument("folder", metavar="FOLDER", type=PATH)
@option("-m --methods method", "SPEC", "The method, as given to 'run'.", required=True)
@path_option("--card", "FILE", "A TOML file that describes the method.", required=True)
@_archive_option
@path_option("-o --out", "FILE", "Where to write.  [default: the archive]")
def archive_add(folder: Path, method: str, card: Path, place: Path | None, out: Path | None) -> None:
    """Add a method to the archive from the results FOLDER of a track.

    Three trials on each table are repeated first, and must be equal. The card has one line for each of the
    keys what, source, licence, hardware and tuned_on.
    """
    from hpobench_nmt.arena.archive import archive_of
    from hpobench_nmt.arena.beside import load_archive
    from hpobench_nmt.arena.digest import DIGEST, digest_bytes, digest_path, load_digest
    from hpobench_nmt.arena.submissions import add_to_archive, save_archive

    found = load_archive(place or "archive")
    content = add_to_archive(found, folder, method, card, notify=say)
    path, old = out or found.path, digest_path(found.path)
    with writing(path.parent):
        digest = digest_bytes(archive_of(content, path), load_digest(old if old.is_file() else DIGEST))
        sha256 = save_archive(content, path, (digest_path(path), digest))
    say(f"Added to {path}, SHA-256 {sha256}. Its digest is {digest_path(path)}.")


@archive.command("page")
@_archive_option
@click.option("-o", "--out", type=PATH, default=Path("leaderboard"), show_default=True, metavar="FOLDER")
def archive_page(place: Path | None, out: Path) -> None:
    """Write the leaderboard of an archive on the installed tables into FOLDER.

    FOLDER/index.html ranks the methods of each track. Each method and each table has a page below it.
    """
    from hpobench_nmt.arena.beside import load_archive
    from hpobench_nmt.render.html.arena import write_arena

    say(f"Leaderboard: {write_arena(load_archive(place or 'archive'), out)}")


COMMANDS = (archive,)
