"""The scores of a corpus before its text is cleaned: thresholds of shares, and what the page about the data shows. They
depend on the scores alone, so that chunks, processes and continuing change nothing."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from nmt.config import schema

Values = npt.NDArray[np.float32]
Survey = dict[str, Any]  # in a form for `json.dumps`
Bounds = tuple[schema.Bound, ...]  # of the scores of a corpus


def survey(scores: Values) -> Survey:
    """The number of pairs, of those without a score, and 1,001 scores at equal distances in sorted order, from the
    lowest to the highest. scores: [pairs]."""
    values = np.sort(scores[~np.isnan(scores)])
    sample = values[np.linspace(0, len(values) - 1, 1001).round().astype(int)] if len(values) else values
    return {"pairs": len(scores), "missing": len(scores) - len(values), "sample": sample.tolist()}


def bounds_of(clean: schema.CleaningConfig, scores: Mapping[str, Values]) -> Bounds:
    """The rules on the scores of a corpus. scores: of all its pairs, by name."""
    worst = dict.fromkeys(scores, np.nan)
    for name, bounds in (clean.scores or {}).items():
        values = bounds.sign * scores.get(name, np.empty(0, np.float32))
        if len(values := values[~np.isnan(values)]):
            worse = len(values) - max(1, round((bounds.keep_best or 1) * len(values)))
            worst[name] = bounds.sign * float(np.partition(values, worse)[worse])
    return tuple(bound for bound in clean.bounds(worst) if bound.score in scores)


def not_scored(clean: schema.CleaningConfig, corpus: schema.Corpus, surveys: Mapping[str, Survey]) -> Iterator[str]:
    """Yield messages on the pairs of a corpus that rules on scores do not check."""
    for setting, name in {bound.setting: bound.score for bound in clean.bounds({})}.items():
        if name not in surveys:
            yield f"data.clean.{setting}: {corpus.label} has no scores: it is not checked"
        elif missing := surveys[name]["missing"]:
            where = corpus.scores if isinstance(corpus.scores, str) else corpus.label
            yield f"data.clean.{setting}: {where}: pairs not checked, as their score is nan: {missing}"
