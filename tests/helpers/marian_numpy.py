"""Marian's Transformer as a plain forward pass in NumPy, without batches or caches: what an imported .npz is compared
with.

Written from marian-dev: src/models/transformer.h, src/layers/generic.h (layer norm), src/graph/node_initializers.cpp
(positions), src/functional/operators.h (activations). Shapes: K hypotheses,
S source and T target positions, D width, H heads, V subwords.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.data.subwords.vocabulary import EOS, UNK
from nmt.interop.marian.from_npz import MarianFiles, activation

Numbers = NDArray[np.float64]


class MarianNumpy:
    """A model of Marian, in float64."""

    def __init__(self, files: MarianFiles, source_ids: Sequence[int], target_ids: Sequence[int]):
        """source_ids, target_ids: Marian's id of each of our subwords; -1 where it has none."""
        self.weights = {name: array.astype(np.float64) for name, array in files.arrays.items()}
        self.settings = files.settings
        self._source_ids = [source_ids[UNK] if i < 0 else i for i in source_ids]
        self._target_ids, self.columns = target_ids, [our for our, their in enumerate(target_ids) if their >= 0]

    # ---- Marian

    def encode(self, ids: Sequence[int]) -> Numbers:
        """Marian's source ids, </s> last [S] → the encoder's states [S, D]."""
        x = self._placed(self._embedding("encoder")[list(ids)])
        for number in range(1, self.settings.number("enc-depth") + 1):
            x = self._attention(f"encoder_l{number}_self", x, x, None)
            x = self._feed_forward(f"encoder_l{number}_ffn", x)
        return x

    def next_log_p(self, states: Numbers, ids: NDArray[np.int64]) -> Numbers:
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

    # ---- as helpers.equivalence.OtherModel

    def log_p(self, source: list[int], target: list[int]) -> Tensor:
        states = self.encode([self._source_ids[i] for i in (*source, EOS)])
        ids = np.array([[self._target_ids[i] for i in target]], np.int64).reshape(1, len(target))
        columns = [self._target_ids[i] for i in self.columns]
        return torch.from_numpy(self.next_log_p(states, ids)[0][:, columns]).float()
