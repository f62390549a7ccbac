"""Selects the n best hypotheses of each line from the results of a search."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nmt.data.subwords.vocabulary import Tokenizer
from nmt.decoding import engine_support, translation
from nmt.decoding.capitals import in_capitals
from nmt.decoding.engine_protocol import Engine
from nmt.decoding.long_input import join_hypotheses
from nmt.decoding.mbr import rank_by_agreement
from nmt.decoding.search.options import Hypothesis, SearchOptions
from nmt.decoding.search_inputs import Inputs
from nmt.errors import NmtError

_NOTHING = Hypothesis([], score=0.0, log_probability=0.0, token_scores=[])


@dataclass(frozen=True)
class NBestSelector:
    """Selects the n best of the hypotheses that an engine finds with these options. target: the target tokenizer."""

    engine: Engine
    target: Tokenizer
    options: SearchOptions
    n_best: int
    batch_tokens: int

    @property
    def _removes_duplicates(self) -> bool:
        """Whether the n best have different texts. Samples may be equal: a text that is drawn more often is more
        probable."""
        return self.n_best > 1 and self.options.decoding.method == "beam"

    def select(self, inputs: Inputs, results: list[list[Hypothesis]]) -> list[list[Hypothesis]]:
        """The n best of the results for each part of each line; adds to `inputs.counts`. Parts without any hypothesis
        are searched again, without the settings that exclude outputs."""
        sources, decoding, counts = inputs.sources, self.options.decoding, inputs.counts
        without_output = [i for i, hypotheses in enumerate(results) if not hypotheses]
        if without_output and (excluding := engine_support.excluding(decoding)):
            unconstrained = replace(self.options, decoding=replace(decoding, **excluding))
            again = [replace(sources[i], shortest=0) for i in without_output]
            searched = self.engine.search(again, unconstrained, self.batch_tokens)
            for i, hypotheses in zip(without_output, searched, strict=True):
                results[i] = hypotheses
                counts.unconstrained += bool(hypotheses)
        if decoding.consensus != "none":
            for i, hypotheses in enumerate(results):
                order = rank_by_agreement(translation.texts(hypotheses, self.target), decoding.consensus)
                results[i] = [hypotheses[rank] for rank in order[: self.n_best]]
        elif self._removes_duplicates:
            results = self._different(inputs, results)
        return results

    def _different(self, inputs: Inputs, results: list[list[Hypothesis]]) -> list[list[Hypothesis]]:
        """Hypotheses with different texts. Where duplicates are removed, all hypotheses of the beam are searched for
        other texts."""
        lines = list[int]()  # for each source the index of its line
        for line, parts in inputs.parts.items():
            lines += [line] * len(parts)
        distinct = [self._first_of_each_text(inputs, *pair) for pair in zip(lines, results, strict=True)]
        fewer = [i for i, hypotheses in enumerate(distinct) if len(hypotheses) < len(results[i])]
        if fewer and self.options.n_best < self.options.decoding.beam_size:
            sources, whole_beam = inputs.sources, replace(self.options, n_best=self.options.decoding.beam_size)
            searched = self.engine.search([sources[i] for i in fewer], whole_beam, self.batch_tokens)
            for i, hypotheses in zip(fewer, searched, strict=True):
                more = self._first_of_each_text(inputs, lines[i], hypotheses)[: self.n_best]
                distinct[i] = max(distinct[i], more, key=len)
        return distinct

    def _first_of_each_text(self, inputs: Inputs, line: int, hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
        """The first, and so the best, hypothesis of each text: a text can be segmented into subwords in several
        ways."""
        texts = translation.texts(hypotheses, self.target)
        if line in inputs.capitals:
            texts = [in_capitals(text, inputs.languages.target) for text in texts]
        return [hypothesis for i, hypothesis in enumerate(hypotheses) if texts[i] not in texts[:i]]

    def join(self, inputs: Inputs, results: Sequence[list[Hypothesis]]) -> list[list[Hypothesis]]:
        """Join the hypotheses of the parts of each line. Raises NmtError if the model's scores are not numbers."""
        part_hypotheses = iter(results)
        line_hypotheses = [[_NOTHING]] * inputs.lines
        for i, parts in inputs.parts.items():
            hypotheses = [next(part_hypotheses) for _ in parts]
            if not all(hypotheses):
                raise NmtError(
                    f"line {inputs.first + i}: the model's scores are not numbers: its weights are damaged, or "
                    "too large for its precision: translate with another checkpoint"
                )
            joined = join_hypotheses(hypotheses, inputs.spaces.get(i, ()))
            if (len(parts) > 1 or parts[0].terms) and self._removes_duplicates:
                joined = self._first_of_each_text(inputs, i, joined)
            line_hypotheses[i] = joined
        return line_hypotheses
