"""Words and punctuation of a line, for languages written with blanks; characters for Chinese and Japanese."""

from __future__ import annotations

import re

# Kana, Han with its extensions, and the marks that repeat or lengthen a character.
_HAN = "[\u3005\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
_LETTER = rf"(?:(?!{_HAN})\w)"
_TOKEN = re.compile(rf"{_HAN}|\d+(?:[.,:]\d+)+(?!\w)|{_LETTER}+(?:[-.'’]{_LETTER}+)*|\.\.\.|\S")


def tokenise(line: str) -> list[str]:
    """The tokens of a line: joined without blanks they spell the line without its white space.

    Words keep inner hyphens, dots and apostrophes (e-mail, file.odt, don't), numbers their separators. Any
    other mark is a token, and so is every Chinese or Japanese character.
    """
    return _TOKEN.findall(line)
