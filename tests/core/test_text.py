"""Texts of unknown origin never act on a terminal, a page or a spreadsheet."""

from __future__ import annotations

import unicodedata
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpobench_nmt.core.system.errors import InputError, one_line
from hpobench_nmt.core.system.files import check_label
from hpobench_nmt.core.system.text import counted, csv_cell, escape, printable

ANYTHING = st.text(st.characters(codec=None, exclude_categories=()))
UNSAFE = [
    "\x1b",
    "\x00",
    "\x7f",
    "\x9b",
    "\u2028",
    "\u202e",
    "\u2066",
    "\u200b",
    "\udce9",
    "\ufeff",
    "\uffff",
]
UNSAFE += ["\u061c", "\U000e0041", "\U0010fffe"]
SAFE = ["BLEU", "größe", "日本語", "ms⁻¹", "👩\u200d💻", "नी\u200cव", "%", "$ / h", "a\\b"]


def test_one_thing_and_several():
    assert [counted(n, "row") for n in (0, 1, 2, 1234)] == ["0 rows", "1 row", "2 rows", "1,234 rows"]
    assert [counted(n, "loss", "losses") for n in (1, 2)] == ["1 loss", "2 losses"]


def test_unsafe_characters_are_shown_as_escapes():
    assert printable("\x1b[31mred\x1b[0m") == r"\x1b[31mred\x1b[0m"
    assert printable("caf\udce9 \u202e") == r"caf\udce9 \u202e"
    assert printable("a\nb\tc\r") == r"a\nb\tc\r"
    assert printable("a\nb\tc\r", lines=True) == "a\nb\tc\\r"


@pytest.mark.parametrize("text", SAFE)
def test_other_texts_stay_as_they_are(text):
    assert printable(text) == csv_cell(text) == check_label("unit", text) == text


@settings(max_examples=500, deadline=None)
@given(ANYTHING)
def test_what_is_printable_can_be_saved_and_is_valid_xml(text):
    shown = printable(text, lines=True)
    shown.encode("utf-8")
    element = ET.Element("a")
    element.text = shown
    assert ET.fromstring(ET.tostring(element, encoding="unicode")).text == (shown or None)
    assert not any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in printable(text))
    assert not any(unicodedata.bidirectional(c) in ("LRE", "RLO", "PDF", "RLI", "FSI", "PDI") for c in shown)
    assert printable(shown, lines=True) == shown


@pytest.mark.parametrize("text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "  =1", "\t=1", "＝1"])
def test_a_spreadsheet_runs_no_cell(text):
    assert csv_cell(text) == f"'{text}"


@pytest.mark.parametrize("text", ["-3.5", "+2", "-1e-5", "a=b", "BO_EI_M", "", "1-2"])
def test_numbers_and_other_texts_are_cells_as_they_are(text):
    assert csv_cell(text) == text


@pytest.mark.parametrize("character", UNSAFE)
def test_a_label_with_an_unsafe_character_is_refused(character):
    with pytest.raises(InputError, match=r"unit .* contains the character") as error:
        check_label("unit", f"s{character}")
    assert str(error.value) == printable(str(error.value))


@pytest.mark.parametrize(
    ("text", "message"), [(" s", "space"), ("s ", "space"), ("s" * 201, "201 characters")]
)
def test_other_labels_that_are_refused(text, message):
    with pytest.raises(InputError, match=message):
        check_label("unit", text)
    assert check_label("unit", "s" * 200)


class Silent(Exception):
    def __str__(self):
        raise RuntimeError


def test_any_error_is_one_line_that_can_be_saved():
    assert one_line(ValueError("caf\udce9\n\x1b[0m")) == r"ValueError: caf\udce9 \x1b[0m"
    assert one_line(Silent()) == "Silent: (its message cannot be read)"
    assert len(one_line(ValueError("x" * 10**7))) == 200


def test_one_character_as_an_escape():
    assert [escape(c) for c in "\n\t\x1b"] == [r"\n", r"\t", r"\x1b"]
    assert [escape(c, lines=True) for c in "\n\t\x1b"] == ["\n", "\t", r"\x1b"]
