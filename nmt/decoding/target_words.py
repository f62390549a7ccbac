"""What search needs to know about the words that subwords form. It is computed when it is first needed."""

from functools import lru_cache

from nmt.data.subwords.vocabulary import EOS, Tokenizer
from nmt.decoding import unwritable
from nmt.decoding.search.banned_words import BannedWords


class TargetWords:
    """Words of the target vocabulary."""

    def __init__(self, target: Tokenizer):
        self._target = target
        self.banned = lru_cache(1)(self._banned)

    def _banned(self, words: tuple[str, ...]) -> BannedWords | None:
        """An object that finds these words in outputs; None if there are no words. Warns of words that the vocabulary
        changes."""
        if not words:
            return None
        unwritable.warn("decoding.banned", words, self._target)
        return BannedWords(words, self._target.spellings, EOS)
