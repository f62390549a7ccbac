"""Searches an exported Marian folder with transformers in the same way as nmt; for comparison, not for speed.

transformers' beam search keeps the same hypotheses as ours and ends at the same time. The differences are removed
here: an output ends, with the cost of EOS, at the longest length of its own source, and hypotheses are ranked by our
length penalty instead of |Y|^α.
Source: _beam_search in transformers/generation/utils.py.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from nmt.commands.export.marian import language_code, load_package
from nmt.config.language_pairs import LanguagePair
from nmt.data.vocabulary import BOS, EOS, PAD
from nmt.decoding.engine_protocol import AUTO_BATCH_TOKENS, Pair, SearchInput
from nmt.decoding.search.stepper import Hypothesis, Options, length_penalties

_SENTENCES = 16  # in a batch


class MarianEngine:
    """The model and the tokenizer of a folder, loaded by transformers without using the network."""

    auto_batch_tokens = AUTO_BATCH_TOKENS

    def __init__(self, folder: Path):
        transformers = load_package()
        self.model = transformers.MarianMTModel.from_pretrained(folder, local_files_only=True).eval()
        self.tokenizer = transformers.MarianTokenizer.from_pretrained(folder, local_files_only=True)

    @property
    def positions(self) -> int:
        return int(self.model.config.max_position_embeddings) - 1

    def subwords(self, lines: Sequence[str], pairs: Sequence[LanguagePair] | None = None) -> list[list[int]]:
        """As nmt.commands.export.parity.Exported."""
        if pairs is not None:
            lines = [f"{language_code(pair.target)} {line}" for line, pair in zip(lines, pairs, strict=True)]
        return [ids[:-1] for ids in self.tokenizer(list(lines))["input_ids"]]

    def search(self, sources: Sequence[SearchInput], options: Options, batch_tokens: int) -> list[list[Hypothesis]]:
        """As nmt.decoding.engine_protocol.Searcher, for beam search and greedy search."""
        found: list[list[list[int]]] = []
        for start in range(0, len(sources), _SENTENCES):
            found += self._outputs(sources[start : start + _SENTENCES], options)
        places = [(i, output) for i, outputs in enumerate(found) for output in outputs]
        scores = self.score([(sources[i].ids, output) for i, output in places], batch_tokens)
        penalties = length_penalties(max(map(len, scores), default=0), options)
        hypotheses: list[list[Hypothesis]] = [[] for _ in sources]
        for (i, output), token_scores in zip(places, scores, strict=True):
            hypotheses[i].append(Hypothesis.scored(output, token_scores, penalties))
        return [sorted(each, key=lambda h: h.score, reverse=True)[: options.n_best] for each in hypotheses]

    @torch.inference_mode()
    def score(self, pairs: Sequence[Pair], batch_tokens: int) -> list[list[float]]:
        """As nmt.decoding.engine_protocol.Searcher, but with a fixed number of sentences in a batch."""
        scores: list[list[float]] = []
        for start in range(0, len(pairs), _SENTENCES):
            sources, targets = zip(*pairs[start : start + _SENTENCES], strict=True)
            source = _padded([[*ids, EOS] for ids in sources])
            given = _padded([[BOS, *ids] for ids in targets])  # [B, T]
            expected = _padded([[*ids, EOS] for ids in targets])
            logits = self.model(source, attention_mask=source != PAD, decoder_input_ids=given).logits
            log_p = logits.log_softmax(-1).gather(2, expected[:, :, None])[:, :, 0]
            scores += [row[: len(ids) + 1].tolist() for row, ids in zip(log_p, targets, strict=True)]
        return scores

    @torch.inference_mode()
    def _outputs(self, sources: Sequence[SearchInput], options: Options) -> list[list[list[int]]]:
        """The finished outputs of each source, without EOS."""
        source, beam = _padded([[*source.ids, EOS] for source in sources]), options.beam_size
        limits = torch.tensor([source.longest for source in sources]).repeat_interleave(beam)  # [B·K]
        sequences = self.model.generate(
            source,
            attention_mask=source != PAD,
            num_beams=beam,
            num_return_sequences=beam,
            length_penalty=0.0,
            early_stopping=beam > 1,
            do_sample=False,
            min_length=0,  # overrides the settings in the folder
            no_repeat_ngram_size=0,
            forced_eos_token_id=None,
            max_length=int(limits.max()) + 2,  # with BOS and EOS
            logits_processor=[_ForceEnd(limits)],
        )
        outputs = [row[: row.index(EOS)] for row in F.pad(sequences[:, 1:], (0, 1), value=EOS).tolist()]
        return [outputs[i : i + beam] for i in range(0, len(outputs), beam)]


class _ForceEnd:
    """Allows only EOS, at its own log P, for outputs that have their longest length."""

    def __init__(self, limits: Tensor):
        self.limits = limits  # [B·K]

    def __call__(self, ids: Tensor, scores: Tensor) -> Tensor:
        """ids with BOS [B·K, T+1] and the scores of the next token [B·K, V] → scores."""
        full = self.limits < ids.shape[1]  # T of them
        others = torch.arange(scores.shape[1]) != EOS
        return scores.masked_fill(full[:, None] & others, -math.inf)


def _padded(rows: list[list[int]]) -> Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)
