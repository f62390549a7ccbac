"""The packages of Argos Translate that were exported: as an engine, to compare them with their model, and translated
with as Argos Translate does it."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import TypeVar

import sentencepiece

from nmt.checkpoints.model_file import Checkpoint
from nmt.config.language_pairs import LanguagePair
from nmt.decoding.engine_protocol import AUTO_BATCH_TOKENS, Pair, SearchInput
from nmt.decoding.search.options import Hypothesis, SearchOptions
from nmt.interop.argos import export as argos
from nmt.interop.ctranslate2.engine import CTranslate2Engine
from nmt.interop.ctranslate2.model import CTranslate2Model, load_package
from nmt.machine import cpu_threads

T = TypeVar("T")


class ArgosPackages:
    """CTranslate2 with the model of each package, for nmt's own search. A source begins with the token of its
    languages, if the model has several; its package adds that itself."""

    auto_batch_tokens = AUTO_BATCH_TOKENS
    positions: int | None = argos.LONGEST_SOURCE - 1

    def __init__(self, destination: Path, loaded: Checkpoint):
        self._pairs, self._vocabulary = loaded.config.data.language_pairs, loaded.vocabulary
        self._packages = argos.packages(destination, loaded.config)

    def subwords(self, lines: Sequence[str], pairs: Sequence[LanguagePair] | None = None) -> list[list[int]]:
        """As nmt.interop.parity.Exported, of text that nmt has prepared."""
        with argos.unpacked(next(iter(self._packages.values()))) as folder:
            processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / argos.SUBWORDS))
        ids = [list(processor.encode(line)) for line in self._vocabulary.source.prepared(list(lines))]
        if pairs is None:
            return ids
        return [self._tags(pair) + own for pair, own in zip(pairs, ids, strict=True)]

    def search(
        self, sources: Sequence[SearchInput], options: SearchOptions, batch_tokens: int
    ) -> list[list[Hypothesis]]:
        """As nmt.decoding.engine_protocol.Searcher."""
        count = self._pairs.tag_count()
        return self._by_package(
            [source.ids for source in sources],
            lambda engine, chosen: engine.search(
                [replace(sources[i], ids=sources[i].ids[count:]) for i in chosen], options, batch_tokens
            ),
        )

    def score(self, pairs: Sequence[Pair], batch_tokens: int) -> list[list[float]]:
        """As nmt.decoding.engine_protocol.Searcher."""
        count = self._pairs.tag_count()
        return self._by_package(
            [source for source, _ in pairs],
            lambda engine, chosen: engine.score([(pairs[i][0][count:], pairs[i][1]) for i in chosen], batch_tokens),
        )

    def _by_package(
        self, sources: Sequence[list[int]], work: Callable[[CTranslate2Engine, list[int]], list[T]]
    ) -> list[T]:
        """The results of `work` on the engine of each package and the numbers of its sources, in the order of all. One
        model is in memory at a time."""
        results, first = dict[int, T](), list[list[int]]()
        for pair, package in self._packages.items():
            tags = self._tags(pair)
            chosen = [i for i, ids in enumerate(sources) if ids[: len(tags)] == tags] if tags not in first else []
            first.append(tags)  # packages of several sources for one target have the same model
            if chosen:
                results |= zip(chosen, work(self._engine(package), chosen), strict=True)
        return [results[i] for i in range(len(sources))]

    def _engine(self, package: Path) -> CTranslate2Engine:
        with argos.unpacked(package) as folder:
            model = CTranslate2Model(self._vocabulary, "cpu", folder / argos.MODEL)
        return CTranslate2Engine(model, self.positions, inf, load=None)

    def _tags(self, pair: LanguagePair) -> list[int]:
        return self._vocabulary.source.tags(self._pairs.tags(pair))


def translate(package: Path, sentences: Sequence[str]) -> list[str]:
    """As Argos Translate translates each sentence: the same call of CTranslate2, with batches on all threads."""
    with argos.unpacked(package) as folder:
        processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / argos.SUBWORDS))
        prefix = json.loads((folder / argos.METADATA).read_text(encoding="ascii")).get("target_prefix")
        translator = load_package().Translator(str(folder / argos.MODEL), inter_threads=cpu_threads(), intra_threads=1)
    results = translator.translate_batch(
        [argos.encode(processor, sentence) for sentence in sentences],
        target_prefix=[[prefix]] * len(sentences) if prefix else None,
        replace_unknowns=True,
        max_batch_size=32,
        batch_type="tokens",
        beam_size=4,
        num_hypotheses=1,
        length_penalty=0.2,
        return_scores=True,
    )
    return [argos.decode(processor, result.hypotheses[0]) for result in results]
