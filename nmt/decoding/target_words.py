"""What search needs to know about the words that subwords form. It is computed when it is first needed."""

from functools import cached_property, lru_cache

from nmt.data.subwords.vocabulary import EOS, Tokenizer
from nmt.decoding import unwritable
from nmt.decoding.search.banned_words import BannedWords
from nmt.decoding.search.scripts import continues_word


class TargetWords:
    """Words of the target vocabulary."""

    def __init__(self, target: Tokenizer):
        self._target = target
        self.banned = lru_cache(1)(self._banned)

    @cached_property
    def spellings(self) -> list[str]:
        """The text of each subword, for `Phrases`."""
        return [spelling.decode("utf-8", "surrogateescape") for spelling in self._target.spellings()]

    @cached_property
    def continuing(self) -> frozenset[int]:
        """The subwords that continue the word before them."""
        return frozenset(i for i, spelling in enumerate(self.spellings) if continues_word(spelling))

    def _banned(self, words: tuple[str, ...]) -> BannedWords | None:
        """An object that finds these words in outputs; None if there are no words. Warns of words that the vocabulary
        changes."""
        if not words:
            return None
        unwritable.warn("decoding.banned", words, self._target)
        return BannedWords(words, self._target.spellings(), EOS)
