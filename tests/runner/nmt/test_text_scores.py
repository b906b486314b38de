import random

import pytest

sacrebleu = pytest.importorskip("sacrebleu", reason="needs: pip install sacrebleu")

from hpobench_nmt.core.system.errors import InputError  # noqa: E402
from hpobench_nmt.runner.corpora.tokenise import tokenise  # noqa: E402
from hpobench_nmt.runner.family import TrainingFailed  # noqa: E402
from hpobench_nmt.runner.nmt.metrics import scores  # noqa: E402
from hpobench_nmt.runner.nmt.text_scores import (  # noqa: E402
    bleu,
    check_tokenizer,
    chrf,
    refuse_unspaced,
    signature,
)

CHINESE = ["我今天早上在图书馆看了一本关于机器翻译的书。", "他昨天买了一辆新的红色自行车。"]
NEARLY = ["我今天早上在图书馆读了一本关于机器翻译的书。", "他昨天买了一辆新的蓝色自行车。"]
JAPANESE = ["昨日図書館で機械翻訳に関する本を読みました。", "彼は赤い自転車を買いました。"]
THAI = ["เมื่อวานนี้ฉันอ่านหนังสือเกี่ยวกับการแปลภาษา", "เขาซื้อจักรยานสีแดงคันใหม่"]
ENGLISH = ["I read a book on machine translation in the library.", "He bought a red bicycle yesterday."]


@pytest.mark.parametrize("tokenizer", ["zh", "char"])
def test_scores_are_those_of_sacrebleu(tokenizer):
    expected = sacrebleu.corpus_bleu(NEARLY, [CHINESE], tokenize=tokenizer).score
    assert expected > 60
    assert bleu(NEARLY, CHINESE, tokenizer) == expected
    assert chrf(NEARLY, CHINESE) == sacrebleu.corpus_chrf(NEARLY, [CHINESE]).score
    assert f"tok:{tokenizer}" in signature(NEARLY, CHINESE, tokenizer)
    assert f"version:{sacrebleu.__version__}" in signature(NEARLY, CHINESE, tokenizer)


def test_the_default_is_that_of_sacrebleu():
    near = [line.replace("red", "blue") for line in ENGLISH]
    assert bleu(near, ENGLISH) == sacrebleu.corpus_bleu(near, [ENGLISH]).score


@pytest.mark.parametrize("text", [CHINESE, JAPANESE, THAI])
def test_text_without_spaces_needs_another_tokenizer(text):
    with pytest.raises(InputError, match=r"13a splits at spaces.*bleu_tokenizer"):
        bleu(text, text)
    for tokenizer in ("zh", "char", "ja-mecab"):
        refuse_unspaced(text, tokenizer)


@pytest.mark.parametrize(
    "text",
    [
        ENGLISH,
        [" ".join(tokenise(line)) for line in CHINESE],
        ["我 今天 早上 在 图书馆 看 了 一 本 关于 机器 翻译 的 书 。"],
        ["昨日 図書館 で 機械 翻訳 に関する 本 を 読み ました 。"],
        ["เมื่อวาน นี้ ฉัน อ่าน หนังสือ เกี่ยวกับ การ แปล ภาษา"],
        [*ENGLISH, "The word 图书馆看了一本书 is Chinese."],
        ["हिन्दी में लिखा गया वाक्य ।"],
        ["오늘 아침 도서관에서 책을 읽었다 ."],
    ],
)
def test_text_with_spaces_does_not(text):
    refuse_unspaced(text, "13a")


def test_a_tokenizer_that_is_not_installed_is_named_with_its_command(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match="sacrebleu\\[ja\\]"):
        check_tokenizer("ja-mecab")
    check_tokenizer("char")


WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
SHORT = [f"{WORDS[i // 10]} {WORDS[i % 10]} {WORDS[i * 7 % 10]}" for i in range(40)]


@pytest.mark.parametrize(
    ("translations", "learned"),
    [
        (SHORT, True),
        ([line.rpartition(" ")[0] for line in SHORT], True),
        (["one five two"] * 40, False),
        ([""] * 40, False),
        (random.Random(0).sample(SHORT, 40), False),
    ],
)
def test_chrf_decides_whether_short_segments_were_learned(translations, learned):
    parts, references = {"dev": translations}, {"dev": SHORT}
    if learned:
        found = scores(parts, references, "13a", 10)
        assert found == {"dev_bleu": bleu(translations, SHORT), "dev_chrf": chrf(translations, SHORT)}
        assert found["dev_bleu"] == 0 and found["dev_chrf"] > 50
    else:
        with pytest.raises(
            TrainingFailed, match=r"dev BLEU 0.00 is below 0.5, .*: nothing was learned in 10"
        ):
            scores(parts, references, "13a", 10)
