"""Normalization of text before it is cut into subwords. The output of a model has the same form.

Text becomes NFC with single spaces, without invisible characters that have no meaning in the language. On the source,
variants of a letter or sign are also replaced by the plain form.

The rules are part of the SentencePiece model, so that every program that has the model applies them. Rules cannot
express NFC completely, because accents may occur in any order and number. So `Tokenizer` applies NFC first; the rules
cover the frequent cases, for other programs. The characters are defined by Unicode: UAX #15 (NFC), UAX #44
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

# A language uses an invisible character if at least one of so many lines has it where it has a meaning. A form of a
# sign, such as a full-width comma, must be more frequent, because a few may come from text in other languages.
_LINES, _LINES_OF_SIGNS = 5000, 100

_SPACES = "".join(c for c in map(chr, range(0x3001)) if c.isspace() or unicodedata.category(c) == "Cc").replace(" ", "")
_SOFT = "\u00ad\u2060\u2061\u2062\u2063\u2064\ufeff\ufff9\ufffa\ufffb"  # soft hyphen, word joiner, byte-order mark …
_EMBEDDINGS = "".join(map(chr, [*range(0x202A, 0x202F), *range(0x2066, 0x2070)]))  # directional embeddings and isolates
_SELECTORS = "".join(map(chr, [*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]))  # variation selectors
_BEFORE = str.maketrans(dict.fromkeys(_SOFT + _EMBEDDINGS, "") | {"\0": " "})
_REMOVED = re.compile(f"[{_SOFT}{_EMBEDDINGS}\0]")
_ZERO_WIDTH_SPACE, _JOINERS, _DIRECTIONS = "\u200b", "\u200c\u200d", "\u200e\u200f\u061c"
MEANINGLESS = frozenset(_SOFT + _EMBEDDINGS + _SELECTORS)  # in every language, but for selectors behind emoji
CONTROLS = frozenset(c for c in _SPACES if unicodedata.category(c) == "Cc" and c != "\t")
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
# Characters that readers cannot see. A joiner is visible where it changes the form of a neighbouring letter.
_SELECTOR_RANGES = "\ufe00-\ufe0f\U000e0100-\U000e01ef"  # those of _SELECTORS, which `re` finds faster as ranges
_UNSEEN = re.compile(f"[{''.join(INVISIBLE - frozenset(_JOINERS + _SELECTORS))}{_SELECTOR_RANGES}]")
_UNSEEN_JOINERS = re.compile(f"[{_JOINERS}](?<!{_SHAPED}[{_JOINERS}])(?!{_SHAPED})")
_UNSEEN_PRINTABLE = re.compile(f"[{_SELECTOR_RANGES}\u2581]")
_BLANK = str.maketrans(dict.fromkeys(_SPACES + "\u2581", " "))  # U+2581 is SentencePiece's space

# After these characters a selector chooses between the emoji and the sign. A joiner combines several emoji into one,
# except after the keys of a telephone.
_EMOJI = [
    *map(ord, "#*0123456789©®‼⁉™ℹ〰〽㊗㊙"),
    *range(0x2194, 0x21AB), *range(0x231A, 0x2400), 0x24C2, *range(0x25AA, 0x25FF), *range(0x2600, 0x27C0),
    0x2934, 0x2935, *range(0x2B05, 0x2B56), 0x1F004, 0x1F0CF, *range(0x1F170, 0x1F252), *range(0x1F300, 0x1F650),
    *range(0x1F680, 0x1F700), *range(0x1F7E0, 0x1F7F1), *range(0x1F90C, 0x1FB00),
]  # fmt: skip
_EMOJI_SELECTORS, _JOINER = "\ufe0e\ufe0f", "\u200d"

# Compatibility decompositions that give the same letter or sign in another form. Superscripts (m²), fractions (½) and
# circled digits are not folded, because they have another meaning than plain digits.
_FORMS = ("wide", "narrow", "small", "vertical", "font", "initial", "medial", "final", "isolated")
_LIGATURES = (range(0x250), range(0xFB00, 0xFB18), range(0x2E80, 0x2FE0))  # Latin, Armenian; radicals of Chinese
_VOICED = "\uff9e\uff9f"  # half-width marks on katakana


def nfc(text: str) -> str:
    """A text in the form that the rules expect: NFC. U+0000 becomes a space, because rules cannot contain it.
    Characters that are always removed are removed first: between a letter and its accent they would prevent
    composition."""
    if _REMOVED.search(text):
        text = text.translate(_BEFORE)
    return unicodedata.normalize("NFC", text)


def as_read(text: str) -> str:
    """`plain` of `nfc`. Texts that are equal in this form are equal to a model."""
    if _has_only_single_spaces(text):
        return unicodedata.normalize("NFC", text).strip(" ")
    return " ".join(nfc(text).split())


def _has_only_single_spaces(text: str) -> bool:
    """Whether text has no control characters, no format characters and no white space except single spaces. Most text
    has none, and this check is fast."""
    return text.isprintable() and "  " not in text


def plain(text: str) -> str:
    """A text in NFC with single spaces, none at its ends."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def comparable(text: str) -> str:
    """A text in the form in which texts are compared: NFC with single spaces, without invisible characters. Joiners
    that change the form of a neighbouring letter are kept. A text and the text that its subwords give have the same
    form."""
    if _has_only_single_spaces(text) and (text.isascii() or not _UNSEEN_PRINTABLE.search(text)):
        return unicodedata.normalize("NFC", text).strip(" ")
    return plain(_UNSEEN_JOINERS.sub("", _UNSEEN.sub("", text)).translate(_BLANK))


@dataclass
class UsedCharacters:
    """Counts the characters of a language's text that would be removed or folded, to find those that it uses."""

    lines: int = 0
    counts: Counter[str] = field(default_factory=Counter)  # lines with each of them

    def add(self, lines: Sequence[str]) -> None:
        self.lines += len(lines)
        for line in lines:
            if not line.isascii() and (candidates := set(_candidates().findall(line))):
                self.counts.update(character for character in candidates if is_meant(character, line))

    def merge(self, other: "UsedCharacters") -> None:
        """Add the counts of other lines."""
        self.lines += other.lines
        self.counts.update(other.counts)

    @property
    def frequent(self) -> frozenset[str]:
        """Invisible characters in at least one line in 5,000; signs in at least one line in 100."""
        frequent = set[str]()
        for character, count in self.counts.items():
            lines_per_use = _LINES if character in INVISIBLE else _LINES_OF_SIGNS
            if count * lines_per_use >= self.lines:
                frequent.add(character)
        return frozenset(frequent)


def is_meant(character: str, line: str) -> bool:
    """Whether a character of a line has a meaning there."""
    if character in _DIRECTIONS:
        return bool(_RIGHT_TO_LEFT.search(line))
    return character not in _MEANT or bool(_MEANT[character].search(line))


@dataclass(frozen=True)
class Normalization:
    """name: its name in the SentencePiece model. charsmap: the rules in SentencePiece's format."""

    name: str
    charsmap: bytes

    @classmethod
    def from_setting(cls, setting: str, side: int, used: Iterable[str] = ()) -> "Normalization":
        """The normalization of a side (0 source, 1 target) for a setting of `SETTINGS`. used: characters that the
        side's language uses; they are neither removed nor folded."""
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
        rules |= {variant: plain for variant, plain in _folded().items() if variant[0] not in used}
    rules |= dict.fromkeys(_SPACES.replace("\0", "") + "\u2581", " ")  # SentencePiece writes U+2581 for a space
    rules |= dict.fromkeys(INVISIBLE - used, "")
    for base in map(chr, _EMOJI):
        suffixes = list(_EMOJI_SELECTORS)
        if not base.isascii():
            suffixes += [_JOINER, _EMOJI_SELECTORS[-1] + _JOINER]
        rules |= {base + suffix: base + suffix for suffix in suffixes}
    return Normalization(name, sentencepiece_model.compile_rules(rules))


@cache
def _composed() -> Mapping[str, str]:
    """Sequences that NFC changes: single characters, and letters with up to three accents. Hangul with its 11,000
    syllables is not included."""
    rules = dict[str, str]()
    for character in map(chr, [*range(0xA0, 0x3400), *range(0xF900, 0x12000), *range(0x1D100, 0x1D200)]):
        composed, decomposed = (unicodedata.normalize(form, character) for form in ("NFC", "NFD"))
        if composed != character:
            if not character.isspace():
                rules[character] = composed
        elif len(decomposed) > 1:
            for accents in permutations(decomposed[1:]):
                for count in range(len(accents)):
                    composed_start = unicodedata.normalize("NFC", decomposed[0] + "".join(accents[:count]))
                    sequence = composed_start + "".join(accents[count:])
                    if unicodedata.normalize("NFC", sequence) == composed:
                        rules[sequence] = composed
    return rules | {c: unicodedata.normalize("NFC", c) for c in map(chr, range(0x2F800, 0x2FA1E))}


@cache
def _folded() -> Mapping[str, str]:
    """Characters that are forms of other characters: full width, half width, ligatures, mathematical alphabets,
    positional forms of Arabic letters."""
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
    """Matches characters that are removed or folded unless a language uses them. Of the folded characters these are
    signs such as full-width punctuation, not letters and digits."""
    signs = "".join(variant for variant in _folded() if len(variant) == 1 and not variant.isalnum())
    return re.compile(f"[{re.escape(signs)}{_JOINERS}{_ZERO_WIDTH_SPACE}{_DIRECTIONS}]")
