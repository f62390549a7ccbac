"""Detects the language of a text among the languages of a model."""

import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nmt.data.cleaning.rules import language_identifier

_loading = threading.Lock()  # loads the identifier once, even if several first requests come at the same time


class DetectedLanguage(NamedTuple):
    """A language and its confidence in percent. The names are those of LibreTranslate's answers."""

    language: str
    confidence: float


def detect(lines: Sequence[str], codes: Sequence[str]) -> list[DetectedLanguage]:
    """The languages of `codes`, the likeliest first, with their confidence for all lines together.

    If the text is in another language, all have a low confidence. A language that the identifier does not know has 0;
    for a text without letters, all have 0. Raises NmtError if the identifier cannot be loaded.
    """
    lines = [line for line in lines if any(map(str.isalpha, line))]
    if not lines:
        return [DetectedLanguage(code, 0.0) for code in codes]
    with _loading:
        identifier = language_identifier.identifier()
    weights = [min(len(line), language_identifier.LONGEST) for line in lines]
    probabilities = np.average(identifier.probabilities(lines), axis=0, weights=weights)
    detected = [
        DetectedLanguage(code, round(100 * float(probabilities[identifier.named(code)].sum()), 1)) for code in codes
    ]
    return sorted(detected, key=lambda language: -language.confidence)
