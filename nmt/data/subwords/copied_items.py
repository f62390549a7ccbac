"""Items that a translation copies from its source: URLs, e-mail addresses, placeholders, numbers, emoji and names. They
are found in text and generated at random."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from nmt.data.draws import Draws  # loads numpy, which finding items does not need

Kind = Literal["url", "email", "placeholder", "number", "emoji"]

# Punctuation at the end of a URL belongs to the sentence.
_URL = r"""(?i:https?://|www\.)[^\s<>"'“”„«»]*[^\s<>"'“”„«».,;:!?…。、)\]}]"""
_EMAIL = r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
TAG = r"</?[a-zA-Z][^<>]*>"  # <b>, </b>, <x id="1"/>
# {0} {name} {{name}} ${name} %s %1$s %S, and tags
_PLACEHOLDER = rf"\$?\{{\{{?[^\s{{}}]{{0,40}}\}}\}}?|(?<![\w%])%(?:\d+\$)?[sSd@](?!\w)|{TAG}"
_NUMBER = r"\d+(?:[.,:]\d+)*"
_PICTURE = "[\u231a\u231b\u23e9-\u23f3\u2600-\u27bf\u2b50\u2b55\U0001f300-\U0001faff]"
_MODIFIER = "[\ufe0f\U0001f3fb-\U0001f3ff]*"  # coloured, or of a skin colour
_EMOJI = f"{_PICTURE}{_MODIFIER}(?:\u200d{_PICTURE}{_MODIFIER})*|[\U0001f1e6-\U0001f1ff]{{2}}"  # joined ones; flags

_ITEM = re.compile(
    f"(?P<url>{_URL})|(?P<email>{_EMAIL})|(?P<placeholder>{_PLACEHOLDER})|(?P<number>{_NUMBER})|(?P<emoji>{_EMOJI})"
)
VERBATIM = f"{_URL}|{_EMAIL}|{_PLACEHOLDER}"  # a regular expression without groups
_VERBATIM = re.compile(f"({VERBATIM})")

# A number of at least two digits that is no part of a word: `21st` would need another ending.
_WHOLE_NUMBER = r"(?<![\w.,:])[0-9][0-9.,:]*[0-9](?![.,:]?\w)"
# A capitalised word that does not begin a sentence. German nouns are capitalised too, but their translations differ.
_NAME = r"(?<=[\w,;] )[A-ZÀ-ÖØ-Þ][a-zß-öø-ÿ]{2,}(?![\w’'-])"
_REPLACEABLE = re.compile(
    f"(?P<url>{_URL})|(?P<email>{_EMAIL})|(?:{_PLACEHOLDER})|(?P<number>{_WHOLE_NUMBER})|(?P<emoji>{_EMOJI})"
    f"|(?P<name>{_NAME})"
)

# Symbols that SentencePiece's normalization does not change, and that are no emoji.
SYMBOLS = "#$%&*+=/\\|~^_<>@§¶†‡•※°±×÷≈≠≤≥∞∑∏√∂∆∇∈∅→←↑↓↔⇒■□▲△▼●○◆◇€£¥"
_EMOJI_BLOCKS = ((0x1F600, 0x1F64F), (0x1F680, 0x1F6C5), (0x1F400, 0x1F43E), (0x1F345, 0x1F37C), (0x1F3A0, 0x1F3C4))
_ENDINGS = ("com", "org", "net", "info", "de", "fr", "io", "eu")


def find_items(text: str) -> Counter[tuple[Kind, str]]:
    """Count the items in a text by kind. Only the digits of a number are compared, because languages write 1,000 and
    1.000. Colour variants of an emoji count as the same."""
    items: Counter[tuple[Kind, str]] = Counter()
    for match in _ITEM.finditer(text):
        kind, item = match.lastgroup, match[0]
        if kind == "number":
            item = "".join(str(unicodedata.decimal(digit)) for digit in item if digit.isdecimal())
        elif kind == "emoji":
            item = item.replace("\ufe0f", "")
        items[kind, item] += 1  # type: ignore[index]  # the groups are the kinds
    return items


def map_outside_verbatim(function: Callable[[str], str], text: str) -> str:
    """Apply a function to the parts of a text between its URLs, e-mail addresses and placeholders."""
    parts = _VERBATIM.split(text)  # every second one is such an item
    parts[::2] = map(function, parts[::2])
    return "".join(parts)


def shared_items(source: str, target: str) -> dict[str, str]:
    """URLs, e-mail addresses, emoji, names, and numbers of several digits that occur equally often on both sides.
    Returns the kind of each item."""
    if not (source_items := _replaceable(source)):
        return {}
    target_items = _replaceable(target)
    return {item: kind for (item, kind), count in source_items.items() if target_items[item, kind] == count}


def _replaceable(text: str) -> Counter[tuple[str, str]]:
    return Counter((match[0], match.lastgroup) for match in _REPLACEABLE.finditer(text) if match.lastgroup)


def replace_items(text: str, new: dict[str, str]) -> str:
    """Replace items of a text. new: the replacement of each item, as `shared_items` returns items."""

    def replacement(match: re.Match[str]) -> str:
        return new.get(match[0], match[0]) if match.lastgroup else match[0]

    return _REPLACEABLE.sub(replacement, text)


def random_item(kind: str, draws: "Draws", like: str = "") -> str:
    """A random item. kind: as in `Kind`, or `name` or `symbols`. like: a number; a random number gets its form."""
    match kind:
        case "url":
            path = "".join(f"/{random_word(draws)}" for _ in range(draws.below(3)))
            return f"https://{draws.choice(('', 'www.'))}{random_word(draws)}.{draws.choice(_ENDINGS)}{path}"
        case "email":
            return f"{random_word(draws)}{draws.choice('._-')}{random_word(draws)}@{random_word(draws)}.com"
        case "number":
            form = like or "0" * (1 + draws.below(5))
            return str(1 + draws.below(9)) + re.sub(r"\d", lambda _: str(draws.below(10)), form[1:])
        case "emoji":
            first_code, last_code = draws.choice(_EMOJI_BLOCKS)
            return chr(first_code + draws.below(last_code - first_code + 1))
        case "placeholder":
            form = draws.choice(("{0}", "{word}", "{{word}}", "${word}", "%s", "%0$s"))
            return form.replace("0", str(1 + draws.below(9))).replace("word", random_word(draws))
        case "name":
            return random_word(draws).capitalize()
        case "symbols":
            return "".join(draws.choice(SYMBOLS) for _ in range(1 + draws.below(5)))
    raise ValueError(f"no kind of item: {kind}")


def random_word(draws: "Draws") -> str:
    """Two or three pronounceable syllables without meaning."""
    syllables = [draws.choice("bcdfghjklmnprstvwz") + draws.choice("aeiou") for _ in range(2 + draws.below(2))]
    return "".join(syllables) + draws.choice(("", "l", "n", "r", "s", "t"))
