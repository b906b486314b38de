"""Content from anywhere becomes a typed value, or one line that says what is wrong and where."""

from __future__ import annotations

import datetime
import json
import math
import os
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta

from hpobench_nmt.core.hyperparameter import Hyperparameter
from hpobench_nmt.core.system.errors import InputError
from hpobench_nmt.core.system.files import _parsed, parse_json, read_bytes, read_json
from hpobench_nmt.core.system.validation import (
    LARGEST,
    Finite,
    Natural,
    NonNegative,
    Positive,
    Strict,
    Whole,
    checked,
    load_json,
    load_toml,
)


class Metric(Strict, frozen=True):
    direction: Literal["min", "max"]
    missing: Finite | None = None
    tolerance: NonNegative | None = None
    names: tuple[str, ...] = ()
    share: Annotated[float, Meta(ge=0, le=1)] = 0.5
    rate: Annotated[float, Meta(gt=0, le=LARGEST)] = 1.0
    inner: Metric | None = None


class Sheet(Strict, frozen=True):
    metrics: dict[str, Metric]
    count: Natural = 0
    trials: Positive = 1
    seed: Whole = 0
    complete: bool = False
    tables: list[str] | Literal["installed"] = "installed"

    def __post_init__(self) -> None:
        if self.count == 13:
            raise InputError("13 is not a good count.")


def wrong(content: Any, kind: Any = Sheet) -> str:
    with pytest.raises(InputError) as error:
        checked(content, kind, "FILE")
    message = str(error.value)
    assert len(message.splitlines()) == 1
    assert len(message) < 400
    return message


def test_good_content_becomes_a_frozen_value():
    sheet = checked(
        {"metrics": {"bleu": {"direction": "max", "missing": 0, "names": ["a"]}}, "tables": ["x"]},
        Sheet,
        "FILE",
    )
    assert sheet == Sheet(metrics={"bleu": Metric("max", missing=0.0, names=("a",))}, tables=["x"])
    assert type(sheet.metrics["bleu"].missing) is float
    with pytest.raises(AttributeError):
        sheet.count = 3


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (True, "True"),
        (math.nan, "nan"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        ("1", "'1'"),
        ([1], "[1]"),
        pytest.param(10**400, "1000", id="400 digits"),
        pytest.param(10**5000, "such a large number", id="5000 digits"),
    ],
)
def test_only_a_finite_number_is_a_number(value, shown):
    message = wrong(
        {"metrics": {"bleu": {"direction": "max"}, "ppl": {"direction": "min", "missing": value}}}
    )
    assert message.startswith(f"FILE: metrics.ppl.missing must be a finite number, not {shown}")


@pytest.mark.parametrize("value", [True, 1.0, 1.5, "1", 2**63, -(2**63), None, [], {}])
def test_only_a_whole_number_of_64_bits_is_one(value):
    assert wrong({"metrics": {}, "seed": value}).startswith("FILE: seed must be a whole number, not ")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"count": -1}, "count must be a whole number of 0 or more, not -1."),
        ({"trials": 0}, "trials must be a whole number of 1 or more, not 0."),
        ({"complete": 1}, "complete must be true or false, not 1."),
        ({"tables": "instaled"}, "tables must be a list of strings or 'installed', not 'instaled'."),
        ({"tables": ["a", 3]}, "tables[1] must be a string, not 3."),
        ({"metrics": []}, "metrics must be a section of sections, not []."),
        ({"metrics": {"m": []}}, "metrics.m must be a section, not []."),
        ({"metrics": {"m": {"direction": "up"}}}, "metrics.m.direction must be 'max' or 'min', not 'up'."),
        ({"metrics": {"m": {}}}, "metrics.m.direction is missing; it must be 'max' or 'min'."),
        (
            {"metrics": {"m": {"direction": "min", "tolerance": -1}}},
            "metrics.m.tolerance must be a finite number of 0 or more, not -1.",
        ),
        (
            {"metrics": {"m": {"direction": "min", "share": 2}}},
            "metrics.m.share must be a finite number from 0 to 1, not 2.",
        ),
        (
            {"metrics": {"m": {"direction": "min", "rate": 0}}},
            "metrics.m.rate must be a finite number above 0, not 0.",
        ),
        (
            {"metrics": {"m": {"direction": "min", "names": 3}}},
            "metrics.m.names must be a list of strings, not 3.",
        ),
        (
            {"metrics": {"m": {"direction": "min", "inner": {"direction": "min", "names": ["", {}]}}}},
            "metrics.m.inner.names[1] must be a string, not {}.",
        ),
        ({"metrics": {"a b\x1b": {"direction": 3}}}, r"metrics.'a b\x1b'.direction must be"),
        ({"count": 13}, "13 is not a good count."),
        ({"metrics": {3: {}}}, "metrics: a key in it cannot be used"),
    ],
)
def test_the_message_says_where_and_what_is_expected(content, message):
    assert wrong({"metrics": {}} | content).startswith(f"FILE: {message}")


class Pair(Strict, frozen=True):
    low: float
    high: float

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise InputError("low is above high.")


GOOD, BAD = {"low": 1, "high": 2}, {"low": 2, "high": 1}


@pytest.mark.parametrize(
    ("kind", "content", "message"),
    [
        (dict[str, Pair], {"a": GOOD, "b": BAD}, "b: low is above high."),
        (list[dict[str, Pair]], [{"a": GOOD}, {"b": GOOD, "c": BAD}, {}], "[1].c: low is above high."),
        (list[list[Natural]], [[1], 2], "[1] must be a list of whole numbers of 0 or more, not 2."),
        (list[list[bool]], 3, "the content must be a list of lists of true or false, not 3."),
        (dict[str, dict[str, str]], [], "the content must be a section of sections of strings, not []."),
        (list[datetime.date], 3, "the content must be a list of values, not 3."),
        (list[datetime.date], [3], "[0] must be another value, not 3."),
        (dict[str, int], {"k" * 60: ""}, f"{'k' * 60} must be a whole number, not ''."),
        (dict[str, int], {"k" * 61: ""}, f"'{'k' * 60}…' must be a whole number, not ''."),
        (Pair | None, {"low": 1}, "high is missing; it must be a finite number."),
    ],
)
def test_places_and_kinds_of_many_shapes(kind, content, message):
    assert wrong(content, kind) == f"FILE: {message}"


def test_what_is_no_section_at_all():
    assert wrong([]) == "FILE: the content must be a section, not []."
    assert wrong({}) == "FILE: metrics is missing; it must be a section of sections."


def test_an_unknown_key_gets_the_nearest_one():
    assert wrong({"metrics": {}, "cuont": 3}) == "unknown key 'cuont'. Did you mean 'count'? (FILE)"
    assert wrong({"metrics": {"m": {"direction": "min", "toleranc": 3}}}) == (
        "unknown key 'metrics.m.toleranc'. Did you mean 'metrics.m.tolerance'? (FILE)"
    )
    assert wrong({"metrics": {"m": {"zzz": 3}}}).startswith(
        "unknown key 'metrics.m.zzz'. Known: direction, inner"
    )
    assert wrong({"a` - at `$.count`": 1, "metrics": {}}).startswith("unknown key 'a` - at `$.count`'. ")
    assert wrong({"k" * 10**6: 1, "metrics": {}}).startswith(f"unknown key '{'k' * 100}'…")


def test_the_key_is_found_among_many_and_before_later_faults():
    good, bad = {"direction": "min"}, {"direction": "min", "missing": "?"}
    for place in (0, 1, 500, 998, 999):
        metrics = {f"m{i}": bad if i == place else good for i in range(1000)} | {"z": {}}
        assert wrong({"metrics": metrics}).startswith(f"FILE: metrics.m{place}.missing must be")


def test_depth_and_surrogates_are_one_line():
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert wrong({"metrics": deep}).startswith("FILE: metrics must be a section of sections, not [[[")
    assert (
        wrong({"metrics": {"m": {"direction": "\ud800"}}})
        == "FILE: contains a lone surrogate, which is not a character."
    )
    too_long = [[1.0, 2.0, "\ud800", 4.0]]
    assert "a lone surrogate" in wrong(too_long, list[tuple[float, float, float]])
    nested: Any = {"direction": "min"}
    for _ in range(100_000):
        nested = {"direction": "min", "inner": nested}
    assert wrong({"metrics": {"m": nested}}) == "FILE: nested too deeply."


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["min", "max"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*Sheet.__struct_fields__, *Metric.__struct_fields__]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(st.fixed_dictionaries({"metrics": st.dictionaries(st.text(max_size=5), JSON, max_size=4)}) | JSON)
def test_any_content_gives_a_value_or_one_line(content):
    try:
        assert isinstance(checked(content, Sheet, "FILE"), Sheet)
    except InputError as error:
        assert len(str(error).splitlines()) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a = ", "not valid TOML: Invalid value"),
        (b"a = 1\na = 2", "not valid TOML: Cannot overwrite a value"),
        (b"a = " + b"[" * 100_000, "not valid TOML: nested too deeply."),
        (b"a = " + b"9" * 5000, "not valid TOML: Exceeds the limit (4300 digits)"),
        (b"a = '\xff'", "not UTF-8 text (invalid start byte at byte 5)."),
    ],
)
def test_toml_that_cannot_be_read_is_one_line(tmp_path, content, message):
    path = tmp_path / "f.toml"
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        load_toml(path, Sheet)
    assert str(error.value).startswith(f"{path}: {message}")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "not valid JSON: Expecting property name"),
        (b'{"a": NaN}', "not valid JSON: NaN is not a number of JSON."),
        (b'{"a": -Infinity}', "not valid JSON: -Infinity is not a number of JSON."),
        (b'{"a": {"b": 1, "b": 1}}', "not valid JSON: the key 'b' occurs twice."),
        (b"[" * 100_000, "not valid JSON: nested too deeply."),
        (b"9" * 5000, "not valid JSON: Exceeds the limit (4300 digits)"),
        (b'"\xff"', "not UTF-8 text (invalid start byte at byte 1)."),
        (b"null", "the content must be a section, not None."),
        (
            b'{"metrics": {"m": {"direction": "min", "missing": 1e999}}}',
            "metrics.m.missing must be a finite number",
        ),
    ],
)
def test_json_that_cannot_be_read_is_one_line(tmp_path, content, message):
    path = tmp_path / "f.json"
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        load_json(path, Sheet)
    assert str(error.value).startswith(f"{path}: {message}")


def test_a_parsers_reason_is_a_sentence_without_its_advice():
    def parse(text):
        raise ValueError(text)

    for text in (b"wrong", b"wrong.", b"wrong; call f() to allow it"):
        with pytest.raises(InputError, match=r"^f: not valid JSON: wrong\.$"):
            _parsed(parse, text, "utf-8", "JSON", "f")


def test_what_is_written_is_read(tmp_path):
    content = {"metrics": {"m": {"direction": "min", "missing": 0.1}}, "seed": 2**62}
    (tmp_path / "f.json").write_text(json.dumps(content))
    assert load_json(tmp_path / "f.json", Sheet).seed == 2**62
    assert parse_json(json.dumps(content).encode(), "line 3") == content


def test_only_ordinary_files_of_bounded_size_are_read(tmp_path):
    path, link, pipe = tmp_path / "f", tmp_path / "link", tmp_path / "pipe"
    path.write_bytes(b"12345")
    link.symlink_to(path)
    os.mkfifo(pipe)
    assert read_bytes(path, limit=5) == b"12345"
    assert read_bytes(link) == b"12345"
    for file, options, message in (
        (path, {"limit": 4}, "larger than 4 bytes"),
        (link, {"follow_link": False}, "symbolic link, which is not followed"),
        (pipe, {}, "is not a file"),
        (tmp_path, {}, "Is a directory|is not a file"),
        (tmp_path / "none", {}, "cannot be read: No such file"),
        (tmp_path / "a\0b", {}, "cannot be the name of a file"),
    ):
        with pytest.raises(InputError, match=message):
            read_bytes(file, **options)
    path.write_bytes(b'{"metrics": {}}')
    assert read_json(link) == {"metrics": {}}
    assert load_json(link, Sheet) == load_json(path, Sheet, follow_link=False) == Sheet({})
    (tmp_path / "toml").write_bytes(b"[metrics]")
    (tmp_path / "link to toml").symlink_to(tmp_path / "toml")
    assert load_toml(tmp_path / "link to toml", Sheet) == Sheet({})
    for read in (load_toml, load_json):
        with pytest.raises(InputError, match="symbolic link"):
            read(link, Sheet, follow_link=False)


def test_a_field_that_a_dataclass_lacks_is_named():
    with pytest.raises(InputError, match=r"^here: .*name is missing\.$"):
        checked([{"values": [1, 2]}], list[Hyperparameter], "here")
