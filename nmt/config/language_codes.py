"""Codes of languages, as settings, files and corpora write them: `pt`, `pt-BR`, `zh_TW`."""

from collections.abc import Sequence


def normal(code: str) -> str:
    """A code by which languages are compared: `zh-tw` of `zh_TW`."""
    return code.lower().replace("_", "-")


def base(code: str) -> str:
    """The language alone: `zh` of `zh-CN` and of `zh_TW`."""
    return normal(code).partition("-")[0]


def matching(code: str, known: Sequence[str]) -> str | None:
    """The one of the known codes that a code means; None if there is none or a choice.

    Case does not matter, and `_` is the same as `-`. A code that is not known means the language that it belongs to
    (`de` for `de-DE`: the lookup of RFC 4647, section 3.4), else the only known one of the same language and script
    (`zh-Hans` for `zh-CN`, `pt-BR` for `pt`).
    """
    by_normal = {normal(one): one for one in known}
    parts = normal(code).split("-")
    for end in range(len(parts), 0, -1):
        if found := by_normal.get("-".join(parts[:end])):
            return found
    alike = [one for one in known if _same_language(code, one)]
    return alike[0] if len(alike) == 1 else None


def _same_language(one: str, other: str) -> bool:
    """Whether both are of a language and, where both say more than that, of a script: so not `zh-TW` and `zh-Hans`."""
    import langcodes  # here: most codes are known as they are

    try:
        tags = [langcodes.Language.get(code) for code in (one, other)]
    except ValueError:
        return False
    if not tags[0].language or tags[0].language != tags[1].language:
        return False
    scripts = [tag.maximize().script for tag in tags if tag.script or tag.territory]
    return len(set(scripts)) < 2
