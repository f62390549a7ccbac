"""What is written is what was trained on: text in NFC with single spaces, without invisible characters that mean
nothing. The source may be folded further."""

import unicodedata

import pytest
from helpers.tokenizers import CHARACTERS
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nmt.config import schema
from nmt.data.subwords import sentencepiece_model, vocabulary
from nmt.data.subwords.normalization import Normalization, UsedCharacters, as_read, comparable, nfc, plain

LETTERS = ["the quick brown fox jumps over the lazy dog", "Zwölf Boxkämpfer jagen Viktor quer über den Sylter Deich"]
JOINERS = "\u200b\u200c\u200d"
TARGET = vocabulary.learn(LETTERS * 3, schema.VocabularyConfig(size=300))
ANY = TARGET.normalized_by(Normalization.from_setting("nfc", 1, JOINERS))
FAMILY, HEART, KEY = "👩\u200d👩\u200d👧", "❤\ufe0f", "1\ufe0f\u20e3"

PERSIAN, TELUGU, LAO, KHMER = "می\u200cروم", "విన్\u200cస్టన్", "ສະບາຍດີ\u200bທ່ານ", "ខ្ញុំ\u200bទៅ"


# Written out: those of the program must be these.
INVISIBLE_RANGES = [
    (0xAD, 0xAD), (0x61C, 0x61C), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x2064), (0x2066, 0x206F),
    (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFF9, 0xFFFB), (0xE0100, 0xE01EF),
]  # fmt: skip
INVISIBLE = {chr(code) for first, last in INVISIBLE_RANGES for code in range(first, last + 1)}


def expected(text: str, kept: str = "") -> str:
    """NFC, then without the invisible characters that are not kept, with each run of white space and controls as one
    space."""
    found = unicodedata.normalize("NFC", text)
    found = "".join(one for one in found if one not in INVISIBLE or one in kept)
    blank = "".join(" " if one.isspace() or unicodedata.category(one) == "Cc" or one == "▁" else one for one in found)
    return " ".join(filter(None, blank.split(" ")))


@settings(deadline=None, max_examples=60)
@given(st.text(CHARACTERS | st.sampled_from("a\u0323\u0302\u0301éẹ각\u1100\u1161שּׁ\u05b0\u064b\u0651कि\u093c\u0958")))
@example("8½ m² 10⁻³ … ª º ™ № ﬁ Ａ１ ，：？（） ำ ຳ և ド ﾄﾞ Å K Ω \u0344")
@example("o\u0302\u0323 o\u0323\u0302 o\u0323\u0301 \u0644\u0651\u064e 각 \u1100\u1161\u11a8 \u0958 \u0915\u093c")
@example("one\x0btwo\x00three\x83four\u0085five\u3000six\u00a0seven\u2028eight\ttab ▁ ▁▁ ")
@example("Pe\u00adter Pe\u2060ter \ufeffPeter \u202aPeter\u202c \u2067Peter\u2069 e\ufe0f 漢\U000e0100 \u200e\u200f")
def test_what_is_written_is_what_was_given(text: str) -> None:
    text = text.replace("\u200d", "").replace("\ufe0f", "").replace("\ufe0e", "")  # which depend on what is before
    assert TARGET.written([text]) == [expected(text)]
    assert ANY.written([text]) == [expected(text, JOINERS)]


@pytest.mark.parametrize("text", [FAMILY, HEART, KEY])
def test_emoji_keep_what_they_are_made_of(text: str) -> None:
    assert TARGET.written([f"a {text}.", f"{text}{text}"]) == [f"a {text}.", f"{text}{text}"]
    assert TARGET.written(["x\u200dy x\ufe0fy 5\u200d"]) == ["xy xy 5"]


@pytest.mark.parametrize(
    ("lines", "used"),
    [
        ([PERSIAN], "\u200c"),
        ([KHMER], "\u200b"),
        (["Hel\u200clo\u200dthere\u200b \u200f you\u200e", "При\u200bвет", f"{FAMILY} {HEART}"], ""),
        (["你好，世界（一）", "Ａ"], "，（）"),
    ],
)
def test_what_a_language_uses_is_found_in_its_text(lines: list[str], used: str) -> None:
    found = UsedCharacters()
    found.add(["one line"] * 3)
    found.add(lines)
    assert found.frequent == frozenset(used)
    found.add(["one line"] * 150)
    assert found.frequent == frozenset(used) & INVISIBLE
    found.add(["one line"] * 5000)
    assert not found.frequent


def test_what_is_used_is_written() -> None:
    for text in (PERSIAN, TELUGU, LAO, KHMER):
        of_text, of_others = UsedCharacters(), UsedCharacters()
        of_text.add([text])
        of_others.add(LETTERS)
        pairs, given_ = [("", one) for one in (text, *LETTERS)] * 9, schema.VocabularyConfig(size=310)
        [one] = vocabulary.learn_for([1], pairs, given_, [], [[of_others], [of_text]])  # of one corpus of two
        [other] = vocabulary.learn_for([1], pairs, given_, [], [[of_others]])
        assert one.written([text]) == [text]
        assert other.written([text]) == [expected(text)] != [text]


def test_rules_of_sentencepiece_alone() -> None:
    """Nothing is done to the text before them."""
    known = vocabulary.learn(LETTERS * 3, schema.VocabularyConfig(size=300, normalization="nmt_nfkc"))
    texts = ["e\u0301 ﬁ", "o\u0302\u0323", "a\x00b", "a\u200cb m²"]
    assert sentencepiece_model.normalization_name(known.proto) == "nmt_nfkc"
    assert known.normalize(texts) == [known._processor.Normalize(text) for text in texts]
    assert known.changed(["m²"]) == {"m²": "m2"}
    assert TARGET.changed(["m²", "e\u0301", " a  b ", "a\u200cb"]) == {"a\u200cb": "ab"}


# ------------------------------------------------------------------------ the form in which texts are compared


@settings(deadline=None, max_examples=60)
@given(
    st.text(
        CHARACTERS | st.sampled_from("e\u0323\u0301ếक\u093c\u0958\u200b\u200c\u200d\u200f\u00ad\ufe0f\u2067👩می1\u20e3")
    )
)
@example("e\u200d\u0323\u0301 e\ufe0f\u0301 e\u200b\u0301 1\ufe0f\u20e3 👩\u200d👧 \0 \x14 ▁ ▁a\u3000")
@example(f"{PERSIAN} {TELUGU} {LAO} {KHMER} \u200c\u0645 \u0645\u200c\u200c\u200d \u200fم\u200d")
def test_what_a_vocabulary_changes_does_not_count_when_texts_are_compared(text: str) -> None:
    for used in ("\u200c\u200d", "\u200b\u200c\u200d\u200e\u200f\u061c"):  # by languages whose letters joiners change
        written = Normalization.from_setting("nfc", 1, used).apply(text)
        assert comparable(written) == comparable(text)
    assert comparable(comparable(text)) == comparable(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pe\u00ad\u0301re\u00a0 \t \u2060et\ufeff", "pére et"),
        ("Auf\u200clage Schiff\u200dfahrt \u200fein\u200e", "Auflage Schifffahrt ein"),
        (PERSIAN, PERSIAN),
        (TELUGU, TELUGU),
        (LAO, LAO.replace("\u200b", "")),
    ],
)
def test_the_form_in_which_texts_are_compared(text: str, expected: str) -> None:
    assert comparable(text) == expected


@given(
    st.text(
        CHARACTERS | st.sampled_from("\0\r\x0b\x1c\x1f\x7f\u00ad\u200c\u200d\u0645\u2065\ufe0f\U000e0101\u0323\u0958")
    )
)
@example("one\rtwo\x0bthree\x1cfour\x1ffive\0six  seven\x7f ")
@example("a\u0301 \u0645\u200d a\u200d 漢\U000e0101 ▁a▁")
def test_what_is_fast_for_most_text_gives_the_same(text: str) -> None:
    for part in (text, *text, "漢".join(text), f"{text[:2]}  b"):  # one odd character makes a text take the long way
        assert as_read(part) == plain(nfc(part))
        assert comparable(part) == comparable(f"\t{part}\t")
