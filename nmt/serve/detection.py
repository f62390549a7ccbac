"""Which of a model's languages a text is in."""

import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nmt.data.cleaning.rules import language_identifier

_loading = threading.Lock()  # the identifier is loaded once, also if many first requests come together


class DetectedLanguage(NamedTuple):
    """A language and how surely a text is in it, in percent: the names of LibreTranslate's answers."""

    language: str
    confidence: float


def detect(lines: Sequence[str], codes: Sequence[str]) -> list[DetectedLanguage]:
    """These languages of a text, the likeliest first, by its lines together. The text may be in another language:
    then all have a low confidence. Those that the identifier does not know have 0, as all have of a text without a
    letter. Raises NmtError if the identifier cannot be loaded."""
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
