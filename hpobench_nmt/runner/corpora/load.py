"""The corpus of a spec's [corpus] section, prepared once and kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

from hpobench_nmt.core.system.errors import InputError, RunError, check_known
from hpobench_nmt.runner.corpora.contents import HEAD, refuse_content
from hpobench_nmt.runner.corpora.corpus import Corpus, ParallelCorpus, read_prepared, write_prepared
from hpobench_nmt.runner.corpora.corpus_reader import CorpusReader, TextOptions
from hpobench_nmt.runner.corpora.libreoffice_help import LOHELP
from hpobench_nmt.runner.corpora.lint import findings, in_vain, lengths
from hpobench_nmt.runner.corpora.parallel_files import PAIRS, PARALLEL
from hpobench_nmt.runner.corpora.state_of_the_union import SOTU
from hpobench_nmt.runner.corpora.text_files import ENWIK8, PTB, TEXT, TEXT8, WIKITEXT_2
from hpobench_nmt.runner.corpora.vocabulary import segmented
from hpobench_nmt.runner.disk.locks import key_of, make_once
from hpobench_nmt.runner.family import Job
from hpobench_nmt.runner.settings import Settings, settings_of

READERS: Mapping[str, CorpusReader[Any]] = {
    reader.name: reader for reader in (SOTU, TEXT, PTB, WIKITEXT_2, ENWIK8, TEXT8, LOHELP, PARALLEL, PAIRS)
}

# Part of a prepared corpus's file name. Increase it whenever the same options give another corpus.
FORMAT = 3


def corpus_kind(section: Mapping[str, Any]) -> Literal["text", "parallel"]:
    """The kind of a [corpus] section's corpus: "text" for language models, "parallel" for translation.

    Reads no data. Raises InputError for an unknown name or option, with the nearest valid one, or a wrong
    value.
    """
    return _options(section)[0].kind


def filled_section(section: Mapping[str, Any]) -> dict[str, Any]:
    """The section with the defaults of all options that it leaves out. Raises the errors of `corpus_kind`."""
    reader, options = _options(section)
    return {"name": reader.name, **asdict(options)}


def split_text(
    section: Mapping[str, Any], content: bytes, path: Path, vocabulary: Sequence[str] = ()
) -> list[str]:
    """Another text, split in the same way as the corpus of a section. Errors name the path.

    Returns tokens for a language model, and lines of tokens with single spaces for a translation model. A
    corpus of subwords needs its vocabulary.
    """
    reader, options = _options(section)
    refuse_content(content[:HEAD], path, "text", {})
    tokens = reader.split(options, content, path)
    return segmented(tokens, vocabulary) if getattr(options, "unit", "") == "subword" else tokens


def load_corpus(section: Mapping[str, Any], base: Path, cache: Path) -> Corpus:
    """The corpus of a spec's [corpus] section: its `name`, and the options of that name.

    The first call prepares the corpus and keeps it in the cache. Later calls read the prepared file. Several
    processes may call at the same time. If an option, a source file or a package's version has changed, the
    corpus is prepared again. Relative paths start from the base.

    Raises:
        InputError: a wrong section, or a source that is missing or malformed.
        RunError: the cache can't be written.
    """
    reader, options = _options(section)

    def make(new: Path) -> None:
        corpus = reader.read(options, base, cache)
        about = {"findings": findings(corpus)}
        if isinstance(corpus, ParallelCorpus):
            about["lengths"] = lengths(corpus)
        told = {name: text for name, text in about.items() if text}
        write_prepared(replace(corpus, provenance={**corpus.provenance, **told}), new)

    try:
        identity = [FORMAT, reader.name, _given(options), reader.depends(options, base, cache)]
        return read_prepared(make_once(cache / "corpora" / f"{reader.name}-{key_of(identity)}.npz", make))
    except OSError as error:
        raise RunError(f"cannot keep the prepared corpus in {cache}: {error.strerror or error}.") from error


def _given(options: Settings) -> dict[str, Any]:
    """The options, without those that were added later (`About.added`) and have their defaults."""
    known = settings_of(type(options))
    return {
        name: value
        for name, value in asdict(options).items()
        if not known[name].about.added or value != known[name].default
    }


def corpus_report(section: Mapping[str, Any], corpus: Corpus) -> list[str]:
    """Lines about a corpus: its size, its likely faults, and options that ask for more than it has."""
    told = [corpus.provenance.get(key, "") for key in ("size", "lengths", "filters", "caution")]
    found = findings(corpus)  # not in the provenance if an earlier version prepared the corpus
    return [line for line in (*told, *found.split("; "), *in_vain(_options(section)[1], corpus)) if line]


def corpus_of(job: Job[Any]) -> Any:
    """The corpus of a job, a TextCorpus or a ParallelCorpus.

    Raises InputError if its section is wrong, or if its files have changed since the run started.
    """
    corpus = load_corpus(job.corpus, job.base, job.cache)
    if job.corpus_sha256 not in ("", corpus.provenance["sha256"]):
        raise InputError(
            f"corpus {corpus.name!r} has changed since this run began, but a ledger belongs to one corpus. "
            f"Restore its files, or train into another folder."
        )
    return corpus


def _options(section: Mapping[str, Any]) -> tuple[CorpusReader[Any], Settings]:
    """The section's reader, and its options with defaults filled in."""
    name = section.get("name")
    if not isinstance(name, str):
        raise InputError(f"[corpus] must name the corpus: name = one of {', '.join(sorted(READERS))}.")
    check_known("corpus", [name], READERS, "([corpus] name)")
    reader = READERS[name]
    where = f"[corpus], corpus {name!r}"
    known = settings_of(reader.options)
    check_known("option", [key for key in section if key != "name"], known, f"({where})")
    given = {}
    for key, option in known.items():
        if key in section:
            given[key] = option.check_option(section[key], where)
        elif option.default is None:
            raise InputError(f"{where}: {key} is missing ({option.about.description}).")
    options = reader.options(**given)
    if isinstance(options, TextOptions) and 0 < options.vocabulary < 3:
        described = known["vocabulary"].about.description
        raise InputError(f"{where}: vocabulary must be 3 or more ({described}).")
    reader.check(options)
    return reader, options
