"""Checks for corpora that can be read but look wrong. Each yields warnings; none needs a model.

The rules do not warn in cases of doubt:

1. Dropped pairs. More than half of the pairs of a corpus were dropped (of at least 100 pairs).
2. Not translations. Long sentences have long translations: the correlation of the logarithms of their lengths in
   characters is above 0.5 in all translations that we measured, and near 0 in unrelated files. Below 0.2 gives a
   warning. If it is above 0.4 and at least 0.2 higher when one side is shifted by up to three lines, the warning says
   that instead. No warning if the lengths hardly vary or the lines are very short, as in lists of words, or if the
   numbers in the text agree.
3. Swapped sides. By the most frequent words of the languages, or by their scripts, the source looks like the target
   language and the target like the source language; or, by the most frequent sequences of three characters, the source
   of a training corpus looks like the target of the validation text and its target like the source.
4. One language. Source and target have the same code. This is not an error: there are models that rewrite text.
5. Not trained. Validation text has a language pair that no training corpus has.
6. Two codes of one language, such as `de` and `deu`: they would be two languages to the model.
7. Copies. In more than half of the pairs the target is the source, although the languages differ (`en-GB` and `en-US`
   do not).
8. Not written. The vocabulary changes at least 1 in 1,000 target lines, so that a model cannot write them as they are.
9. No sentences. In more than half of the pairs one side is a web or mail address, or has no letters.
10. Another language. Most lines in a sample of a side are certainly in another language than declared. Short lines,
   languages that the identifier does not know, and languages that it confuses are not judged.
11. Repeated. One sentence is more than 5% of the sources or of the targets that are kept.
12. Scores. Of at least 100 pairs, none or all have a score below data.clean.score.
13. Tokenized, escaped or split into subwords: one side of a sample is and the other is not, or a side is and the first
   corpus of the language is not.

Rules 2, 3, 7 and 9 use the first 5,000 pairs without an empty side, and need at least 300 of them.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, combinations, compress

import numpy as np

from nmt.config import schema
from nmt.config.language_codes import base, english_name, known_language, same_code
from nmt.data.cleaning.rules.characters import LETTER, TextLines
from nmt.data.cleaning.rules.examples import shortened
from nmt.data.cleaning.rules.language_identifier import identifier
from nmt.data.cleaning.rules.scores import addresses, language_doubt
from nmt.data.cleaning.score_survey import Survey
from nmt.data.cleaning.summary import CorpusCounts, SideChanges
from nmt.data.cleaning.tokenized_text import TokenizerTraces, contrast
from nmt.data.sources.corpus import Pair
from nmt.errors import NmtError
from nmt.files.notes import shown

SAMPLE = 5000  # pairs of each corpus that rules 2, 3, 7 and 9 look at
_FEWEST = 300  # pairs that these rules need
_FEWEST_READ = 100  # pairs that rules 1 and 12 need
_FEWEST_LINES, _LETTERS = 100, 30  # lines that rules 10 and 13 need; letters of each for rule 10
_HELD_OUT_SAMPLE = 512  # pairs of a validation set for rules 10 and 13, as many as statistics keep of a corpus
_OWN_WORDS = 0.1  # share of a language's frequent words above which no identifier is needed
_NO_LANGUAGE = "zxx"
_REPEATED = 0.05  # the share of the pairs, for rule 11


def mostly_dropped(label: str, counts: CorpusCounts) -> Iterator[str]:
    """Rule 1."""
    dropped = counts.read - counts.kept
    if counts.read >= _FEWEST_READ and 2 * dropped > counts.read:
        most = max(counts.dropped, key=lambda reason: reason.pairs)
        share = f"{dropped:,} of {counts.read:,} pairs are dropped ({100 * dropped // counts.read}%)"
        yield f"{label}: {share}, most of them: {most}"


def scores_on_one_side(label: str, scores: Survey | None, limit: float | None) -> Iterator[str]:
    """Rule 12. scores: for `limit`, data.clean.score."""
    if limit is None or scores is None or scores["pairs"] < _FEWEST_READ or not scores["sample"]:
        return
    lowest, highest = scores["sample"][0], scores["sample"][-1]
    if not lowest < limit <= highest:
        dropped = "every pair" if highest < limit else "no pair"
        remedy = (
            "choose a limit between them" if lowest < 0 else "these are not log-probabilities: use data.clean.scores"
        )
        scale = f"as the scores are from {lowest:.4g} to {highest:.4g}"
        yield f"{label}: data.clean.score: {limit:g} drops {dropped}, {scale}: {remedy}"


def language_problems(data: schema.DataConfig) -> Iterator[str]:
    """Rules 4, 5 and 6."""
    trained = data.language_pairs.pairs
    codes = dict.fromkeys(chain(*trained, *map(data.pair_of, data.held_out)))
    for code in codes:
        try:
            known_language(code)
        except NmtError as error:
            yield f"data: {error}"
    for code, other in combinations(codes, 2):
        if same_code(code, other):
            yield f"data: {code} and {other} are the same language, but two to the model: use one code everywhere"
    for pair in trained:
        if pair.source == pair.target:
            yield (
                f"data.train: source and target are both {pair.source}: if the model is to translate, correct "
                "data.source_language, data.target_language or the languages of a corpus"
            )
    for corpus in data.held_out:
        pair = data.pair_of(corpus)
        if pair not in trained:
            yield (
                f"data.validation, {corpus.label}: {pair.source} to {pair.target} is not trained (zero-shot): its "
                "scores may be low, and they also decide which checkpoint is the best"
            )


def not_written(changes: Sequence[SideChanges]) -> Iterator[str]:
    """Rule 8. changes: of source and target."""
    for target in changes[1:]:
        if 1000 * target.not_written >= max(1, target.lines):
            yield (
                f"data.train: a model cannot write {target.not_written:,} of {target.lines:,} target lines as they "
                f"are, because the vocabulary changes {shown(target.lost_characters)}: if the language needs "
                "these, let nmt learn the vocabulary from this text (vocabulary.relearn=true), "
                "with the defaults of vocabulary.normalization and byte_fallback"
            )


def no_terms(data: schema.DataConfig, counts: Sequence[CorpusCounts]) -> Iterator[str]:
    """Whether data.augment.terms marks nothing."""
    if (terms := data.augment.marked_terms).share and not any(count.marked for count in counts):
        where, advice = f"{terms.file}: ", "correct the glossary, or the order of its columns"
        if not terms.file:
            where, advice = (
                "",
                "give a glossary as data.augment.terms.file (words without spaces between them are not found)",
            )
        yield f"data.augment.terms: {where}no training pair has a term and its translation: {advice}"


def text_problems(
    label: str, pairs: Sequence[Pair], languages: tuple[str, str], validation: Sequence[Pair] = ()
) -> Iterator[str]:
    """Rules 2, 3 and 7. languages: of source and target; validation: the pairs of the validation text."""
    if len(pairs) < _FEWEST:
        return
    copies = sum(source == target for source, target in pairs)
    if 2 * copies > len(pairs) and len(set(map(base, languages))) == 2:
        share = f"in {copies:,} of the first {len(pairs):,} pairs"
        yield f"{label}: source and target are the same text {share}: correct the files or columns"
        return
    if problems := list(_no_sentences(label, pairs)):
        yield from problems
        return
    yield from _misalignment(label, pairs)
    yield from _swapped_sides(label, pairs, languages, validation)


def _no_sentences(label: str, pairs: Sequence[Pair]) -> Iterator[str]:
    """Rule 9."""
    for side, texts in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
        lines = TextLines.from_texts(texts)
        kinds = {"web or mail addresses": addresses(lines) > 0.5, "text without letters": lines.count_kind(LETTER) == 0}
        for kind, marked in kinds.items():
            if 2 * marked.sum() > len(pairs):
                example = shortened(texts[int(marked.argmax())], 60)
                yield (
                    f"{label}: the {side} is {kind} in {marked.sum():,} of the first {len(pairs):,} pairs, such as "
                    f"{example!r}: correct the files or columns"
                )


def other_language(label: str, pairs: Sequence[Pair], languages: tuple[str, str]) -> Iterator[str]:
    """Rule 10. pairs: a sample of the text."""
    problems = []
    for side, code, texts in zip(("source", "target"), languages, zip(*pairs, strict=True), strict=False):
        lines = _clear_lines(texts)
        if len(lines) < _FEWEST_LINES or _is_surely(lines, code):
            continue
        names = Counter(_other_languages(lines, code))
        if 2 * names.total() > len(lines):
            seen, count = names.most_common(1)[0]
            which = f"{count:,} ({count / len(lines):.0%}) are in {seen}"
            name = english_name(seen)
            problems.append(
                f"{label}: the {side} is declared as {code}, but of {len(lines):,} sampled lines {which}"
                f"{f' ({name})' * (name != seen)}: correct the files, the columns or the languages of the corpus"
            )
    if problems and not _languages_are_swapped(_sides(pairs), languages):  # rule 3 says that
        yield from problems


def _other_languages(lines: Sequence[str], code: str) -> list[str]:
    """The languages of the lines that are certainly not in the language of the code."""
    try:
        if base(code) == _NO_LANGUAGE:
            return []
        sure = (language_doubt(TextLines.from_texts(lines), code) > 1).tolist()
    except NmtError:  # not the code of a language
        return []
    scores, _ = identifier().scores(list(compress(lines, sure)))
    return [name for name in identifier().names(scores) if name != _NO_LANGUAGE]


def sample(pairs: Sequence[Pair]) -> Sequence[Pair]:
    """Pairs at equal distances, for rules 10 and 13."""
    count = min(len(pairs), _HELD_OUT_SAMPLE)
    return [pairs[i * len(pairs) // count] for i in range(count)]


def _clear_lines(texts: Sequence[str]) -> list[str]:
    """The lines with enough letters to identify their language. A letter from U+0800 on counts as three, because most
    of these are a syllable or a word."""
    lines = TextLines.from_texts(texts)
    letters = (lines.kinds & LETTER) != 0
    counts = lines.count(letters) + 2 * lines.count(letters & (lines.codes >= 0x800))
    return [text for text, count in zip(texts, counts.tolist(), strict=True) if count >= _LETTERS]


def _is_surely(lines: Sequence[str], code: str) -> bool:
    """Whether the frequent words of the language show that most lines are in it. So most runs need not load the
    identifier."""
    share = _share_of(base(code)) if base(code) in _FREQUENT else None
    if share is None or share(" ".join(lines).lower()) < _OWN_WORDS:
        return False
    return 2 * sum(share(line.lower()) > 0 for line in lines) > len(lines)


def tokenized(
    label: str, pairs: Sequence[Pair], languages: tuple[str, str], first: dict[str, tuple[str, TokenizerTraces]]
) -> Iterator[str]:
    """Rule 13. pairs: a sample of the text. first: for each language, the name and the traces of its first text. The
    languages of this text are added."""
    if len(pairs) < _FEWEST_LINES:
        return
    source, target = (TokenizerTraces().add(texts) for texts in zip(*pairs, strict=True))
    contrasts = [contrast("the source", source, "the target", target)]
    for side, code, traces in (("source", languages[0], source), ("target", languages[1], target)):
        name, other = first.setdefault(code, (f"the {side} of {label}", traces))
        contrasts.append(contrast(f"the {side} of this corpus", traces, name, other))
    if different := "; ".join(filter(None, contrasts)):
        yield f"{label}: {different}: use text as people write it, in all corpora, data.validation and for translation"


def repeated(label: str, commonest: Sequence[tuple[str, int] | None], kept: int) -> Iterator[str]:
    """Rule 11. commonest: the most frequent source and the most frequent target, with their counts."""
    for side, entry in zip(("source", "target"), commonest, strict=False):
        if kept >= _FEWEST and entry is not None and entry[1] > _REPEATED * kept:
            sentence, count = shortened(entry[0], 60), entry[1]
            yield (
                f"{label}: {count:,} of {kept:,} pairs ({count / kept:.0%}) have the same {side}, {sentence!r}: "
                "if it is not a translation, remove them"
            )


def _misalignment(label: str, pairs: Sequence[Pair]) -> Iterator[str]:
    """Rule 2."""
    characters = np.array([[len(source), len(target)] for source, target in pairs], np.float64)
    lengths = np.log(characters).T  # [2, pairs]
    if characters.mean(axis=0).min() < 10 or lengths.std(axis=1).min() < 0.2 or _numbers_agree(pairs):
        return
    correlation = _correlation(*lengths)
    best, by = max((_correlation(*_shifted(lengths, by)), by) for by in (-3, -2, -1, 1, 2, 3))
    if best > max(0.4, correlation + 0.2):
        yield (
            f"{label}: the sides seem to be misaligned: judging by the lengths of the sentences, line {max(1, 1 - by)} "
            f"of the source belongs to line {max(1, 1 + by)} of the target"
        )
    elif correlation < 0.2:
        yield (
            f"{label}: the sides do not look like translations of each other: the correlation of the lengths of their "
            f"sentences is {correlation:.2f}, and in translations it is above 0.5"
        )


def _shifted(lengths: np.ndarray, by: int) -> tuple[np.ndarray, np.ndarray]:
    """The length of each source, and of the target `by` lines below it."""
    source, target = lengths
    return (source[:-by], target[by:]) if by > 0 else (source[-by:], target[:by])


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.corrcoef(x, y)[0, 1])


def _numbers_agree(pairs: Sequence[Pair]) -> bool:
    """Whether at least 30 pairs have numbers on both sides, and more than 40% of these have one in common."""
    common = []
    for source, target in pairs:
        source_numbers, target_numbers = (set(re.findall("[0-9]+", side)) for side in (source, target))
        if source_numbers and target_numbers:
            common.append(bool(source_numbers & target_numbers))
    return len(common) >= 30 and sum(common) > 0.4 * len(common)


_FREQUENT = {  # words that are frequent in one language and rare in the others here
    "cs": "a se na je že to ve jsou pro ale", "da": "og det er en på til af ikke med der",
    "de": "der die und das ist den mit ein eine nicht", "en": "the of and to is that for with are on",
    "es": "el los y las una es del por con un", "fi": "ja on ei se että oli ovat mutta kun myös",
    "fr": "le les et des est une un du dans en", "hu": "a az és hogy nem egy is van meg csak",
    "it": "il di e che la un per una sono gli", "nl": "de het een van en is dat niet op met",
    "no": "og det er en på til av ikke som jeg", "pl": "w i na z się nie do jest że to",
    "pt": "o os e um uma do da não em com", "ro": "și în de la nu cu este o pe un",
    "sv": "och det är en på att som inte av ett", "tr": "ve bir bu için da de çok ile ne olarak",
}  # fmt: skip
_CYRILLIC, _ARABIC, _DEVANAGARI = "\u0400-\u04ff", "\u0600-\u06ff", "\u0900-\u097f"
_SCRIPTS = {
    "am": "\u1200-\u137f", "ar": _ARABIC, "be": _CYRILLIC, "bg": _CYRILLIC, "bn": "\u0980-\u09ff",
    "el": "\u0370-\u03ff", "fa": _ARABIC, "gu": "\u0a80-\u0aff", "he": "\u0590-\u05ff", "hi": _DEVANAGARI,
    "hy": "\u0530-\u058f", "ja": "\u3040-\u30ff", "ka": "\u10a0-\u10ff", "km": "\u1780-\u17ff",
    "kn": "\u0c80-\u0cff", "ko": "\uac00-\ud7af", "mk": _CYRILLIC, "ml": "\u0d00-\u0d7f", "mr": _DEVANAGARI,
    "ne": _DEVANAGARI, "pa": "\u0a00-\u0a7f", "ru": _CYRILLIC, "ta": "\u0b80-\u0bff", "te": "\u0c00-\u0c7f",
    "th": "\u0e00-\u0e7f", "uk": _CYRILLIC, "ur": _ARABIC, "zh": "\u4e00-\u9fff",
}  # fmt: skip


def _swapped_sides(
    label: str, pairs: Sequence[Pair], languages: tuple[str, str], validation: Sequence[Pair]
) -> Iterator[str]:
    """Rule 3: by the languages; if these are unknown, by the validation text."""
    sides = _sides(pairs)
    if _languages_are_swapped(sides, languages):
        yield (
            f"{label}: the sides seem to be swapped: source ({languages[0]}) and target ({languages[1]}) each look "
            "like the language of the other side"
        )
    elif len(validation) >= _FEWEST:
        source, target = map(_profile, sides)
        held_source, held_target = map(_profile, _sides(validation))
        straight = _likeness(source, held_source) + _likeness(target, held_target)
        crossed = _likeness(source, held_target) + _likeness(target, held_source)
        if crossed > straight + 0.3:
            yield (
                f"{label}: the sides seem to be swapped, here or in data.validation: the source looks like the target "
                "of data.validation, and the target like its source"
            )


def _sides(pairs: Sequence[Pair]) -> tuple[str, str]:
    """All sources and all targets, in lower case."""
    source, target = (" ".join(side).lower() for side in zip(*pairs, strict=True))
    return source, target


def _languages_are_swapped(sides: tuple[str, str], languages: tuple[str, str]) -> bool:
    """Whether each side shows far less of its own language than the other side does; unknown languages do not count."""
    shares = []
    for (own, other), language in zip((sides, sides[::-1]), languages, strict=True):
        if share := _share_of(base(language)):
            shares.append((share(own), share(other)))
    return bool(shares) and all(other > max(0.05, 4 * own) for own, other in shares)


def _share_of(language: str) -> Callable[[str], float] | None:
    """A function that computes which share of a text is in the language's script or among its frequent words; None for
    languages without an entry here."""
    letters, frequent = _SCRIPTS.get(language), _FREQUENT.get(language, "").split()

    def share_of_letters(text: str) -> float:
        return len(re.findall(f"[{letters}]", text)) / max(1, sum(map(str.isalpha, text)))

    def share_of_words(text: str) -> float:
        return float(np.mean([word in frequent for word in re.findall(r"\w+", text)] or [False]))

    if letters:
        return share_of_letters
    return share_of_words if frequent else None


def _profile(text: str) -> Counter[str]:
    """Counts of sequences of three characters in the first 100,000 characters."""
    text = text[:100_000]
    return Counter(map("".join, zip(text, text[1:], text[2:], strict=False)))


def _likeness(first: Counter[str], second: Counter[str]) -> float:
    """The cosine similarity of two profiles: 0 to 1."""
    product = sum(count * second[part] for part, count in first.items())
    return product / max(1.0, math.hypot(*first.values()) * math.hypot(*second.values()))
