"""Codes of languages, as settings, files and corpora write them: `pt`, `pt-BR`, `zh_TW`; and what they stand for.

The package langcodes, with the tables of Unicode's CLDR, is loaded where it is needed: most codes are known without it.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from nmt.errors import NmtError
from nmt.files.compression import plain_name

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

_SCRIPTS = {
    "Jpan": ("Hira", "Kana", "Hani"),
    "Kore": ("Hang", "Hani"),
    "Hans": ("Hani", "Bopo"),
    "Hant": ("Hani", "Bopo"),
}
# Languages that are written in several scripts today: by Unicode's CLDR, languageData; and a few more, of which there
# is text in another script than CLDR says. All others have the one script that is likely by CLDR.
_SEVERAL_SCRIPTS = {
    "Latn Cyrl": "bs crh kaa sr",
    "Latn Arab": "ha ms swb zdj",
    "Latn Cyrl Arab": "az ku ky tg tk ug uz",
    "Latn Deva": "hif kok",
    "Latn Hebr": "lad",
    "Latn Nkoo": "bm man",
    "Latn Tfng": "rif tmh tzm",
    "Latn Tfng Arab": "shi",
    "Latn Cans": "cr iu oj",
    "Latn Vaii": "vai",
    "Latn": "ctd",
    "Cyrl Arab": "kk",
    "Arab Guru": "pa",
    "Arab Deva": "ks sd",
    "Beng Cakm": "ccp",
    "Beng Deva": "unr unx",
    "Deva Limb": "lif",
    "Deva Telu": "gon",
    "Grek": "grc",
    "Laoo Hmnp Latn": "hnj",
}


def normal(code: str) -> str:
    """A code by which languages are compared: `zh-tw` of `zh_TW`."""
    return code.lower().replace("_", "-")


def base(code: str) -> str:
    """The language alone: `zh` of `zh-CN` and of `zh_TW`."""
    return normal(code).partition("-")[0]


def is_known(code: str) -> bool:
    """Whether it begins with the code of a language that has a name here."""
    return base(code) in _ENGLISH_NAMES


def of_file(path: Path) -> str | None:
    """The language that the name of a file ends in, as `fr` in train.fr and train.fr.gz; None without one."""
    code = Path(plain_name(path)).suffix.removeprefix(".")
    return code if is_known(code) else None


def english_name(code: str) -> str:
    """The English name of a language: of `pt-BR` and `por_Latn` Portuguese. The code itself if it has none here."""
    return _ENGLISH_NAMES.get(two_letters(code), code)


def matching(code: str, known: Sequence[str]) -> str | None:
    """The one of the known codes that a code means; None if there is none or a choice.

    Case does not matter, and `_` is the same as `-`. A code that is not known means the language that it belongs to
    (`de` for `de-DE`: the lookup of RFC 4647, section 3.4), else the only known one of the same language, script and
    region, as far as both say them (`zh-Hans` for `zh-CN`, `pt-BR` for `pt`, `swh_Latn` for `sw`).
    """
    by_normal = {normal(code): code for code in known}
    parts = normal(code).split("-")
    for end in range(len(parts), 0, -1):
        if match := by_normal.get("-".join(parts[:end])):
            return match
    alike = [other for other in known if _agree(code, other)]
    return alike[0] if len(alike) == 1 else None


def _agree(code: str, other: str) -> bool:
    """Whether both are of a language, and of a region and a script where both say these: so not `pt-PT` and `pt-BR`. A
    region says the script too: so not `zh-TW` and `zh-Hans`."""
    import langcodes

    try:
        tags = [langcodes.Language.get(one) for one in (code, other)]
        languages = {macrolanguage(tag.language) if tag.language else None for tag in tags}
    except ValueError:
        return False
    if None in languages or len(languages) > 1:
        return False
    regions = {tag.territory for tag in tags if tag.territory}
    scripts = {tag.maximize().script for tag in tags if tag.script or tag.territory}
    return len(regions) < 2 and len(scripts) < 2


def same_code(code: str, other: str) -> bool:
    """Whether two codes mean the same: `de` and `deu`, but not `pt` and `pt-BR`, nor codes of no language."""
    import langcodes

    try:
        return bool(langcodes.standardize_tag(code) == langcodes.standardize_tag(other))
    except ValueError:
        return False


@cache
def two_letters(code: str) -> str:
    """The language alone, in two letters if it has such a code: `de` of `de_AT` and `deu`. The first part of the code
    if there is no such language."""
    language = base(code)
    if len(language) != 3:
        return language
    import langcodes

    try:
        return langcodes.Language.get(language).language or language
    except ValueError:
        return language


@cache
def known_language(code: str) -> str:
    """The language of a code, as two letters where there are two: `en` of `en`, `eng`, `en_GB` and `eng_Latn`.

    Raises NmtError for a code of no language."""
    import langcodes

    try:
        language = langcodes.Language.get(code).language
        if language and langcodes.tag_is_valid(language):
            return "tl" if language == "fil" else language
    except (LookupError, ValueError):
        pass
    raise NmtError(f"{code}: no language has this code: write it as in BCP 47, such as en, pt-BR or sr-Latn")


def macrolanguage(language: str) -> str:
    """`ar` of `arb`: the language of which it is the usual form; else itself."""
    import langcodes

    return langcodes.Language.get(langcodes.standardize_tag(language, macro=True)).language or language


@cache
def scripts(code: str) -> tuple[str, ...]:
    """The scripts that a language is written in, by their ISO 15924 codes: of `ja` Hira, Kana and Hani. The code may
    name one: `sr-Latn`. None are known of some languages. Raises NmtError as `known_language` does."""
    import langcodes

    language, given = known_language(code), langcodes.Language.get(code)
    if given.script is None:
        names = {language, macrolanguage(language)}
        for several, languages in _SEVERAL_SCRIPTS.items():
            if names.intersection(languages.split()):
                return tuple(several.split())
        if not likely_scripts(language):  # `maximize` would give the script of English
            return ()
    script = given.maximize().script
    return _SCRIPTS.get(script, (script,)) if script else ()


@cache
def likely_scripts(language: str) -> tuple[str, ...]:
    """The scripts of a language, as `known_language` returns it, that are likely by CLDR; none if it does not say."""
    import langcodes

    tags = (langcodes.data_dicts.LIKELY_SUBTAGS.get(name) for name in (language, macrolanguage(language)))
    script = next((langcodes.Language.get(tag).script for tag in tags if tag), None)
    return () if script is None else _SCRIPTS.get(script, (script,))
