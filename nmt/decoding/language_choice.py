"""The language pair of a translator's call, and the language tokens that the model reads."""

from nmt.config.language_pairs import LanguagePair, LanguagePairs
from nmt.data.subwords.vocabulary import Vocabulary
from nmt.errors import NmtError


class LanguageChoice:
    """Chooses one of the pairs that a model was trained on. pairs: None if it has one pair only, or its languages are
    unknown."""

    def __init__(self, pairs: LanguagePairs | None, vocabulary: Vocabulary):
        self.pairs, self._tokenizers = pairs, (vocabulary.source, vocabulary.target)
        self.used: LanguagePair | None = None  # the pair chosen by `use`

    def tag_count(self, side: int = 0) -> int:
        """The number of language tokens before each source (side 0) or each target (side 1)."""
        return 0 if self.pairs is None else self.pairs.tag_count(side)

    def use(self, to: str | None = None, from_: str | None = None) -> LanguagePair:
        """Choose the pair for later calls that name no language, and return it. Raises NmtError as `choose` does."""
        self.used = None
        self.used = self.choose(to, from_)
        return self.used

    def choose(self, to: str | None = None, from_: str | None = None) -> LanguagePair:
        """As `LanguagePairs.choose`; empty codes if no pair is known. Without languages: the pair chosen by `use`."""
        if to is None and from_ is None:
            if self.used is not None:
                return self.used
            if self.pairs is None:
                return LanguagePair("", "")
        if self.pairs is None:
            raise NmtError(f"language {to or from_!r}: the languages of this model are unknown: leave the language out")
        return self.pairs.choose(to, from_)

    def tags(self, pair: LanguagePair, side: int = 0) -> list[int]:
        """The ids of the language tokens before each source (side 0) or each target (side 1) of a pair."""
        return [] if self.pairs is None else self._tokenizers[side].tags(self.pairs.tags(pair, side))
