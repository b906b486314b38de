"""`hpobench-nmt archive`, and an archive beside a run."""

import hashlib
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from small_archives import changed

import hpobench_nmt as hb
from hpobench_nmt.arena.archive import archive_bytes, read_archive
from hpobench_nmt.arena.beside import fetched_archive
from hpobench_nmt.arena.digest import DIGEST, digest_bytes

TABLE = ("--tables", "sotu-gpt-30k")


@pytest.fixture
def archive(home):
    results = hb.run("lm-2026", track="plain", tables="sotu-gpt-30k", methods=["RS", "BO_EI_M_std"], trials=2)
    home.mkdir()
    (home / "a.parquet").write_bytes(archive_bytes({"plain": [results]}))
    (home / DIGEST.name).write_bytes(digest_bytes(read_archive(home / "a.parquet")))
    return home / "a.parquet"


def test_show_verify_page_and_fetch(archive, run_here, home):
    assert (
        "plain: 2 methods on 1 table: RS, BO_EI_M_std"
        in run_here("archive", "show", "--from", archive).stdout
    )
    verify = ("archive", "verify", "plain", "--quiet", "-j", 1, "--from", archive, "--seed", 3)
    done = run_here(*verify)
    assert "All 2 hashes of trials are those of the digest" in done.stdout
    assert "Seed 3 chose 2 trials, of which 2 are left to run: about 0.1 minutes in 1 process." in done.stdout
    assert "plain: 2 of 2 trials equal to those of the archive.\n" in done.stdout
    assert "of which 0 are left" in run_here(*verify).stdout
    assert "differs from its digest" in run_here(*verify, "--digest", DIGEST, check=1).stderr
    run_here("archive", "page", "--from", archive, "-o", home / "board")
    assert "Leaderboard of lm-2026" in (home / "board" / "index.html").read_text()
    assert "Installed" in run_here("archive", "fetch", "--from", archive).stdout
    assert "a.parquet" not in run_here("archive", "show").stdout


@pytest.mark.parametrize(("place", "method"), [(3, "RS"), (0, "BO_EI_M_std")])
def test_rounding_explains_unequal_trials_except_of_methods_that_see_no_loss(
    archive, run_here, home, place, method
):
    def fake(lines, about):
        assert lines["method"][place] == method
        lines["rows"][place][-2:] = lines["rows"][place][:-3:-1]

    wrong = changed(read_archive(archive), home / "wrong.parquet", fake)
    (home / DIGEST.name).write_bytes(digest_bytes(wrong))  # whoever fakes trials can write a digest
    verify = ("archive", "verify", "--quiet", "-j", 1, "--from", wrong.path, "--trials", 2)
    done = run_here(*verify, check=1)
    assert f"Not equal: trial {place % 2} of {method} on sotu-gpt-30k.\n" in done.stdout
    assert "trials of track plain that differ from the archive's: 1." in done.stderr
    run_here(*verify, "--allow-rounding", 1, check=method == "RS")


def test_beside_a_run_and_in_a_report(archive, run_here, home):
    run = (
        "run",
        "lm-2026",
        "--track",
        "plain",
        *TABLE,
        "-m",
        "RS",
        "--trials",
        "2",
        "-j",
        1,
        "--out",
        home / "out",
    )
    assert "BO_EI_M_std" in run_here(*run, "--beside", archive).stdout
    assert "BO_EI_M_std" not in run_here("score", home / "out").stdout
    run_here("archive", "fetch", "--from", archive)
    run_here("report", home / "out", "--beside", "archive", "--format", "latex")
    assert any("EI" in path.read_text() for path in (home / "out" / "report-tables").iterdir())


def test_wrong_input_is_refused_before_the_run(archive, run_here, home):
    out = home / "out"
    done = run_here("run", "--beside", archive, "--out", out, check=2)
    assert (
        done.stderr == "Error: suite 'quick' is not a track of lm-2026, so it cannot be compared with an "
        "archive.\n"
    )
    (home / "b.parquet").write_bytes(b"nothing")
    done = run_here(
        "run", "lm-2026", "--track", "plain", "--beside", home / "b.parquet", "--out", out, check=2
    )
    assert "is a damaged archive. Get it again." in done.stderr
    assert not out.exists()


def test_make_resumes_and_adds_methods(run_here, home):
    out = home / "made"
    make = ("archive", "make", out, "--track", "multi", "-j", 1, "--quiet")
    run_here(*make, "-m", "RS")
    first = (out / "lm-2026.parquet").read_bytes()
    assert "lm-2026.parquet: 0." in run_here(*make, "-m", "RS,ASHA,NSGA2").stdout
    shown = run_here("archive", "show", "--from", out / "lm-2026.parquet").stdout
    assert "multi: 2 methods on 6 tables: RS, NSGA2" in shown
    assert (out / "lm-2026.parquet").read_bytes() != first
    assert (out / "lm-2026-runtimes.parquet").is_file()
    assert "unknown method 'RSS'" in run_here(*make, "-m", "RSS", check=2).stderr


def test_make_keeps_an_archive_and_parts_are_joined(run_here, home):
    make = ("archive", "make", "--track", "multi", "-j", 1, "--quiet")
    one, more, other = home / "one", home / "more", home / "other"
    run_here(*make, one, "-m", "RS,NSGA2")
    old = read_archive(one / "lm-2026.parquet")
    run_here(*make, more, "-m", "corner,RS", "--from", one / "lm-2026.parquet")
    assert not (more / "lm-2026-multi" / "observations" / "sotu-ngram" / "RS.parquet").exists()
    new = read_archive(more / "lm-2026.parquet")
    assert list(new.methods("multi")) == ["RS", "NSGA2", "corner"]
    assert new.lines.to_pylist()[: len(old.lines)] == old.lines.to_pylist()
    run_here(*make, other, "-m", "corner,centre")
    done = run_here("archive", "make", home / "twice", more / "lm-2026.parquet", other, check=2)
    assert f"method 'corner' of track multi is in {more / 'lm-2026.parquet'} and in {other}." in done.stderr
    # A part that was stopped: of its methods, those are taken that have all tables.
    (other / "lm-2026-multi" / "observations" / "sotu-ngram" / "centre.parquet").unlink()
    run_here("archive", "make", home / "whole", one / "lm-2026.parquet", other)
    assert list(read_archive(home / "whole" / "lm-2026.parquet").methods("multi")) == [
        "RS",
        "NSGA2",
        "corner",
    ]
    assert (home / "whole" / "lm-2026-runtimes.parquet").is_file()
    # A part of which nothing is finished adds nothing.
    for name in ("centre", "corner"):
        (other / "lm-2026-multi" / "observations" / "sotu-lstm" / f"{name}.parquet").unlink()
    run_here("archive", "make", home / "same", one / "lm-2026.parquet", other)
    assert read_archive(home / "same" / "lm-2026.parquet").lines.equals(old.lines)
    done = run_here("archive", "make", home / "none", home, check=2)
    assert "does not have results of a track of lm-2026." in done.stderr
    # A method that was run on a part of the tables would take the others out of the leaderboard.
    some = hb.run("lm-2026", track="multi", tables="sotu-ngram", methods=["maximin"], trials=2)
    (home / "some.parquet").write_bytes(archive_bytes({"multi": [some]}))
    done = run_here("archive", "make", home / "none", one / "lm-2026.parquet", home / "some.parquet", check=2)
    assert (
        "some.parquet: method 'maximin' of track multi lacks 5 tables that other methods have, such as loh"
        in done.stderr
    )


@pytest.fixture
def address(archive):
    """Where the archive's folder is on the web."""
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=archive.parent)
    )
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_fetching_from_an_address_compares_the_hash(archive, address, run_here, home):
    fetch = ("archive", "fetch")
    done = run_here(*fetch, check=2)
    assert "does not have a public address yet" in done.stderr
    assert "cannot be read" in run_here(*fetch, "--from", "", check=2).stderr  # an unset variable
    done = run_here(*fetch, "--from", f"{address}/a.parquet", check=1)  # not the one of the digest
    assert "a.parquet" in done.stderr
    assert "SHA-256" in done.stderr
    assert not fetched_archive().exists()
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    done = run_here(*fetch, "--from", f"{address}/a.parquet", "--sha256", digest)
    assert "It is not the archive from which this version's digest was made." in done.stdout
    assert fetched_archive().read_bytes() == archive.read_bytes()
    done = run_here(*fetch, "--from", archive, "--sha256", "0" * 64, check=2)
    assert f"has SHA-256 {digest}, not 000" in done.stderr
