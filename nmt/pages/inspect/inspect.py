"""Inspects how a model translates a sentence: attention, word alignment, beam search, positions.

Shapes: L layers, H heads, S source and T target subwords (both with EOS), N and M their words, P positions, D d_model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from nmt import device as devices
from nmt.checkpoints import model_file
from nmt.config import schema
from nmt.data.subwords.vocabulary import BOS, EOS, Vocabulary
from nmt.decoding.translator import Translation, Translator
from nmt.decoding.word_alignment import Word, to_words
from nmt.errors import NmtError
from nmt.interop import export_folder
from nmt.loading import model_loader
from nmt.models.translation_model import ModelInternals, TranslationModel
from nmt.pages.inspect.beam_trace import Node, RecordingEngine, hypothesis_tokens


@dataclass(frozen=True)
class Sentence:
    """A text, its language code, its subwords with EOS, and the words that these form."""

    text: str
    language: str
    pieces: list[str]
    words: list[Word]


@dataclass(frozen=True)
class Inspection:
    """The result for one sentence pair."""

    model: str  # the name of its file
    source: Sentence
    target: Sentence
    given: bool  # the user gave the target; otherwise it is the best translation of the search
    translation: Translation  # the target with its scores
    # A row of `decoder` and `cross` has the weights used to predict that target subword. The columns of `decoder` are
    # the inputs of the decoder, `<s>` and the target without its end.
    inside: ModelInternals
    alignment: Tensor | None  # the alignment of `inside`, between words: [M, N]
    hypotheses: list[Translation]  # results of the search, best first
    nodes: list[Node]  # all hypotheses that the search considered
    node_pieces: list[str]  # their last subwords
    ranks: dict[int, int]  # index of a node that is a result → its index in `hypotheses`
    beam_size: int


class Inspector:
    """A model with its vocabulary and search settings."""

    def __init__(self, name: str, settings: schema.Config, vocabulary: Vocabulary, model: TranslationModel):
        """name: of the model, for display. settings: with the decoding to use. model: in float32 and eval mode, with
        `can_inspect`."""
        self.name, self.settings, self.model = name, settings, model
        self.engine = RecordingEngine([model], next(model.parameters()).device)
        self.translator = Translator(self.engine, vocabulary, settings.search, settings.data.language_pairs)

    @classmethod
    def load(cls, path: Path, device: str = "auto", overrides: Sequence[str] = ()) -> "Inspector":
        """Load a model file, or the best model of a run folder, in float32. overrides: `decoding.key=value`.

        Raises NmtError if the file is not a model, an override is wrong, or the device does not exist.
        """
        if export_folder.is_ctranslate2(path):
            raise NmtError(f"{path}: an exported folder cannot be inspected: give the model file or the run folder")
        file = model_file.locate(path)
        loaded = model_file.load(file)
        settings = schema.override(loaded.config, overrides)
        if settings.decoding.method != "beam":
            raise NmtError("decoding.method: sample: only beam search can be inspected: add decoding.method=beam")
        model = model_loader.prepare(loaded.build(), devices.choose(device), "float32")
        if not model.can_inspect:
            raise NmtError(
                f"{file}: model.architecture: {settings.model.architecture}: cannot be inspected: for the alignment, "
                "use nmt translate --format json"
            )
        return cls(file.name, settings, loaded.vocabulary, model)

    def inspect(
        self, source: str, target: str | None = None, *, to: str | None = None, from_: str | None = None
    ) -> Inspection:
        """Inspect a sentence and its translation: `target`, or else the best translation of the search. to, from_: as
        for a Translator; language tokens are subwords of the source.

        Raises NmtError if the source is empty or too long to be translated as one part, the target is too long, or the
        model's scores are not finite, and for languages as `LanguagePairs.choose`.
        """
        translator, vocabulary = self.translator, self.translator.vocabulary
        pair = translator.languages.use(to, from_)
        [read] = translator.as_read([source], pair)
        ids = translator.languages.tags(pair) + self._source_ids(read)
        consensus = translator.decoding.consensus != "none"
        hypotheses = translator.hypotheses([source], 1 if consensus else translator.decoding.beam_size)[0]
        if target is None:
            translation, output = hypotheses[0], self._output_tokens(hypotheses[0])
        else:
            [scored], [output] = translator.score([read], [target]), vocabulary.target.encode([target])
            if scored is None:
                raise NmtError(f"the target has {len(output)} subwords, more than the longest output: shorten it")
            translation = scored
        pieces = vocabulary.source.pieces([*ids, EOS])
        original = Sentence(source, pair.source, pieces, to_words(pieces))
        result = Sentence(translation.text, pair.target, translation.pieces, to_words(translation.pieces))
        inside = self._inside(ids, translator.languages.tags(pair, side=1), output)
        aligned = inside.alignment
        return Inspection(
            model=self.name,
            source=original,
            target=result,
            given=target is not None,
            translation=translation,
            inside=inside,
            alignment=None if aligned is None else attention_by_word(aligned, result.words, original.words),
            hypotheses=hypotheses,
            nodes=self.engine.nodes,
            node_pieces=vocabulary.target.pieces([node.token for node in self.engine.nodes]),
            ranks=self._ranks(hypotheses),
            beam_size=translator.decoding.beam_size,
        )

    @torch.inference_mode()
    def _inside(self, source: Sequence[int], start: Sequence[int], target: Sequence[int]) -> ModelInternals:
        """The internals of the model for a pair of ids without EOS, on the CPU. The decoder reads `start` before the
        target."""
        device = self.engine.device
        inside = self.model.inside(
            torch.tensor([[*source, EOS]], device=device), torch.tensor([[BOS, *start, *target]], device=device)
        ).after_start(len(start))
        return replace(
            inside,
            attention={kind: weights.cpu() for kind, weights in inside.attention.items()},
            positions={name: table.cpu() for name, table in inside.positions.items()},
            alignment=_on_cpu(inside.alignment),
            centers=_on_cpu(inside.centers),
            chosen=_on_cpu(inside.chosen),
        )

    def _source_ids(self, source: str) -> list[int]:
        [ids] = self.translator.vocabulary.source.encode([source])
        limit = self.translator.longest_source
        if not ids or not source.strip():
            raise NmtError("the source text is empty: give a sentence")
        if limit is not None and len(ids) > limit:
            raise NmtError(
                f"the source text has {len(ids)} subwords, more than the {limit} that this model translates at once: "
                "give one sentence, or a shorter one"
            )
        return ids

    def _output_tokens(self, translation: Translation) -> list[int]:
        """The tokens from the search, because encoding the text again could give other subwords."""
        target = self.translator.vocabulary.target
        return next(
            hypothesis.tokens
            for hypothesis in self.engine.hypotheses
            if target.pieces([*hypothesis.tokens, EOS]) == translation.pieces
        )

    def _ranks(self, hypotheses: Sequence[Translation]) -> dict[int, int]:
        """The rank, from 0, of each node that is one of the hypotheses."""
        target, nodes = self.translator.vocabulary.target, self.engine.nodes
        finished = dict[tuple[str, ...], int]()
        for i, node in enumerate(nodes):
            if node.fate == "finished":
                finished[tuple(target.pieces(hypothesis_tokens(nodes, i)))] = i
        return {finished[tuple(translation.pieces)]: rank for rank, translation in enumerate(hypotheses)}


def _on_cpu(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.cpu()


def attention_by_word(weights: Tensor, rows: Sequence[Word], columns: Sequence[Word]) -> Tensor:
    """Converts attention between subwords [..., T, S] to attention between words [..., M, N]. Rows still sum to 1.

    Attention to a word is the sum over its subwords; attention from a word is the mean over its subwords (Clark et al.
    2019, section 4.1).
    """
    to = torch.stack([weights[..., word.start : word.end].sum(dim=-1) for word in columns], dim=-1)  # [..., T, N]
    return torch.stack([to[..., word.start : word.end, :].mean(dim=-2) for word in rows], dim=-2)
