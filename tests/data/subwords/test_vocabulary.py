"""Text survives the round trip through subwords, and no text or ids can do harm on the way."""

import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nmt.config import schema
from nmt.data.subwords import vocabulary
from nmt.data.subwords.vocabulary import BOS, EOS, PAD, UNK, Tokenizer
from nmt.data.subwords.word_encoding import WordEncoder
from nmt.errors import NmtError

# Much of what must not become a special id is in the text learned from, so that merges could spell it.
SPELLINGS = ["<s>", "</s>", "<pad>", "<unk>", "<0x41>", "<0x0A>", "▁", "⁇", "▁<s>", "<s", "s>"]
TEXT = ["the quick brown fox jumps over the lazy dog", "zwölf Boxkämpfer jagen Viktor quer über den Sylter Deich"]
TEXT = [*TEXT, *(f"{spelling} und a{spelling}b {spelling}{spelling}" for spelling in SPELLINGS)] * 3


def learned(sentences: list[str], **changed: object) -> Tokenizer:
    asked = {"size": 320, "normalization": "identity"} | changed
    return vocabulary.learn(sentences, schema.VocabularyConfig(**asked))  # type: ignore[arg-type]


TOKENIZER = learned(TEXT)
PLAIN = learned(TEXT, size=80, byte_fallback=False)
WORD = st.text(st.characters(codec="utf-8", exclude_characters=" \n▁"), min_size=1, max_size=8)


def round_trip(tokenizer: Tokenizer, text: str) -> str:
    return tokenizer.decode(tokenizer.encode([text]))[0]


@settings(deadline=None)
@given(st.lists(WORD, max_size=6).map(" ".join))
@example("😀👩\u200d👩\u200d👧 \x00\x01\x1b\x7f 𒀀𓀀 \ufeff\u200f\u2028\u0085\t\r\x0c ሀ ᚠ \U0010ffff")
@example(" ".join(spelling for spelling in SPELLINGS if "▁" not in spelling))
def test_identity_round_trip(text: str) -> None:
    assert round_trip(TOKENIZER, text) == text


@settings(deadline=None)
@given(st.lists(st.sampled_from(SPELLINGS) | st.sampled_from(" ab") | WORD, max_size=10).map("".join))
@example("".join(SPELLINGS))
def test_no_text_gives_a_special_id(text: str) -> None:
    [ids], [unknown] = TOKENIZER.encode([text]), PLAIN.encode([text])
    assert not {PAD, UNK, BOS, EOS} & set(ids)
    assert not {PAD, BOS, EOS} & set(unknown)


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(-3, 400) | st.integers(), max_size=12), max_size=4))
@example([[]])
@example([[], []])
@example([[10**30, -(10**30)], list(range(4, 260))])
def test_any_ids_decode_to_one_line_each(ids: list[list[int]]) -> None:
    for tokenizer in (TOKENIZER, PLAIN):
        lines = tokenizer.decode(ids)
        assert len(lines) == len(ids)
        assert not any("\n" in line for line in lines)


@pytest.mark.parametrize("count", [0, 15, 16])
def test_batches_are_one_by_one(count: int) -> None:
    """Whether SentencePiece is given a list or one line after another."""
    lines = (["the cat", "", "sat  on"] * count)[:count]
    encoded = TOKENIZER.encode(lines)
    assert encoded == [TOKENIZER.encode([line])[0] for line in lines]
    assert TOKENIZER.decode(encoded) == [TOKENIZER.decode([ids])[0] for ids in encoded]


def test_a_line_that_is_not_text_is_named() -> None:
    with pytest.raises(NmtError, match="line 2 of 2: character 5 is half of a surrogate pair"):
        TOKENIZER.encode(["the cat", "the \ud800 cat"])


def test_size_and_settings_reach_sentencepiece() -> None:
    assert len(TOKENIZER) == 320
    assert round_trip(PLAIN, "the 漢 dog") == "the ⁇ dog".replace("⁇", " ⁇ ")
    assert round_trip(TOKENIZER, "the 漢 dog") == "the 漢 dog"
    folded = learned(TEXT, normalization="nmt_nfkc_cf")
    assert round_trip(folded, "Ｔhe\u2028ﬁg") == "the fig"
    rare = [*TEXT, *["x"] * 200, "漢"]
    assert "漢" in learned(rare, size=330).pieces(list(range(330)))
    assert "漢" not in learned(rare, size=320, character_coverage=0.99).pieces(list(range(320)))


def test_no_sentence_is_left_out() -> None:
    """Neither long ones nor those with the character that SentencePiece keeps for itself."""
    long = " ".join(["Ωμγ"] * 2000)
    pieces = learned([*TEXT, long, "Ж▅Ж"], size=350).pieces(list(range(350)))
    assert "▁Ωμγ" in pieces
    assert "Ж" in pieces


# --------------------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (5000, r"vocabulary.size: 5000 is too large for the training text: set it to at most (\d+)"),
        (100, r"vocabulary.size: 100 is too small for the characters of the training text: set it to at least (\d+)"),
    ],
)
def test_unsuitable_size_names_one_that_suits(size: int, message: str) -> None:
    with pytest.raises(NmtError) as error:
        learned(TEXT, size=size)
    found = re.match(message, str(error.value))
    assert found
    suitable = int(found[1])
    assert len(learned(TEXT, size=suitable)) == suitable


def test_bytes_that_are_no_model(tmp_path: Path) -> None:
    path = tmp_path / "a.model"
    path.write_bytes(b"")
    with pytest.raises(NmtError, match=r"a\.model: "):
        vocabulary.load(path)
    with pytest.raises(NmtError, match=r"missing\.model: cannot be read: No such file"):
        vocabulary.load(tmp_path / "missing.model")


@settings(deadline=None)
@given(st.integers(0, len(TOKENIZER.proto) - 1), st.binary(max_size=8), st.integers(0, 8))
@example(TOKENIZER.proto.index("▁".encode()), b"\xff", 1)  # a subword that is no text, which is read
def test_damaged_models_are_loaded_or_refused(place: int, new: bytes, length: int) -> None:
    proto = bytearray(TOKENIZER.proto)
    proto[place : place + length] = new
    try:
        found = Tokenizer(bytes(proto), "a.model")
        assert len(found.every_piece()) == len(found)
    except NmtError as error:
        assert str(error).startswith(("a.model: ", "vocabulary: ")) and "\n" not in str(error)


def test_punctuation_is_normalized_before_text_is_cut_also_in_a_copy_and_word_by_word() -> None:
    written = "\"It is,\" he said - (3.50 ...) 'so'"
    plain = learned([written] * 5, size=280)
    made = Tokenizer(plain.with_punctuation("en").proto)
    lines = ["“It is,” he said – (3.50 …) ‘so’", "", "“"]
    assert made.punctuation == "en" and plain.punctuation is None
    assert made.encode(lines) == plain.encode([written, "", '"']) != plain.encode(lines)
    by_word = WordEncoder(made).encode(lines)
    assert by_word.ids.tolist() == [i for ids in made.encode(lines) for i in (*ids, EOS)]
