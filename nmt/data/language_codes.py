"""Codes of languages, as settings, files and corpora write them: `pt`, `pt-BR`, `zh_TW`."""

import re


def base(code: str) -> str:
    """The language alone, in small letters: `zh` of `zh-CN` and of `zh_TW`."""
    return re.split("[-_]", code, maxsplit=1)[0].lower()
