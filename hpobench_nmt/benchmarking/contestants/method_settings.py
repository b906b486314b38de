"""Settings of methods, written after a name: `BO_EI_M_std(length_scale=0.5)`.

A program's settings are written before its command: `cmd(names="hidden"):python agent.py`.

A method's settings are the fields of its dataclass, such as those of hpobench_nmt.methods.gaussian_process,
or else the parameters of its class or function after (problem, rng). A setting has a default, which is a
number, a string, or true or false, and takes values of that kind.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import math
import re
from collections.abc import Mapping
from typing import Any

from hpobench_nmt.core.problem import MethodFactory
from hpobench_nmt.core.system.errors import InputError, check_known, shortened
from hpobench_nmt.core.system.files import check_name

Setting = bool | int | float | str

_SPEC = re.compile(r"(?P<base>.+)\((?P<settings>[^()]*)\)\s*", re.DOTALL)
_OF_PROGRAM = re.compile(r"cmd(?:\((?P<settings>[^()]*)\))?:(?P<command>.*)", re.DOTALL)
_LONGEST = 500
_WORDS = {"true": True, "false": False}
_OWN = ("name", "standardise", "influence", "command")
"""Fields that cannot be set in parentheses: each of their values has a method name of its own."""


def command_of(spec: str) -> str | None:
    """The command of a method that is a program, such as `cmd:python agent.py`; None for any other method."""
    match = _OF_PROGRAM.fullmatch(spec)
    return match["command"].strip() if match else None


def split_spec(spec: str) -> tuple[str, dict[str, Setting]]:
    """The name, and the settings in parentheses after it; InputError unless they are setting=value, ...."""
    program = _OF_PROGRAM.fullmatch(spec)
    if program is not None and program["settings"] is None:
        return spec, {}
    match = program or _SPEC.fullmatch(spec)
    if match is None:
        return spec, {}
    base = f"cmd:{program['command']}" if program else match["base"].strip()
    wrong = InputError(
        f"method {shortened(spec)}: settings are written NAME(setting=value, ...), and a value is a number, "
        "true, false or a string in quotes."
    )
    if len(spec) > _LONGEST:
        raise wrong
    try:
        call = ast.parse(f"f({match['settings']})", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise wrong from None
    if not isinstance(call, ast.Call) or call.args:
        raise wrong
    found: dict[str, Setting] = {}
    for keyword in call.keywords:
        value = _value(keyword.value)
        if keyword.arg is None or keyword.arg in found or value is None:
            raise wrong
        found[keyword.arg] = value
    return base, found


def spec_text(base: str, settings: Mapping[str, Setting]) -> str:
    """The text that `split_spec` reads."""
    return with_text(base, _settings_text(settings))


def _settings_text(settings: Mapping[str, Setting]) -> str:
    return ", ".join(f"{key}={shown(value)}" for key, value in settings.items())


def with_text(base: str, settings: str) -> str:
    """A spec with settings that are text already."""
    if not settings:
        return base
    command = command_of(base)
    return f"{base}({settings})" if command is None else f"cmd({settings}):{command}"


def settings_of(factory: Any) -> dict[str, Setting]:
    """The settings that a method has, with their defaults."""
    if dataclasses.is_dataclass(factory) and not inspect.isclass(factory):
        names = (each.name for each in dataclasses.fields(factory) if each.init and each.name not in _OWN)
        found = {name: getattr(factory, name) for name in names}
    else:
        try:
            parameters = list(inspect.signature(factory).parameters.values())[2:]
        except (TypeError, ValueError):  # compiled code may lack a signature
            return {}
        named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        found = {each.name: each.default for each in parameters if each.kind in named}
    return {name: value for name, value in found.items() if type(value) in (bool, int, float, str)}


def with_settings(base: str, factory: Any, given: Mapping[str, Setting]) -> tuple[MethodFactory, str, str]:
    """A method of this name with other settings than the defaults of its factory.

    Returns:
        its factory; its name, which is a valid file name, such as "BO_EI_M_std+length_scale-0.5"; and the
        settings that differ from the defaults as text, in the order in which the method declares them.

    Raises:
        InputError: there is no such setting, or it cannot have this value.
    """
    known = settings_of(factory)
    hint = f"(method {base!r})" if known else f"Method {base!r} has no settings."
    check_known("setting", given, known, hint)
    chosen = {name: _checked(base, name, given[name], known[name]) for name in known if name in given}
    chosen = {name: value for name, value in chosen.items() if value != known[name]}
    if not chosen:
        return factory, base, ""
    words = (f"{key}-{value if isinstance(value, str) else shown(value)}" for key, value in chosen.items())
    name = check_name("method", "+".join([base, *words]))
    text = _settings_text(chosen)
    if dataclasses.is_dataclass(factory) and not inspect.isclass(factory):
        named = {"name": name} if hasattr(factory, "name") else {}
        return dataclasses.replace(factory, **chosen, **named), name, text  # type: ignore[return-value]

    make: Any = functools.partial(factory, **chosen)  # a partial, from which its class can be found
    make.__name__ = name
    return make, name, text


def _value(node: ast.expr) -> Setting | None:
    """The value of a literal; None for any other expression."""
    if isinstance(node, ast.Name):
        return _WORDS.get(node.id)
    try:
        value: Any = ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError, MemoryError):
        return None
    return value if type(value) in (bool, int, float, str) else None


def shown(value: Setting) -> str:
    """A value as it is written in a spec."""
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _checked(base: str, name: str, value: Setting, default: Setting) -> Setting:
    """The value in the type of the default; InputError if it has another type or is not finite."""
    kinds = {bool: "true or false", int: "a whole number", float: "a number", str: "a string in quotes"}
    if type(default) is float and type(value) is int and abs(value) < 2**53:
        value = float(value)
    if type(value) is not type(default) or (isinstance(value, float) and not math.isfinite(value)):
        wanted = kinds[type(default)]
        raise InputError(
            f"method {base!r}: {name} must be {wanted}, such as {shown(default)}, not {shown(value)}."
        )
    return value
