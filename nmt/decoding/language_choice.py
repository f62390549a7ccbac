"""Which languages a call of a translator is for, and the tokens that tell the model."""

from nmt.config.language_pairs import LanguagePair, LanguagePairs
from nmt.data.subwords.vocabulary import Vocabulary
from nmt.errors import NmtError


class LanguageChoice:
    """Chooses among the pairs that a model was trained on. pairs: None for a model that has only one, or is not known
    to have any."""

    def __init__(self, pairs: LanguagePairs | None, vocabulary: Vocabulary):
        self.pairs, self._tokenizers = pairs, (vocabulary.source, vocabulary.target)
        self.used: LanguagePair | None = None  # what `use` has chosen

    def tag_count(self, side: int = 0) -> int:
        """How many tokens are before each source (side 0) or each target (side 1)."""
        return 0 if self.pairs is None else self.pairs.tag_count(side)

    def use(self, to: str | None = None, from_: str | None = None) -> LanguagePair:
        """Choose the pair of later calls that name no language, and return it. Raises NmtError as `choose` does."""
        self.used = None
        self.used = self.choose(to, from_)
        return self.used

    def choose(self, to: str | None = None, from_: str | None = None) -> LanguagePair:
        """As `LanguagePairs.choose`; empty codes where no pair is known. Without languages what `use` has chosen."""
        if to is None and from_ is None:
            if self.used is not None:
                return self.used
            if self.pairs is None:
                return LanguagePair("", "")
        if self.pairs is None:
            raise NmtError(f"language {to or from_!r}: it is not known which languages this model translates")
        return self.pairs.choose(to, from_)

    def tags(self, pair: LanguagePair, side: int = 0) -> list[int]:
        """The ids of the tokens before each source (side 0) or each target (side 1) of a pair."""
        return [] if self.pairs is None else self._tokenizers[side].tags(self.pairs.tags(pair, side))
