"""Identify the language of lines with the model of py3langid.

The model is a naive Bayes classifier over sequences of bytes (Lui and Baldwin 2012, "langid.py: An Off-the-shelf
Language Identification Tool") for 139 languages. The library classifies one line at a time. Here the same model reads
thousands of lines in parallel, which is twenty times as fast.
"""

import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from itertools import pairwise

import langcodes
import numpy as np
import numpy.typing as npt
from py3langid.langid import MODEL_FILE
from py3langid.langid import LanguageIdentifier as Library

from nmt.config.language_codes import known_language, likely_scripts, macrolanguage, scripts
from nmt.errors import NmtError

# Up to so many lines are scored without PyTorch, which takes 200 MiB and a second to load.
FEW = 256
LONGEST = 256  # bytes of a line that are read: more do not change what is found
# Languages that the identifier confuses in some sentences, by measurement (docs/cleaning.md). `sh`, `cnr`, `nb` and
# `cmn` are not its own names. Its `no` is Bokmål.
_ALIKE = (
    {"bs", "hr", "sr", "sh", "cnr"},
    {"id", "ms"},
    {"no", "nb", "nn"},
    {"zh", "wuu", "yue", "cmn"},
    {"fa", "prs"},
    {"ar", "ary", "arz"},
    {"nso", "st"},
    {"el", "grc"},
)
# Languages that the identifier knows but does not recognize in more than 1% of the lines of some text. They are not
# judged. Measured: Northern Sotho and Bosnian in news, Occitan in its dialects.
_UNRELIABLE = {"nso", "bs", "oc"}
# The scripts in which the identifier has read a language, where they are not the likely one.
_READ = {"sr": ("Cyrl", "Latn"), "uz": ("Latn", "Cyrl"), "crh": ("Latn",)}


class LanguageIdentifier:
    """py3langid's model, as arrays. It takes 2 seconds to load and 110 MiB."""

    def __init__(self) -> None:
        """Raises NmtError if there is no room for a temporary file."""
        try:
            model = Library.from_model_file(MODEL_FILE)
        except OSError as error:  # it is unpacked into a temporary file
            raise NmtError(
                f"py3langid cannot unpack its model into a temporary file: {error}: free some space, or name another "
                "folder in TMPDIR"
            ) from None
        # An automaton that reads bytes: a state and a byte give the next state, and some states complete a feature.
        self._rows = np.array(model.tk_row, np.int64) << 8
        self._next_states = np.array(model.tk_nextmove)
        self._features = np.array(model.tk_output, np.int32)  # [states], -1: none
        self._weights = np.ascontiguousarray(model.nb_ptc, np.float32)  # log P(feature | language)
        self._priors = np.array(model.nb_pc, np.float32)  # log P(language)
        self.languages: tuple[str, ...] = tuple(model.nb_classes)  # a language may stand here twice
        self._text = np.array([name != "zxx" for name in self.languages])  # zxx: no language

    def knows(self, code: str) -> bool:
        """Whether lines of the language are found reliably, in a script that the code allows. Raises NmtError as
        `known_language` does."""
        written = scripts(code)
        if known_language(code) in _UNRELIABLE:
            return False
        return bool(self._columns(code).any()) and (not written or set(written) != self.unread_scripts(code))

    def unread_scripts(self, code: str) -> set[str]:
        """The scripts that the language is written in but that the identifier does not know it in: lines in these can
        not be judged. Cyrillic of `az`. Raises NmtError as `known_language` does."""
        read: set[str] = set()
        for name in alike(code).intersection(self.languages):
            name_scripts = _READ.get(name) or likely_scripts(name)
            if not name_scripts:
                return set()
            read.update(name_scripts)
        return set(scripts(code)) - read

    def scores(self, lines: Sequence[str]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """The logarithm of the unnormalised probability of each language, [lines, languages], and how many bytes of
        each line were read, [lines]. A line's scores do not depend on the other lines, but for rounding."""
        texts = [_to_bytes(line) for line in lines]
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        line, feature, count = self._count_features(np.frombuffer(b"".join(texts), np.uint8), lengths)
        factors = np.log1p(count.astype(np.float32))
        starts = np.searchsorted(line, np.arange(len(texts) + 1))
        return self._sums(feature, factors, starts) + self._priors, lengths

    def _sums(
        self, feature: npt.NDArray[np.int64], factors: npt.NDArray[np.float32], starts: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        """The sum of the weights of each line's features, [lines, languages]. starts: of each line, then the end."""
        if len(starts) <= 1 + FEW:  # takes five times as long, but no PyTorch
            sums = np.empty((len(starts) - 1, self._weights.shape[1]), np.float32)
            for row, (first, end) in zip(sums, pairwise(starts.tolist()), strict=True):
                np.dot(factors[first:end], self._weights[feature[first:end]], out=row)
            return sums

        import torch

        return torch.nn.functional.embedding_bag(
            torch.from_numpy(feature),
            torch.from_numpy(self._weights),
            torch.from_numpy(starts[:-1]),
            mode="sum",
            per_sample_weights=torch.from_numpy(factors),
        ).numpy()

    def _count_features(
        self, text: npt.NDArray[np.uint8], lengths: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The features that occur in each line: the number of the line, in ascending order, the feature, how often."""
        order = np.argsort(-lengths, kind="stable")  # so that the lines which have an n-th byte are the first ones
        starts = (np.cumsum(lengths) - lengths)[order]
        longer = len(lengths) - np.searchsorted(lengths[order][::-1], np.arange(lengths.max(initial=0)), side="right")
        states = np.zeros(len(text), np.uint32)
        state = np.zeros(len(lengths), np.uint32)
        for position, active in enumerate(longer.tolist()):
            offsets = starts[:active] + position
            state = self._next_states[self._rows[state[:active]] + text[offsets]]
            states[offsets] = state
        features = self._features[states]
        complete = np.flatnonzero(features >= 0)
        line = np.repeat(np.arange(len(lengths)), lengths)[complete]
        keys = np.sort(line * len(self._weights) + features[complete])
        first = np.flatnonzero(np.diff(keys, prepend=-1))
        line, feature = np.divmod(keys[first], len(self._weights))
        return line, feature, np.diff(first, append=len(keys))

    def doubt(
        self, scores: npt.NDArray[np.float32], lengths: npt.NDArray[np.int64], code: str
    ) -> npt.NDArray[np.float32]:
        """How much more likely another language is than the language of the code: above 1 it is certainly another.
        [lines]

        scores, lengths: from `scores`. The library divides log-odds by the root of the length, because features overlap
        and so are not independent. The 60 was fitted so that short lines, which give less evidence, have a doubt above
        1 as rarely as long ones.
        """
        expected = self._columns(code)
        others = scores[:, self._text & ~expected].max(axis=1)
        root = np.sqrt(lengths, dtype=np.float32)
        return (others - scores[:, expected].max(axis=1)) * root / (lengths.astype(np.float32) + 60)

    def probabilities(self, lines: Sequence[str]) -> npt.NDArray[np.float32]:
        """The probability of each language, [lines, languages], as the library computes it: it divides by the root of
        the length before it normalizes, as in `doubt`."""
        scores, lengths = self.scores(lines)
        scores /= np.sqrt(np.maximum(lengths, 1), dtype=np.float32)[:, None]
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        return scores / scores.sum(axis=1, keepdims=True)

    def names(self, scores: npt.NDArray[np.float32]) -> list[str]:
        """The most likely language of each line."""
        return [self.languages[best] for best in scores.argmax(axis=1)]

    def named(self, code: str) -> npt.NDArray[np.bool_]:
        """Whether each column is the language itself; all are False if the identifier does not know it."""
        try:
            language = known_language(code)
        except NmtError:
            return np.zeros(len(self.languages), np.bool_)
        names = [language, macrolanguage(language)]
        name = next((name for name in names if name in self.languages), "")
        return np.array([column == name for column in self.languages])

    def _columns(self, code: str) -> npt.NDArray[np.bool_]:
        """Whether each column is the language or a similar one."""
        names = alike(code)
        return np.array([name in names for name in self.languages])


@cache
def alike(code: str) -> set[str]:
    """The names that the identifier may have for a language and for similar languages."""
    language = known_language(code)
    names = {language, macrolanguage(language)}
    with suppress(LookupError):  # a code for private use, such as x-klingon, has none
        names.add(langcodes.Language.get(language).to_alpha3())
    return names.union(*(group for group in _ALIKE if names & group))


def _to_bytes(line: str) -> bytes:
    """A line as the library encodes it, but at most `LONGEST` bytes."""
    line = line[:LONGEST]
    if line.isupper():
        line = line.lower()
    if not line.isascii():
        line = unicodedata.normalize("NFC", line)
    return line.encode("utf-8", "surrogatepass")[:LONGEST]


@cache
def identifier() -> LanguageIdentifier:
    """The identifier, loaded once."""
    return LanguageIdentifier()
