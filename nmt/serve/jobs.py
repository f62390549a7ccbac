"""Jobs: the lines and options of a request to /translate, and its answer, in nmt's or LibreTranslate's format."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from fastapi import HTTPException

from nmt.config.language_pairs import LanguagePairs
from nmt.decoding.markup.marked_text import MarkedText
from nmt.decoding.protected_text import is_protected
from nmt.decoding.translator import Translation
from nmt.serve.batching import BatchOptions, NBest, Offer
from nmt.serve.detection import DetectedLanguage
from nmt.serve.requests import (
    LibreTranslateRequest,
    OwnRequest,
    RequestLimits,
    Terms,
    as_list,
    checked,
    chosen_pair,
    likeliest_source,
    source_and_target,
)
from nmt.terms.glossary import Glossary
from nmt.terms.used_term import UsedTerm

_DECIMALS = 6  # of the numbers in an alignment
_MOST_NAMES = 10  # of terms in a warning
_MOST_FORMS = 20  # of a target term: each can need a search


@dataclass(frozen=True)
class OwnJob:
    """A request in nmt's own format."""

    lines: list[str]
    options: BatchOptions
    has_scores: bool = True

    def answer(self, n_best: NBest) -> dict[str, Any]:
        """The fields of the answer. A translation has the fields of Translation."""
        return {"translations": [[*map(self._fields, translations)] for translations in n_best]}

    def _fields(self, translation: Translation) -> dict[str, Any]:
        if not self.has_scores:
            return {"text": translation.text}
        fields = dict(vars(translation))
        for name in ("terms", "confidence"):
            if fields[name] is None:
                del fields[name]
        if not self.options.alignment:
            del fields["source_pieces"], fields["alignment"]
        elif translation.alignment is not None:
            fields["alignment"] = [[round(weight, _DECIMALS) for weight in row] for row in translation.alignment]
        return fields


class PlainText:
    """A text without tags. Each line is translated; line breaks stay."""

    has_tags = False

    def __init__(self, text: str):
        self.lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")

    def joined(self, translations: Sequence[Translation]) -> str:
        return "\n".join(translation.text for translation in translations)


class HtmlText:
    """A text with HTML tags."""

    def __init__(self, text: str, language: str):
        self._marked = MarkedText(text, language)
        self.lines = [line.text for line in self._marked.lines]
        self.has_tags = any(line.elements for line in self._marked.lines)

    def joined(self, translations: Sequence[Translation]) -> str:
        lines = zip(self._marked.lines, translations, strict=True)
        return self._marked.with_lines([line.translated(translation) for line, translation in lines])


@dataclass(frozen=True)
class LibreTranslateJob:
    """A request in LibreTranslate's format."""

    texts: Sequence[PlainText | HtmlText]
    is_list: bool  # `q` was a list, so the answer has lists
    detected: DetectedLanguage | None  # the source language, if the request had `auto`
    options: BatchOptions

    @property
    def lines(self) -> list[str]:
        return list(chain.from_iterable(text.lines for text in self.texts))

    def answer(self, n_best: NBest) -> dict[str, Any]:
        """The fields of the answer."""
        texts: list[list[str]] = []  # the translations of each text, best first
        for text in self.texts:
            lines, n_best = n_best[: len(text.lines)], n_best[len(text.lines) :]
            texts.append(_joined(text, lines))
        answer: dict[str, Any] = {"translatedText": self._one_or_all([best for best, *_ in texts])}
        if self.options.n_best > 1:
            answer["alternatives"] = self._one_or_all([others for _, *others in texts])
        if self.detected:
            answer["detectedLanguage"] = self._one_or_all([self.detected._asdict()] * len(texts))
        return answer

    def _one_or_all(self, values: list[Any]) -> Any:
        return values if self.is_list else values[0]


def _joined(text: PlainText | HtmlText, lines: NBest) -> list[str]:
    """The distinct translations of a text, best first. lines: the translations of its lines."""
    joined: list[str] = []
    for rank in range(max(map(len, lines), default=1)):
        # A line without words has only one translation, the empty one. It is used for every rank.
        joined.append(text.joined([line[min(rank, len(line) - 1)] for line in lines]))
    return list(dict.fromkeys(joined))


Job = OwnJob | LibreTranslateJob


def job_from(fields: dict[str, Any], languages: LanguagePairs, limits: RequestLimits, offer: Offer) -> Job:
    """The job of a request. offer: what the queue gives. Raises HTTPException if the request is not valid or too large,
    and NmtError for languages that the model does not have."""
    if "text" not in fields and fields.keys() & {"q", "source", "target"}:
        request = checked(LibreTranslateRequest, fields)
        return _libretranslate_job(request, languages, limits, offer)
    own = checked(OwnRequest, fields)
    lines = as_list(own.text)
    limits.check(lines, lines)
    pair, terms = chosen_pair(languages, own.to, own.from_), checked_terms(own.glossary, offer)
    options = BatchOptions(own.n_best, own.alignment, True, pair, terms=terms)
    return OwnJob(lines, options, offer.has_scores)


def _libretranslate_job(
    request: LibreTranslateRequest, languages: LanguagePairs, limits: RequestLimits, offer: Offer
) -> LibreTranslateJob:
    source, target = source_and_target(request, languages)
    sent = as_list(request.q)
    limits.check((), sent)  # before the texts are read as HTML
    as_html = request.format == "html"
    texts = [HtmlText(text, source or "") if as_html else PlainText(text) for text in sent]
    lines = list(chain.from_iterable(text.lines for text in texts))
    limits.check(lines, ())
    detected = None if source else likeliest_source(lines, languages, target)
    options = BatchOptions(
        n_best=min(1 + request.alternatives, offer.n_best),  # clients accept fewer
        # Without an alignment, tags are placed as in the source.
        alignment=offer.aligns and any(text.has_tags for text in texts),
        token_scores=False,
        pair=chosen_pair(languages, target, detected.language if detected else source),
        terms=checked_terms(request.glossary, offer),
    )
    return LibreTranslateJob(texts, isinstance(request.q, list), detected, options)


def checked_terms(terms: Terms, offer: Offer) -> tuple[tuple[str, str], ...]:
    """The terms of a request as in BatchOptions. Raises HTTPException if they are no entries of a Glossary, or if the
    queue cannot use terms."""
    if terms and not offer.uses_terms:
        raise HTTPException(400, "glossary: this model cannot use one: leave it out")
    if wrong := [target for target in terms.values() if target.count("|") >= _MOST_FORMS]:
        raise HTTPException(400, f"glossary: {wrong[0][:40]!r}: more than {_MOST_FORMS} forms")
    try:
        Glossary(terms.items())
    except ValueError as error:
        raise HTTPException(400, f"glossary: {error}") from None
    return tuple(sorted(terms.items()))


def job_warning(job: Job, n_best: NBest, languages: LanguagePairs, offer: Offer) -> str:
    """The warning for the client about its translations; empty if there is none. offer: what the queue gives."""
    untrained = languages.warning(job.options.pair) if job.options.pair else ""
    lost = placeholder_warning(count_lost(job.lines, n_best, offer.keep), len(n_best))
    rejected = 0
    if not offer.has_scores:  # a model's translation of a line can be empty
        rejected = sum(bool(line.strip()) and not best.text for line, [best, *_] in zip(job.lines, n_best, strict=True))
    refused = f"{rejected} of {len(n_best)} lines: the answer is not a translation" if rejected else ""
    return "; ".join(filter(None, (untrained, lost, refused, term_warning(used_terms(n_best)))))


def count_lost(lines: Sequence[str], n_best: NBest, keep: tuple[str, ...]) -> int:
    """The number of lines with a translation that lacks a placeholder."""
    lost = 0
    for line, translations in zip(lines, n_best, strict=True):
        if keep and not all(is_protected(line, translation.text, keep) for translation in translations):
            lost += 1
    return lost


def placeholder_warning(lost: int, lines: int) -> str:
    """The warning about translations that lack a placeholder; empty if there are none."""
    return f"{lost} of {lines} lines: not all placeholders are in the translation" if lost else ""


def used_terms(n_best: NBest) -> list[UsedTerm]:
    """The glossary terms of the best translations."""
    return [term for best, *_ in n_best for term in best.terms or ()]


def term_warning(terms: Sequence[UsedTerm]) -> str:
    """The warning about terms that were not inserted; empty if there are none."""
    failed = [term.source for term in terms if term.how == "failed"]
    if not failed:
        return ""
    names = list(dict.fromkeys(failed))
    names[_MOST_NAMES:] = ["…"] * (len(names) > _MOST_NAMES)
    were = "was" if len(failed) == 1 else "were"
    return f"{len(failed)} of {len(terms)} glossary terms {were} not inserted: {', '.join(names)}"
