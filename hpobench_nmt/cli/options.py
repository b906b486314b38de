"""Options that several commands have, and the types of their values."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from hpobench_nmt.core.system.errors import InputError, unknown
from hpobench_nmt.core.system.text import split_names

PATH = click.Path(path_type=Path)
COUNT = click.IntRange(min=1)
JOIN_WITH_COMMAS = "Join the values of an option with commas, as in --methods RS,BO_EI_M."
"""The hint for a word that may be an option's second value."""


def listed(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    """The comma-separated values of an option."""
    named = tuple(split_names(value or ""))
    if value is not None and not named:
        advice = "" if parameter.required else " Leave it out to use the default."
        raise InputError(f"{parameter.opts[-1]} is empty.{advice}")
    return named


def listed_option(*names: str, **settings: Any) -> Callable[[Any], Any]:
    """An option with comma-separated values, whose argument is a tuple."""
    return click.option(*names, callback=listed, **settings)


def settings_option(what: str) -> Callable[[Any], Any]:
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

    options: Any = {"multiple": True, "metavar": "NAME=VALUE,...", "help": what, "callback": read}
    return click.option("--set", "settings", **options)


def _value_of(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def count_option(*names: str, **settings: Any) -> Callable[[Any], Any]:
    """An option whose value is a whole number above 0. The help shows its default if it has one."""
    return click.option(*names, type=COUNT, metavar="N", show_default="default" in settings, **settings)


def constraint_option(what: str) -> Callable[[Any], Any]:
    """The option --constraint, for the argument `constraints`. It may be given several times."""
    options: Any = {
        "multiple": True,
        "metavar": "METRIC<=NUMBER",
        "help": f"{what}; METRIC>=NUMBER works as well.",
    }
    return click.option("--constraint", "constraints", **options)


def format_option(*forms: str) -> Callable[[Any], Any]:
    """The option --format, for the argument `form`; its default is the first form."""

    def known(ctx: click.Context, parameter: click.Parameter, form: str) -> str:
        if form not in forms:
            raise unknown("format", form, forms)
        return form

    *most, last = forms
    names = f"{', '.join(most)} or {last}." if most else f"{last}."
    shown: Any = {"metavar": "FORMAT", "default": forms[0], "show_default": True, "help": names}
    return click.option("--format", "form", callback=known, **shown)


def seed_option(what: str = "Root seed.") -> Callable[[Any], Any]:
    """The option --seed."""
    return click.option(
        "--seed", type=click.IntRange(min=0), metavar="N", default=0, show_default=True, help=what
    )


explain_option = click.option(
    "--explain",
    is_flag=True,
    help="Explain how figures, intervals and tests are made.",
)
backend_option = click.option(
    "--backend",
    metavar="BACKEND",
    default="local",
    show_default=True,
    help="local (this machine), dask or ray.",
)
