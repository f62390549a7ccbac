"""From what a search found to the n best translations of each line."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from nmt.data.subwords.vocabulary import Tokenizer
from nmt.decoding import engine_support, translation
from nmt.decoding.capitals import in_capitals
from nmt.decoding.engine_protocol import Engine
from nmt.decoding.long_input import join_hypotheses
from nmt.decoding.mbr import rank_by_agreement
from nmt.decoding.search.options import Hypothesis, SearchOptions
from nmt.decoding.search.phrase_automaton import Phrases, PhraseState
from nmt.decoding.search_inputs import Inputs
from nmt.errors import NmtError

_NOTHING = Hypothesis([], score=0.0, log_probability=0.0, token_scores=[])


@dataclass(frozen=True)
class NBestSelector:
    """Chooses the n best among what an engine finds with these options. target: of the vocabulary."""

    engine: Engine
    target: Tokenizer
    options: SearchOptions
    n_best: int
    batch_tokens: int

    @property
    def _wants_different(self) -> bool:
        """Samples are kept as they were drawn: how often a text is drawn says how probable it is."""
        return self.n_best > 1 and self.options.decoding.method == "beam"

    def of_sources(self, inputs: Inputs, results: list[list[Hypothesis]]) -> list[list[Hypothesis]]:
        """The n best for each part of each line, of what was found; adds to `inputs.counts`. Those without any output
        are searched again, without constraints."""
        sources, decoding, counts = inputs.sources, self.options.decoding, inputs.counts
        lost = [place for place, hypotheses in enumerate(results) if not hypotheses]
        if lost and (excluding := engine_support.excluding(decoding)):
            free = replace(self.options, decoding=replace(decoding, **excluding))
            again = [replace(sources[place], shortest=0) for place in lost]
            for place, hypotheses in zip(lost, self.engine.search(again, free, self.batch_tokens), strict=True):
                results[place] = hypotheses
                counts.unconstrained += bool(hypotheses)
        if decoding.consensus != "none":
            for place, hypotheses in enumerate(results):
                order = rank_by_agreement(translation.texts(hypotheses, self.target), decoding.consensus)
                results[place] = [hypotheses[i] for i in order[: self.n_best]]
        elif self._wants_different:
            results = self._different(inputs, results)
        for source, hypotheses in zip(sources, results, strict=True):
            counts.terms += len(source.required)
            if hypotheses and source.required:
                phrases = Phrases(source.required, self.options.continuing, self.options.spellings)
                counts.missing += phrases.unmet(reduce(phrases.after, hypotheses[0].tokens, PhraseState()))
        return results

    def _different(self, inputs: Inputs, results: list[list[Hypothesis]]) -> list[list[Hypothesis]]:
        """Those with different texts. Where some are left out, the whole beam is searched for others."""
        lines = [place for place, parts in inputs.parts.items() for _ in parts]
        kept = [self._first_of_each_text(inputs, *pair) for pair in zip(lines, results, strict=True)]
        again = [i for i, hypotheses in enumerate(kept) if len(hypotheses) < len(results[i])]
        if again and self.options.n_best < self.options.decoding.beam_size:
            sources, every = inputs.sources, replace(self.options, n_best=self.options.decoding.beam_size)
            deeper = self.engine.search([sources[i] for i in again], every, self.batch_tokens)
            for i, hypotheses in zip(again, deeper, strict=True):
                more = self._first_of_each_text(inputs, lines[i], hypotheses)[: self.n_best]
                kept[i] = max(kept[i], more, key=len)
        return kept

    def _first_of_each_text(self, inputs: Inputs, line: int, hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
        """One text can be written with several subwords: of those that write the same, the first, which is the best."""
        texts = translation.texts(hypotheses, self.target)
        if line in inputs.capitals:
            texts = [in_capitals(text, inputs.languages.target) for text in texts]
        return [hypothesis for i, hypothesis in enumerate(hypotheses) if texts[i] not in texts[:i]]

    def of_lines(self, inputs: Inputs, results: Sequence[list[Hypothesis]]) -> list[list[Hypothesis]]:
        """The hypotheses of each line, from those of its parts. Raises NmtError for scores that are not numbers."""
        of_parts = iter(results)
        of_lines = [[_NOTHING]] * inputs.lines
        for place, parts in inputs.parts.items():
            hypotheses = [next(of_parts) for _ in parts]
            if not all(hypotheses):
                raise NmtError(
                    f"line {inputs.first + place}: the model's scores are not numbers: its weights are damaged, or "
                    "too large for its precision: translate with another checkpoint"
                )
            joined = join_hypotheses(hypotheses, inputs.spaces.get(place, ()))
            whole = len(parts) == 1 or not self._wants_different
            of_lines[place] = joined if whole else self._first_of_each_text(inputs, place, joined)
        return of_lines
