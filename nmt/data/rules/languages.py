"""Languages: the expected script of a language code, and which language a line is in.

The language of a line is the one that py3langid finds: a naive Bayes classifier over sequences of bytes (Lui and
Baldwin 2012, "langid.py: An Off-the-shelf Language Identification Tool") for 139 languages. The library classifies one
line at a time; here the same model reads thousands of lines side by side, which is twenty times as fast.
"""

import unicodedata
from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from nmt.errors import NmtError

LONGEST = 256  # bytes of a line that are read: more do not change what is found
_SCRIPTS = {
    "Jpan": ("Hira", "Kana", "Hani"),
    "Kore": ("Hang", "Hani"),
    "Hans": ("Hani", "Bopo"),
    "Hant": ("Hani", "Bopo"),
}
# Languages that are written in several scripts today: by Unicode's CLDR, languageData; and a few more, of which there
# is text in another script than CLDR says. All others have the one script that is likely by CLDR.
_SEVERAL_SCRIPTS = {
    "Latn Cyrl": "bs crh kaa sr",
    "Latn Arab": "ha ms swb zdj",
    "Latn Cyrl Arab": "az ku ky tg tk ug uz",
    "Latn Deva": "hif kok",
    "Latn Hebr": "lad",
    "Latn Nkoo": "bm man",
    "Latn Tfng": "rif tmh tzm",
    "Latn Tfng Arab": "shi",
    "Latn Cans": "cr iu oj",
    "Latn Vaii": "vai",
    "Latn": "ctd",
    "Cyrl Arab": "kk",
    "Arab Guru": "pa",
    "Arab Deva": "ks sd",
    "Beng Cakm": "ccp",
    "Beng Deva": "unr unx",
    "Deva Limb": "lif",
    "Deva Telu": "gon",
    "Grek": "grc",
    "Laoo Hmnp Latn": "hnj",
}
# Languages that the identifier takes for each other in some sentences, as measured: docs/cleaning.md. `sh`, `cnr`, `nb`
# and `cmn` are no names of its own. Its `no` is Bokmål.
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
# Languages that the identifier knows, but of which it takes more than 1% of the lines of some text for others: they are
# not judged. Measured: Northern Sotho and Bosnian in news, Occitan in its dialects.
_UNRELIABLE = {"nso", "bs", "oc"}
# The scripts in which the identifier has read a language, where they are not the likely one.
_READ = {"sr": ("Cyrl", "Latn"), "uz": ("Latn", "Cyrl"), "crh": ("Latn",)}


@cache
def language(code: str) -> str:
    """The language of a code, as two letters where there are two: `en` of `en`, `eng`, `en_GB` and `eng_Latn`.

    Raises NmtError for a code of no language."""
    import langcodes

    try:
        found = langcodes.Language.get(code).language
        if found and langcodes.tag_is_valid(found):
            return "tl" if found == "fil" else found
    except (LookupError, ValueError):
        pass
    raise NmtError(f"{code}: no language has this code: write it as in BCP 47, such as en, pt-BR or sr-Latn")


def same_code(one: str, other: str) -> bool:
    """Whether two codes mean the same: `de` and `deu`, but not `pt` and `pt-BR`, nor codes of no language. Without the
    package langcodes, only codes that are written alike: no work should need the package for this alone."""
    try:
        import langcodes
    except ImportError:
        return one.casefold() == other.casefold()
    try:
        tags = [langcodes.standardize_tag(code) for code in (one, other)]
    except ValueError:
        return False
    return tags[0] == tags[1]


@cache
def scripts(code: str) -> tuple[str, ...]:
    """The scripts that a language is written in, by their ISO 15924 codes: of `ja` Hira, Kana and Hani. The code may
    name one: `sr-Latn`. None are known of some languages. Raises NmtError as `language` does."""
    import langcodes

    one, given = language(code), langcodes.Language.get(code)
    if given.script is None:
        codes = {one, _macrolanguage(one)}
        several = [names for names, languages in _SEVERAL_SCRIPTS.items() if codes.intersection(languages.split())]
        if several:
            return tuple(several[0].split())
        if _likely_script(one) is None:  # `maximize` would give the script of English
            return ()
    script = given.maximize().script
    return _SCRIPTS.get(script, (script,)) if script else ()


@cache
def _likely_script(one: str) -> str | None:
    """The script of a language, as `language` returns it, that is likely by CLDR; None where CLDR does not say."""
    import langcodes

    names = (one, _macrolanguage(one))
    found = (langcodes.data_dicts.LIKELY_SUBTAGS.get(name) for name in names)
    return next((langcodes.Language.get(tag).script for tag in found if tag), None)


def _macrolanguage(one: str) -> str:
    """`ar` of `arb`: the language of which it is the usual form; else itself."""
    import langcodes

    return langcodes.Language.get(langcodes.standardize_tag(one, macro=True)).language or one


class LanguageIdentifier:
    """py3langid's model, as arrays. It takes 2 seconds to load and 110 MiB."""

    def __init__(self) -> None:
        """Raises NmtError if there is no room for a temporary file."""
        from py3langid.langid import MODEL_FILE
        from py3langid.langid import LanguageIdentifier as Library

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
        `language` does."""
        written = scripts(code)
        if language(code) in _UNRELIABLE:
            return False
        return bool(self._columns(code).any()) and (not written or set(written) != self.unread_scripts(code))

    def unread_scripts(self, code: str) -> set[str]:
        """The scripts that the language is written in but that the identifier does not know it in: lines in these can
        not be judged. Cyrillic of `az`. Raises NmtError as `language` does."""
        read: set[str] = set()
        for name in _alike(code).intersection(self.languages):
            likely = _likely_script(name)
            if name not in _READ and likely is None:
                return set()
            read.update(_READ.get(name) or _SCRIPTS.get(likely or "", (likely or "",)))
        return set(scripts(code)) - read

    def scores(self, lines: Sequence[str]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """The logarithm of the unnormalised probability of each language, [lines, languages], and how many bytes of
        each line were read, [lines]. A line's scores do not depend on the other lines."""
        import torch

        texts = [_to_bytes(line) for line in lines]
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        line, feature, count = self._count_features(np.frombuffer(b"".join(texts), np.uint8), lengths)
        sums = torch.nn.functional.embedding_bag(
            torch.from_numpy(feature),
            torch.from_numpy(self._weights),
            torch.from_numpy(np.searchsorted(line, np.arange(len(texts)))),
            mode="sum",
            per_sample_weights=torch.from_numpy(np.log1p(count.astype(np.float32))),
        )
        return sums.numpy() + self._priors, lengths

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
            places = starts[:active] + position
            state = self._next_states[self._rows[state[:active]] + text[places]]
            states[places] = state
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
        """How much more likely another language is than the one of the code: above 1 it is surely another one. [lines]

        scores, lengths: what `scores` returned. The library divides log-odds by the root of the length, since features
        overlap and so are not independent. The 60 was fitted so that short lines, of which less is sure, have a doubt
        above 1 as rarely as long ones.
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
        """Which columns are of the language itself; none if the identifier does not know it."""
        try:
            one = language(code)
        except NmtError:
            return np.zeros(len(self.languages), np.bool_)
        names = [one, _macrolanguage(one)]
        name = next((name for name in names if name in self.languages), "")
        return np.array([known == name for known in self.languages])

    def _columns(self, code: str) -> npt.NDArray[np.bool_]:
        """Which columns are of the language, or of one that is much like it."""
        names = _alike(code)
        return np.array([name in names for name in self.languages])


@cache
def _alike(code: str) -> set[str]:
    """The names that the identifier may have for a language, and for those that are much like it."""
    import langcodes

    one = language(code)
    names = {one, _macrolanguage(one), langcodes.Language.get(one).to_alpha3()}
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
