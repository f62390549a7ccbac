"""The scores by which rules drop pairs: the higher, the worse. Each function scores one side of a chunk or both sides
together, [pairs]. The score of a pair does not depend on the other pairs of the chunk.

A short line gives little evidence. So shares have a constant in the denominator: `OK!` is not one third symbols.
"""

import html
import re
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from nmt.config.language_codes import scripts
from nmt.data.cleaning.rules import characters, language_identifier, numbers
from nmt.data.cleaning.rules.characters import TextLines

Scores = npt.NDArray[np.float32]
Score = Callable[[TextLines, TextLines, tuple[str, str]], Scores]
Integer = TypeVar("Integer", np.uint16, np.uint32)
_LONGEST_PART = 64  # of a line, in characters, whose repetition is found
_SHORTEST_STRETCH = 16  # characters


def language(sources: TextLines, targets: TextLines, codes: tuple[str, str]) -> Scores:
    """How much more likely a side is in another language: see `LanguageIdentifier.doubt`. The score is 0 for a language
    that the identifier does not know, and for a line in a script in which it does not know the language."""
    return np.maximum(*(language_doubt(side, code) for side, code in zip((sources, targets), codes, strict=True)))


def language_doubt(side: TextLines, code: str) -> Scores:
    """The score of one side. Raises NmtError if the code is not a language."""
    model = language_identifier.identifier()
    if not model.knows(code):
        return np.zeros(len(side.texts), np.float32)
    doubt = model.doubt(*model.scores(side.texts), code)
    if unread := model.unread_scripts(code):
        letters = (side.kinds & characters.LETTER) != 0
        not_judged = side.count(letters & characters.in_scripts(tuple(sorted(unread)))[side.codes])
        doubt[2 * not_judged > side.count(letters)] = 0
    return doubt


def script(side: TextLines, code: str) -> Scores:
    """The share of letters that are in a script which the language is not written in: 0 to 1.

    From U+0800 on, most scripts write a syllable or a word with a letter, such as those of India and Ethiopia and
    Chinese characters. One of these counts as three letters, or a sentence with the English name of a film would be
    mostly Latin."""
    names = scripts(code)
    if not names:
        return np.zeros(len(side.texts), np.float32)
    letters = (side.kinds & characters.LETTER) != 0
    own = letters & characters.in_scripts(names)[side.codes]
    foreign = side.count(letters & ~own)
    return _share(foreign, foreign + side.count(own) + 2 * side.count(own & (side.codes >= 0x800)) + 8)


def symbols(side: TextLines) -> Scores:
    """The share of characters that are neither letters nor digits: 0 to 1. White space does not count."""
    spaces, words = side.count_kind(characters.SPACE), side.count_kind(characters.LETTER | characters.DIGIT)
    return _share(side.lengths - spaces - words, side.lengths - spaces + 8)


def repetition(side: TextLines) -> Scores:
    """The length of the longest repetition: a stretch of characters that are equal to the characters 1 to 64 positions
    before them. This lag is subtracted, so that a phrase that is said twice scores 0, and each further time adds its
    length. `aaaa`, `ha ha ha ha` and repeated phrases are found; stretches of less than 16 characters are not."""
    codes = side.codes.astype(np.uint8)  # a part of each is as good, and faster to compare
    scores, ends = np.zeros(len(side.texts), np.float32), side.starts + side.lengths
    for lag in range(1, min(_LONGEST_PART, len(codes) - _SHORTEST_STRETCH) + 1):
        same = codes[lag:] == codes[:-lag]
        for step in (1, 2, 4, 8):  # the next 2, 4, 8, 16 are the same too
            same = same[step:] & same[:-step]
        if not same.any():
            continue
        edges = np.flatnonzero(np.diff(same, prepend=False, append=False)).reshape(-1, 2)
        for first, last in (edges + np.array([lag, lag + _SHORTEST_STRETCH - 1])).tolist():
            line = int(np.searchsorted(side.starts, first, side="right")) - 1
            while line < len(ends) and side.starts[line] < last:  # a stretch may go on in the lines below
                stretch = min(last, ends[line]) - max(first, side.starts[line] + lag)
                if stretch >= _SHORTEST_STRETCH:
                    scores[line] = max(scores[line], stretch - lag)
                line += 1
    return scores


def digits(sources: TextLines, targets: TextLines, codes: tuple[str, str]) -> Scores:
    """The share of numbers that are on one side only, 0 to 1, with 1 added to the denominator: see `numbers`."""
    shifts = numbers.shifts_of_hours(codes)
    scores = np.zeros(len(sources.texts), np.float32)
    for pair in np.flatnonzero(_hashes_of_digits(sources) != _hashes_of_digits(targets)).tolist():
        on_one_side, all_numbers = numbers.unmatched(sources.texts[pair], targets.texts[pair], shifts)
        scores[pair] = on_one_side / (1 + all_numbers)
    return scores


def _hashes_of_digits(side: TextLines) -> npt.NDArray[np.uint64]:
    """A hash of each line's digits in their order, and of the positions of other characters between them: [lines]. Most
    pairs have equal hashes and need no further comparison."""
    positions = np.flatnonzero(side.kinds & characters.DIGIT)
    lines = side.line_of(positions)
    gaps = np.cumsum(np.diff(positions, prepend=-1) > 1)  # the gaps before each digit
    symbols = np.arange(len(positions)) + gaps
    first = np.searchsorted(lines, lines)  # of the same line
    powers = np.uint64(0x9E3779B97F4A7C15) ** (symbols - symbols[first]).astype(np.uint64)  # modulo 2^64
    hashes = np.zeros(len(side.texts), np.uint64)
    np.add.at(hashes, lines, powers * (1 + characters.digit_values()[side.codes[positions]]).astype(np.uint64))
    return hashes


# The parts of a mail address are limited (RFC 5321), or a long line without spaces would take minutes.
_URL = re.compile(r"(?:https?://|www\.)\S+|[^\s@]{1,64}@[^\s@]{1,255}\.\w+", re.IGNORECASE)


def addresses(side: TextLines) -> Scores:
    """The share of characters in web and mail addresses: 0 to 1."""
    scores = np.zeros(len(side.texts), np.float32)
    for i, text in enumerate(side.texts):
        if "://" in text or "@" in text or "www." in text:
            scores[i] = sum(map(len, _URL.findall(text))) / (len(text) + 8)
    return scores


_TAG = re.compile(r"</?[a-zA-Z][a-zA-Z0-9]*(?:\s[^<>]*)?/?>|<!--|-->|<!\[CDATA\[|<!DOCTYPE", re.IGNORECASE)
_ENTITY = re.compile(r"&\s?(?:#\d+|#x[0-9a-fA-F]+|[a-zA-Z][a-zA-Z0-9]*)\s?;")


def markup(side: TextLines) -> Scores:
    """The number of HTML and XML tags and entities (`&amp;`, `&#39;`). `<` and `>` alone count one half."""
    scores = np.zeros(len(side.texts), np.float32)
    for i, text in enumerate(side.texts):
        if "<" in text or ">" in text or "&" in text:
            entities = [entity.replace(" ", "") for entity in _ENTITY.findall(text)]
            count = sum(html.unescape(reference) != reference for reference in entities) + len(_TAG.findall(text))
            scores[i] = count or 0.5 * ("<" in text or ">" in text)
    return scores


def encoding(side: TextLines) -> Scores:
    """How many characters seem to be decoded wrongly: characters that are not used in text, such as U+FFFD; and two or
    three characters that are one character of UTF-8 read as Latin-1, such as `Ã¤`. Sequences that also occur in good
    text, such as `É»`, and question marks inside a word count one half."""
    kinds = side.kinds
    second, third = _next(side, kinds), _next(side, _next(side, kinds))
    continued = (second & characters.CONTINUATION) != 0
    ambiguous = continued & (second & characters.AMBIGUOUS != 0)
    two = (kinds & characters.LEAD_OF_TWO != 0) & continued
    more = (kinds & characters.LEAD_OF_MORE != 0) & continued & ~ambiguous & (third & characters.CONTINUATION != 0)
    question = (second & characters.QUESTION != 0) & (kinds & third & characters.LETTER != 0)
    # `Â` or `Ã` before a no-break space (U+00A0) is the most frequent of all.
    sure = (two & ~ambiguous) | ((side.codes >> 1 == 0xC2 >> 1) & (_next(side, side.codes) == 0xA0))
    strange = side.count((kinds & characters.BROKEN != 0) | sure | more)
    return (strange + 0.5 * side.count((two & ~sure) | question)).astype(np.float32)


def _next(side: TextLines, values: npt.NDArray[Integer]) -> npt.NDArray[Integer]:
    """The value of the next character of the same line; 0 at the end of a line. values: [characters]."""
    following = np.zeros_like(values)
    following[:-1] = values[1:]
    following[(side.starts + side.lengths)[side.lengths > 0] - 1] = 0
    return following


def copies(sources: TextLines, targets: TextLines) -> Scores:
    """The share of the shorter side whose words are on the other side too: 0 to 1."""
    scores = np.zeros(len(sources.texts), np.float32)
    for pair, (source, target) in enumerate(zip(sources.texts, targets.texts, strict=True)):
        if common := set(source.split()).intersection(target.split()):
            scores[pair] = (sum(map(len, common)) + len(common)) / (min(len(source), len(target)) + 14)
    return scores


def _share(part: npt.NDArray[np.int64], whole: npt.NDArray[np.int64]) -> Scores:
    return (part / whole).astype(np.float32)


def _worse_side(score: Callable[[TextLines], Scores]) -> Score:
    return lambda sources, targets, _: np.maximum(score(sources), score(targets))


# For each rule what it finds, and its score of pairs in languages (source, target); None: the scores come from a model.
# Rules are applied in this order. A pair counts for the first rule that drops it.
RULES: dict[str, tuple[str, Score | None]] = {
    "encoding": ("wrong encoding", _worse_side(encoding)),
    "markup": ("HTML", _worse_side(markup)),
    "addresses": ("mostly web addresses", _worse_side(addresses)),
    "symbols": ("mostly symbols", _worse_side(symbols)),
    "repetition": ("repetition", _worse_side(repetition)),
    "script": ("wrong script", lambda sources, targets, codes: np.maximum(*map(script, (sources, targets), codes))),
    "copies": ("a side copied into the other", lambda sources, targets, _: copies(sources, targets)),
    "digits": ("different numbers", digits),
    "language": ("wrong language", language),
    "score": ("scored low by the model", None),
}
