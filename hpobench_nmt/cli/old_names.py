"""Names that commands and options had before: each runs what replaced it, and one line says what that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hpobench_nmt.core.system.deprecated import warn_deprecated

_COMMANDS = {
    "adaptation": "model adaptation",
    "archive join": "archive make",
    "evaluate": "model evaluate",
    "export": "score --format sequences",
    "tables card": "tables publish --format croissant",
    "tables export": "tables publish",
    "translate": "model translate",
}
"""What replaces a command of one or two words."""

_AS_SETTING = ("clock", "cost", "prior", "score-at", "time", "workers")
_OF_ADAPTATION = ("context", "dynamic", "parts", "sample", "window", "word")
_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "archive add": {"--archive": "--from {}", "--method": "--methods {}"},
    "archive make": {"--onto": "--from {}"},
    "archive page": {"--archive": "--from {}"},
    "archive show": {"--archive": "--from {}"},
    "archive verify": {"--archive": "--from {}"},
    "ledger merge": {
        "--edited": "--accept edited",
        "--keep": "--accept {}",
        "--mix-devices": "--accept devices",
    },
    "methods": {"--n-objectives": "--objectives {}"},
    "model adaptation": {
        **{f"--{name}": f"--set {name}={{}}" for name in _OF_ADAPTATION},
        "--then": "--text {}",
    },
    "model evaluate": {"--cache": "--set cache=true", "--dynamic": "--set dynamic={}"},
    "pareto": {"--plot": "--out {}"},
    "run": {
        "--budget": "--set score_at={}",
        "--curves": "--set curves=true",
        **{f"--{name}": f"--set {name.replace('-', '_')}={{}}" for name in _AS_SETTING},
    },
    "score": {"--verify": "--check"},
    "tables add": {"--ignore-other": "--accept other"},
    "tables analyze": {
        "--best": "--set best_share={}",
        "--metric": "--set metric={}",
        "--tolerance": "--set tolerance={}",
    },
    "tables fetch": {"--mirror": "--from {}"},
    "train": {"--until": "--updates {}"},
    "tune": {"--hours": "--time-limit {}h", "--method": "--methods {}", "--workers": "--jobs {}"},
}
"""What replaces an option of a command (by its present name); {} stands for the option's value."""


def renewed(arguments: Sequence[str]) -> list[str]:
    """The arguments of the program, with present names in place of old ones. Warns of each old name."""
    words = list(arguments)
    for length in (2, 1):
        old = " ".join(words[:length])
        if old in _COMMANDS:
            _warn(old, _COMMANDS[old])
            words[:length] = _COMMANDS[old].split()
    options = next((_OPTIONS[name] for k in (2, 1) if (name := " ".join(words[:k])) in _OPTIONS), {})
    found: list[str] = []
    while words and words[0] != "--":  # what follows -- belongs to another program
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if name not in options:
            found.append(word)
            continue
        new, takes_value = options[name], "{}" in options[name]
        if takes_value and not equals and words:
            value = words.pop(0)
        _warn(name, new.format(value or "…"))
        found += [part.format(value) for part in new.split()]
    return found + words


def _warn(old: str, new: str) -> None:
    since = "1.1" if old == "--budget" else "1.2"
    warn_deprecated(old, new, since=since, removed_in="2.0")
