"""What text becomes before it is cut into subwords, so that it is also what a model writes: NFC with single spaces,
without invisible characters that mean nothing in the language; on the source, variants of a letter or sign become the
plain one too.

The rules are part of the SentencePiece model, so that every program that has the model applies them. NFC alone cannot
be written as rules in all cases (accents may stand in any order and number), so `Tokenizer` computes it before; the
rules have the frequent cases, for other programs. The characters themselves are Unicode's: UAX #15 (NFC), UAX #44
(compatibility decompositions), UTS #51 (emoji).
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from itertools import permutations

import sentencepiece

from nmt.config.unspaced_scripts import SOUTHEAST_ASIAN
from nmt.data.subwords import sentencepiece_model

NFC, FOLDED = "nmt_nfc", "nmt_nfc_folded"  # the names of our normalizations in a SentencePiece model
SETTINGS = ("fold_source", "nfc")  # values of vocabulary.normalization: the others are SentencePiece's own

# A language uses an invisible character if it stands, where it means something, in one line of so many; and a form of a
# sign, such as a full-width comma, if the text has more than a few that came from elsewhere.
_LINES, _LINES_OF_SIGNS = 5000, 100

_SPACES = "".join(c for c in map(chr, range(0x3001)) if c.isspace() or unicodedata.category(c) == "Cc").replace(" ", "")
_SOFT = "\u00ad\u2060\u2061\u2062\u2063\u2064\ufeff\ufff9\ufffa\ufffb"  # soft hyphen, word joiner, byte-order mark …
_EMBEDDINGS = "".join(map(chr, [*range(0x202A, 0x202F), *range(0x2066, 0x2070)]))  # directions from here to there
_SELECTORS = "".join(map(chr, [*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]))  # of a variant of what is before
_BEFORE = str.maketrans(dict.fromkeys(_SOFT + _EMBEDDINGS, "") | {"\0": " "})
_REMOVED = re.compile(f"[{_SOFT}{_EMBEDDINGS}\0]")
_ZERO_WIDTH_SPACE, _JOINERS, _DIRECTIONS = "\u200b", "\u200c\u200d", "\u200e\u200f\u061c"
MEANINGLESS = frozenset(_SOFT + _EMBEDDINGS + _SELECTORS)  # in every language, but for selectors behind emoji
CONTROLS = frozenset(one for one in _SPACES if unicodedata.category(one) == "Cc" and one != "\t")
INVISIBLE = MEANINGLESS | frozenset(_ZERO_WIDTH_SPACE + _JOINERS + _DIRECTIONS)

# Scripts in which the joiners change the form of letters: Arabic to N'Ko, those of India, Myanmar, Khmer, Mongolian, …
_SHAPED = (
    "[\u0600-\u07ff\u0840-\u0dff\u1000-\u109f\u1780-\u18af\u1900-\u1c4f\ua840-\uaaff\ufb50-\ufdff\ufe70-\ufefc"
    "\U00010a00-\U00011fff\U0001e900-\U0001e95f]"
)
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")
_MEANT = {
    character: re.compile(f"{letters}{character}|{character}{letters}")
    for characters, letters in ((_JOINERS, _SHAPED), (_ZERO_WIDTH_SPACE, f"[{SOUTHEAST_ASIAN}]"))
    for character in characters
}
# What readers do not see. A joiner is seen where it changes the form of a letter beside it.
_SELECTOR_RANGES = "\ufe00-\ufe0f\U000e0100-\U000e01ef"  # those of _SELECTORS, which `re` finds faster as ranges
_UNSEEN = re.compile(f"[{''.join(INVISIBLE - frozenset(_JOINERS + _SELECTORS))}{_SELECTOR_RANGES}]")
_UNSEEN_JOINERS = re.compile(f"[{_JOINERS}](?<!{_SHAPED}[{_JOINERS}])(?!{_SHAPED})")
_UNSEEN_PRINTABLE = re.compile(f"[{_SELECTOR_RANGES}\u2581]")
_BLANK = str.maketrans(dict.fromkeys(_SPACES + "\u2581", " "))  # U+2581 is SentencePiece's space

# Behind these a selector chooses between the emoji and the sign, and, but for keys of a telephone, a joiner makes one
# emoji of several.
_EMOJI = [
    *map(ord, "#*0123456789©®‼⁉™ℹ〰〽㊗㊙"),
    *range(0x2194, 0x21AB), *range(0x231A, 0x2400), 0x24C2, *range(0x25AA, 0x25FF), *range(0x2600, 0x27C0),
    0x2934, 0x2935, *range(0x2B05, 0x2B56), 0x1F004, 0x1F0CF, *range(0x1F170, 0x1F252), *range(0x1F300, 0x1F650),
    *range(0x1F680, 0x1F700), *range(0x1F7E0, 0x1F7F1), *range(0x1F90C, 0x1FB00),
]  # fmt: skip
_EMOJI_SELECTORS, _JOINER = "\ufe0e\ufe0f", "\u200d"

# Compatibility decompositions that give the same letter or sign in another form. Superscripts (m²), fractions (½) and
# circles mean something else than the plain digits.
_FORMS = ("wide", "narrow", "small", "vertical", "font", "initial", "medial", "final", "isolated")
_LIGATURES = (range(0x250), range(0xFB00, 0xFB18), range(0x2E80, 0x2FE0))  # Latin, Armenian; radicals of Chinese
_VOICED = "\uff9e\uff9f"  # half-width marks on katakana


def nfc(text: str) -> str:
    """A text as the rules expect it. They cannot name U+0000, so it becomes a space here. What is always removed is
    removed before: between a letter and its accent it would keep them apart."""
    if _REMOVED.search(text):
        text = text.translate(_BEFORE)
    return unicodedata.normalize("NFC", text)


def as_read(text: str) -> str:
    """`plain` of `nfc`: what is the same by this is the same to a model."""
    if _has_only_single_spaces(text):
        return unicodedata.normalize("NFC", text).strip(" ")
    return " ".join(nfc(text).split())


def _has_only_single_spaces(text: str) -> bool:
    """Whether text, as most text does, has no control, format character or white space but single spaces. This is
    fast."""
    return text.isprintable() and "  " not in text


def plain(text: str) -> str:
    """A text in NFC with single spaces, none at its ends."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def comparable(text: str) -> str:
    """A text in the form in which texts are compared: NFC with single spaces, without invisible characters but for
    joiners beside letters whose form they change. What a vocabulary writes of a text has the same form as the text."""
    if _has_only_single_spaces(text) and (text.isascii() or not _UNSEEN_PRINTABLE.search(text)):
        return unicodedata.normalize("NFC", text).strip(" ")
    return plain(_UNSEEN_JOINERS.sub("", _UNSEEN.sub("", text)).translate(_BLANK))


@dataclass
class UsedCharacters:
    """Finds, line by line, which characters the text of one language uses that would be removed or folded."""

    lines: int = 0
    counts: Counter[str] = field(default_factory=Counter)  # lines with each of them

    def add(self, lines: Sequence[str]) -> None:
        self.lines += len(lines)
        for line in lines:
            if not line.isascii() and (candidates := set(_candidates().findall(line))):
                self.counts.update(character for character in candidates if is_meant(character, line))

    def merge(self, other: "UsedCharacters") -> None:
        """Add those of other lines."""
        self.lines += other.lines
        self.counts.update(other.counts)

    @property
    def found(self) -> frozenset[str]:
        """Those of at least one line in 5,000; of signs, one in 100."""
        rates = (
            (character, count * (_LINES if character in INVISIBLE else _LINES_OF_SIGNS))
            for character, count in self.counts.items()
        )
        return frozenset(character for character, rate in rates if rate >= self.lines)


def is_meant(character: str, line: str) -> bool:
    """Whether a character of a line means something there."""
    if character in _DIRECTIONS:
        return bool(_RIGHT_TO_LEFT.search(line))
    return character not in _MEANT or bool(_MEANT[character].search(line))


@dataclass(frozen=True)
class Normalization:
    """name: in the SentencePiece model; charsmap: the rules, as SentencePiece has them."""

    name: str
    charsmap: bytes

    @classmethod
    def of(cls, setting: str, side: int, used: Iterable[str] = ()) -> "Normalization":
        """That of a side (0 source, 1 target) for a setting of `SETTINGS`. used: what the side's language uses of the
        characters that would be removed or folded."""
        folds = {"fold_source": side == 0, "nfc": False}[setting]
        return _compiled(FOLDED if folds else NFC, frozenset(used), folds)

    def apply(self, text: str) -> str:
        """The text, normalized."""
        return str(self._processor.Normalize(nfc(text))).replace("\u2581", " ").strip(" ")

    @cached_property
    def _processor(self) -> sentencepiece.SentencePieceProcessor:
        processor = sentencepiece.SentencePieceProcessor()
        proto = sentencepiece_model.with_normalization(sentencepiece_model.smallest(), self.name, self.charsmap)
        processor.LoadFromSerializedProto(proto)
        return processor


@lru_cache(8)  # each takes a tenth of a second
def _compiled(name: str, used: frozenset[str], folds: bool) -> Normalization:
    rules = dict(_composed())
    if folds:
        rules |= {given: plain for given, plain in _folded().items() if given[0] not in used}
    rules |= dict.fromkeys(_SPACES.replace("\0", "") + "\u2581", " ")  # SentencePiece writes U+2581 for a space
    rules |= dict.fromkeys(INVISIBLE - used, "")
    for base in map(chr, _EMOJI):
        kept = [*_EMOJI_SELECTORS, *([] if base.isascii() else [_JOINER, _EMOJI_SELECTORS[-1] + _JOINER])]
        rules |= {base + joiner: base + joiner for joiner in kept}
    return Normalization(name, sentencepiece_model.compile_rules(rules))


@cache
def _composed() -> Mapping[str, str]:
    """Sequences that NFC changes: characters of which it has others, and letters with up to three accents. Without
    Hangul, which has 11,000 syllables."""
    rules = dict[str, str]()
    for character in map(chr, [*range(0xA0, 0x3400), *range(0xF900, 0x12000), *range(0x1D100, 0x1D200)]):
        composed, decomposed = (unicodedata.normalize(form, character) for form in ("NFC", "NFD"))
        if composed != character:
            if not character.isspace():
                rules[character] = composed
        elif len(decomposed) > 1:
            for accents in permutations(decomposed[1:]):
                for count in range(len(accents)):
                    begun = unicodedata.normalize("NFC", decomposed[0] + "".join(accents[:count]))
                    given = begun + "".join(accents[count:])
                    if unicodedata.normalize("NFC", given) == composed:
                        rules[given] = composed
    return rules | {c: unicodedata.normalize("NFC", c) for c in map(chr, range(0x2F800, 0x2FA1E))}


@cache
def _folded() -> Mapping[str, str]:
    """Characters that are forms of others: full width, half width, ligatures, mathematical alphabets, the forms that
    Arabic letters have within a word."""
    rules = {}
    for code in [*range(0x80, 0x3400), *range(0xF900, 0x10000), *range(0x1D400, 0x1D800), *range(0x1EE00, 0x1EF00)]:
        character = chr(code)
        form = unicodedata.decomposition(character).partition(">")[0].removeprefix("<")
        becomes = unicodedata.normalize("NFKC", character)
        is_ligature = (
            form == "compat" and any(code in some for some in _LIGATURES) and not unicodedata.combining(character)
        )
        if (form in _FORMS or is_ligature) and becomes.strip() == becomes != "" and becomes != character:
            rules[character] = becomes
            for mark in _VOICED if form == "narrow" else "":
                if len(both := unicodedata.normalize("NFKC", character + mark)) == 1:
                    rules[character + mark] = both
    return rules


@cache
def _candidates() -> re.Pattern[str]:
    """Finds what would be removed or folded unless a language uses it: of what is folded, no letters and digits, but
    full-width punctuation, for example."""
    signs = "".join(given for given in _folded() if len(given) == 1 and not given.isalnum())
    return re.compile(f"[{re.escape(signs)}{_JOINERS}{_ZERO_WIDTH_SPACE}{_DIRECTIONS}]")
