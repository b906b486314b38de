import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hpobench_nmt.runner.corpora.tokenise import tokenise


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Click here, then wait.", "Click here , then wait ."),
        ("Öffnen Sie die Calc-Datei „Plan“!", "Öffnen Sie die Calc-Datei „ Plan “ !"),
        ("It doesn't cost 1,234.50 (at 10:30).", "It doesn't cost 1,234.50 ( at 10:30 ) ."),
        ("Open file.odt...", "Open file.odt ..."),
        ("Нажмите кнопку «ОК».", "Нажмите кнопку « ОК » ."),
        ("按Ctrl键，共3.5个。", "按 Ctrl 键 ， 共 3.5 个 。"),
        ("ファイルを開く", "フ ァ イ ル を 開 く"),
        ("naïve café", "naïve café"),
        ("cafe\u0301, nai\u0308ve", "cafe\u0301 , nai\u0308ve"),
        ("हिन्दी में लिखा।", "हिन्दी में लिखा ।"),
        ("مَرْحَبًا، نمی\u200cدانم", "مَرْحَبًا ، نمی\u200cدانم"),
        ("ที่ดี!", "ที่ดี !"),
        ("か\u3099き", "か\u3099 き"),
        ("", ""),
    ],
)
def test_tokens(line: str, expected: str) -> None:
    assert " ".join(tokenise(line)) == expected


@given(st.text())
def test_tokens_spell_the_line_and_hold_no_white_space(line: str) -> None:
    found = tokenise(line)
    assert "".join(found) == "".join(line.split())
    assert all(len(token.split()) == 1 for token in found)


@given(st.text())
def test_tokenising_twice_changes_nothing(line: str) -> None:
    once = " ".join(tokenise(line))
    assert " ".join(tokenise(once)) == once


@given(st.text(st.sampled_from("語言開始ひらカナ々abc, ")))
def test_every_han_or_kana_character_stands_alone(line: str) -> None:
    for token in tokenise(line):
        if any(unicodedata.name(c).startswith(("CJK", "HIRAGANA", "KATAKANA")) for c in token):
            assert len(token) == 1


@given(st.text(st.sampled_from("aकि\u0301\u0e48か語 -.\u200d")))
@example("...\u0301")
@example("1.5\u0301")
def test_a_combining_mark_begins_a_token_only_where_nothing_is_before_it(line: str) -> None:
    for token in tokenise(line):
        if unicodedata.category(token[0]).startswith("M"):
            assert line.startswith(token) or f" {token}" in line or "\u200d" in line
