"""Searches a model of transformers in the same way as nmt; for comparison, not for speed.

transformers' beam search keeps the same hypotheses as ours and ends at the same time. The differences are removed
here: an output ends, with the cost of EOS, at the longest length of its own source, and hypotheses are ranked by our
length penalty instead of |Y|^α.
Source: _beam_search in transformers/generation/utils.py.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from nmt.config.language_pairs import LanguagePair
from nmt.data.subwords.vocabulary import BOS, EOS, PAD, UNK
from nmt.decoding.engine_protocol import AUTO_BATCH_TOKENS, Pair, SearchInput
from nmt.decoding.search.stepper import Hypothesis, SearchOptions, length_penalties
from nmt.interop.marian.export import language_code, load_package

_SENTENCES = 16  # in a batch


class TransformersEngine:
    """An encoder-decoder of transformers. Ids are ours outside of it, and the model's own inside."""

    auto_batch_tokens = AUTO_BATCH_TOKENS

    def __init__(self, model: Any, source_ids: Sequence[int], target_ids: Sequence[int]):
        """source_ids, target_ids: the model's id of each of our subwords; -1 where it has none."""
        self.model = model.eval()
        self._source = torch.tensor(source_ids)
        self._source[self._source < 0] = source_ids[UNK]  # its rows are equal
        self._target = torch.tensor(target_ids)
        self._never = [[target_ids[i]] for i in (PAD, UNK, BOS) if target_ids[i] >= 0]
        self._start, self._padding = int(model.config.decoder_start_token_id), int(model.config.pad_token_id)

    @property
    def positions(self) -> int:
        return int(self.model.config.max_position_embeddings) - 1

    def inputs(self, sources: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """The model's ids of sources, EOS added, and their mask, both [B, S]."""
        ids = [self._source[torch.tensor([*source, EOS])] for source in sources]
        padded = pad_sequence(ids, batch_first=True, padding_value=self._padding)
        return padded, pad_sequence([torch.ones_like(row) for row in ids], batch_first=True)

    def search(
        self, sources: Sequence[SearchInput], options: SearchOptions, batch_tokens: int
    ) -> list[list[Hypothesis]]:
        """As nmt.decoding.engine_protocol.Searcher, for beam search and greedy search."""
        found: list[list[list[int]]] = []
        for start in range(0, len(sources), _SENTENCES):
            found += self._outputs(sources[start : start + _SENTENCES], options)
        places = [(i, output) for i, outputs in enumerate(found) for output in outputs]
        scores = self.score([sources[i].pair(output) for i, output in places], batch_tokens)
        penalties = length_penalties(max(map(len, scores), default=0), options.decoding)
        hypotheses: list[list[Hypothesis]] = [[] for _ in sources]
        for (i, output), token_scores in zip(places, scores, strict=True):
            hypotheses[i].append(Hypothesis.scored(output, token_scores[len(sources[i].start) :], penalties))
        return [sorted(each, key=lambda h: h.score, reverse=True)[: options.n_best] for each in hypotheses]

    @torch.inference_mode()
    def score(self, pairs: Sequence[Pair], batch_tokens: int) -> list[list[float]]:
        """As nmt.decoding.engine_protocol.Searcher, but with a fixed number of sentences in a batch."""
        scores: list[list[float]] = []
        for start in range(0, len(pairs), _SENTENCES):
            sources, targets = zip(*pairs[start : start + _SENTENCES], strict=True)
            source, mask = self.inputs(sources)
            expected = [self._target[torch.tensor([*ids, EOS])] for ids in targets]
            given = [F.pad(ids[:-1], (1, 0), value=self._start) for ids in expected]
            padded = pad_sequence(given, batch_first=True, padding_value=self._padding)
            logits = self.model(source, attention_mask=mask, decoder_input_ids=padded).logits
            log_p = logits.log_softmax(-1)
            scores += [row[range(len(ids)), ids].tolist() for row, ids in zip(log_p, expected, strict=True)]
        return scores

    @torch.inference_mode()
    def _outputs(self, sources: Sequence[SearchInput], options: SearchOptions) -> list[list[list[int]]]:
        """The finished outputs of each source, without EOS."""
        beam, end = options.decoding.beam_size, int(self._target[EOS])
        source, mask = self.inputs([source.ids for source in sources])
        first = torch.tensor([[self._start, *self._target[list(each.start)].tolist()] for each in sources])
        before = first.shape[1]  # BOS, and the start of the output
        limits = torch.tensor([source.longest for source in sources]).repeat_interleave(beam)  # [B·K]
        sequences = self.model.generate(
            source,
            attention_mask=mask,
            decoder_input_ids=first,
            num_beams=beam,
            num_return_sequences=beam,
            length_penalty=0.0,
            early_stopping=beam > 1,
            do_sample=False,
            min_length=0,  # overrides the settings in the folder
            no_repeat_ngram_size=0,
            forced_bos_token_id=None,
            forced_eos_token_id=None,
            bad_words_ids=self._never,
            decoder_start_token_id=self._start,
            pad_token_id=self._padding,
            eos_token_id=end,
            max_length=before + int(limits.max()) + 1,  # with EOS
            logits_processor=[_ForceEnd(before + limits, end)],
        )
        ours = {their: our for our, their in enumerate(self._target.tolist())}
        outputs = [row[: row.index(end)] for row in F.pad(sequences[:, before:], (0, 1), value=end).tolist()]
        outputs = [[ours[each] for each in row] for row in outputs]
        return [outputs[i : i + beam] for i in range(0, len(outputs), beam)]


class _ForceEnd:
    """Allows only EOS, at its own log P, for outputs that have their longest length."""

    def __init__(self, limits: Tensor, end: int):
        self.limits, self.end = limits, end  # [B·K]: BOS counted

    def __call__(self, ids: Tensor, scores: Tensor) -> Tensor:
        """ids with BOS [B·K, T+1] and the scores of the next token [B·K, V] → scores."""
        full = self.limits <= ids.shape[1]
        others = torch.arange(scores.shape[1]) != self.end
        return scores.masked_fill(full[:, None] & others, -math.inf)


class MarianEngine(TransformersEngine):
    """The model and the tokenizer of an exported folder, loaded by transformers without using the network."""

    def __init__(self, folder: Path):
        transformers = load_package()
        model = transformers.MarianMTModel.from_pretrained(folder, local_files_only=True)
        super().__init__(model, range(model.config.vocab_size), range(model.config.decoder_vocab_size))
        self.tokenizer = transformers.MarianTokenizer.from_pretrained(folder, local_files_only=True)

    def subwords(self, lines: Sequence[str], pairs: Sequence[LanguagePair] | None = None) -> list[list[int]]:
        """As nmt.interop.parity.Exported."""
        if pairs is not None:
            lines = [f"{language_code(pair.target)} {line}" for line, pair in zip(lines, pairs, strict=True)]
        return [ids[:-1] for ids in self.tokenizer(list(lines))["input_ids"]]
