"""The leaderboard of lm-2026, made of a small archive."""

import dataclasses
import re
from html.parser import HTMLParser

import msgspec
import pytest

import hpobench_nmt as hb
from hpobench_nmt.analysis.arena import arena_tracks, method_pages, table_pages, track_board
from hpobench_nmt.benchmarking.archive import Card, archive_bytes, read_archive
from hpobench_nmt.core.errors import InputError
from hpobench_nmt.render.html.arena import arena_page, write_arena

HOSTILE = "</script><img src=x onerror=alert(1)>"


class Mine:
    """A method that somebody submitted."""

    def __init__(self, problem, rng):
        self.left = list(range(len(problem.features)))

    def ask(self):
        return self.left[-1]

    def tell(self, index, losses):
        self.left.remove(index)


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    plain = {"tables": ["sotu-gpt-30k", "sotu-ngram"], "trials": 3}
    runs = {
        "plain": [hb.run("lm-2026", track="plain", methods=["RS", "BO_EI_M_std", Mine], **plain)],
        "multi": [hb.run("lm-2026", track="multi", methods=["RS", "NSGA2"], tables="lohelp-de-en", trials=2)],
    }
    card = msgspec.convert(dict.fromkeys(Card.__struct_fields__, HOSTILE), Card)
    path = tmp_path_factory.mktemp("arena") / "lm-2026.parquet"
    path.write_bytes(archive_bytes(runs, {"Mine": card}))
    return read_archive(path)


@pytest.fixture(autouse=True)
def empty_home(home):
    """Only the tables that ship are installed."""


def test_the_figures_are_those_of_the_run(archive):
    plain, multi = arena_tracks(archive)
    again = hb.run(
        "lm-2026",
        track="plain",
        tables=["sotu-gpt-30k", "sotu-ngram"],
        methods=["RS", "BO_EI_M_std"],
        trials=3,
    )
    ours = hb.fewer_trainings(again).methods.set_index("method")
    theirs = plain.found.methods.set_index("method")
    for column in ("times_fewer", "low", "high", "capped", "development"):
        assert theirs.loc[["RS", "BO_EI_M_std"], column].tolist() == ours[column].tolist()
    board = track_board(plain)
    assert [c.name for c in board.columns] == [
        "times fewer",
        "by table",
        "p",
        "capped",
        "development",
        "ms/step",
    ]
    values = [entries[0].value for _, entries in board.rows]
    assert values == sorted(values, reverse=True)
    assert "hypervolume" in [c.name for c in track_board(multi).columns]
    assert any("A part of lm-2026-plain: 2 of its 29 tables" in line for line in plain.sentences)


def test_pages_of_methods_and_tables(archive):
    found = arena_tracks(archive)
    pages = {page.name: page for page in method_pages(archive, found)}
    assert list(pages) == ["RS", "BO_EI_M_std", "Mine", "NSGA2"]
    assert pages["Mine"].kinds == ("submitted",)
    assert pages["RS"].kinds == ("built in", "whole trainings")
    assert dict(pages["Mine"].facts)["tuned on"] == HOSTILE
    assert {(track, table) for track, table, *_ in pages["RS"].lines} == {
        ("plain", "sotu-gpt-30k"),
        ("plain", "sotu-ngram"),
        ("multi", "lohelp-de-en"),
    }
    ranks = [line[3] for page in pages.values() for line in page.lines if line[1] == "sotu-gpt-30k"]
    assert sorted(ranks) == ["1 of 3", "2 of 3", "3 of 3"]
    tables = {page.name: page for page in table_pages(found)}
    assert tables["sotu-gpt-30k"].lines[0][0] == "plain, test"
    assert tables["sotu-ngram"].lines[0][0] == "plain, development"
    assert "(7 rows)" in tables["sotu-gpt-30k"].lines[0][2]


def test_the_page_is_whole_escaped_and_the_same_again(archive, tmp_path):
    page = arena_page(archive)
    assert page == write_arena(archive, tmp_path / "page.html").read_text() == arena_page(archive)
    assert HOSTILE not in page
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    assert not re.findall(r'(?:src|href)="(?!#|data:)', page)

    class Reader(HTMLParser):
        ids, references, headings = [], [], []

        def handle_starttag(self, tag, attributes):
            found = dict(attributes)
            if "id" in found:
                self.ids.append(found["id"])
            for key in ("aria-labelledby", "href"):
                if found.get(key, "").strip("#") and not found[key].startswith("data:"):
                    self.references.append(found[key].removeprefix("#"))

    reader = Reader()
    reader.feed(page)
    assert len(set(reader.ids)) == len(reader.ids)
    assert set(reader.references) <= set(reader.ids)
    for word in ("NSGA2", "Mine", "sotu-ngram", 'data-only="0 1 3"'):
        assert word in page


def test_a_track_without_figures(archive):
    track = arena_tracks(archive)[0]
    none = dataclasses.replace(track, found=dataclasses.replace(track.found, reason="nothing is finished."))
    with pytest.raises(InputError, match="track plain: nothing is finished"):
        track_board(none)
