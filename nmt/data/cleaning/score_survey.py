"""The distribution of the scores of a corpus, computed before its text is cleaned: for thresholds of shares and for the
page about the data. It depends on the scores alone, so that chunks, processes and continuing change nothing."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nmt.config import schema

Values = npt.NDArray[np.float32]
Survey = dict[str, Any]  # of a score, in a form for `json.dumps`

_BARS = 40  # of the histogram
_SHARES = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)  # of the pairs, below the bounds shown
_ENDS = 0.005  # share of the pairs at each end that the histogram shows in its first and in its last bar


class Bound(NamedTuple):
    """A rule on a score."""

    rule: str  # its name in reports: the name of the score, and what is dropped
    score: str
    limit: float
    sign: int  # -1: pairs with a lower score are dropped; 1: with a higher one


def numbers(scores: Values) -> Values:
    """The scores that are not missing."""
    return scores[~np.isnan(scores)]


def survey(scores: Values) -> Survey:
    """The number of pairs, of those without a score (NaN), a histogram, and for some bounds the shares of the other
    pairs that they keep as `min` and as `max`. scores: [pairs]."""
    values = np.sort(numbers(scores)).astype(np.float64)
    found: Survey = {"pairs": len(scores), "missing": len(scores) - len(values), "bounds": [], "bars": []}
    if not len(values):
        return found
    low, high = (values[round(share * (len(values) - 1))] for share in (_ENDS, 1 - _ENDS))
    bars, edges = np.histogram(values.clip(low, high), bins=_BARS)
    bounds = dict.fromkeys(float(f"{values[int(share * len(values))]:.4g}") for share in _SHARES)
    for bound in bounds:
        below, up_to = (int(np.searchsorted(values, np.float32(bound), side)) for side in ("left", "right"))
        found["bounds"].append([bound, (len(values) - below) / len(values), up_to / len(values)])
    return found | {"bars": bars.tolist(), "ends": edges[[0, -1]].tolist(), "range": values[[0, -1]].tolist()}


def bounds_of(clean: schema.CleaningConfig, scores: Mapping[str, Values]) -> tuple[Bound, ...]:
    """The rules on the scores of a corpus. scores: of all its pairs, by name."""
    bounds = []
    if clean.score is not None and "score" in scores:
        bounds.append(Bound("score", "score", clean.score, -1))
    for name, given in (clean.scores or {}).items():
        if name not in scores:
            continue
        if given.min is not None:
            bounds.append(Bound(f"{name} below {given.min:g}", name, given.min, -1))
        if given.max is not None:
            bounds.append(Bound(f"{name} above {given.max:g}", name, given.max, 1))
        values = given.sign * numbers(scores[name])
        if given.keep_best is not None and len(values):
            kept = max(1, int(np.ceil(given.keep_best * len(values))))  # pairs; also those that equal the last of them
            limit = float(np.partition(values, len(values) - kept)[len(values) - kept])
            rule = f"{name} not among the best {100 * given.keep_best:g}%"
            bounds.append(Bound(rule, name, given.sign * limit, -given.sign))
    return tuple(bounds)


def not_scored(data: schema.DataConfig, surveys: Sequence[Mapping[str, Survey]]) -> list[str]:
    """Messages on the pairs that rules on scores do not check. surveys: of each corpus."""
    if data.clean is None:
        return []
    messages, rules = [], {name: f"data.clean.scores.{name}" for name in data.clean.scores or {}}
    if data.clean.score is not None:
        rules["score"] = "data.clean.score"
    for name, rule in rules.items():
        for corpus, found in zip(data.train, surveys, strict=True):
            if name not in found:
                messages.append(f"{rule}: {corpus.label} has no scores: it is not checked")
            elif missing := found[name]["missing"]:
                place = corpus.named_scores[name]
                where = place if isinstance(place, str) else corpus.label
                messages.append(f"{rule}: {where}: pairs not checked, as their score is nan: {missing}")
    return messages
