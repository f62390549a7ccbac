"""The request of one call of a translator."""

from collections.abc import Iterable
from dataclasses import dataclass

from nmt.config.language_pairs import LanguagePair
from nmt.config.schema import DecodingConfig
from nmt.decoding.search.banned_words import BannedWords
from nmt.decoding.search.options import SearchOptions
from nmt.terms.glossary import Glossary


@dataclass(frozen=True)
class TranslateRequest:
    """The arguments of `Translator.stream_hypotheses`. scores: whether the translations need scores; counted: whether
    the lines are counted and reported; numbered: whether they have the line numbers of the user's input."""

    decoding: DecodingConfig
    pair: LanguagePair
    n_best: int = 1
    scores: bool = True
    token_scores: bool = True
    alignment: bool = False
    chunk_lines: int | None = None
    prefixes: Iterable[str] | None = None
    glossary: Glossary | None = None
    first: int = 1
    read_ahead: bool = False
    counted: bool = True
    numbered: bool = True

    def search_options(self, banned_words: BannedWords | None) -> SearchOptions:
        """The options of the search for the translations, or for the candidates from which consensus chooses."""
        decoding, n_best = self.decoding, self.n_best
        if decoding.consensus != "none":
            n_best = max(n_best, decoding.candidates) if decoding.method == "sample" else decoding.beam_size
        return SearchOptions(
            decoding,
            n_best,
            self.scores,
            self.token_scores,
            banned_words=banned_words,
            constrained=self.prefixes is not None,
        )
