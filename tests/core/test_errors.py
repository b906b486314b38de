"""Messages for people: one line, the nearest valid name, and nothing that is too long to read."""

from __future__ import annotations

import pytest

from hpobench_nmt.core.system.errors import InputError, RunError, foreign, one_line, shortened, unknown


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("bad\n  news\t!"), "ValueError: bad news !"),
        (KeyError("lr"), "KeyError: 'lr'"),
        (RuntimeError(), "RuntimeError:"),
        (InputError("\x1b[31m\udce9"), r"InputError: \x1b[31m\udce9"),
        (ValueError("x" * 300), "ValueError: " + "x" * 188),
        (ValueError("x" * 188), "ValueError: " + "x" * 188),
        (ValueError("\x1b" * 100), "ValueError: " + r"\x1b" * 47),
    ],
    ids=["lines", "quotes", "no message", "escaped", "cut", "just fits", "cut when it is escaped"],
)
def test_any_error_is_one_line(error, line):
    assert one_line(error) == line


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError("thrift:\n no header"), "a.csv: not a table (OSError: thrift: no header)."),
        (KeyError("x"), "a.csv: not a table (KeyError: 'x')."),
        (RecursionError(), "a.csv: has values that are nested too deeply."),
        (InputError("column 'x' is empty."), "a.csv: column 'x' is empty."),
        (InputError("a.csv, line 3: no number."), "a.csv, line 3: no number."),
    ],
)
def test_whatever_a_reader_raises_names_the_file(error, message):
    with pytest.raises(InputError) as told, foreign("a.csv", "not a table"):
        raise error
    assert str(told.value) == message
    with pytest.raises(RunError, match="no network"), foreign("a.csv", "not a table"):
        raise RunError("no network")


def test_what_a_message_quotes_leaves_it_one_line_that_ends_with_the_advice():
    quoted = "[\n" * 50_000
    message = str(InputError(f"a.csv: {quoted} cannot be used. Export it again."))
    assert len(message) < 1000 and len(message.splitlines()) == 1
    assert message.startswith(r"a.csv: [\n[\n") and message.endswith("cannot be used. Export it again.")


def test_an_error_whose_message_cannot_be_read_is_one_line_too():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError("no words")

    assert one_line(Mute()) == "Mute: (its message cannot be read)"


@pytest.mark.parametrize(
    ("name", "valid", "message"),
    [
        ("zh-eng", ["ja-en", "zh-en"], "unknown table 'zh-eng'. Did you mean 'zh-en'?"),
        ("ZH-EN", ["ja-en", "zh-en"], "unknown table 'ZH-EN'. Did you mean 'zh-en'?"),
        ("zh-en", ["JA-EN", "ZH-EN"], "unknown table 'zh-en'. Did you mean 'ZH-EN'?"),
        # Half of the letters in common are enough; fewer are not.
        ("abxx", ["abyy"], "unknown table 'abxx'. Did you mean 'abyy'?"),
        ("axxx", ["ayyy"], "unknown table 'axxx'. Known: ayyy."),
        ("q", ["zh-en", "ja-en"], "unknown table 'q'. Known: ja-en, zh-en."),
        ("q", ["\x1b"], r"unknown table 'q'. Known: \x1b."),
        ("q", [], "unknown table 'q'."),
    ],
)
def test_a_wrong_name_gets_the_nearest_one_or_all(name, valid, message):
    assert str(unknown("table", name, valid)) == message
    assert str(unknown("table", name, iter(valid), "Try x.")) == f"{message} Try x."


def test_names_are_shown_with_their_prefix():
    error = unknown("key", "tolerence", ["tolerance"], prefix="metrics.bleu.")
    assert str(error) == "unknown key 'metrics.bleu.tolerence'. Did you mean 'metrics.bleu.tolerance'?"


@pytest.mark.parametrize(("n_names", "rest"), [(30, "."), (31, " and 1 more."), (1530, " and 1,500 more.")])
def test_of_many_names_thirty_are_listed(n_names, rest):
    names = [f"n{i:04}" for i in range(n_names)]
    message = str(unknown("table", "?", reversed(names)))
    assert message == f"unknown table '?'. Known: {', '.join(names[:30])}{rest}"


def test_a_long_name_is_cut_in_a_message():
    assert shortened("x" * 100) == f"'{'x' * 100}'"
    assert shortened("x" * 101) == f"'{'x' * 100}'…"
    assert shortened("a\n") == r"'a\n'"
    # What is cut off does not keep the nearest name from being found.
    near = "y" * 60 + "x" * 40
    assert f"Did you mean '{near}'?" in str(unknown("key", near + "z" * 1000, [near, "other"]))


def test_an_empty_name_is_never_the_nearest():
    assert str(unknown("column", "valu", ["", "value"])) == "unknown column 'valu'. Did you mean 'value'?"
    assert str(unknown("column", "x", ["", "value"])) == "unknown column 'x'. Known: value."
