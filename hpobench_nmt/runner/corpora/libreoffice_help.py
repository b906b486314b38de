"""LibreOffice's help and interface in English and another language, from Debian packages."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import subprocess
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.runner.corpora.corpus import Corpus
from hpobench_nmt.runner.corpora.corpus_reader import CorpusReader
from hpobench_nmt.runner.corpora.libreoffice_pages import catalog_texts, help_texts, tidy
from hpobench_nmt.runner.corpora.sentence_pairs import Pair, clean, split
from hpobench_nmt.runner.corpora.text_reading import decoded, lines_of
from hpobench_nmt.runner.corpora.tokenise import tokenise
from hpobench_nmt.runner.disk.locks import make_once
from hpobench_nmt.runner.disk.user_paths import user_path
from hpobench_nmt.runner.settings import Settings, setting

# Debian has help in a few more languages, whose scripts the tokenizer does not support.
# fmt: off
Language = Literal[
    "ca", "cs", "da", "de", "el", "en", "es", "et", "eu", "fi", "fr", "gl", "hu", "id", "it", "ja", "ko",
    "nl", "pl", "pt", "pt-br", "ru", "sk", "sl", "sv", "tr", "vi", "zh", "zh-tw",
]
# fmt: on
_LONGEST_LINE = 1000
_DEBIAN = {"en": "en-US", "zh": "zh-CN", "zh-tw": "zh-TW", "pt-br": "pt-BR"}


@dataclass(frozen=True, kw_only=True)
class HelpOptions(Settings):
    """Options of LibreOffice's help."""

    source: Language = setting(..., "language to translate from")
    target: Language = setting(..., "language to translate to")
    train: int = setting(24_000, "pairs to train on", low=1)
    dev: int = setting(1_000, "pairs to tune on", low=1)
    test: int = setting(1_000, "pairs to test on", low=1)
    min_words: int = setting(1, "minimum number of tokens in the shorter side of a pair", low=1)
    max_words: int = setting(60, "maximum number of tokens in the longer side of a pair", low=1)
    catalogs: bool = setting(True, "use the texts of the interface as well as help pages")
    seed: int = setting(1, "of the random split", low=0)
    folder: str = setting("", "folder of the unpacked packages; none: download them")


def _depends(options: HelpOptions, base: Path, cache: Path) -> list[str]:
    """The packages' revisions, and the name, size and time of every file that is read."""
    folder, other = _folder(options, base, cache), _debian(_foreign(options))
    roots = [folder / "usr/share/libreoffice/help" / language / "text" for language in ("en-US", other)]
    if options.catalogs:
        roots.append(folder / "usr/lib/libreoffice/program/resource" / other.replace("-", "_"))
    digest = hashlib.sha256()
    for root in roots:
        for place, folders, files in os.walk(root):
            folders.sort()
            for name in sorted(files):
                path = os.path.join(place, name)  # noqa: PTH118 (thousands of files: a Path takes thrice as long)
                status = os.stat(path)  # noqa: PTH116
                digest.update(
                    f"{path.removeprefix(str(folder))} {status.st_size} {status.st_mtime_ns}\n".encode()
                )
    return [_revisions(folder, options), digest.hexdigest()]


def _read(options: HelpOptions, base: Path, cache: Path) -> Corpus:
    folder, foreign = _folder(options, base, cache), _foreign(options)
    languages = (options.source, options.target)
    texts = _pairs(folder, _debian(foreign), options.catalogs)
    if foreign == options.source:
        texts = ((other, english) for english, other in texts)
    pairs = clean(texts, languages, options.min_words, options.max_words)
    sizes = {"train": options.train, "dev": options.dev, "test": options.test}
    provenance = {
        "source": f"LibreOffice help{' and interface' if options.catalogs else ''}, Debian packages "
        f"{', '.join(_packages(options))}; {len(pairs):,} pairs after cleaning",
        "version": _revisions(folder, options),
        "licence": "MPL-2.0",
    }
    return split("lohelp", languages, pairs, sizes, options.seed, provenance)


def _pairs(folder: Path, other: str, catalogs: bool) -> Iterator[Pair]:
    """English and foreign texts of the same page, tag and id, then the texts of the catalogs."""
    english = dict(help_texts(folder, "en-US"))
    for key, text in help_texts(folder, other):
        if key in english:
            yield english[key], text
    if catalogs:
        yield from catalog_texts(folder, other.replace("-", "_"))


def _foreign(options: HelpOptions) -> str:
    return options.target if options.source == "en" else options.source


def _debian(language: str) -> str:
    """The name of a language's folder of help pages."""
    return _DEBIAN.get(language, language)


def _packages(options: HelpOptions) -> list[str]:
    other = _debian(_foreign(options)).lower()
    catalogs = [f"libreoffice-l10n-{other}"] if options.catalogs else []
    return ["libreoffice-help-en-us", f"libreoffice-help-{other}", *catalogs]


def _revisions(folder: Path, options: HelpOptions) -> str:
    """The Debian revision of each package, from the first line of its change log."""
    found = {}
    for package in _packages(options):
        log = folder / "usr/share/doc" / package / "changelog.Debian.gz"
        try:
            with gzip.open(log, "rt", encoding="utf-8") as lines:
                match = re.match(r"\S+ \((\S+)\)", lines.readline(_LONGEST_LINE))
            found[package] = match[1] if match else "unknown"
        except (OSError, EOFError, UnicodeDecodeError, zlib.error):
            found[package] = "unknown"
    if len(set(found.values())) == 1:
        return found[_packages(options)[0]]
    return ", ".join(f"{package} {revision}" for package, revision in found.items())


def _folder(options: HelpOptions, base: Path, cache: Path) -> Path:
    """The folder of the unpacked packages: the section's `folder`, or a download in the cache."""
    if options.folder:
        folder = user_path(base, options.folder, "[corpus] folder")
        if not (folder / "usr/share/libreoffice/help").is_dir():
            raise InputError(
                f"[corpus] folder: {folder} has no usr/share/libreoffice/help. Unpack there (dpkg-deb -x): "
                f"{', '.join(_packages(options))}."
            )
        return folder
    kind = "help-and-interface" if options.catalogs else "help"
    return make_once(
        cache / "libreoffice" / f"{_foreign(options)}-{kind}", lambda new: _download(_packages(options), new)
    )


def _download(packages: list[str], folder: Path) -> None:
    """Download the current revision of packages and unpack them, without installing them.

    Raises InputError if apt-get or dpkg-deb is missing or fails.
    """
    by_hand = f"or unpack {', '.join(packages)} yourself (dpkg-deb -x) and set [corpus] folder"
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise InputError(f"corpus 'lohelp' needs apt-get and dpkg-deb (Debian, Ubuntu), {by_hand}.")
    folder.mkdir(parents=True)
    archives = folder / "archives"
    archives.mkdir()
    try:
        _call(["apt-get", "download", "--quiet", *packages], archives)
        for archive in sorted(archives.glob("*.deb")):
            _call(["dpkg-deb", "-x", str(archive), str(folder)], archives)
    except subprocess.CalledProcessError as error:
        problems = [line for line in error.stderr.splitlines() if line.strip()]
        raise InputError(
            f"corpus 'lohelp': {error.cmd[0]} failed ({problems[0] if problems else error}). "
            f"Run `sudo apt-get update` and try again, {by_hand}."
        ) from error
    shutil.rmtree(archives)


def _call(command: list[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def _check(options: HelpOptions) -> None:
    languages = (options.source, options.target)
    if languages.count("en") != 1:
        raise InputError(
            f"[corpus] source and target are {languages[0]!r} and {languages[1]!r}: one must be 'en', "
            "and the other not."
        )
    if options.min_words > options.max_words:
        raise InputError(f"[corpus] min_words is above max_words ({options.max_words}).")


def _split(options: HelpOptions, content: bytes, path: Path) -> list[str]:
    return [" ".join(tokenise(tidy(line))) for line in lines_of(decoded(content, path))]


LOHELP = CorpusReader("lohelp", "parallel", HelpOptions, _depends, _read, _split, _check)
