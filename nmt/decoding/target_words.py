"""What search must know of the words that the subwords of a vocabulary write: computed when it is first needed."""

from functools import cached_property, lru_cache

from nmt.data.subwords.vocabulary import EOS, Tokenizer
from nmt.decoding import unwritable
from nmt.decoding.search.banned_words import BannedWords
from nmt.decoding.search.scripts import continues_word


class TargetWords:
    """Of the vocabulary of the target."""

    def __init__(self, target: Tokenizer):
        self._target = target
        self.banned = lru_cache(1)(self._banned)

    @cached_property
    def spellings(self) -> list[str]:
        """What each subword writes, as `Phrases` takes it."""
        return [spelling.decode("utf-8", "surrogateescape") for spelling in self._target.spellings()]

    @cached_property
    def continuing(self) -> frozenset[int]:
        """The subwords that continue the word before them."""
        return frozenset(i for i, spelling in enumerate(self.spellings) if continues_word(spelling))

    def _banned(self, words: tuple[str, ...]) -> BannedWords | None:
        """What finds these words in outputs. Warns of those that the vocabulary cannot write as they are."""
        if not words:
            return None
        unwritable.warn("decoding.banned", words, self._target)
        return BannedWords(words, self._target.spellings(), EOS)
