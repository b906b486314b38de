"""Old names of commands and options: each is replaced by one that exists, and is hidden."""

import warnings
from pathlib import Path

import click
import pytest

from hpobench_nmt.cli.main import cli
from hpobench_nmt.cli.old_names import _COMMANDS, _OPTIONS, renewed


def leaves(command=cli, path=()):
    if not isinstance(command, click.Group):
        return {" ".join(path): command}
    return {k: v for name, sub in command.commands.items() for k, v in leaves(sub, (*path, name)).items()}


def options_of(command):
    return {name for p in command.params if isinstance(p, click.Option) and not p.hidden for name in p.opts}


def renew(*words):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        return renewed(words), [str(warning.message) for warning in caught]


@pytest.mark.parametrize("old", _COMMANDS)
def test_an_old_command_leads_to_a_new_one(old):
    words, (message,) = renew(*old.split(), "place")
    assert old not in leaves() and words[-1] == "place"
    command = next(leaves()[name] for k in (1, 2) if (name := " ".join(words[:k])) in leaves())
    assert {word for word in words if word.startswith("-")} <= options_of(command)
    new = " ".join(words[:-1])
    assert message == (
        f"{old} is deprecated since version 1.2 and will be removed in version 2.0: use {new}."
    )


@pytest.mark.parametrize("command", _OPTIONS)
def test_every_old_option_leads_to_a_new_one(command):
    there = options_of(leaves()[command])
    for old, new in _OPTIONS[command].items():
        assert old not in there
        value = ["7"] if "{}" in new else []
        words, messages = renew(*command.split(), old, *value, "x")
        assert words == [*command.split(), *new.format("7").split(), "x"] and len(messages) == 1
        assert words[len(command.split())] in there


def test_a_value_may_follow_an_equals_sign_and_other_programs_keep_their_words():
    assert renew("run", "--workers=4", "--trials", "2")[0] == ["run", "--set", "workers=4", "--trials", "2"]
    assert renew("run", "--", "--workers", "4")[0] == ["run", "--", "--workers", "4"]
    assert renew("run", "--workers")[0] == ["run", "--set", "workers="]
    assert renew() == ([], [])


def test_what_is_visible_is_few():
    every = leaves()
    assert len(every) <= 31
    assert len({name for each in every.values() for name in options_of(each) if name.startswith("--")}) <= 50


@pytest.mark.parametrize("page", ["CHANGELOG.md", "docs/reference/promises.md"])
def test_the_pages_for_users_of_older_versions_name_every_old_name(page):
    text = (Path(__file__).parents[2] / page).read_text(encoding="utf-8")
    assert [
        old for old in {*_COMMANDS, *(name for of in _OPTIONS.values() for name in of)} if old not in text
    ] == []
