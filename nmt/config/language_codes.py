"""Codes of languages, as settings, files and corpora write them: `pt`, `pt-BR`, `zh_TW`."""


def normal(code: str) -> str:
    """A code by which languages are compared: `zh-tw` of `zh_TW`."""
    return code.lower().replace("_", "-")


def base(code: str) -> str:
    """The language alone: `zh` of `zh-CN` and of `zh_TW`."""
    return normal(code).partition("-")[0]
