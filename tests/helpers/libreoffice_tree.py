"""An unpacked tree of LibreOffice's help in two languages, as the packages of Debian have it."""

import gzip
import struct
from collections.abc import Mapping
from pathlib import Path

WORDS = {"Open": "Öffnen", "Save": "Sichern", "Print": "Drucken", "Close": "Schließen"}
THINGS = {"file": "Datei", "sheet": "Blatt", "page": "Seite", "table": "Tabelle", "slide": "Folie"}


def write_page(root: Path, language: str, page: str, body: str) -> None:
    path = root / "usr/share/libreoffice/help" / language / "text" / page
    path.parent.mkdir(parents=True, exist_ok=True)
    head = f'<!DOCTYPE html>\n<html lang="{language}">\n<title>Not this</title><p class="x">Nor this</p>\n'
    path.write_text(f"{head}{body}</html>", encoding="utf-8")


def write_catalog(path: Path, messages: Mapping[str, str], order: str = "<") -> None:
    """A GNU catalog, as msgfmt writes it: sorted, strings ended by a zero."""
    entries = sorted((k.encode(), v.encode()) for k, v in messages.items())
    start = 28 + 16 * len(entries)
    text = b""
    tables = []
    for side in (0, 1):
        for entry in entries:
            tables += [len(entry[side]), start + len(text)]
            text += entry[side] + b"\0"
    header = (0x950412DE, 0, len(entries), 28, 28 + 8 * len(entries), 0, 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack(f"{order}{7 + len(tables)}I", *header, *tables) + text)


def paragraph(identifier: str, text: str, kind: str = "paragraph") -> str:
    return f'<p id="{identifier}" class="{kind}" dir="auto">{text}</p>\n'


def write_packages(root: Path) -> None:
    """A tree of 20 paragraphs in English and German, and a catalog."""
    for w, (word, wort) in enumerate(WORDS.items()):
        texts = [(f"{word} the {thing}.", f"{ding} {wort}.") for thing, ding in THINGS.items()]
        for side, language in enumerate(("en-US", "de")):
            body = "".join(paragraph(f"par_id{i}", pair[side]) for i, pair in enumerate(texts))
            write_page(root, language, f"scalc/{w:02}.html", body)
    catalog = {"": "Language: de\n", "MENU|edit\x04_Edit ~text": "Text _bearbeiten", "Zoom": "Zoom"}
    write_catalog(root / "usr/lib/libreoffice/program/resource/de/LC_MESSAGES/sc.mo", catalog)
    for package in ("libreoffice-help-en-us", "libreoffice-help-de", "libreoffice-l10n-de"):
        log = root / "usr/share/doc" / package / "changelog.Debian.gz"
        log.parent.mkdir(parents=True)
        log.write_bytes(
            gzip.compress(b"libreoffice (4:7.4.7-1+deb12u14) bookworm; urgency=medium\n\n  * x\n", mtime=0)
        )
