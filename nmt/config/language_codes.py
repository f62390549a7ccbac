"""Codes of languages, as settings, files and corpora write them: `pt`, `pt-BR`, `zh_TW`; and what they stand for.

The package langcodes, with the tables of Unicode's CLDR, is loaded where it is needed: most codes are known without it.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import langcodes

from nmt.errors import NmtError
from nmt.files.compression import plain_name

_ENGLISH_NAMES = {
    "af": "Afrikaans", "ak": "Akan", "am": "Amharic", "ar": "Arabic", "as": "Assamese", "ay": "Aymara",
    "az": "Azerbaijani", "ba": "Bashkir", "be": "Belarusian", "bg": "Bulgarian", "bm": "Bambara", "bn": "Bengali",
    "bo": "Tibetan", "br": "Breton", "bs": "Bosnian", "ca": "Catalan", "ce": "Chechen", "co": "Corsican",
    "cs": "Czech", "cv": "Chuvash", "cy": "Welsh", "da": "Danish", "de": "German", "dv": "Dhivehi", "dz": "Dzongkha",
    "ee": "Ewe", "el": "Greek", "en": "English", "eo": "Esperanto", "es": "Spanish", "et": "Estonian", "eu": "Basque",
    "fa": "Persian", "ff": "Fula", "fi": "Finnish", "fj": "Fijian", "fo": "Faroese", "fr": "French",
    "fy": "Western Frisian", "ga": "Irish", "gd": "Scottish Gaelic", "gl": "Galician", "gn": "Guarani",
    "gu": "Gujarati", "gv": "Manx", "ha": "Hausa", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian",
    "ht": "Haitian Creole", "hu": "Hungarian", "hy": "Armenian", "id": "Indonesian", "ig": "Igbo", "is": "Icelandic",
    "it": "Italian", "iu": "Inuktitut", "ja": "Japanese", "jv": "Javanese", "ka": "Georgian", "ki": "Kikuyu",
    "kk": "Kazakh", "kl": "Kalaallisut", "km": "Khmer", "kn": "Kannada", "ko": "Korean", "ks": "Kashmiri",
    "ku": "Kurdish", "kw": "Cornish", "ky": "Kyrgyz", "la": "Latin", "lb": "Luxembourgish", "lg": "Ganda",
    "li": "Limburgish", "ln": "Lingala", "lo": "Lao", "lt": "Lithuanian", "lv": "Latvian", "mg": "Malagasy",
    "mi": "Maori", "mk": "Macedonian", "ml": "Malayalam", "mn": "Mongolian", "mr": "Marathi", "ms": "Malay",
    "mt": "Maltese", "my": "Burmese", "nb": "Norwegian Bokmål", "ne": "Nepali", "nl": "Dutch",
    "nn": "Norwegian Nynorsk", "no": "Norwegian", "ny": "Chichewa", "oc": "Occitan", "om": "Oromo", "or": "Odia",
    "os": "Ossetic", "pa": "Punjabi", "pl": "Polish", "ps": "Pashto", "pt": "Portuguese", "qu": "Quechua",
    "rm": "Romansh", "rn": "Rundi", "ro": "Romanian", "ru": "Russian", "rw": "Kinyarwanda", "sa": "Sanskrit",
    "sc": "Sardinian", "sd": "Sindhi", "se": "Northern Sami", "sg": "Sango", "si": "Sinhala", "sk": "Slovak",
    "sl": "Slovenian", "sm": "Samoan", "sn": "Shona", "so": "Somali", "sq": "Albanian", "sr": "Serbian", "ss": "Swati",
    "st": "Sotho", "su": "Sundanese", "sv": "Swedish", "sw": "Swahili", "ta": "Tamil", "te": "Telugu", "tg": "Tajik",
    "th": "Thai", "ti": "Tigrinya", "tk": "Turkmen", "tl": "Tagalog", "tn": "Tswana", "to": "Tongan", "tr": "Turkish",
    "ts": "Tsonga", "tt": "Tatar", "tw": "Twi", "ug": "Uyghur", "uk": "Ukrainian", "ur": "Urdu", "uz": "Uzbek",
    "ve": "Venda", "vi": "Vietnamese", "wo": "Wolof", "xh": "Xhosa", "yi": "Yiddish", "yo": "Yoruba", "zh": "Chinese",
    "zu": "Zulu",
}  # fmt: skip

_SCRIPTS = {
    "Jpan": ("Hira", "Kana", "Hani"),
    "Kore": ("Hang", "Hani"),
    "Hans": ("Hani", "Bopo"),
    "Hant": ("Hani", "Bopo"),
}
# Languages that are written in several scripts today, by Unicode's CLDR (languageData), and a few languages with text
# in a script that CLDR does not list. All other languages have the likely script by CLDR.
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
    """The language without script and region: `zh` for `zh-CN` and for `zh_TW`."""
    return normal(code).partition("-")[0]


def is_known(code: str) -> bool:
    """Whether a code begins with the code, in two or three letters, of a language that has a name here."""
    return two_letters(code) in _ENGLISH_NAMES


def language_of_file(path: Path) -> str | None:
    """The language code at the end of a file name, such as `fr` in train.fr and train.fr.gz; None if there is none."""
    code = Path(plain_name(path)).suffix.removeprefix(".")
    return code if is_known(code) else None


def english_name(code: str) -> str:
    """The English name of a language: Portuguese for `pt-BR` and `por_Latn`. The code itself if it has no name here."""
    return _ENGLISH_NAMES.get(two_letters(code), code)


def matching(code: str, codes: Sequence[str]) -> str | None:
    """The code among `codes` that a code means; None if no code matches, or several do.

    Case does not matter, and `_` is the same as `-`. If the code itself is missing, a code without its region or script
    matches (`de` for `de-DE`: the lookup of RFC 4647, section 3.4). Otherwise the only code with the same language,
    script and region matches, as far as both have these parts (`zh-Hans` for `zh-CN`, `pt-BR` for `pt`, `swh_Latn` for
    `sw`).
    """
    by_normal = {normal(other): other for other in codes}
    parts = normal(code).split("-")
    for end in range(len(parts), 0, -1):
        if match := by_normal.get("-".join(parts[:end])):
            return match
    alike = [other for other in codes if _agree(code, other)]
    return alike[0] if len(alike) == 1 else None


def _agree(code: str, other: str) -> bool:
    """Whether both codes have the same language, and the same region and script if both have these. So `pt-PT` and
    `pt-BR` do not agree. A region implies a script, so `zh-TW` and `zh-Hans` do not agree."""
    try:
        tags = list(map(langcodes.Language.get, (code, other)))
        languages = {macrolanguage(tag.language) if tag.language else None for tag in tags}
    except ValueError:
        return False
    if None in languages or len(languages) > 1:
        return False
    regions = {tag.territory for tag in tags if tag.territory}
    scripts = {tag.maximize().script for tag in tags if tag.script or tag.territory}
    return len(regions) < 2 and len(scripts) < 2


def same_code(code: str, other: str) -> bool:
    """Whether two codes mean the same: `de` and `deu`, but not `pt` and `pt-BR`. False for unknown languages."""
    try:
        return bool(langcodes.standardize_tag(code) == langcodes.standardize_tag(other))
    except ValueError:
        return False


@cache
def two_letters(code: str) -> str:
    """The language without script and region, in two letters if it has such a code: `de` for `de_AT` and `deu`. The
    first part of the code if the language is unknown."""
    language = base(code)
    if len(language) != 3:
        return language
    try:
        return langcodes.Language.get(language).language or language
    except ValueError:
        return language


@cache
def known_language(code: str) -> str:
    """The language of a code, in two letters if it has such a code: `en` for `en`, `eng`, `en_GB` and `eng_Latn`.

    Raises NmtError if the language is unknown."""
    try:
        language = langcodes.Language.get(code).language
        if language and langcodes.tag_is_valid(language):
            return "tl" if language == "fil" else language
    except (LookupError, ValueError):
        pass
    raise NmtError(f"{code}: no language has this code: write it as in BCP 47, such as en, pt-BR or sr-Latn")


def macrolanguage(language: str) -> str:
    """The macrolanguage of a language, such as `ar` for `arb`; the language itself if it has none."""
    return langcodes.Language.get(langcodes.standardize_tag(language, macro=True)).language or language


@cache
def scripts(code: str) -> tuple[str, ...]:
    """The scripts of a language by their ISO 15924 codes: Hira, Kana and Hani for `ja`. The code may name a script:
    `sr-Latn`. Empty if no script is known. Raises NmtError as `known_language` does."""
    language, tag = known_language(code), langcodes.Language.get(code)
    if tag.script is None:
        names = {language, macrolanguage(language)}
        for several, languages in _SEVERAL_SCRIPTS.items():
            if names.intersection(languages.split()):
                return tuple(several.split())
        if not likely_scripts(language):  # `maximize` would give the script of English
            return ()
    script = tag.maximize().script
    return _SCRIPTS.get(script, (script,)) if script else ()


@cache
def likely_scripts(language: str) -> tuple[str, ...]:
    """The likely scripts of a language by CLDR; empty if CLDR has none. language: from `known_language`."""
    tags = (langcodes.data_dicts.LIKELY_SUBTAGS.get(name) for name in (language, macrolanguage(language)))
    script = next((langcodes.Language.get(tag).script for tag in tags if tag), None)
    return () if script is None else _SCRIPTS.get(script, (script,))
