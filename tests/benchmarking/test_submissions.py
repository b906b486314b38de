"""Additions to an archive: its trials are run again, and its parts are joined, added and installed."""

import json
import re
import signal
import subprocess
import sys

import msgspec
import pytest
from small_archives import MINE, PLAIN, changed, same

import hpobench_nmt as hb
from hpobench_nmt.arena import beside as beside_module
from hpobench_nmt.arena.archive import Card, archive_bytes, read_archive
from hpobench_nmt.arena.beside import beside
from hpobench_nmt.arena.digest import DIGEST, digest_bytes, load_digest
from hpobench_nmt.arena.submissions import (
    add_to_archive,
    install_archive,
    join_parts,
    save_archive,
    with_results,
)
from hpobench_nmt.arena.verification import check_hashes, plan_verification, unequal_trials
from hpobench_nmt.benchmarking.records.frozen import pin_of
from hpobench_nmt.benchmarking.task import suite_files
from hpobench_nmt.benchmarking.task.instance import make_instance
from hpobench_nmt.cli.main import main
from hpobench_nmt.core.system.errors import InputError, RunError

CARD = """
what = "Random search, again <script>alert(1)</script>"
source = "https://example.org/mine"
licence = "MIT"
hardware = "a laptop"
tuned_on = "none"
"""


@pytest.fixture
def submission(tmp_path):
    """A folder with a method's file and its card."""
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "card.toml").write_text(CARD)
    return tmp_path


def verified(archive, *named, **rules):
    """The trials (table, method, number) that verifying an archive finds unequal."""
    return [block.key for block in unequal_trials(plan_verification(archive, "plain", *named, **rules), 1)]


def test_verifying_runs_trials_again(archive, home, tmp_path):
    assert verified(archive, trials=3) == []
    chosen = plan_verification(archive, "plain", seed=4)
    assert [block.method.name for block in chosen.blocks] == ["RS", "BO_EI_M_std"]
    assert {plan_verification(archive, "plain", ["RS"], seed=s).blocks[0].first for s in range(9)} == {
        0,
        1,
        2,
    }

    def edit(lines, about):
        lines["rows"][lines["method"].index("RS") + 1] = list(
            range(60)
        )  # a trial that nothing here would make

    wrong = changed(archive, tmp_path / "a.parquet", edit)
    assert verified(wrong, trials=3) == [("sotu-gpt-30k", "RS", 1)]
    # Run again, the plan repeats only what was not equal.
    again = plan_verification(wrong, "plain", trials=3)
    assert (again.equal, [block.key for block in again.blocks]) == (5, [("sotu-gpt-30k", "RS", 1)])
    with pytest.raises(InputError, match="'Mine' is not a method of this package"):
        plan_verification(archive, "plain", ["Mine"])
    with pytest.raises(InputError, match="has 3 trials of a method, not 4"):
        plan_verification(archive, "plain", ["RS"], trials=4)
    with pytest.raises(InputError, match=r"unknown table 'sotu-gpt-31k'\. Did you mean 'sotu-gpt-30k'"):
        plan_verification(archive, "plain", ["RS"], ["sotu-gpt-30k", "sotu-gpt-31k"])


def test_methods_of_another_version_are_not_verified(archive, tmp_path):
    def edit(lines, about):
        for run in about["runs"]:
            manifest = json.loads(run["manifest"])
            manifest.pop("sha256")
            manifest["methods"]["RS"]["rows_version"] = 7
            manifest["versions"]["numpy"] = "1.0"
            run["manifest"] = json.dumps(manifest)

    other = plan_verification(changed(archive, tmp_path / "a.parquet", edit), "plain")
    assert other.not_verified == {"RS": "archived with rows version 7, here rows version 1"}
    assert [block.method.name for block in other.blocks] == ["BO_EI_M_std"]
    assert other.libraries[0].startswith("numpy 1.0 (")


def test_trials_that_were_changed_by_hand_are_refused(archive, tmp_path):
    digest = tmp_path / "digest.parquet"
    digest.write_bytes(digest_bytes(archive))
    assert "All 5 hashes" in check_hashes(archive, digest)

    def one_row(lines, about):
        lines["rows"][0][10] += 1

    def swapped(lines, about):
        lines["method"][:6] = lines["method"][3:6] + lines["method"][:3]

    def faked(lines, about):
        lines["rows"][5] = lines["rows"][5][:5]

    def failed(lines, about):
        lines["failure"][4] = "it failed"

    for edit, named in (
        (one_row, "BO_EI_M_std on sotu-gpt-30k in plain (other trials)."),
        (faked, "RS on sotu-gpt-30k in plain (other trials)."),
        (failed, "RS on sotu-gpt-30k in plain (other trials)."),
        (without("RS"), "RS on sotu-gpt-30k in plain (no trials in the archive)"),
        (swapped, "BO_EI_M_std on sotu-gpt-30k in plain (other trials), RS on sotu-gpt-30k in plain (other"),
    ):
        wrong = changed(archive, tmp_path / "a.parquet", edit)
        with pytest.raises(RunError, match=re.escape(named)):
            check_hashes(wrong, digest)


def without(method):
    """An edit of an archive that removes a method's trials, but not the method."""

    def edit(lines, about):
        kept = [i for i, name in enumerate(lines["method"]) if name != method]
        lines.update({name: [cells[i] for i in kept] for name, cells in lines.items()})

    return edit


def test_methods_without_trials_are_named(archive, tmp_path, submission):
    wrong = changed(archive, tmp_path / "a.parquet", without("RS"))
    with pytest.raises(InputError, match="has 0 trials of a method, not 1"):
        plan_verification(wrong, "plain", ["RS"])
    wrong = changed(wrong, tmp_path / "b.parquet", without("BO_EI_M_std"))
    with pytest.raises(InputError, match="method 'RS' of track plain has no trials"):
        join_parts([wrong.path])
    mine = hb.run(**PLAIN, methods=[f"{submission / 'mine.py'}:Mine"])
    wrong.path.write_bytes(archive_bytes({"plain": [mine]}))
    with pytest.raises(InputError, match=r"can be verified here \(Mine: not a method of this package\)"):
        plan_verification(read_archive(wrong.path), "plain")


def test_another_seed_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(archive_bytes({"plain": [hb.run(**PLAIN, methods=["RS"], seed=1)]}))
    for refused in (install_archive, lambda path: join_parts([path])):
        with pytest.raises(InputError, match="has seed 1, not 0: only trials with the same seed"):
            refused(path)


_SAVE = """
import os, signal, sys
from pathlib import Path
from hpobench_nmt.arena.submissions import save_archive

path = Path(sys.argv[2])
replace = Path.replace

def once(path, target):
    replace(path, target)
    os.kill(os.getpid(), signal.SIGKILL)

Path.replace = once
save_archive(Path(sys.argv[1]).read_bytes(), path, (path.with_name("digest"), b"new"))
"""


def test_a_kill_between_digest_and_archive_leaves_an_archive_to_add_to_again(archive, tmp_path):
    path = tmp_path / "kept.parquet"
    path.write_bytes(b"the old archive")
    done = subprocess.run([sys.executable, "-c", _SAVE, archive.path, path], timeout=120)
    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"the old archive"
    assert (tmp_path / "digest").read_bytes() == b"new"


def test_a_new_archive_that_cannot_be_read_leaves_the_old_one(archive, tmp_path, monkeypatch):
    path, content = tmp_path / "kept.parquet", archive.path.read_bytes()
    save_archive(content, path)
    with pytest.raises(InputError, match="is a damaged archive"):
        save_archive(content[:-9], path)
    monkeypatch.setattr("hpobench_nmt.arena.submissions.MOST_BYTES", 1000)
    with pytest.raises(InputError, match="larger than 1,000 bytes"):
        save_archive(content, path)
    assert path.read_bytes() == content


SMALL = """
scores = ["ftc", "fb"]
trials = 4
sample = 0.6
score_at = {default = 5}
lookups = 9
[tables]
sotu-gpt-30k = {pinned = "PIN"}
"""


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A benchmark lm-2026 whose track `plain` has one table, and an archive of it."""
    suites = tmp_path / "suites"
    suites.mkdir()
    monkeypatch.setattr(suite_files, "_FOLDER", suites)
    path = suites / "lm-2026-plain.toml"
    path.write_text(SMALL)
    suite = suite_files.load_suite(str(path))
    pin = pin_of(suite, make_instance(suite, hb.load_table("sotu-gpt-30k")))
    path.write_text(SMALL.replace("PIN", pin))
    (tmp_path / "small.parquet").write_bytes(
        archive_bytes({"plain": [hb.run("lm-2026", track="plain", methods=["RS"])]})
    )
    return read_archive(tmp_path / "small.parquet")


def test_a_submission_is_added_after_its_trials_ran_again(small, submission):
    method = f"{submission / 'mine.py'}:Mine"
    out, card = submission / "out", submission / "card.toml"
    hb.run("lm-2026", track="plain", methods=["RS", method], out=out)
    told = []
    (submission / "new.parquet").write_bytes(add_to_archive(small, out, method, card, told.append))
    assert told == ["Running 3 trials of Mine again on 1 table."]
    added = read_archive(submission / "new.parquet")
    assert list(added.methods("plain")) == ["RS", "Mine"]
    assert added.card("plain", "Mine").licence == "MIT"
    assert beside(hb.run("lm-2026", track="plain", methods=["RS"]), added).methods == ("RS", "Mine")
    with pytest.raises(InputError, match="the name 'Mine' is taken in track plain: rename the method"):
        add_to_archive(added, out, method, card, str)
    for trials, message in ((2, "has 2 trials instead of 4"), (4, "differ from those that were run again")):
        text = (
            MINE.replace("rng", "_", 1)
            .replace("= rng", "= __import__('random')")
            .replace("integers", "randrange")
        )
        (submission / "mine.py").write_text(text)
        hb.run("lm-2026", track="plain", methods=[method], out=submission / f"{trials}", trials=trials)
        with pytest.raises(InputError, match=message):
            add_to_archive(small, submission / f"{trials}", method, card, str)


def test_a_submission_on_the_command_line(small, submission, capsys):
    method = f"{submission / 'mine.py'}:Mine"
    out, card, new = submission / "out", submission / "card.toml", submission / "new.parquet"
    hb.run("lm-2026", track="plain", methods=[method], out=out)
    before = small.path.read_bytes()
    command = ["archive", "add", str(out), "--methods", method, "--from", str(small.path), "-o", str(new)]
    with pytest.raises(SystemExit) as refused:
        main(command)
    assert refused.value.code == 2
    assert "--card" in capsys.readouterr().err
    assert not new.exists()
    with pytest.raises(SystemExit) as ended:
        main([*command, "--card", str(card)])
    assert not ended.value.code
    assert f"Added to {new}, SHA-256 {read_archive(new).sha256}." in capsys.readouterr().out
    added = load_digest(new.with_name(DIGEST.name))
    assert added.changed(read_archive(new)) == []
    assert {method for _, _, method in added.runtimes} == {*read_archive(new).methods("plain")}
    assert read_archive(new).card("plain", "Mine").licence == "MIT"
    assert small.path.read_bytes() == before


def test_a_submission_of_a_part_is_refused(archive, submission):
    hb.run(**PLAIN, methods=[f"{submission / 'mine.py'}:Mine"], out=submission / "out")
    how = (archive, submission / "out", f"{submission / 'mine.py'}:Mine", submission / "card.toml")
    with pytest.raises(
        InputError,
        match=r"lacks 16 tables of lm-2026-plain, such as .*A submission needs "
        r"all",
    ):
        add_to_archive(*how, notify=str)
    (submission / "card.toml").write_text(CARD.replace("licence", "license"))
    with pytest.raises(InputError, match=r"unknown key 'license'. Did you mean 'licence'"):
        add_to_archive(*how, notify=str)
    (submission / "card.toml").write_text(CARD)
    with pytest.raises(InputError, match="has no results of 'RS'"):
        add_to_archive(archive, submission / "out", "RS", submission / "card.toml", notify=str)


def test_a_card_goes_with_its_method(archive, runs, submission):
    card = msgspec.convert(dict.fromkeys(Card.__struct_fields__, "x") | {"what": "<b>"}, Card)
    mine = hb.run(**PLAIN, methods=[f"{submission / 'mine.py'}:Mine"])
    (submission / "a.parquet").write_bytes(with_results(archive, "plain", mine, card))
    found = read_archive(submission / "a.parquet")
    assert list(found.methods("plain")) == ["RS", "BO_EI_M_std", "Mine"]
    assert found.card("plain", "Mine") == card
    assert found.card("plain", "RS") is None
    again = found.trials("plain", "Mine", mine.instances["sotu-gpt-30k"])
    assert all(map(same, again, mine.trials["sotu-gpt-30k", "Mine"]))
    with pytest.raises(InputError, match="track plain has method 'Mine' already"):
        with_results(found, "plain", mine, card)
    changed_run = hb.run(**PLAIN, methods=[f"{submission / 'mine.py'}:Mine"], seed=2)
    pair = ("sotu-gpt-30k", "Mine")
    assert not any(map(same, changed_run.trials[pair], mine.trials[pair]))


def test_installing_an_archive(archive, home):
    assert install_archive(archive.path) == beside_module.archive_path()
    mine = hb.run(**PLAIN, methods=["RS"])
    assert beside(mine).methods == ("RS", "BO_EI_M_std")
    tables = hb.report([mine, "archive"], home / "tables", format="latex")
    assert "BO\\_EI\\_M\\_std" in tables[0].read_text()
    with pytest.raises(InputError, match="an archive alone cannot make a report"):
        hb.report("archive")
