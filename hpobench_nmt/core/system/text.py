"""Texts of unknown origin, shown so that no character acts on a terminal, a page or a spreadsheet.

Names of tables, columns and units must not hold such characters (`check_label` in files.py). Free texts, such
as provenance and error messages, are shown with them escaped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Sequence

# Control characters, which move a terminal's cursor; marks that change the writing direction; invisible
# characters; lone surrogates, which no file can hold; and code points that XML forbids. The joiners
# U+200C and U+200D are allowed, because words of several languages need them.
_XML_FORBIDS = "".join(chr(plane * 0x10000 + end) for plane in range(17) for end in (0xFFFE, 0xFFFF))
UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufdd0-\ufdef\ufeff\ufff9-\ufffb"
    f"\U000e0000-\U000e007f\ud800-\udfff{_XML_FORBIDS}]"
)
# A spreadsheet runs a text cell that begins with one of these, in some programs also after spaces.
_FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]")
VAST = 1e9
"""From this size on, numbers are written as 2.17e+11, because nobody counts eleven digits."""
# A message names at most this many of several names.
_MOST_NAMES = 5
NONE = "–"
"""Stands for "no value"."""


def printable(text: str, lines: bool = False) -> str:
    r"""The text with unsafe characters as escapes such as \x1b or \u202e; with `lines`, \n and \t stay."""
    return UNSAFE.sub(lambda found: escape(found[0], lines), text)


def escape(character: str, lines: bool = False) -> str:
    """One unsafe character as an escape; line ends and tabs are kept if lines is set."""
    return character if lines and character in "\n\t" else ascii(character)[1:-1]


def brief(value: object, longest: int = 80) -> str:
    """A value of any type as Python writes it, in at most this many characters, for a message."""
    return printable(repr(value))[:longest]


def csv_cell(text: str) -> str:
    """The text as a CSV cell: printable, with a ' before it if a spreadsheet would run it. Numbers stay."""
    shown = printable(text, lines=True)
    return f"'{shown}" if _FORMULA.match(shown) and not shows_number(shown) else shown


def counted(count: int, noun: str, several: str = "") -> str:
    """A number of things: "1 row", "1,234 rows". `several` is the plural if it is not noun and "s"; with a
    verb in both, "1 row has" and "2 rows have".
    """
    return f"{count:,} {noun if count == 1 else several or noun + 's'}"


def short(value: float, digits: int = 3, unit: str = "", commas: bool = False) -> str:
    """A measured or computed number with a few significant digits and its unit, if any; a dash for NaN.

    All digits before the decimal point are shown, with `commas` between thousands. A value that a user has
    set, such as a budget, is written in full elsewhere.
    """
    if math.isnan(value):
        text = NONE
    elif math.isinf(value):
        text = "∞" if value > 0 else "−∞"
    elif abs(value) >= VAST:
        text = f"{value:.{digits}g}"
    elif abs(value) >= 10**digits:
        text = f"{value:,.0f}" if commas else f"{value:.0f}"
    else:
        text = f"{value:.{digits}g}"
        text = f"{value:.0f}" if "e+" in text else text
    return f"{text} {unit}".rstrip()


def some_of(names: Sequence[str], most: int = _MOST_NAMES) -> str:
    """The first names, and how many more there are."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def free_name(name: str, taken: Container[str]) -> str:
    """A name that is not taken: the name itself, followed by as many "_" as it needs."""
    while name in taken:
        name += "_"
    return name


def number_of(text: str) -> float:
    """The number that a text represents, as Python's float() reads it, without underscores as in 64_64.

    Raises ValueError if it is not a number.
    """
    if "_" in text:
        raise ValueError(f"could not convert string to float: {text!r}")
    return float(text)


def shows_number(text: str) -> bool:
    """Whether `number_of` reads the text as a number."""
    try:
        number_of(text)
    except ValueError:
        return False
    return True


def split_names(text: str) -> list[str]:
    """The comma-separated parts of a text. A comma in parentheses or quotes is part of one."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif depth and character in "'\"":
            quote = character
        elif character in "()":
            depth = max(depth + (1 if character == "(" else -1), 0)
        elif character == "," and not depth:
            parts.append("")
            continue
        parts[-1] += character
    return [part.strip() for part in parts if part.strip()]
