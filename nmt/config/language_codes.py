"""Codes of languages, as settings, files and corpora write them: `pt`, `pt-BR`, `zh_TW`."""

from collections.abc import Sequence

_ENGLISH_NAMES = {
    "ar": "Arabic", "bg": "Bulgarian", "bn": "Bengali", "ca": "Catalan", "cs": "Czech", "da": "Danish",
    "de": "German", "el": "Greek", "en": "English", "eo": "Esperanto", "es": "Spanish", "et": "Estonian",
    "eu": "Basque", "fa": "Persian", "fi": "Finnish", "fr": "French", "ga": "Irish", "gl": "Galician",
    "gu": "Gujarati", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian", "hu": "Hungarian", "id": "Indonesian",
    "is": "Icelandic", "it": "Italian", "ja": "Japanese", "ka": "Georgian", "kk": "Kazakh", "ko": "Korean",
    "lt": "Lithuanian", "lv": "Latvian", "ms": "Malay", "mt": "Maltese", "nb": "Norwegian Bokmål", "nl": "Dutch",
    "no": "Norwegian", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sk": "Slovak",
    "sl": "Slovenian", "sq": "Albanian", "sr": "Serbian", "sv": "Swedish", "sw": "Swahili", "ta": "Tamil",
    "te": "Telugu", "th": "Thai", "tl": "Tagalog", "tr": "Turkish", "uk": "Ukrainian", "ur": "Urdu",
    "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip


def normal(code: str) -> str:
    """A code by which languages are compared: `zh-tw` of `zh_TW`."""
    return code.lower().replace("_", "-")


def base(code: str) -> str:
    """The language alone: `zh` of `zh-CN` and of `zh_TW`."""
    return normal(code).partition("-")[0]


def is_known(code: str) -> bool:
    """Whether it begins with the code of a language that has a name here."""
    return base(code) in _ENGLISH_NAMES


def english_name(code: str) -> str:
    """The English name of a language: by the first part of the code, so `pt-BR` is Portuguese. Else the code itself."""
    return _ENGLISH_NAMES.get(base(code), code)


def matching(code: str, known: Sequence[str]) -> str | None:
    """The one of the known codes that a code means; None if there is none or a choice.

    Case does not matter, and `_` is the same as `-`. A code that is not known means the language that it belongs to
    (`de` for `de-DE`: the lookup of RFC 4647, section 3.4), else the only known one of the same language, script and
    region, as far as both say them (`zh-Hans` for `zh-CN`, `pt-BR` for `pt`).
    """
    by_normal = {normal(one): one for one in known}
    parts = normal(code).split("-")
    for end in range(len(parts), 0, -1):
        if found := by_normal.get("-".join(parts[:end])):
            return found
    alike = [one for one in known if _agree(code, one)]
    return alike[0] if len(alike) == 1 else None


def _agree(one: str, other: str) -> bool:
    """Whether both are of a language, and of a region and a script where both say these: so not `pt-PT` and `pt-BR`. A
    region says the script too: so not `zh-TW` and `zh-Hans`."""
    import langcodes  # here: most codes are known as they are

    try:
        tags = [langcodes.Language.get(code) for code in (one, other)]
    except ValueError:
        return False
    if not tags[0].language or tags[0].language != tags[1].language:
        return False
    regions = {tag.territory for tag in tags if tag.territory}
    scripts = {tag.maximize().script for tag in tags if tag.script or tag.territory}
    return len(regions) < 2 and len(scripts) < 2
