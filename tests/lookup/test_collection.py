"""Collections without the authors' files: published files and installing, on small ones that are made up."""

from __future__ import annotations

import dataclasses
import hashlib
import re

import numpy as np
import pytest

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.lookup.collections import COLLECTIONS, collection
from hpobench_nmt.lookup.collections.collection import install, published_file
from hpobench_nmt.lookup.disk import folder as folders
from hpobench_nmt.lookup.disk.folder import load_folder
from hpobench_nmt.lookup.download import Limits

SHA256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # of "abc", from FIPS 180-2


def test_a_file_from_a_folder(tmp_path):
    def read(**changes):
        given = {"name": "f", "sha256": SHA256, "source": tmp_path, "address": "", "limits": Limits()}
        return published_file(**given | changes)

    with pytest.raises(InputError, match=rf"{tmp_path}: has no file f\."):
        read()
    (tmp_path / "f").write_bytes(b"abc")
    assert read() == read(limits=Limits(max_bytes=3)) == b"abc"
    with pytest.raises(InputError, match=r"/f: larger than 2 bytes"):
        read(limits=Limits(max_bytes=2))
    (tmp_path / "f").write_bytes(b"abd")
    digest = hashlib.sha256(b"abd").hexdigest()[:12]
    with pytest.raises(
        InputError, match=rf"/f: SHA-256 is {digest}… instead of ba7816bf8f01…: not the published file\."
    ):
        read()


def test_a_file_from_the_network(monkeypatch):
    """The address of a folder may end with a slash. `download` itself is tested with a real server."""
    asked = []
    monkeypatch.setattr(collection, "download", lambda *a: asked.append(a) or b"abc")
    limits = Limits(tries=1)
    for address in ("http://host/folder", "http://host/folder/"):
        assert published_file("f", SHA256, None, address, limits) == b"abc"
    assert asked == [("http://host/folder/f", SHA256, limits)] * 2


def test_tables_are_installed_together(two, tmp_path, monkeypatch):
    target = tmp_path / "cache"
    assert install("mine", two, target) == [target / "toy", target / "other"]
    assert {p.name for p in target.iterdir()} == {"toy", "other"}
    assert [load_folder(target / t.name).sha256 for t in two] == [t.sha256 for t in two]
    # All or none: the second cannot be written, so the first stays what it was.
    changed = dataclasses.replace(two[0], values=two[0].values + 1)
    save = folders.save_folder

    def fails(table, folder):
        if table is two[1]:
            raise OSError("disk full")
        save(table, folder)

    monkeypatch.setattr(folders, "save_folder", fails)
    with pytest.raises(OSError, match="disk full"):
        install("mine", [changed, two[1]], target)
    assert load_folder(target / "toy").sha256 == two[0].sha256
    assert {p.name for p in target.iterdir()} == {"toy", "other"}


@pytest.fixture
def published(tmp_path, monkeypatch):
    """Files laid out as the authors', of four rows for each table, with their hashes."""
    folder = tmp_path / "datasets"
    folder.mkdir()
    hashes = {}
    nmthpo = COLLECTIONS["nmthpo"]
    for number, name in enumerate(nmthpo.tables):
        bpe = (1000, 32000) if name in ("sw-en", "so-en") else (10000, 50000)
        layers = {"sw-en": (1, 6), "so-en": (1, 4)}.get(name, (2, 4))
        contents = {
            "hyps": [(b, n, 256, 2048, 8, 0.0006) for b in bpe for n in layers],
            "evals": [
                (20 + number, 500, 8.5, 1000, 0, 1e6),
                (19, 400.5, 9, 2000, 1024, 2e6),
                (18, 600, 0, 3000, 2048, 3e6),
                (0, 700, 8, 0, 4096, 4e6),
            ],
            "fronts": [(1,), (1,), (0,), (0,)],
        }
        for ending, rows in contents.items():
            content = "".join("\t".join(map(str, row)) + "\n" for row in rows).encode()
            (folder / f"{name}.{ending}").write_bytes(content)
            hashes[f"{name}.{ending}"] = hashlib.sha256(content).hexdigest()
    assert hashes.keys() == nmthpo.sha256.keys()
    changed = dataclasses.replace(nmthpo, sha256=hashes)
    monkeypatch.setitem(COLLECTIONS, "nmthpo", changed)
    return folder


def test_the_columns_of_the_authors_files(published, tmp_path):
    nmthpo = COLLECTIONS["nmthpo"]
    folders = nmthpo.fetch(tmp_path / "cache", source=published)
    assert folders == [tmp_path / "cache" / name for name in nmthpo.tables]
    tables = {folder.name: load_folder(folder) for folder in folders}
    for name, table in tables.items():
        assert table.name == name
        assert [h.name for h in table.hyperparameters] == [
            "bpe_symbols",
            "num_layers",
            "num_embed",
            "num_hidden",
            "num_heads",
            "learning_rate",
        ]
        assert [(m.name, m.direction, m.unit) for m in table.metrics] == [
            ("dev_bleu", "max", "BLEU"),
            ("dev_gpu_time", "min", "s"),
            ("dev_ppl", "min", ""),
            ("num_updates", "min", ""),
            ("gpu_memory", "min", "MB"),
            ("num_param", "min", ""),
        ]
        np.testing.assert_array_equal(table.configs[:, 2:], [[256, 2048, 8, 0.0006]] * 4)
        # 0 is missing only where it cannot be measured.
        np.testing.assert_array_equal(table.column("gpu_memory"), [np.nan, 1024, 2048, 4096])
        assert (table.column("dev_ppl")[2], table.column("dev_bleu")[3], table.column("num_updates")[3]) == (
            0,
            0,
            0,
        )
        assert table.objectives == ("dev_bleu", "dev_gpu_time")
        assert table.metric("dev_bleu").tolerance == 0.5
        assert table.claims == {
            "collection": "nmthpo",
            "collection_tables": 6,
            "collection_rows": 2245,
            "front": [0, 1],
            "front_objectives": ["dev_bleu", "dev_gpu_time"],
        }
        hashes = [nmthpo.sha256[f"{name}.{ending}"] for ending in ("hyps", "evals", "fronts")]
        assert table.provenance["sha256"] == " and ".join(hashes)
        assert name in table.provenance["title"]
        keys = ["title", "source", "licence", "citation", "measured", "sha256"]
        assert list(table.provenance) == keys
        assert table.provenance["licence"] == nmthpo.given.licence == "MIT, copyright (c) 2020 Xuan Zhang"
        assert table.hyperparameters[0].unit == "merge operations"
        assert re.search(r"commit 7bd0a402b332a6fdea8bdfeabb0271afa5c5be1f$", table.provenance["source"])
    assert [tables[name].column("dev_bleu")[0] for name in nmthpo.tables] == [20, 21, 22, 23, 24, 25]
    # Table 1 of Zhang & Duh (2020).
    usual, swahili, somali = tables["zh-en"], tables["sw-en"], tables["so-en"]
    assert [h.values for h in usual.hyperparameters[1:]] == [
        (2, 4),
        (256, 512, 1024),
        (1024, 2048),
        (8, 16),
        (0.0003, 0.0006, 0.001),
    ]
    assert (usual.hyperparameters[0].values, usual.hyperparameters[0].scale) == (
        (10000, 30000, 50000),
        "linear",
    )
    for table in (swahili, somali):
        assert table.hyperparameters[0].values == (1000, 2000, 4000, 8000, 16000, 32000)
        assert table.hyperparameters[0].scale == "log"
    assert swahili.hyperparameters[1].values == (1, 2, 4, 6)
    assert somali.hyperparameters[1].values == (1, 2, 4)
    np.testing.assert_allclose(usual.features[:, 0], [0, 0, 1, 1])


def test_one_wrong_file_and_nothing_is_installed(published, tmp_path):
    nmthpo = COLLECTIONS["nmthpo"]
    last = published / "so-en.fronts"
    last.write_bytes(last.read_bytes().replace(b"0", b"1"))
    with pytest.raises(InputError, match=r"so-en\.fronts: SHA-256 is"):
        nmthpo.fetch(tmp_path / "cache", source=published)
    assert not (tmp_path / "cache").exists()


def test_the_address_that_files_are_taken_from(published, tmp_path, monkeypatch):
    nmthpo = COLLECTIONS["nmthpo"]
    asked = []

    def download(url, sha256, limits):
        asked.append((url, sha256, limits))
        return (published / url.rpartition("/")[2]).read_bytes()

    monkeypatch.setattr(collection, "download", download)
    limits = Limits(tries=2)
    nmthpo.fetch(tmp_path / "a", limits=limits)
    nmthpo.fetch(tmp_path / "b", address="http://mirror/x", limits=limits)
    home = (
        "https://raw.githubusercontent.com/Este1le/hpo_nmt/7bd0a402b332a6fdea8bdfeabb0271afa5c5be1f/datasets"
    )
    assert {url.rpartition("/")[0] for url, *_ in asked[:18]} == {home}
    assert {url.rpartition("/")[0] for url, *_ in asked[18:]} == {"http://mirror/x"}
    assert len(asked) == 36
    assert all(
        nmthpo.sha256[url.rpartition("/")[2]] == sha256 and given is limits for url, sha256, given in asked
    )
