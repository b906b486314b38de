"""Words and punctuation of a line, for languages written with spaces; characters for Chinese and Japanese."""

from __future__ import annotations

import re
from functools import cache
from itertools import chain
from unicodedata import category

# Kana, Han with its extensions, and the marks that repeat or lengthen a character.
_HAN = "[\u3005\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
_JOINERS = "\u200c\u200d"  # inside words of Persian and of Indian languages


@cache
def _token() -> re.Pattern[str]:
    """A token. `\\w` lacks combining marks, such as accents that follow their letter, or vowels of Hindi."""
    codes = chain(range(0x300, 0x20000), range(0xE0100, 0xE01F0))
    marks = (chr(code) for code in codes if category(chr(code)) in ("Mn", "Mc", "Me"))
    mark = f"[{_JOINERS}{''.join(marks)}]"
    letter = rf"(?:(?!{_HAN})\w{mark}*)"
    word = rf"{letter}+(?:[-.'’]{letter}+)*"
    return re.compile(rf"{_HAN}{mark}*|\d+(?:[.,:]\d+)+(?!\w){mark}*|{word}|\.\.\.{mark}*|\S{mark}*")


def tokenise(line: str) -> list[str]:
    """The tokens of a line. Joined without spaces, they are the line without its white space.

    Words keep inner hyphens, dots and apostrophes (e-mail, file.odt, don't), and numbers their separators.
    Any other sign is a token, and so is every Chinese or Japanese character. A combining mark belongs to the
    character before it.
    """
    return _token().findall(line)
