"""The fonts of the pictures: matplotlib takes each character from the first family in a list that has it."""

import logging
from collections.abc import Iterable

from matplotlib.font_manager import FontEntry, fontManager
from matplotlib.ft2font import FT2Font

from nmt.config.language_codes import base, normal

log = logging.getLogger("nmt")

_FIRST = "DejaVu Sans"  # comes with matplotlib: Latin, Greek, Cyrillic, Arabic, Hebrew, …
# Each language draws Chinese characters differently: parts of the names of fonts for a language.
_OF_LANGUAGE = {
    "ja": ("CJK JP", "Sans JP", "Hiragino", "Yu Gothic", "Meiryo", "IPA", "Takao"),
    "ko": ("CJK KR", "Sans KR", "Apple SD Gothic", "Malgun", "Nanum"),
    "zh-hant": ("CJK TC", "Sans TC", "PingFang TC", "JhengHei"),
    "zh": ("CJK SC", "Sans SC", "PingFang SC", "YaHei", "SimHei", "WenQuanYi", "Heiti"),
}


def families(text: str, languages: Iterable[str] = ()) -> list[str]:
    """DejaVu Sans, then the installed families that have the characters it lacks.

    Families for these languages (codes such as `zh-TW`) come before others, sans-serif ones before the rest. Warns of
    characters that no font has. Only needed families are named, because matplotlib opens every file of the list.
    """
    missing = {character for character in text if character.isprintable() and character != " "}
    preferred = [part for code in languages for part in _font_names(code)]

    def order(entry: FontEntry) -> tuple[bool, bool, bool, str]:
        of_language = any(part in entry.name for part in preferred)
        return entry.name != _FIRST, not of_language, "Sans" not in entry.name or "Mono" in entry.name, entry.name

    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)  # it warns about each font of weight 500
    chosen = [_FIRST]
    for entry in sorted(_upright_fonts(), key=order):
        if not missing:
            return chosen
        if found := missing & _characters(entry):
            missing -= found
            chosen += [entry.name] if entry.name not in chosen else []
    if missing:
        log.warning(
            "no installed font has these %d characters: %s: the pictures show boxes instead: install a font such as "
            "Noto Sans (Debian: apt-get install fonts-noto-core fonts-noto-cjk)",
            len(missing),
            "".join(sorted(missing)[:20]),
        )
    return chosen


def _font_names(code: str) -> tuple[str, ...]:
    code = normal(code)
    if code.startswith("zh") and any(part in code for part in ("hant", "tw", "hk", "mo")):
        return _OF_LANGUAGE["zh-hant"]
    return _OF_LANGUAGE.get(base(code), ())


def _upright_fonts() -> list[FontEntry]:
    """Installed fonts of normal style and weight, without matplotlib's own font of boxes."""
    weights = ("normal", 400, 500)  # 500: WenQuanYi Zen Hei
    upright = [entry for entry in fontManager.ttflist if entry.style == "normal" and entry.weight in weights]
    return [entry for entry in upright if "LastResort" not in entry.fname]


def _characters(entry: FontEntry) -> set[str]:
    """The characters that a font has; none if its file was deleted or damaged since matplotlib found it."""
    try:
        return set(map(chr, FT2Font(entry.fname, face_index=entry.index).get_charmap()))
    except (OSError, RuntimeError) as error:
        log.debug("%s: %s", entry.fname, error)
        return set()
