"""Whether the answer of a large language model is a translation of a line.

Text that a chat model writes around a translation is removed. Then the rules of this file and those of `data.clean`
find answers that are not translations. Faults that the source has too do not count.
"""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np
import regex

from nmt.config.data_section import CleaningConfig
from nmt.config.language_codes import base, english_name
from nmt.config.language_pairs import LanguagePair
from nmt.data.cleaning.rules.judge import judge, not_checked, rules_of
from nmt.data.cleaning.rules.language_identifier import FEW
from nmt.teachers.chat import Unwrapping, has_comment, is_refusal

log = logging.getLogger("nmt")

# How many characters of an alphabet a character stands for, measured in news in 48 languages.
_WEIGHTS = (
    (re.compile(r"[\u2e80-\u2fff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"), 3.0),  # Chinese characters
    (re.compile(r"[\u3040-\u30ff\u1100-\u11ff\uac00-\ud7af]"), 2.2),  # Kana and Hangul
    (re.compile(r"[\u1200-\u139f]"), 1.5),  # Ethiopic
)
# A word three times one after another; to this library, the vowel signs of Indian scripts are parts of words.
_SAME_WORD = regex.compile(r"(?<!\w)(\w{2,40})(?:\W{1,3}\1(?!\w)){2,}", regex.IGNORECASE)
_BREAK = re.compile(r"[\n\r\t\v\f\x85\u2028\u2029]")
_COMMON_WORDS = 3  # with fewer, a line may be the same in both languages: names, numbers, addresses
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]{1,2}|(?<![\w/.@:-])[^\W\d_]+(?![/.@:-]*\w)")
# People leave out numbers and round them. A model seldom does, so the rule `digits` has this share of its threshold.
_SHARE_FOR_DIGITS = 0.75
_BETWEEN_SIDES = ("copies", "digits")  # rules that compare the sides; all others look at each side alone


@dataclass(frozen=True)
class CheckedAnswer:
    """An answer of a model."""

    text: str  # the answer as one line, without what a chat puts around a translation
    reason: str  # why it is not a translation, a short plain name such as "refusal"; "" for a translation


class AnswerRules:
    """Says which answers are translations. Takes 2 seconds to load."""

    def __init__(self, clean: CleaningConfig, pair: LanguagePair) -> None:
        """Logs a warning for each language that the rules cannot check. Raises NmtError as `rules_of` does."""
        clean = clean.applied
        if clean.digits is not None:
            clean = replace(clean, digits=_SHARE_FOR_DIGITS * clean.digits)
        if base(pair.source) == base(pair.target):  # such as zh and zh-Hant: many lines are equal
            clean = replace(clean, copies=None)
        self._finds_copies, self._finds_loops = clean.copies is not None, clean.repetition is not None
        self._rules = rules_of(clean, pair)
        self._unwrapping = Unwrapping(*map(english_name, pair))
        for problem in not_checked(self._rules, pair):
            log.warning("%s", problem)

    def check(self, sources: Sequence[str], answers: Sequence[str]) -> list[CheckedAnswer]:
        """The answers in the order of their sources. An answer does not depend on the other ones."""
        checked = list(map(self._by_its_form, sources, answers))
        remaining = [i for i, answer in enumerate(checked) if not answer.reason and answer.text]
        for first in range(0, len(remaining), FEW):
            chunk = remaining[first : first + FEW]
            reasons = self._by_rules([(sources[i], checked[i].text) for i in chunk])
            for i, reason in zip(chunk, reasons, strict=True):
                checked[i] = CheckedAnswer(checked[i].text, reason)
        return checked

    def _by_its_form(self, source: str, answer: str) -> CheckedAnswer:
        source = source.strip()
        text = self._unwrapping.unwrapped(source, answer.replace("\r\n", "\n"))
        line = " ".join(filter(None, map(str.strip, _BREAK.split(text))))
        reason = ""
        if not line:
            reason = "empty" if source else ""
        elif is_refusal(source, line):
            reason = "refusal"
        elif has_comment(source, line):
            reason = "comment"
        elif "\n" in text:
            reason = "several lines"
        elif self._finds_loops and _repeats(line) and not _repeats(source):
            reason = "repetition"
        elif self._finds_copies and _is_copy(source, line):
            reason = "copy"
        return CheckedAnswer(line, reason)

    def _by_rules(self, pairs: list[tuple[str, str]]) -> list[str]:
        """The name of the first rule of `data.clean` that each answer breaks, then its length; "": none."""
        scores = judge(pairs, self._rules).scores
        thresholds = np.array([rule.threshold for rule in self._rules], np.float32)[:, None]
        doubtful = np.flatnonzero((scores > thresholds).any(axis=0))
        source_scores = np.zeros_like(scores)  # by the rules that look at a side alone
        if len(doubtful):
            source_scores[:, doubtful] = judge([(pairs[i][0], "") for i in doubtful], self._rules).scores
            source_scores[[rule.name in _BETWEEN_SIDES for rule in self._rules]] = 0
        reasons = [_length_fault(*pair) for pair in pairs]
        broken = scores - np.maximum(source_scores, 0) > thresholds
        for i in doubtful:
            for rule in compress(self._rules, broken[:, i]):
                if rule.name != "copies" or _common_words(*pairs[i]) >= _COMMON_WORDS:
                    reasons[i] = rule.name
                    break
        return reasons


def _length_fault(source: str, answer: str) -> str:
    expected, length = _length(source), _length(answer)
    shortest, longest = 0.48 * expected - 2, 2.5 * expected + 15  # wide for short lines
    return "too short" if length < shortest else "too long" if length > longest else ""


def _length(text: str) -> float:
    """The length in characters of an alphabet."""
    if text.isascii():
        return len(text)
    return len(text) + sum((weight - 1) * len(letters.findall(text)) for letters, weight in _WEIGHTS)


def _repeats(text: str) -> bool:
    """Whether a word occurs three times in a row, or the whole text is repeated."""
    words = regex.findall(r"\w+", text.casefold())
    half = len(words) // 2
    twice = half >= _COMMON_WORDS and (words[:half] == words[half:] or words[:half] == words[half + 1 :])
    return twice or _SAME_WORD.search(text) is not None


def _is_copy(source: str, answer: str) -> bool:
    same = "".join(source.split()).casefold() == "".join(answer.split()).casefold()
    return same and _common_words(source, source) >= _COMMON_WORDS


def _common_words(source: str, answer: str) -> float:
    """The number of words in both texts, except names, numbers and addresses: words in lower case. In a script
    without capitals some words are names, so each counts a half; so do two Chinese characters."""
    common = set(_WORD.findall(source)) & set(_WORD.findall(answer))
    return sum(1.0 if word.islower() else 0.5 for word in common if word.lower() == word)
