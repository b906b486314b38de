"""LibreOffice's help pages and interface catalogs, from its Debian packages."""

from __future__ import annotations

import html
import re
import struct
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.corpora.text_reading import decoded

_BLOCK = re.compile(r'<(h[1-6]|p) id="([^"]+)"([^>]*)>(.*?)</\1>', re.DOTALL)
_TAG = re.compile(r"(</?[a-zA-Z][^>]*>)")
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")
_CODE = re.compile(r'class="[^"]*(?:code|image)')
_ACCELERATOR = re.compile(r"\s?\([_~&]\w\)|[_~]")


def help_texts(folder: Path, language: str) -> Iterator[tuple[tuple[str, str, str], str]]:
    """Headings and paragraphs of all pages of a language: (page, tag, id) and text. Program code is left out.

    The folder is an unpacked package tree. Raises InputError if it has no pages, or if one is not UTF-8.
    """
    root = folder / "usr/share/libreoffice/help" / language / "text"
    pages = sorted(root.rglob("*.html"))
    if not pages:
        raise InputError(f"no help pages in {root}: unpack the package libreoffice-help-{language.lower()}.")
    for page in pages:
        content = decoded(page.read_bytes(), page)
        name = page.relative_to(root).as_posix()
        for tag, identifier, attributes, body in _BLOCK.findall(content):
            if not _CODE.search(attributes):
                yield (name, tag, identifier), tidy(_visible(body))


def _visible(body: str) -> str:
    """The text of a paragraph, without tags, and with one version of passages that differ between systems.

    Passages may also differ between modules. Such a passage is a switch: a span of class switchinline around
    hidden spans, one per version. The default version is used, or the first if no version is the default.
    """
    if "switchinline" not in body:
        return html.unescape(_TAG.sub("", body))
    # Open spans, innermost last: (kind, versions). A version is (whether it is the default, its text).
    spans: list[tuple[str, list[tuple[bool, list[str]]]]] = [("text", [(True, [])])]
    for piece in _TAG.split(body):
        if piece.startswith("<span"):
            kind = "switch" if "switchinline" in piece else "version" if "hidden=" in piece else "text"
            spans.append((kind, [] if kind == "switch" else [('id="defaulttext' in piece, [])]))
        elif piece == "</span>" and len(spans) > 1:
            kind, versions = spans.pop()
            default = next((text for is_default, text in versions if is_default), None)
            text = default if default is not None else versions[0][1] if versions else []
            outer_kind, outer = spans[-1]
            if outer_kind == "switch":
                outer.append((kind == "version" and versions[0][0], text))
            else:
                outer[0][1].extend(text)
        elif not _TAG.fullmatch(piece) and spans[-1][0] != "switch":
            spans[-1][1][0][1].append(piece)
    return html.unescape("".join(spans[0][1][0][1]))


def catalog_texts(folder: Path, language: str) -> Iterator[tuple[str, str]]:
    """English and translated texts of the user interface, from the catalogs (*.mo) of a language.

    Accelerator marks are stripped, and %PRODUCTNAME is replaced. Only the first of several plural forms is
    used. The folder is an unpacked package tree.
    """
    root = folder / "usr/lib/libreoffice/program/resource" / language / "LC_MESSAGES"
    catalogs = sorted(root.glob("*.mo"))
    if not catalogs:
        package = f"libreoffice-l10n-{language.lower().replace('_', '-')}"
        raise InputError(f"no catalogs in {root}: unpack {package}, or set catalogs = false.")
    for catalog in catalogs:
        for key, text in _messages(catalog):
            yield _label(key.rpartition("\x04")[2]), _label(text)


def _messages(path: Path) -> list[tuple[str, str]]:
    """The key and text of every message of a GNU catalog. A key is [context \\x04] English."""
    data = path.read_bytes()
    try:
        order = "<" if struct.unpack_from("<I", data)[0] == 0x950412DE else ">"
        magic, _, count, keys, texts = struct.unpack_from(f"{order}5I", data)
        if magic != 0x950412DE:
            raise ValueError("wrong first bytes")
        both = []
        for table in (keys, texts):
            places = struct.unpack_from(f"{order}{2 * count}I", data, table)
            spans = zip(places[::2], places[1::2], strict=True)
            both.append([data[at : at + size].split(b"\0")[0].decode() for size, at in spans])
        return [(key, text) for key, text in zip(*both, strict=True) if key]
    except (struct.error, ValueError) as error:
        raise InputError(f"{path} is not a catalog of translations ({error}).") from error


def _label(text: str) -> str:
    return tidy(_ACCELERATOR.sub("", _TAG.sub("", text).replace("%PRODUCTNAME", "LibreOffice")))


def tidy(text: str) -> str:
    """The text in composed characters (NFC), without invisible characters, and with single spaces."""
    return " ".join(_INVISIBLE.sub("", unicodedata.normalize("NFC", text)).split())
