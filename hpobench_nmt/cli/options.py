"""Options that several commands have, and the types of their values."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from hpobench_nmt.core.system.errors import InputError, check_known
from hpobench_nmt.core.system.text import split_names

PATH = click.Path(path_type=Path)
COUNT, NATURAL = click.IntRange(min=1), click.IntRange(min=0)
Decorator = Callable[[Any], Any]
JOIN_WITH_COMMAS = "Join the values of an option with commas, as in --methods RS,BO_EI_M."
"""The hint for a word that may be an option's second value."""


def listed(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    """The comma-separated values of an option."""
    named = tuple(split_names(value or ""))
    if value is not None and not named:
        advice = "" if parameter.required else " Leave it out to use the default."
        raise InputError(f"{parameter.opts[-1]} is empty.{advice}")
    return named


def option(declared: str, shown: str, what: str, usual: Any = None, **settings: Any) -> Decorator:
    """An option: its names, and its argument's if it has another; its value in the help; the help.

    `usual` is a default that the help shows.
    """
    told = {} if usual is None else {"default": usual, "show_default": True}
    return click.option(*declared.split(), metavar=shown or None, help=what, **told, **settings)


def path_option(declared: str, shown: str, what: str, **settings: Any) -> Decorator:
    """An option whose argument is a path."""
    return option(declared, shown, what, type=PATH, **settings)


def listed_option(declared: str, shown: str, what: str, **settings: Any) -> Decorator:
    """An option with comma-separated values, whose argument is a tuple."""
    return option(declared, shown, what, callback=listed, **settings)


def count_option(declared: str, what: str, **settings: Any) -> Decorator:
    """An option whose value is a whole number above 0."""
    return option(declared, "N", what, type=COUNT, **settings)


def flag(declared: str, what: str) -> Decorator:
    """An option without a value."""
    return option(declared, "", what, is_flag=True)


def settings_option(what: str) -> Decorator:
    """The option --set, for the argument `settings`: a dictionary of names and values.

    A value is written as in TOML. A word needs no quotes.
    """

    def read(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, Any]:
        found = {}
        for word in listed(ctx, parameter, ",".join(values) if values else None):
            name, equals, text = word.partition("=")
            if not equals:
                raise InputError(f"--set {word}: must be NAME=VALUE, such as --set workers=4.")
            found[name.strip().replace("-", "_")] = _value_of(text.strip())
        return found

    return option("--set settings", "NAME=VALUE,...", what, multiple=True, callback=read)


def _value_of(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def constraint_option(what: str) -> Decorator:
    """The option --constraint, for the argument `constraints`. It may be given several times."""
    told = f"{what}; METRIC>=NUMBER works as well."
    return option("--constraint constraints", "METRIC<=NUMBER", told, multiple=True)


def format_option(*forms: str) -> Decorator:
    """The option --format, for the argument `form`; its default is the first form."""

    def known(ctx: click.Context, parameter: click.Parameter, form: str) -> str:
        check_known("format", [form], forms)
        return form

    *most, last = forms
    names = f"{', '.join(most)} or {last}." if most else f"{last}."
    return option("--format form", "FORMAT", names, forms[0], callback=known)


def seed_option(what: str = "Root seed.") -> Decorator:
    """The option --seed."""
    return option("--seed", "N", what, 0, type=NATURAL)


explain_option = flag("--explain", "Explain how figures, intervals and tests are made.")
backend_option = option("--backend", "BACKEND", "local (this machine), dask or ray.", "local")
