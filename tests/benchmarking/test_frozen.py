"""Frozen suites: the tables' hashes, what may be changed, and what is missing."""

import dataclasses
from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
import pytest

import hpobench_nmt as hb
from hpobench_nmt.benchmarking.fetching import collections_for, fetch
from hpobench_nmt.benchmarking.records.frozen import check_pinned, chosen_part, part_note, pin_of, suite_hash
from hpobench_nmt.benchmarking.task.instance import make_instance
from hpobench_nmt.benchmarking.task.suite import changed
from hpobench_nmt.benchmarking.task.suite_files import load_suite, track_of, tracks
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.catalogue import installed, load_table
from hpobench_nmt.lookup.collections import COLLECTIONS
from hpobench_nmt.lookup.disk.folder import save_folder

SHARED = Path(__file__).parents[3] / "shared"
TRACKS = tracks("lm-2026")
# Of the settings and the tables of each track. Once released, a track that changes gets another name.
HASHES = {
    "lm-2026-plain": "192c2877fa7205e5d0868f2590e6866433adf9f8c0e7f7fc7d9333c90f9ea39d",
    "lm-2026-early": "a55afe08a9ca134026e3af6ba03c2bfa74a3a1ef297bf70835a0ea5a8d118a3e",
    "lm-2026-multi": "5ae4c1065078f7408f22bb077eb174d5da648c8e7b5c86ba93049919045275a2",
    "lm-2026-noise": "983cc6b5896fb48d46ae5a6a8e23840d7da6d80932ba1e2b8e431f3b8379bc0c",
    "lm-2026-scale": "71ec75aa1ecf677d6bdd96a6bbc3830685cf6b178ab9c63d637e35dabc29ae21",
}
SUITE = """
scores = ["ftc"]
trials = 2
[tables.test]
toy = {tolerance = 1, time = 12, pinned = "PIN"}
[tables.development]
other = {tolerance = 2, pinned = "0"}
"""


@pytest.fixture
def frozen(toy, tmp_path):
    """A frozen suite's file on `toy`, which is at hand, and `other`, which is not."""
    path = tmp_path / "mine-2026.toml"
    path.write_text(SUITE)
    suite = load_suite(str(path))
    path.write_text(SUITE.replace("PIN", pin_of(suite, make_instance(suite, toy))))
    return load_suite(str(path))


def test_a_table_and_its_settings_are_one_line(frozen):
    assert (frozen.tables, frozen.development) == (("toy", "other"), ("other",))
    assert (frozen.tolerance, frozen.time) == ({"toy": 1, "other": 2}, {"toy": 12})
    assert list(frozen.pinned) == ["toy", "other"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tolerance = 1", "tolerrance = 1", "unknown key 'tolerrance'. Did you mean 'tolerance'?"),
        ("toy = {", "other = {", "table 'other' is in both halves"),
        ('other = {tolerance = 2, pinned = "0"}', "other = 3", "settings of table 'other' must be"),
        ("time = 12", "time = 2", "time of 'toy' is 2, less than the 3 initial rows"),
    ],
)
def test_wrong_lines(tmp_path, old, new, message):
    (tmp_path / "mine.toml").write_text(SUITE.replace(old, new))
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        load_suite(str(tmp_path / "mine.toml"))


def test_a_table_of_another_hash_is_refused(frozen, toy):
    check_pinned(frozen, {"toy": make_instance(frozen, toy)})
    for wrong in (
        dataclasses.replace(toy, values=np.roll(toy.values, 1, axis=0)),
        dataclasses.replace(toy, objectives=tuple(reversed(toy.objectives))),
    ):
        with pytest.raises(InputError, match="but suite 'mine-2026' is frozen with hash"):
            hb.run(frozen, tables=wrong, methods=["RS"])


def test_a_table_without_a_hash_in_a_frozen_suite_is_named(toy_home, toy):
    Path("mine.toml").write_text(
        'scores = ["ftc"]\ntables = ["toy", "sotu-ngram"]\npinned = {sotu-ngram = "0"}\n'
    )
    with pytest.raises(
        InputError, match=r"table 'toy' has no hash in suite 'mine', .* add pinned = '[0-9a-f]{64}'"
    ):
        hb.run("mine.toml", methods=["RS"])


def test_nothing_of_a_frozen_suite_changes_but_the_trials(frozen, toy):
    results = hb.run(frozen, tables=toy, methods=["RS"], trials=3)
    assert (results.suite.trials, results.instances["toy"].problem.time) == (3, 12)
    for settings in ({"tolerance": 2.0}, {"workers": 2}, {"score_at": 5, "trials": 2}):
        with pytest.raises(InputError, match=r"'mine-2026' is frozen: .* cannot be changed"):
            hb.run(frozen, tables=toy, methods=["RS"], **settings)
    with pytest.raises(InputError, match="unknown table 'sotu-ngram'"):
        hb.run(frozen, tables="sotu-ngram", methods=["RS"])


def test_a_run_on_a_part_says_so(frozen, toy, tmp_path):
    results = hb.run(frozen, tables=toy, methods=["RS"], out=tmp_path / "out")
    for each in (results, hb.load_results):
        note = part_note(frozen, results.instances)
        assert note.startswith("This run has only a part of mine-2026: 1 of its 2 tables.")
        assert each is not results or note in hb.fewer_trainings(results).notes
    with pytest.raises(InputError, match="no table of mine-2026 is installed"):
        hb.run(frozen, methods=["RS"])


def test_a_table_without_its_curves_is_missing(home, toy):
    save_folder(toy, home / "tables" / "toy")
    suite = changed(load_suite("multi-fidelity"), tables=["toy", "sotu-gpt-30k"])
    suite = changed(suite, pinned={"toy": "0", "sotu-gpt-30k": "0"})
    notes = []
    assert chosen_part(suite, (), notes.append).tables == ("sotu-gpt-30k",)
    assert notes[0].startswith("Only a part of multi-fidelity: of its 2 tables, 1 are not installed (toy).")


def test_every_change_of_a_suite_has_another_hash(frozen):
    first = suite_hash(frozen)
    assert suite_hash(changed(frozen, trials=99, methods=["BO_EI_M"], description="")) == first
    values = {"n_initial": 4, "ties": "first", "workers": 2, "pinned": {"toy": "0"}, "development": []}
    values |= {"tolerance": {"toy": 1.5}, "time": {"toy": 13}, "scores": ["ftb"], "name": "mine-2027"}
    for key, value in values.items():
        assert suite_hash(msgspec.structs.replace(frozen, **{key: value})) != first, key


def test_the_tracks_are_frozen():
    assert {name: suite_hash(load_suite(name)) for name in TRACKS.values()} == HASHES


@pytest.mark.parametrize("name", TRACKS.values())
def test_the_tables_of_each_track_that_ship_are_its_own(name, home):
    suite = load_suite(name)
    assert set(suite.pinned) == set(suite.tables)
    assert suite.pinned.keys() == suite.family.keys()
    assert max(Counter(suite.family.values()).values()) <= 2
    there = [t for t in suite.tables if t in installed() and suite.source_of.get(t, t) in installed()]
    assert there or name in ("lm-2026-noise", "lm-2026-scale")  # whose tables are all fetched
    for table in there:
        check_pinned(suite, {table: make_instance(suite, load_table(table))})


def test_no_track_needs_a_table_without_a_licence():
    needed = collections_for("lm-2026")
    assert needed.index("nmthpo") < needed.index("nmtlc")  # which adds curves to tables that are installed
    assert not [name for name in needed if COLLECTIONS[name].given.licence.startswith("none")]


def test_names_of_tracks():
    assert track_of("lm-2026", "plain") == "lm-2026-plain"
    with pytest.raises(InputError, match=r"unknown track 'plan'. Did you mean 'plain'"):
        hb.run("lm-2026", track="plan")
    with pytest.raises(InputError, match="lm-2026 has tracks, choose one: --track plain, early"):
        hb.run("lm-2026")
    with pytest.raises(InputError, match="suite 'quick' does not have tracks"):
        hb.run("quick", track="plain")


def test_fetching_a_suite_installs_its_collections(home, tmp_path):
    with pytest.raises(InputError, match="llm-inference-bench: no such folder"):
        fetch("lm-2026", tmp_path)
    with pytest.raises(InputError, match="a mirror has one collection"):
        fetch("lm-2026", mirror="https://example.org")
    with pytest.raises(InputError, match=r"unknown collection 'lm-2027'. Did you mean 'lm-2026'"):
        fetch("lm-2027")


@pytest.mark.oracle
@pytest.mark.skipif(not SHARED.is_dir(), reason="the authors' files are not in ../shared")
def test_the_tables_that_are_fetched_have_the_hashes_of_the_tracks(home, tmp_path):
    others = {
        "taskset": "taskset-rnn",
        "autoresearch": "autoresearch-automl",
        "llm-pilot": "ibm-llm-pilot",
        "llmsys": "llmsys-hpobench",
    }
    for name in collections_for("lm-2026"):
        own = SHARED / name
        (tmp_path / name).symlink_to(own if own.is_dir() else SHARED / "sources" / others.get(name, name))
    assert "autoresearch-random" in fetch("lm-2026", tmp_path)
    for suite in map(load_suite, TRACKS.values()):
        check_pinned(suite, {name: make_instance(suite, load_table(name)) for name in suite.tables})
    assert fetch("lm-2026") == []
