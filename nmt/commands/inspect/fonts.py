"""Which installed fonts draw a text, and what no installed font has."""

import logging
import unicodedata
from collections.abc import Iterable
from functools import cache

from matplotlib.font_manager import FontEntry, fontManager
from matplotlib.ft2font import FT2Font

log = logging.getLogger("nmt")

_FIRST = "DejaVu Sans"  # comes with matplotlib: Latin, Greek, Cyrillic, Arabic, Hebrew, …
# Chinese characters are drawn in another way in each country: parts of the names of fonts for a language.
_OF_LANGUAGE = {
    "ja": ("CJK JP", "Sans JP", "Hiragino", "Yu Gothic", "Meiryo", "IPA", "Takao"),
    "ko": ("CJK KR", "Sans KR", "Apple SD Gothic", "Malgun", "Nanum"),
    "zh-hant": ("CJK TC", "Sans TC", "PingFang TC", "JhengHei"),
    "zh": ("CJK SC", "Sans SC", "PingFang SC", "YaHei", "SimHei", "WenQuanYi", "Heiti"),
}
_PACKAGES = "Noto Sans (Debian: apt-get install fonts-noto-core fonts-noto-cjk)"


def families(texts: Iterable[str], languages: Iterable[str] = ()) -> list[str]:
    """The fewest families that have all the characters of the texts, to be tried in this order; first DejaVu Sans.

    What none has is said in a warning. languages: their codes, which choose among fonts of Chinese characters.
    """
    wanted = {letter for letter in "".join(texts) if unicodedata.category(letter)[0] not in "CZ"}
    chosen = [_FIRST]
    missing = wanted - _letters(_entry(_FIRST))
    preferred = [part for code in languages for part in _parts(code)]
    while missing:
        best = max(_entries(), key=lambda entry: _merit(entry, missing, preferred), default=None)
        if best is None or not missing & _letters(best):
            _warn(missing)
            break
        chosen.append(best.name)
        missing -= _letters(best)
    return chosen


def _merit(entry: FontEntry, missing: set[str], preferred: list[str]) -> tuple[int, bool, bool]:
    """How well a font suits: how much it has, as is preferred, and a plain sans-serif rather than another."""
    named = any(part in entry.name for part in preferred)
    return len(missing & _letters(entry)), named, "Sans" in entry.name and "Mono" not in entry.name


def _parts(code: str) -> tuple[str, ...]:
    code = code.lower().replace("_", "-")
    if code.startswith("zh") and any(part in code for part in ("hant", "tw", "hk", "mo")):
        return _OF_LANGUAGE["zh-hant"]
    return _OF_LANGUAGE.get(code.partition("-")[0], ())


@cache
def _entries() -> list[FontEntry]:
    """One upright font of ordinary weight for each installed family, by name; not matplotlib's own of boxes."""
    plain = [
        entry
        for entry in fontManager.ttflist
        if entry.style == "normal" and entry.weight in (400, "normal") and "LastResort" not in entry.fname
    ]
    return sorted({entry.name: entry for entry in plain}.values(), key=lambda entry: entry.name)


def _entry(family: str) -> FontEntry:
    return next(entry for entry in _entries() if entry.name == family)


@cache
def _letters(entry: FontEntry) -> frozenset[str]:
    """The characters that a font has."""
    try:
        font = FT2Font(entry.fname, face_index=entry.index)
    except (OSError, RuntimeError) as error:  # found once, and gone or damaged since
        log.debug("%s: %s", entry.fname, error)
        return frozenset()
    return frozenset(map(chr, font.get_charmap()))


def _warn(missing: set[str]) -> None:
    scripts = {unicodedata.name(letter, "UNNAMED").partition(" ")[0].capitalize() for letter in missing}
    log.warning(
        "no installed font has %d characters (%s: %s): the pictures show boxes for them: install a font such as %s, "
        "and see the page, whose fonts are the browser's",
        len(missing),
        ", ".join(sorted(scripts)),
        "".join(sorted(missing)[:10]),
        _PACKAGES,
    )
