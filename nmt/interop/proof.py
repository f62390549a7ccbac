"""Compares an imported model with its source: subwords, encoder states, log P, and what greedy and beam search find."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from nmt.config.language_pairs import LanguagePair
from nmt.data.subwords.vocabulary import UNK
from nmt.decoding.engine import PyTorchEngine
from nmt.decoding.engine_protocol import batch_tokens
from nmt.errors import NmtError
from nmt.interop import parity
from nmt.interop.imported import Imported
from nmt.interop.marian.engine import TransformersEngine
from nmt.interop.marian.export import language_code, load_package
from nmt.interop.parity import Exported, Parity
from nmt.interop.sample_text import LINES

log = logging.getLogger("nmt")

_MOST = 1e-3  # difference of a token's log P
_EXTRA = 10  # subwords of an output, more than of its source: models of random weights write until the limit


class Source(Exported, Protocol):
    """The engine of the program that the model is from."""

    def states(self, sources: Sequence[Sequence[int]]) -> list[Tensor]:
        """The encoder's output for each source, EOS last: [source length + 1, D], dimensions in their order."""


@dataclass(frozen=True)
class Proof:
    """The comparison; states: the largest difference of an encoder's state."""

    parity: Parity
    states: float

    def __str__(self) -> str:
        return f"{self.parity}\nencoder states differ by at most {self.states:.1e}"


def prove(imported: Imported, theirs: Source, every: int = 1) -> Proof:
    """Compare on text of many scripts, and on random subwords; every: one line of so many. Raises NmtError, with the
    comparison, where the models are not the same one."""
    vocabulary, known = imported.vocabulary, imported.config
    config = replace(known, decoding=replace(known.decoding, max_extra_tokens=_EXTRA))
    ours = PyTorchEngine([imported.checkpoint({}).build()], torch.device("cpu"))
    lines = [*LINES, *parity.sample(vocabulary.source)][::every]
    log.info("comparing with the source: %d lines", len(lines))  # which takes minutes with a large model
    found = replace(parity.compare(ours, theirs, vocabulary, config, lines), other="source")
    sources = list(parity.comparable(lines, config, vocabulary.source).values())
    states = ours.encode(sources, batch_tokens(ours, config.decoding))
    pairs = zip(states, theirs.states(sources), strict=True)
    apart = parity.largest_of(float((our - their[:, imported.dimensions]).abs().max()) for our, their in pairs)
    proof = Proof(found, apart)
    if not found.largest <= _MOST or found.tokenized:
        raise NmtError(f"{proof}\nnot imported: it would be another model than its source")
    return proof


class TransformersSource(TransformersEngine):
    """A model of transformers that another one was imported from."""

    def ours(self, theirs: Sequence[int], own: list[int]) -> list[int]:
        """Their ids of a line as ours. own: those that our tokenizer gives. What is unknown to the model may be several
        subwords of ours: where theirs are the same, it is these."""
        if self._source[torch.tensor(own)].tolist() == list(theirs):
            return own
        by_theirs = {their: our for our, their in reversed(list(enumerate(self._source.tolist())))}
        return [by_theirs.get(i, UNK) for i in theirs]

    @torch.inference_mode()
    def states(self, sources: Sequence[Sequence[int]]) -> list[Tensor]:
        """As `Source`."""
        ids, mask = self.inputs(sources)
        states = self.model.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state
        return [row[: len(source) + 1] for row, source in zip(states, sources, strict=True)]


def load_model(kind: Any, folder: Path) -> Any:
    """A model of a class of transformers, without the network, in float32, as ours. Its search is as transformers
    begins with: the comparison chooses its own, and what nmt lacks of the folder's is named."""
    blank = load_package().GenerationConfig()
    return kind.from_pretrained(folder, local_files_only=True, generation_config=blank).float()


class MarianSource(TransformersSource):
    """A MarianMT model as transformers loads it, without the network."""

    def __init__(self, folder: Path, imported: Imported):
        transformers = load_package()
        model = load_model(transformers.MarianMTModel, folder)
        super().__init__(model, *imported.to_theirs)
        self.tokenizer = transformers.MarianTokenizer.from_pretrained(folder, local_files_only=True)
        self._own, self._known = imported.vocabulary.source, imported.config.data.language_pairs

    def subwords(self, lines: Sequence[str], pairs: Sequence[LanguagePair] | None = None) -> list[list[int]]:
        """As nmt.interop.parity.Exported."""
        ours = self._own.encode(list(lines))
        if pairs is not None:
            lines = [f"{language_code(pair.target)} {line}" for line, pair in zip(lines, pairs, strict=True)]
            ours = [self._own.tags(self._known.tags(pair)) + ids for pair, ids in zip(pairs, ours, strict=True)]
        theirs = [ids[:-1] for ids in self.tokenizer(list(lines))["input_ids"]]
        return [self.ours(ids, own) for ids, own in zip(theirs, ours, strict=True)]
