"""Banned words are found whatever an output is written with, and nothing else is."""

import codecs
import re
import unicodedata

import pytest
import torch
from helpers.tables import EOS, OPTIONS, Table, changed
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.config.unspaced_scripts import is_unspaced
from nmt.decoding.search import logits_processors
from nmt.decoding.search.banned_words import BannedWords
from nmt.decoding.search.search import search

CPU = torch.device("cpu")
SPECIAL = [b"<pad>", b"<unk>", b"<s>", b"</s>"]
BYTES = [bytes([byte]) for byte in range(256)]
MARKS = "\u0301\u0308"
UNSPACED = "北京かが"
LETTERS = "abAßéïÉ7" + UNSPACED + MARKS
texts = st.text(LETTERS + " -\u00ad", max_size=5)
bans = st.lists(texts.filter(lambda text: re.search(f"[^{MARKS} \u00ad-]", text)), min_size=1, max_size=3)


def vocabulary(*subwords: str) -> list[bytes]:
    """The special subwords, these, and every byte."""
    return [*SPECIAL, *(subword.encode() for subword in subwords), *BYTES]


def units(text: str) -> list[str]:
    """Words with their accents, other letters and accents one by one, and one space for whatever is between them."""
    found: list[str] = [" "]
    for character in text.replace("\u00ad", ""):
        alone = is_unspaced(character)
        for letter in character if alone else unicodedata.normalize("NFD", character).casefold():
            kind = unicodedata.category(letter)[0]
            if kind not in "LMN":
                found += [" "] * (found[-1] != " ")
            elif is_word(found[-1]) and not alone:
                found[-1] += letter
            else:
                found.append(letter)
    return found


def is_word(unit: str) -> bool:
    return unit[0].isalnum() and not is_unspaced(unit[0])


def holds(among: list[str], word: str, *, going_on: bool = False) -> bool:
    """As one would say it: the word's units in a row, the last of them whole even if the text goes on."""
    wanted = units(word)[1:]
    while wanted[0] == " " or unicodedata.category(wanted[0][0])[0] == "M":
        wanted.pop(0)
    while wanted[-1] == " ":
        wanted.pop()
    if going_on and is_word(among[-1]) and is_word(wanted[-1]):
        among = among[:-1]
    return any(among[i : i + len(wanted)] == wanted for i in range(len(among)))


def forbidden(words: BannedWords, tokens: list[int]) -> bool:
    """Whether an output of these tokens, the last one of which is EOS, is not possible."""
    state = words.start
    for token in tokens:
        completing = words.completing(state)
        if completing is not None and completing[token]:
            return True
        state = words.after(state, token)
    return False


@pytest.mark.parametrize(
    ("word", "text", "found"),
    [
        ("naïve", "a naïve idea", True),
        ("naïve", "nai\u0308ve", True),
        ("naïve", "naïvely", False),
        ("naïve", "naive", False),
        ("naive", "naïve", False),
        ("Straße", "STRASSE", True),
        ("北京", "我住在北京市", True),
        ("北京", "北 京", False),
        ("ガイド", "ｶﾞｲﾄﾞの本", True),
        ("가", "각", False),
        ("dry dock", "a dry-dock", True),
    ],
)
def test_words_in_texts(word: str, text: str, found: bool) -> None:
    """Written with subwords of a character each, and with bytes alone."""
    spellings = vocabulary(*sorted(set(text)))
    words = BannedWords([word], spellings, EOS)
    assert forbidden(words, [*(spellings.index(character.encode()) for character in text), EOS]) is found
    assert forbidden(words, [*(len(spellings) - 256 + byte for byte in text.encode()), EOS]) is found


@settings(max_examples=60, deadline=None)
@given(words=bans, subwords=st.lists(texts.filter(bool), max_size=8), data=st.data())
def test_what_is_forbidden_is_what_completes_a_word(words: list[str], subwords: list[str], data: st.DataObject) -> None:
    """Token by token, of subwords and bytes, the bytes of a character most often in their order."""
    spellings = vocabulary(*subwords)
    tokens = data.draw(outputs(spellings))
    automaton = BannedWords(words, spellings, EOS)
    state = automaton.start
    for i, token in enumerate([*tokens, EOS]):
        completing = automaton.completing(state)
        forbidden = completing is not None and bool(completing[token])
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        found = units(decoder.decode(b"".join(spellings[one] for one in tokens[: i + 1]), final=token == EOS))
        expected = any(holds(found, word, going_on=token != EOS) for word in words)
        if decoder.getstate()[0] and forbidden and not expected:
            assert any(holds(found, word) for word in words), "unless a character could end a word there"
            return
        assert forbidden == expected
        if expected or token == EOS:
            return
        state = automaton.after(state, token)


def outputs(spellings: list[bytes]) -> st.SearchStrategy[list[int]]:
    """Lists of tokens behind the special ones."""
    first = len(spellings) - 256
    some = st.sampled_from([0x80, 0xAD, 0xC3, 0xCC, 0xE4, 0xE5, 0xFF]).map(lambda byte: [first + byte])
    some |= st.sampled_from(LETTERS).map(lambda letter: [first + byte for byte in letter.encode()])
    if first > len(SPECIAL):
        some |= st.integers(len(SPECIAL), first - 1).map(lambda token: [token])
    return st.lists(some, max_size=8).map(lambda parts: [token for part in parts for token in part])


SEARCHES = {
    "greedy": {"beam_size": 1},
    "beam": {"beam_size": 4, "n_best": 4},
    "sampling": {"beam_size": 6, "n_best": 6, "method": "sample"},
}


@pytest.mark.parametrize("method", SEARCHES)
@settings(max_examples=8, deadline=None)
@given(words=bans, subwords=st.lists(texts.filter(bool), max_size=8), seed=st.integers(0, 10**6))
def test_no_output_of_any_search_holds_a_banned_word(
    method: str, words: list[str], subwords: list[str], seed: int
) -> None:
    """Of a small vocabulary with the bytes that spell the words, so that they are likely to come."""
    known = {*"".join(words).encode(), *"".join(words).upper().encode(), 0xC3, 0x20}
    spellings = [*SPECIAL, *(subword.encode() for subword in subwords), *(bytes([byte]) for byte in sorted(known))]
    table, sentences = Table(seed, len(spellings), spread=1.0), 3
    rule = logits_processors.NoBannedWords(BannedWords(words, spellings, EOS), sentences, CPU)
    options, source = changed(OPTIONS, **SEARCHES[method]), torch.tensor([[i, EOS] for i in range(sentences)])  # type: ignore[arg-type]
    limits = torch.full((sentences,), 12)
    found = search(table, source, limits, options, [rule], seeds=range(sentences))
    for hypothesis in (one for hypotheses in found for one in hypotheses):
        text = b"".join(spellings[token] for token in hypothesis.tokens).decode("utf-8", "replace")
        assert not any(holds(units(text), word) for word in words)


@pytest.mark.parametrize("words", [[], ["\u0301"]])
def test_no_words_forbid_nothing(words: list[str]) -> None:
    automaton = BannedWords(words, vocabulary("a", "b"), EOS)
    assert automaton.completing(automaton.start) is None
    assert automaton.completing(automaton.after(automaton.start, 4)) is None
