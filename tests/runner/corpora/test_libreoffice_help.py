import gettext
import os
from pathlib import Path
from typing import Any

import pytest
from libreoffice_tree import THINGS, WORDS, paragraph, write_catalog, write_packages, write_page

from hpobench_nmt.core.system.errors import InputError, RunError
from hpobench_nmt.runner.corpora import ParallelCorpus, corpus_kind, load_corpus
from hpobench_nmt.runner.corpora.libreoffice_pages import catalog_texts, help_texts


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """The tree in a folder."""
    write_packages(tmp_path / "packages")
    return tmp_path / "packages"


def load(base: Path, **options: Any) -> ParallelCorpus:
    section = {"name": "lohelp", "source": "de", "target": "en", "train": 15, "dev": 3, "test": 2}
    corpus = load_corpus({**section, "folder": "packages", **options}, base, base / "cache")
    assert isinstance(corpus, ParallelCorpus)
    return corpus


def test_pairs_are_translations(tmp_path: Path, packages: Path) -> None:
    corpus = load(tmp_path)
    expected = {f"{d} {w} ." for w in WORDS.values() for d in THINGS.values()} | {"Text bearbeiten"}
    assert [len(part[0]) for part in (corpus.train, corpus.dev, corpus.test)] == [15, 3, 2]
    english = {w: k for k, w in (WORDS | THINGS).items()}
    for part in (corpus.train, corpus.dev, corpus.test):
        for source, target in zip(*part, strict=True):
            assert source in expected
            if source == "Text bearbeiten":
                assert target == "Edit text"
            else:
                thing, word, _ = source.split()
                assert target == f"{english[word]} the {english[thing]} ."
    assert corpus.provenance["version"] == "4:7.4.7-1+deb12u14"
    assert corpus.provenance["licence"] == "MPL-2.0"
    assert corpus.provenance["size"] == "train 15 pairs, dev 3, test 2"
    assert "21 pairs after cleaning" in corpus.provenance["source"]


def test_the_other_direction_swaps_the_sides(tmp_path: Path, packages: Path) -> None:
    corpus = load(tmp_path, source="en", target="de")
    assert (corpus.source, corpus.target) == ("en", "de")
    assert any(line.startswith("Open the") for line in corpus.train[0])
    assert corpus_kind({"name": "lohelp", "source": "en", "target": "de"}) == "parallel"


def test_without_catalogs_none_is_needed(tmp_path: Path, packages: Path) -> None:
    (packages / "usr/lib/libreoffice/program/resource/de/LC_MESSAGES/sc.mo").unlink()
    assert "20 pairs" in load(tmp_path, catalogs=False).provenance["source"]
    with pytest.raises(InputError, match=r"unpack libreoffice-l10n-de, or set catalogs = false"):
        load(tmp_path)


def test_a_changed_page_is_read_again(tmp_path: Path, packages: Path) -> None:
    first = load(tmp_path, train=12)
    for language, text in (("en-US", "Quite another text"), ("de", "Ein ganz anderer Text")):
        write_page(packages, language, "scalc/02.html", paragraph("par_id1", text))
    second = load(tmp_path, train=12)
    assert "17 pairs" in second.provenance["source"]
    assert first.provenance["sha256"] != second.provenance["sha256"]


def test_the_visible_text_of_a_paragraph(tmp_path: Path) -> None:
    switch = (
        'On <span id="swlnsys1" class="switchinline"><span hidden="true" id="MACtext1" class="MAC">'
        '<span class="emph">Preferences</span></span><span hidden="true" id="defaulttext1">'
        '<span class="emph">Tools - Options</span></span></span><span class="emph"> - View</span>.'
    )
    modules = (
        '<span id="swlnappl2" class="switchinline"><span hidden="true" id="WRITERtext2" class="WRITER">pages'
        '</span><span hidden="true" id="CALCtext2" class="CALC">sheets</span></span> of <em>R&amp;D</em>'
    )
    body = (
        '<h1 id="hd_id1" dir="auto"><a name="x"></a>Heading&nbsp;one </h1>'
        + paragraph("par_id1", switch)
        + paragraph("par_id2", modules)
        + paragraph("par_id3", "if 1 < 2: print()", "code")
        + paragraph(
            "par_id4", 'A &lt;b&gt; &amp; an <img src="i.png" alt="Icon">icon\n  in\u00ad two\u200b lines'
        )
        + '<p class="paragraph">no id</p>'
    )
    write_page(tmp_path, "de", "swriter/a.html", body)
    assert dict(help_texts(tmp_path, "de")) == {
        ("swriter/a.html", "h1", "hd_id1"): "Heading one",
        ("swriter/a.html", "p", "par_id1"): "On Tools - Options - View.",
        ("swriter/a.html", "p", "par_id2"): "pages of R&D",
        ("swriter/a.html", "p", "par_id4"): "A <b> & an icon in two lines",
    }


@pytest.mark.parametrize("order", ["<", ">"])
def test_catalogs_are_read_as_gettext_reads_them(tmp_path: Path, order: str) -> None:
    path = tmp_path / "usr/lib/libreoffice/program/resource/de/LC_MESSAGES/sc.mo"
    messages = {
        "": "Content-Type: text/plain; charset=UTF-8\n",
        "Sheet": "Tabelle",
        "ctx\x04Row": "Zeile",
        "%PRODUCTNAME <b>help</b>": "Hilfe zu %PRODUCTNAME",
        "%1 cell\0%1 cells": "%1 Zelle\0%1 Zellen",
        "Save ~as": "Speichern (~U)",
    }
    write_catalog(path, messages, order)
    with path.open("rb") as file:
        oracle = gettext.GNUTranslations(file)
    found = dict(catalog_texts(tmp_path, "de"))
    assert found["Sheet"] == oracle.gettext("Sheet")
    assert found["Row"] == oracle.pgettext("ctx", "Row")
    assert found["%1 cell"] == oracle.ngettext("%1 cell", "%1 cells", 1)
    assert found["LibreOffice help"] == "Hilfe zu LibreOffice"
    assert found["Save as"] == "Speichern"
    assert len(found) == 5


@pytest.mark.parametrize(
    "content", [b"", b"no catalog at all, but long enough for a header", b"\xde\x12\x04\x95"]
)
def test_a_damaged_catalog(tmp_path: Path, packages: Path, content: bytes) -> None:
    (packages / "usr/lib/libreoffice/program/resource/de/LC_MESSAGES/sc.mo").write_bytes(content)
    with pytest.raises(InputError, match=r"sc\.mo is not a catalog"):
        load(tmp_path)


def test_a_page_that_is_not_utf8(tmp_path: Path, packages: Path) -> None:
    page = packages / "usr/share/libreoffice/help/de/text/scalc/01.html"
    page.write_bytes(page.read_bytes() + b"\xfc")
    with pytest.raises(InputError, match=r"01\.html, line \d+: not UTF-8"):
        load(tmp_path)


def test_no_packages_in_the_folder(tmp_path: Path, packages: Path) -> None:
    with pytest.raises(InputError, match="nowhere has no usr/share/libreoffice/help"):
        load(tmp_path, folder="nowhere")
    with pytest.raises(InputError, match="unpack the package libreoffice-help-fr"):
        load(tmp_path, source="fr")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": "de"}, "target is missing"),
        ({"source": "de", "target": "fr"}, "one must be 'en'"),
        ({"source": "en", "target": "en"}, "and the other not"),
        ({"source": "ge", "target": "en"}, "unknown source 'ge'"),
        ({"source": "de", "target": "en", "min_words": 9, "max_words": 8}, "min_words is above max_words"),
        ({"source": "de", "target": "en", "train": 0}, "goes from 1"),
    ],
)
def test_wrong_sections_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        corpus_kind({"name": "lohelp", **options})


def program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_packages_are_downloaded_and_unpacked_once(
    tmp_path: Path, packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With stand-ins for the two programs: one 'downloads' an archive, the other unpacks the tree above."""
    programs = tmp_path / "programs"
    programs.mkdir()
    program(programs, "apt-get", f'echo "$@" >> {tmp_path}/calls; : > libreoffice.deb')
    program(programs, "dpkg-deb", f'test -f "$2" && cp -r {packages}/usr "$3"')
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    corpus = load(tmp_path, folder="")
    assert corpus.provenance["sha256"] == load(tmp_path).provenance["sha256"]
    load(tmp_path, folder="", train=12)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls == ["download --quiet libreoffice-help-en-us libreoffice-help-de libreoffice-l10n-de"]
    assert not list(tmp_path.rglob("cache/**/*.deb"))


def test_a_failed_download_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    program(programs, "apt-get", 'echo "E: Unable to locate package libreoffice-help-de" >&2; exit 100')
    program(programs, "dpkg-deb", "exit 1")
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    with pytest.raises(InputError, match=r"Unable to locate.*apt-get update.*set \[corpus\] folder"):
        load(tmp_path, folder="")
    (tmp_path / "a file").touch()
    with pytest.raises(RunError, match="cannot keep the prepared corpus"):
        load_corpus({"name": "lohelp", "source": "de", "target": "en"}, tmp_path, tmp_path / "a file")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InputError, match=r"needs apt-get and dpkg-deb .*set \[corpus\] folder"):
        load(tmp_path, folder="")


def test_the_real_packages(tmp_path: Path) -> None:
    """Where they are installed, or unpacked in the folder that LIBREOFFICE_PACKAGES names."""
    folder = Path(os.environ.get("LIBREOFFICE_PACKAGES", "/"))
    for needed in ("share/libreoffice/help/de/text", "lib/libreoffice/program/resource/de"):
        if not (folder / "usr" / needed).is_dir():
            pytest.skip("no LibreOffice packages: unpack them and set LIBREOFFICE_PACKAGES")
    corpus = load(tmp_path, folder=str(folder), train=24_000, dev=1_000, test=1_000)
    assert [len(part[0]) for part in (corpus.train, corpus.dev, corpus.test)] == [24_000, 1_000, 1_000]
    for side in (0, 1):
        assert not set(corpus.train[side]) & {*corpus.dev[side], *corpus.test[side]}
        lines = [*corpus.train[side], *corpus.dev[side], *corpus.test[side]]
        assert not [line for line in lines if "</" in line or "switchinline" in line or "  " in line]
