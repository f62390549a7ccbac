"""Checks with a few translations that an imported model writes the language that the user has named, if its files name
none."""

from collections import Counter
from collections.abc import Callable, Sequence

from nmt.config.language_codes import english_name
from nmt.config.language_pairs import LanguagePair
from nmt.data.cleaning.rules.language_identifier import alike, identifier
from nmt.errors import NmtError
from nmt.interop.sample_text import ENGLISH, LINES

_FEWEST = 3  # outputs that are needed to judge


def problem(translate: Callable[[Sequence[str]], Sequence[str]], pair: LanguagePair) -> str | None:
    """A message if the languages seem to be wrong, in one line; otherwise None.

    Lines in both languages are translated. A model of the opposite direction writes its own target language; a model of
    the right direction copies, at most, lines that are in its target language already. The result is also None for
    languages that the identifier does not know, and if there are too few lines.
    """
    languages = identifier()
    try:
        if not languages.knows(pair.target):
            return None
        lines = [*_lines(pair.source), *_lines(pair.target)]
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
    """The sample lines in a language. Raises NmtError for a code of no language."""
    scores, lengths = identifier().scores(LINES)
    lines = list[str]()
    if identifier().knows(code):
        doubts = identifier().doubt(scores, lengths, code)
        lines += [line for line, doubt in zip(LINES, doubts, strict=True) if doubt < -0.5]
    return [*lines, *ENGLISH] if "en" in alike(code) else lines
