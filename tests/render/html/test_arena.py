"""The leaderboard of lm-2026, made of a small archive."""

import dataclasses
import re
import shutil
from html.parser import HTMLParser

import msgspec
import numpy as np
import pytest

import hpobench_nmt as hb
from hpobench_nmt.arena.archive import Card, archive_bytes, read_archive
from hpobench_nmt.arena.boards import arena_tracks, track_board
from hpobench_nmt.arena.pages import PARTS, curves_of, method_pages, table_pages
from hpobench_nmt.benchmarking.records.frozen import pin_of
from hpobench_nmt.benchmarking.task import suite_files
from hpobench_nmt.benchmarking.task.instance import suite_instances
from hpobench_nmt.core.seeds import sampled_rows
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.render.html.arena import arena_pages, write_arena

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
    multi = {"tables": ["sotu-lstm"], "trials": 2}
    runs = {
        "plain": [hb.run("lm-2026", track="plain", methods=["RS", "BO_EI_M_std", Mine], **plain)],
        "multi": [hb.run("lm-2026", track="multi", methods=["RS", "NSGA2"], **multi)],
    }
    card = msgspec.convert(dict.fromkeys(Card.__struct_fields__, HOSTILE), Card)
    path = tmp_path_factory.mktemp("arena") / "lm-2026.parquet"
    path.write_bytes(archive_bytes(runs, {"Mine": card}))
    return read_archive(path)


@pytest.fixture(scope="module")
def tracks(archive):
    return arena_tracks(archive)


@pytest.fixture(autouse=True)
def empty_home(home):
    """Only the tables that ship are installed."""


def test_the_figures_are_those_of_the_run(tracks):
    plain, multi = tracks
    again = hb.run(
        "lm-2026",
        track="plain",
        tables=["sotu-gpt-30k", "sotu-ngram"],
        methods=["RS", "BO_EI_M_std"],
        trials=3,
    )
    ours = hb.fewer_trainings(again).methods.set_index("method")
    theirs = plain.found.methods.set_index("method")
    for column in ("times_fewer", "low", "high", "capped"):
        assert theirs.loc[["RS", "BO_EI_M_std"], column].tolist() == ours[column].tolist()
    board = track_board(plain)
    assert [c.heading for c in board.columns] == ["times fewer", "places", "capped", "ms/step"]
    values = [entries[0].value for _, entries in board.rows]
    assert values == sorted(values, reverse=True)
    assert "hypervolume" in [c.heading for c in track_board(multi).columns]
    assert any(
        "This run has only a part of lm-2026-plain: 2 of its 17 tables" in line for line in plain.sentences
    )


def test_pages_of_methods_and_tables(archive, tracks):
    pages = {page.name: page for page in method_pages(archive, tracks)}
    assert list(pages) == ["RS", "BO_EI_M_std", "Mine", "NSGA2"]
    assert pages["Mine"].kinds == ("submitted",)
    assert pages["RS"].kinds == ("built in", "whole trainings")
    assert dict(pages["Mine"].facts)["tuned on"] == HOSTILE
    assert {(track, table) for table, track, *_ in pages["RS"].lines} == {
        ("plain", "sotu-gpt-30k"),
        ("plain", "sotu-ngram"),
        ("multi", "sotu-lstm"),
    }
    ranks = [line[3] for page in pages.values() for line in page.lines if line[0] == "sotu-gpt-30k"]
    assert sorted(ranks) == ["1 of 3", "2 of 3", "3 of 3"]
    tables = {page.name: page for page in table_pages(tracks)}
    track, target, lines, limits = tables["sotu-gpt-30k"].tracks[0]
    assert limits[0] == ("line", "look-ups", "times fewer")
    assert [line[0].partition(",")[0] for line in limits[1:]] == [
        "random search",
        "clairvoyant GP",
        "best method",
        "least possible",
    ]
    assert (track, tables["sotu-ngram"].tracks[0][0]) == ("plain", "plain")
    assert "(4 of 180 rows)" in target
    assert {line[0] for line in lines} == {"RS", "BO_EI_M_std", "Mine"}
    assert ("hyperparameter", "learning_rate, log scale: 0.001, 0.002, 0.005, 0.01, 0.02, 0.05") in tables[
        "sotu-gpt-30k"
    ].facts
    beaten = ("baseline", "no row beats a Kneser-Ney model, whose dev_ppl is 85.2")
    assert beaten in tables["sotu-gpt-30k"].facts
    assert "baseline" not in dict(tables["sotu-ngram"].facts)
    first = lines[0][0]
    wins = "fewer trainings than random search on"
    assert pages[first].standing[0].startswith(f"plain: {wins}")
    assert "first on sotu-gpt-30k" in pages[first].standing[0]


def test_curves_are_means_of_what_the_trials_had_found(tracks):
    track, multi = tracks
    told = []
    for name in ("sotu-gpt-30k", "sotu-ngram"):
        losses = track.results.instances[name].losses[:, 0]
        of_table = []
        for number, trial in enumerate(track.results.trials[name, "Mine"]):
            sample = losses[sampled_rows(0, name, number, len(losses), len(losses) * 3 // 5, 0)]
            way = np.nanmedian(sample) - np.nanmin(sample)
            found = np.fmin.accumulate(losses[trial.rows]) - np.nanmin(sample)
            # A trial that ended has its last value.
            at = np.minimum(np.floor(PARTS * 100).astype(int), len(found))
            of_table.append([min(found[n - 1] / way, 1.0) if n else 1.0 for n in at])
        told.append(np.mean(of_table, axis=0))
    curve = curves_of(track.results, track.found)["Mine"]
    np.testing.assert_allclose(curve, np.mean(told, axis=0))
    for values in curves_of(multi.results, multi.found).values():
        assert (np.diff(values) <= 1e-12).all()
        assert 0 <= values[-1] < values[0] <= 1


class Reader(HTMLParser):
    """What is in a page."""

    def __init__(self):
        super().__init__()
        self.ids, self.references, self.links = [], [], []

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if "id" in found:
            self.ids.append(found["id"])
        link = found.get("href", "")
        if link.startswith("#") or "aria-labelledby" in found:
            self.references.append(found.get("aria-labelledby") or link.removeprefix("#"))
        elif tag == "a":
            self.links.append(link)


def test_pages_are_whole_escaped_and_the_same_again(archive, tmp_path):
    board = tmp_path / "board"
    assert write_arena(archive, board) == board / "index.html"
    written = {p.relative_to(board).as_posix(): p for p in board.rglob("*") if p.is_file()}
    pages = {name: path.read_text() for name, path in written.items()}
    assert pages == arena_pages(archive)
    assert set(pages) == {
        "index.html",
        "style.css",
        *(f"methods/{name}.html" for name in ("RS", "BO_EI_M_std", "Mine", "NSGA2")),
        *(f"tables/{name}.html" for name in ("sotu-gpt-30k", "sotu-ngram", "sotu-lstm")),
    }
    sheet = pages.pop("style.css")
    assert HOSTILE not in sheet and "url(" not in sheet
    for name, page in pages.items():
        assert HOSTILE not in page
        assert not re.findall(r'(?:src|href)="(?!#|data:|[\w./-]+\.html"|(?:\.\./)?style\.css")', page)
        # One style sheet for all pages, with the classes of their figures.
        (link,) = re.findall(r'<link rel="stylesheet" href="([^"]+)">', page)
        assert (written[name].parent / link).resolve() == written["style.css"]
        assert "<style" not in page
        for shared in set(re.findall(r' class="(s[0-9a-f]+)"', page)):
            assert f".{shared}{{" in sheet
        assert ("<script" in page) == (name == "index.html")
        reader = Reader()
        reader.feed(page)
        assert len(set(reader.ids)) == len(reader.ids)
        assert {each for each in reader.references if each} <= set(reader.ids)
        for link in reader.links:
            assert (written[name].parent / link).is_file(), link
    assert "&lt;img src=x onerror=alert(1)&gt;" in pages["methods/Mine.html"]
    for word in ("NSGA2", "Mine", "sotu-ngram", 'data-only="0 1 3"'):
        assert word in pages["index.html"]
    assert pages["methods/RS.html"].count("<figure>") == 2
    table = pages["tables/sotu-gpt-30k.html"]
    assert "importance for dev_ppl" in table
    assert "seed noise of dev_ppl" in table or "no configuration was trained again" in table


def test_a_track_without_figures(tracks):
    track = tracks[0]
    none = dataclasses.replace(track, found=dataclasses.replace(track.found, reason="nothing is finished."))
    with pytest.raises(InputError, match="track plain: nothing is finished"):
        track_board(none)


def test_a_new_track_needs_a_suite_file_and_a_name(tmp_path, monkeypatch):
    """Its title is that of its file, or else the description."""
    shutil.copytree(suite_files._FOLDER, tmp_path / "suites")
    monkeypatch.setattr(suite_files, "_FOLDER", tmp_path / "suites")
    monkeypatch.setitem(suite_files._TRACKS, "lm-2026", (*suite_files._TRACKS["lm-2026"], "tiny"))
    file = tmp_path / "suites" / "lm-2026-tiny.toml"
    lines = ['description = "lm-2026, frozen: a toy"', 'scores = ["ftc"]', "trials = 2", "sample = 0.6"]
    lines.append('tables = ["sotu-ngram"]')
    file.write_text("\n".join(lines))
    suite = suite_files.load_suite("lm-2026-tiny")
    lines.append(f'pinned = {{sotu-ngram = "{pin_of(suite, suite_instances(suite)["sotu-ngram"])}"}}')
    for title, told in (([], "lm-2026, frozen: a toy"), (['title = "small <fast>"'], "small &lt;fast&gt;")):
        file.write_text("\n".join([*lines, *title]))
        runs = {"tiny": [hb.run("lm-2026", track="tiny", methods=["RS", "BO_EI_M"])]}
        path = tmp_path / "lm-2026.parquet"
        path.write_bytes(archive_bytes(runs, {}))
        pages = arena_pages(read_archive(path))
        assert f"<h3>tiny <small>{told}</small></h3>" in pages["index.html"]
        assert "tiny: fewer trainings than random search on" in pages["methods/BO_EI_M.html"]
        assert "<h3>tiny</h3>" in pages["tables/sotu-ngram.html"]
