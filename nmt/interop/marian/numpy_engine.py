"""Marian's Transformer as a plain forward pass in NumPy, without batches or caches: what an imported .npz is compared
with.

Written from marian-dev: src/models/transformer.h, src/layers/generic.h (layer norm), src/graph/node_initializers.cpp
(positions), src/functional/operators.h (activations). Ids are ours outside, and Marian's inside. Shapes: K hypotheses,
S source and T target positions, D width, H heads, V subwords.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.config.language_pairs import LanguagePair
from nmt.data.subwords.vocabulary import BOS, EOS, UNK
from nmt.decoding.engine_protocol import AUTO_BATCH_TOKENS, Pair, SearchInput
from nmt.decoding.search.options import Hypothesis, SearchOptions, best_first, length_penalties
from nmt.interop.imported import Imported
from nmt.interop.marian.from_npz import MarianFiles, activation

Numbers = NDArray[np.float64]
_Scored = tuple[tuple[int, ...], tuple[float, ...]]  # tokens, and log P of each


class MarianNumpy:
    """A model of Marian, in float64."""

    auto_batch_tokens = AUTO_BATCH_TOKENS
    positions: int | None = None

    def __init__(self, files: MarianFiles, imported: Imported):
        self.weights = {name: array.astype(np.float64) for name, array in files.arrays.items()}
        self.settings, self._own = files.settings, imported.vocabulary.source
        source_ids, target_ids = imported.to_theirs
        self._source = np.array([source_ids[UNK] if each < 0 else each for each in source_ids])
        self._target = np.array(target_ids)
        self._ours = {their: our for our, their in enumerate(target_ids) if their >= 0}

    # ---- Marian

    def encode(self, ids: Sequence[int]) -> Numbers:
        """Marian's source ids, </s> last [S] → the encoder's states [S, D]."""
        x = self._placed(self._embedding("encoder")[list(ids)])
        for number in range(1, self.settings.number("enc-depth") + 1):
            x = self._attention(f"encoder_l{number}_self", x, x, None)
            x = self._feed_forward(f"encoder_l{number}_ffn", x)
        return x

    def log_p(self, states: Numbers, ids: NDArray[np.int64]) -> Numbers:
        """The encoder's states [S, D] and Marian's target ids [K, T] → log P of the next subword after none, one, … T
        of them [K, T+1, V]."""
        vectors = np.pad(self._embedding("decoder")[ids], ((0, 0), (1, 0), (0, 0)))  # the first is a zero vector
        y = self._placed(vectors)
        later = np.triu(np.full((y.shape[1], y.shape[1]), -np.inf), 1)
        for number in range(1, self.settings.number("dec-depth") + 1):
            y = self._attention(f"decoder_l{number}_self", y, y, later)
            y = self._attention(f"decoder_l{number}_context", y, states, None)
            y = self._feed_forward(f"decoder_l{number}_ffn", y)
        logits = y @ self._output().T + self.weights.get("decoder_ff_logit_out_b", 0.0)
        largest = logits.max(-1, keepdims=True)
        return logits - largest - np.log(np.exp(logits - largest).sum(-1, keepdims=True))

    def _embedding(self, side: str) -> Numbers:
        return self.weights["Wemb"] if "Wemb" in self.weights else self.weights[f"{side}_Wemb"]

    def _output(self) -> Numbers:
        """[V, D]"""
        if (name := "decoder_ff_logit_out_W") in self.weights:
            return self.weights[name].T
        return self.weights.get("decoder_ff_logit_out_Wt", self._embedding("decoder"))

    def _placed(self, vectors: Numbers) -> Numbers:
        """sqrt(D) times the embeddings, plus the positions: [..., T, D]."""
        length, width = vectors.shape[-2:]
        count = width // 2
        angles = np.arange(length)[:, None] * np.exp(-np.arange(count) * math.log(10_000.0) / (count - 1.0))
        return math.sqrt(width) * vectors + np.concatenate([np.sin(angles), np.cos(angles)], axis=1)

    def _affine(self, prefix: str, name: str, x: Numbers) -> Numbers:
        return x @ self.weights[f"{prefix}_W{name}"] + self.weights[f"{prefix}_b{name}"]

    def _norm(self, prefix: str, x: Numbers) -> Numbers:
        scale, bias = self.weights[f"{prefix}_ln_scale"], self.weights[f"{prefix}_ln_bias"]
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6) * scale + bias

    def _attention(self, prefix: str, x: Numbers, read: Numbers, mask: Numbers | None) -> Numbers:
        """From x [..., T, D] to what is read [..., S, D]; mask [T, S]: -inf where nothing is read."""
        heads = self.settings.number("transformer-heads")

        def by_head(numbers: Numbers) -> Numbers:
            return np.swapaxes(numbers.reshape(*numbers.shape[:-1], heads, -1), -2, -3)  # [..., H, T, D/H]

        q, k, v = by_head(self._affine(prefix, "q", x)), *(by_head(self._affine(prefix, name, read)) for name in "kv")
        scores = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1]) + (0 if mask is None else mask)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        joined = np.swapaxes(scores / scores.sum(-1, keepdims=True) @ v, -2, -3)
        return self._norm(f"{prefix}_Wo", x + self._affine(prefix, "o", joined.reshape(x.shape)))

    def _feed_forward(self, prefix: str, x: Numbers) -> Numbers:
        inner = self._affine(prefix, "1", x)
        activations: dict[str, Callable[[Numbers], Numbers]] = {
            "relu": lambda z: np.maximum(z, 0),
            "swish": lambda z: z / (1 + np.exp(-z)),
            "gelu": lambda z: z * (1 + np.vectorize(math.erf)(z / math.sqrt(2))) / 2,
            "quick_gelu": lambda z: z / (1 + np.exp(-1.702 * z)),
        }
        chosen = activations[activation(self.settings)]
        return self._norm(f"{prefix}_ffn", x + self._affine(prefix, "2", chosen(inner)))

    # ---- what the comparison needs

    def states(self, sources: Sequence[Sequence[int]]) -> list[Tensor]:
        """As nmt.interop.proof.Source."""
        return [torch.from_numpy(self.encode(self._theirs(ids))).float() for ids in sources]

    def _theirs(self, ids: Sequence[int]) -> list[int]:
        return [int(self._source[i]) for i in (*ids, EOS)]

    def subwords(self, lines: Sequence[str], pairs: Sequence[LanguagePair] | None = None) -> list[list[int]]:
        """As nmt.interop.parity.Exported; that SentencePiece cuts text as before is known already."""
        return self._own.encode(list(lines))

    def score(self, pairs: Sequence[Pair], batch_tokens: int) -> list[list[float]]:
        """As nmt.decoding.engine_protocol.Searcher."""
        scores = []
        for source, target in pairs:
            ids = self._target[[*target, EOS]]
            log_p = self.log_p(self.encode(self._theirs(source)), ids[None, :-1])[0]
            scores.append(log_p[range(len(ids)), ids].tolist())
        return scores

    def search(
        self, sources: Sequence[SearchInput], options: SearchOptions, batch_tokens: int
    ) -> list[list[Hypothesis]]:
        """As nmt.decoding.engine_protocol.Searcher, for beam search and greedy search."""
        return [self._search(source, options)[: options.n_best] for source in sources]

    def _search(self, source: SearchInput, options: SearchOptions) -> list[Hypothesis]:
        states, beam = self.encode(self._theirs(source.ids)), options.decoding.beam_size
        never, end = [their for our, their in enumerate(self._target[: BOS + 1]) if their >= 0], int(self._target[EOS])
        live, ended = list[_Scored]([((), ())]), list[_Scored]()
        for length in range(source.longest + 1):
            log_p = self.log_p(states, np.array([ids for ids, _ in live], np.int64).reshape(len(live), length))[:, -1]
            log_p[:, never] = -np.inf
            if length == source.longest:
                log_p[:, np.arange(log_p.shape[1]) != end] = -np.inf
            totals = log_p + np.array([[math.fsum(scores)] for _, scores in live])
            best = np.argsort(-totals, axis=None, kind="stable")[: 2 * beam]
            places = [divmod(int(place), log_p.shape[1]) for place in best]
            found = [
                ((*live[row][0], token), (*live[row][1], float(log_p[row, token])))
                for row, token in places
                if log_p[row, token] > -np.inf
            ]
            ended += [each for each in found[:beam] if each[0][-1] == end]
            live = [each for each in found if each[0][-1] != end][:beam]
            if len(ended) >= beam or not live:
                break
        by_length = length_penalties(source.longest + 1, options.decoding)
        return best_first(
            Hypothesis.scored([self._ours[token] for token in ids[:-1]], list(scores), by_length)
            for ids, scores in ended
        )
