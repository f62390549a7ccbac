"""Whether a model writes the language that the user has named, where its files name none: by a few translations."""

from collections import Counter
from collections.abc import Callable, Sequence

from nmt.config.language_codes import english_name
from nmt.config.language_pairs import LanguagePair
from nmt.data.cleaning.rules.language_identifier import alike, identifier
from nmt.errors import NmtError
from nmt.interop.sample_text import ENGLISH, LINES

_FEWEST = 3  # outputs from which something can be said


def problem(translate: Callable[[Sequence[str]], Sequence[str]], pair: LanguagePair) -> str | None:
    """What is wrong with the languages, in one line; None if nothing is seen.

    Lines of both languages are translated: a model of the opposite direction writes its own target for them, and the
    right one at most copies what is in its target already. Nothing is said of languages that the identifier does not
    know, or of which there are too few lines.
    """
    languages = identifier()
    try:
        if not languages.knows(pair.target):
            return None
        lines = [line for code in pair for line in _lines(code)]
    except NmtError:  # a code of no language
        return None
    outputs = [output for output in translate(lines) if output.strip()]
    if len(outputs) < _FEWEST:
        return None
    scores, lengths = languages.scores(outputs)
    doubts = languages.doubt(scores, lengths, pair.target)
    others = [name for name, doubt in zip(languages.names(scores), doubts, strict=True) if doubt > 1]
    if 2 * len(others) <= len(outputs):
        return None
    [(seen, count)] = Counter(others).most_common(1)
    return (
        f"--languages {','.join(pair)}: {len(others)} of {len(outputs)} sample translations are not in "
        f"{english_name(pair.target)}, and {count} seem to be {english_name(seen)}: import it again if these are not "
        "its languages"
    )


def _lines(code: str) -> Sequence[str]:
    """Those in a language. Raises NmtError for a code of no language."""
    scores, lengths = identifier().scores(LINES)
    sure = identifier().doubt(scores, lengths, code) < -0.5 if identifier().knows(code) else [False] * len(LINES)
    of_language = [line for line, is_sure in zip(LINES, sure, strict=True) if is_sure]
    return [*of_language, *ENGLISH] if "en" in alike(code) else of_language
